"""Reads off the names of a download which LMS made it, and what belongs to one person.

Names as they were made by Canvas (`content_zipper.rb`), Moodle (`mod/assign/locallib.php`), Gradescope's "Export
Submissions" and `gh classroom clone student-repos`.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from lockstep.classroom import gradescope
from lockstep.classroom.arrival import Arrival, Item, Person, Piece
from lockstep.classroom.names import folded
from lockstep.leftovers import file_reason
from lockstep.members import SubmissionError, shown
from lockstep.submission import ARCHIVES, SOURCES

_CANVAS = re.compile(
    r"(?P<name>.+?)(?P<late>_LATE)?_(?P<user>[1-9][0-9]{0,19})_(?P<attachment>[1-9][0-9]{0,19})_(?P<file>.+)",
    re.DOTALL,
)
_CANVAS_ANONYMOUS = re.compile(
    r"(?P<name>anon)(?P<late>_LATE)?_(?P<user>[A-Za-z0-9]{5})_(?P<attachment>[1-9][0-9]{0,19})_(?P<file>.+)",
    re.DOTALL,
)
_AGAIN = re.compile(r"(?P<stem>.+)-(?P<times>[1-9][0-9]?)(?P<suffix>(?:\.tar)?\.[^.]+)?", re.DOTALL)
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<number>[0-9]{1,20})_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL
)
_DOWNLOADED_AGAIN = re.compile(r"(.+?)(?: \([0-9]{1,2}\)| - Copy| copy)", re.DOTALL)
_OTHER_ARCHIVES = (".7z", ".rar", ".tar.bz2", ".tar.xz", ".tbz2", ".txz", ".gz", ".bz2", ".xz")

_NO_HAND_IN = "It is neither a folder nor an archive, a .py or an .ipynb file."
_ONLY_TEXT = "Only a text was typed into Moodle, and no file was handed in."


@dataclass(frozen=True)
class Sorted:
    """Items by who handed them in. What is `set_aside` is nobody's, for a reason in a sentence."""

    arrivals: tuple[Arrival, ...] = ()
    set_aside: tuple[tuple[Item, str], ...] = ()


def is_lms_made(items: Sequence[Item]) -> bool:
    """Whether names say that an LMS has put these items together."""
    names = [item.name for item in items]
    by_name = any(gradescope.number_of(name) or _MOODLE.fullmatch(name) for name in names)
    return by_name or bool(_canvas_names(items))


def junk_reason(name: str) -> str:
    """Why a file or folder called `name` is nobody's hand-in; empty when it may be one."""
    if reason := file_reason(name):
        return f"Left out: {reason}."
    return "Left out: a hidden file." if name.startswith(".") else ""


def sort_out(items: Iterable[Item], logins: frozenset[str]) -> Sorted:
    """Tell apart who handed in what; every item is in one arrival, or set aside. `logins` are known from GitHub."""
    rest: list[Item] = []
    set_aside: list[tuple[Item, str]] = []
    for item in items:
        if reason := item.stray or junk_reason(item.name):
            set_aside.append((item, reason))
        else:
            rest.append(item)
    arrivals: list[Arrival] = []
    for sort in (_gradescope, _moodle, _canvas, lambda left: _github(left, logins), _plain):
        part = sort(rest)
        arrivals += part.arrivals
        set_aside += part.set_aside
        done = {id(piece.item) for arrival in part.arrivals for piece in arrival.pieces}
        done |= {id(item) for item, _ in part.set_aside}
        rest = [item for item in rest if id(item) not in done]
    return Sorted(tuple(arrivals), tuple(set_aside))


def _gradescope(items: Sequence[Item]) -> Sorted:
    numbered = [item for item in items if item.is_folder and gradescope.number_of(item.name)]
    if not numbered:
        return Sorted()
    file = next((item for item in items if item.name == gradescope.METADATA and not item.is_folder), None)
    known: Mapping[str, gradescope.Submitted] = {}
    problem = f"There is no {gradescope.METADATA} beside it, which says whose it is."
    set_aside: list[tuple[Item, str]] = []
    if file is not None:
        problem = f"{gradescope.METADATA} does not say whose it is."
        try:
            known = gradescope.read_metadata(file.members()[0].read())
        except SubmissionError as error:
            problem = str(error)
        there = {item.name for item in numbered}
        gone = [shown(folder) for folder in known if folder not in there]
        more = f" Of what it names there is no folder for {', '.join(gone[:20])}." if gone else ""
        set_aside.append((file, f"Gradescope's list of who handed in what; it was read.{more}"))
    arrivals = []
    for item in numbered:
        about = known.get(item.name, gradescope.Submitted())
        nobody = (Person("gradescope", gradescope.number_of(item.name)),)
        arrivals.append(
            Arrival(
                people=about.people or nobody,
                pieces=(Piece(item),),
                notes=() if about.people else (about.problem or problem,),
                submitted_at=about.at,
            )
        )
    return Sorted(tuple(arrivals), tuple(set_aside))


def _moodle(items: Sequence[Item]) -> Sorted:
    files: dict[str, list[Piece]] = defaultdict(list)
    others: dict[str, list[tuple[Piece, str]]] = defaultdict(list)
    names: dict[str, str] = {}
    for item in items:
        match = _MOODLE.fullmatch(item.name)
        if match is None:
            continue
        number = match["number"]
        # Where marking is blind, everybody is called so.
        names[number] = "" if match["name"].lower() == "participant" else match["name"]
        piece = Piece(item, "" if item.is_folder else match["file"] or item.name)
        if match["kind"] == "file":
            files[number].append(piece)
        else:
            others[number].append((piece, match["kind"]))
    arrivals: list[Arrival] = []
    set_aside: list[tuple[Item, str]] = []
    for number, name in names.items():
        people = (Person("moodle", number, name=name),)
        besides = [(piece.item, f"Moodle's {kind}; only files are graded.") for piece, kind in others[number]]
        if files[number]:
            notes = [f"{shown(item.label)} was not read: {reason}" for item, reason in besides]
            arrivals.append(Arrival(people, tuple(files[number]), tuple(notes)))
            set_aside += besides
        else:
            arrivals.append(Arrival(people, tuple(piece for piece, _ in others[number]), problem=_ONLY_TEXT))
    return Sorted(tuple(arrivals), tuple(set_aside))


def _canvas(items: Sequence[Item]) -> Sorted:
    by_user: dict[str, list[tuple[Item, re.Match[str]]]] = defaultdict(list)
    for item, match in _canvas_names(items):
        by_user[match["user"]].append((item, match))
    arrivals: list[Arrival] = []
    set_aside: list[tuple[Item, str]] = []
    for user, found in by_user.items():
        anonymous = found[0][1].re is _CANVAS_ANONYMOUS
        person = Person(id=f"anon_{user}") if anonymous else Person("canvas", user, name=found[0][1]["name"])
        pieces, superseded = _newest(found)
        notes = [f"{shown(item.label)} was not read: {reason}" for item, reason in superseded]
        is_late = any(match["late"] for _, match in found)
        arrivals.append(Arrival((person,), pieces, tuple(notes), is_late=is_late))
        set_aside += superseded
    return Sorted(tuple(arrivals), tuple(set_aside))


def _canvas_names(items: Sequence[Item]) -> list[tuple[Item, re.Match[str]]]:
    """The items that Canvas named; none unless most are, and the numbers are what Canvas's would be."""
    found: list[tuple[Item, re.Match[str]]] = []
    for item in items:
        match = _CANVAS_ANONYMOUS.fullmatch(item.name) or _CANVAS.fullmatch(item.name)
        if match is not None:
            found.append((item, match))
    # A user has one name and an attachment one user: in `lab_1_2_jane` and `lab_2_2_john` the numbers are others.
    users = {(match["user"], match["name"]) for _, match in found}
    files = {(match["attachment"], match["user"], stem_of(match["file"])) for _, match in found}
    is_canvas = len({user for user, _ in users}) == len(users) and len({file[0] for file in files}) == len(
        files
    )
    return found if is_canvas and 2 * len(found) >= len(items) else []


def _newest(found: Sequence[tuple[Item, re.Match[str]]]) -> tuple[tuple[Piece, ...], list[tuple[Item, str]]]:
    """A student's files by the names they had, and those for which there is a newer one.

    Whatever is uploaded again Canvas calls `NAME-1.py`, `NAME-2.py` and so on.
    """
    versions: dict[str, list[tuple[int, int, str, Item]]] = defaultdict(list)
    for item, match in found:
        again = _AGAIN.fullmatch(match["file"])
        plain = again["stem"] + (again["suffix"] or "") if again else match["file"]
        # A folder is what somebody unpacked an archive to: the archive goes before it.
        rank = -1 if item.is_folder else int(again["times"]) if again else 0
        key = folded(stem_of(plain) if _is_archive(plain) or item.is_folder else plain)
        versions[key].append((rank, int(match["attachment"]), plain, item))
    pieces: list[Piece] = []
    superseded: list[tuple[Item, str]] = []
    for several in versions.values():
        *older, (_, _, plain, newest) = sorted(several, key=lambda version: version[:2])
        pieces.append(Piece(newest, "" if newest.is_folder else plain))
        for rank, _, _, item in older:
            if rank > 0 and not _is_archive(plain):
                # `part-1.py` and `part-2.py` without a `part.py` may be two files that are called so.
                pieces.append(Piece(item, _canvas_file(item)))
            else:
                superseded.append((item, f"{shown(newest.name)} of the same student is newer."))
    return tuple(pieces), superseded


def _canvas_file(item: Item) -> str:
    match = _CANVAS_ANONYMOUS.fullmatch(item.name) or _CANVAS.fullmatch(item.name)
    return match["file"] if match else item.name


def _github(items: Sequence[Item], logins: frozenset[str]) -> Sorted:
    folders = [item for item in items if item.is_folder]
    prefix = _assignment(folders, logins)
    arrivals = []
    for item in folders if prefix else []:
        if item.name.startswith(prefix) and len(item.name) > len(prefix):
            login = item.name[len(prefix) :]
            # Whoever accepts an assignment again gets a second repository with a number behind it.
            first, _, times = login.rpartition("-")
            if folded(login) not in logins and folded(first) in logins and times.isdecimal():
                login = first
            people = (Person("github", login, id=login, name=login, email=login),)
            arrivals.append(Arrival(people, (Piece(item),)))
    return Sorted(tuple(arrivals))


def _assignment(folders: Sequence[Item], logins: frozenset[str]) -> str:
    """What the names of all clones begin with; empty where these are no clones."""
    votes = Counter(
        item.name[: dash.end()]
        for item in folders
        for dash in re.finditer("-", item.name)
        if folded(item.name[dash.end() :]) in logins
    )
    if votes:
        prefix, _ = max(votes.items(), key=lambda vote: (vote[1], len(vote[0])))
        return prefix if 2 * sum(item.name.startswith(prefix) for item in folders) >= len(folders) else ""
    clones = [item.name for item in folders if _is_clone(item)]
    if len(clones) < 2 or 2 * len(clones) < len(folders):
        return ""
    pairs = zip(min(clones), max(clones), strict=False)
    common = "".join(ours for ours, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common[: common.rfind("-") + 1]


def _is_clone(item: Item) -> bool:
    try:
        return any(inner.name == ".git" for inner in item.inside())
    except SubmissionError:
        return False


def _plain(items: Sequence[Item]) -> Sorted:
    arrivals = []
    for item in items:
        stem = item.name if item.is_folder else stem_of(item.name)
        copy = _DOWNLOADED_AGAIN.fullmatch(stem)
        stem = copy[1] if copy else stem
        is_hand_in = item.is_folder or _is_archive(item.name) or item.name.lower().endswith(SOURCES)
        arrivals.append(
            Arrival(
                people=(Person(id=stem, name=stem, email=stem),),
                pieces=(Piece(item, "" if item.is_folder else item.name),),
                doubt="" if is_hand_in else _NO_HAND_IN,
            )
        )
    return Sorted(tuple(arrivals))


def _is_archive(name: str) -> bool:
    return name.lower().endswith((*ARCHIVES, *_OTHER_ARCHIVES))


def stem_of(name: str) -> str:
    """`name` without its suffix, which of an archive may have two parts."""
    for suffix in (*ARCHIVES, *_OTHER_ARCHIVES):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return os.path.splitext(name)[0]
