"""Canvas's "Download submissions": one flat folder of `lastfirst_LATE_12345_67890_name.py`.

As `content_zipper.rb` makes these names. The numbers are the user's and the attachment's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.classroom.arrival import Arrival, Item, Person, Piece, Sorted
from lockstep.classroom.filenames import is_archive, stem_of
from lockstep.classroom.names import folded
from lockstep.members import shown

# A text that was typed in, or an address that was given, has no attachment.
_WHAT = r"_(?:(?P<attachment>[1-9][0-9]{0,19})_(?P<file>.+)|(?P<typed>(?:text|link)\.html))"
_NAME = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<user>[1-9][0-9]{0,19})" + _WHAT, re.DOTALL)
_ANONYMOUS = re.compile(r"(?P<name>anon)(?P<late>_LATE)?_(?P<user>[A-Za-z0-9]{5})" + _WHAT, re.DOTALL)
_AGAIN = re.compile(r"(?P<stem>.+)-(?P<times>[1-9][0-9]?)(?P<suffix>\.[^.]+)?", re.DOTALL)


@dataclass(frozen=True)
class Named:
    """What a name that Canvas made says. `file` is the student's name for it, `attachment` 0 without one."""

    item: Item
    name: str
    user: str
    anonymous: bool
    late: bool
    attachment: int
    file: str


def sort_canvas(items: Sequence[Item]) -> Sorted:
    """What Canvas named, by its users. Files that were uploaded anew are set aside for the newer ones."""
    by_user: dict[str, list[Named]] = defaultdict(list)
    for named in named_by_canvas(items):
        by_user[named.user].append(named)
    arrivals: list[Arrival] = []
    set_aside: list[tuple[Item, str]] = []
    for user, files in by_user.items():
        person = Person("canvas", user, name=files[0].name)
        if files[0].anonymous:
            person = Person(id=f"anon_{user}")
        pieces, superseded = _newest(files)
        notes = tuple(f"{shown(item.label)} was not read: {reason}" for item, reason in superseded)
        arrivals.append(Arrival((person,), pieces, notes, is_late=any(file.late for file in files)))
        set_aside += superseded
    return Sorted(tuple(arrivals), tuple(set_aside))


def named_by_canvas(items: Sequence[Item]) -> list[Named]:
    """The items that Canvas named; none unless most are, and the numbers are what Canvas's would be."""
    found = [named for named in map(_named, items) if named is not None]
    # A user has one name and an attachment one user and one file: `lab_1_2_ann.zip` and `lab_2_2_bob.zip` are others.
    names = {(named.user, named.name) for named in found}
    attached = {(named.attachment, named.user, stem_of(named.file)) for named in found if named.attachment}
    is_canvas = _tells_apart(names) and _tells_apart(attached) and 2 * len(found) >= len(items)
    return found if is_canvas else []


def _named(item: Item) -> Named | None:
    match = _ANONYMOUS.fullmatch(item.name) or _NAME.fullmatch(item.name)
    if match is None:
        return None
    return Named(
        item=item,
        name=match["name"],
        user=match["user"],
        anonymous=match.re is _ANONYMOUS,
        late=match["late"] is not None,
        attachment=int(match["attachment"] or 0),
        file=match["file"] or match["typed"],
    )


def _tells_apart(rows: set[tuple[str, str]] | set[tuple[int, str, str]]) -> bool:
    """Whether no two rows begin with the same number."""
    return len({row[0] for row in rows}) == len(rows)


def _newest(files: Sequence[Named]) -> tuple[tuple[Piece, ...], list[tuple[Item, str]]]:
    """A student's files by the names they had, and those for which there is a newer one.

    Whatever is uploaded again Canvas calls `NAME-1.py`, `NAME-2.py` and so on. Of archives that says nothing: a
    download holds the last attempt only, and `exercise-7.zip` belongs to it as well as `exercise-10.zip`.
    """
    packed = {
        (named.attachment, folded(stem_of(named.file))): named.file
        for named in files
        if not named.item.is_folder and is_archive(named.file)
    }
    versions: dict[str, list[tuple[int, int, str, Named]]] = defaultdict(list)
    for named in files:
        times, plain = 0, named.file
        if named.item.is_folder:
            # A folder is what somebody unpacked an archive to: the archive goes before it.
            times, plain = -1, packed.get((named.attachment, folded(stem_of(plain))), plain)
        elif not is_archive(plain) and (again := _AGAIN.fullmatch(plain)):
            times, plain = int(again["times"]), again["stem"] + (again["suffix"] or "")
        versions[folded(plain)].append((times, named.attachment, plain, named))
    pieces: list[Piece] = []
    superseded: list[tuple[Item, str]] = []
    for several in versions.values():
        *older, (_, _, plain, newest) = sorted(several, key=lambda version: version[:2])
        pieces.append(Piece(newest.item, "" if newest.item.is_folder else plain))
        for times, _, _, named in older:
            if times > 0:
                # `part-1.py` and `part-2.py` without a `part.py` may be two files that are called so.
                pieces.append(Piece(named.item, named.file))
            else:
                superseded.append((named.item, f"{shown(newest.item.name)} of the same student is newer."))
    return tuple(pieces), superseded
