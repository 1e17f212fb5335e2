"""Takes in a class: whose each hand-in is, who handed in nothing, and what is nobody's. Nothing is dropped."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

from lockstep.classroom.arrival import Item
from lockstep.classroom.claims import Claim, claim
from lockstep.classroom.classfolder import IntakeError, opened
from lockstep.classroom.filenames import is_archive, label, stem_of
from lockstep.classroom.handin import HandIn, Intake, Unmatched
from lockstep.classroom.lms import is_lms_made, junk_reason, sort_out
from lockstep.classroom.matching import Register
from lockstep.classroom.roster import Entry, Roster
from lockstep.classroom.settle import Settled, settle
from lockstep.classroom.slug import slugs
from lockstep.members import SubmissionError
from lockstep.submission import ARCHIVES, GRADABLE
from lockstep.text import few_lines

__all__ = ["IntakeError", "take_in"]

_RESULTS = "Left out: results of lockstep."
UNPACKED = "submissions"
"""In the folder of results: hand-ins that had to be unpacked or put together."""
OWN = frozenset(
    {"students", "exports", UNPACKED, "index.html"}
    | {f"gradebook.db{suffix}" for suffix in ("", "-wal", "-shm", "-journal")}
)
"""What lies in the folder of results, in the way of those who keep the submissions there, too."""

LATE = "Canvas marks it as late"
"""The note on a hand-in that is late by nobody knows how much; students read it, and a roster may tell afterwards."""


def take_in(
    submissions: Path,
    unpack_into: Path,
    roster: Roster | None = None,
    deadline: datetime | None = None,
    asked_for: Collection[str] = (),
) -> Intake:
    """The class that handed in `submissions`: a folder of folders, archives and files, or an LMS's one big zip.

    Hand-ins stay where they lie; what an LMS has packed or taken apart is put together in a folder of its own below
    `unpack_into`. `deadline` makes days of the times that the roster or the LMS tells. `asked_for` are the files of
    the exercises, by which one person's hand-in is told from a class. Raises IntakeError.
    """
    if Path(os.path.realpath(submissions)).is_relative_to(os.path.realpath(unpack_into)):
        raise IntakeError(
            f"{label(str(submissions))} is what an earlier grading has unpacked. Give what was unpacked then."
        )
    submissions, unpack_into = submissions.absolute(), unpack_into.absolute()
    register = Register(roster) if roster is not None else None
    with opened(submissions) as items:
        level = _class_level(items, register, unpack_into)
        _refuse_one_hand_in(submissions, level, register, asked_for)
        found = sort_out(level, roster)
        claimed = claim(found.arrivals, register)
        try:
            handins = tuple(_settled(claimed.claims, unpack_into, deadline))
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise IntakeError(f"Nothing can be written to {label(str(unpack_into))}: {reason}.") from error
    students = roster.students if roster is not None else ()
    place = {student.id: number for number, student in enumerate(students)}
    handed_in = {handin.student.id for handin in handins}
    return Intake(
        handins=tuple(
            sorted(handins, key=lambda handin: (place.get(handin.student.id, -1), handin.student.id))
        ),
        unmatched=(
            *claimed.unmatched,
            *(
                Unmatched(item.label, reason, set_aside=not item.stray or item.stray == _RESULTS)
                for item, reason in found.set_aside
            ),
        ),
        missing=tuple(student for student in students if student.id not in handed_in),
    )


def _is_ours(item: Item, unpack_into: Path) -> bool:
    """Whether it is the folder of results, which people like to keep beside the submissions, or a part of it."""
    if item.place is None:
        return False
    ours = os.path.realpath(unpack_into)
    results = os.path.dirname(ours)
    if item.name in OWN and _is_results(item.place.parent, results):
        return True
    return item.is_folder and (os.path.realpath(item.place) == ours or _is_results(item.place, results))


def _is_results(folder: Path, results: str) -> bool:
    """Whether it is the folder of these results or of a grading before."""
    # Not `Path.is_file`, which raises for a folder that may not be looked into.
    return os.path.realpath(folder) == results or os.path.isfile(folder / "gradebook.db")


def _class_level(items: Sequence[Item], register: Register | None, unpack_into: Path) -> Sequence[Item]:
    """The items below folders that hold everything: archives are packed with one, LMSs add another."""
    top = level = _marked(items, unpack_into)
    _refuse_packed_class(top)
    while True:
        hand_ins = [item for item in level if _may_be_handed_in(item)]
        if len(hand_ins) != 1 or not hand_ins[0].is_folder or is_lms_made(hand_ins):
            return top
        (wrapper,) = hand_ins
        if register is not None and register.knows(wrapper.name):
            return top
        try:
            inside = _marked(wrapper.inside(), unpack_into)
        except SubmissionError:
            return top
        level = [*(item for item in level if item is not wrapper), *inside]
        if _is_class(inside, register):
            return level


def _refuse_packed_class(items: Sequence[Item]) -> None:
    """Say so when it is the folder that an LMS's zip was downloaded to: that zip is no student's."""
    archives = [item for item in items if _may_be_handed_in(item) and is_archive(item.name)]
    if len(archives) != 1 or archives[0].place is None or any(map(_is_handed_in_folder, items)):
        return
    try:
        with opened(archives[0].place) as inside:
            hand_ins = [item for item in inside if _may_be_handed_in(item)]
            is_class = is_lms_made(hand_ins) or (len(hand_ins) == 1 and is_lms_made(hand_ins[0].inside()))
    except (IntakeError, SubmissionError):
        return
    if is_class:
        raise IntakeError(f"{archives[0].label} is the zip of a whole class. Give that file itself.")


def _refuse_one_hand_in(
    submissions: Path, items: Sequence[Item], register: Register | None, asked_for: Collection[str]
) -> None:
    """Say so when these are the files of one person, of which each would become a student."""
    # A notebook may take the place of a script.
    names = {name for file in asked_for for name in (file, str(PurePosixPath(file).with_suffix(".ipynb")))}
    own = [item.name for item in items if not item.is_folder and item.name in names]
    if own and not (register is not None and any(register.knows(stem_of(name)) for name in own)):
        raise IntakeError(
            f"{label(submissions.name)} is one person's hand-in, not a class: it holds {', '.join(few_lines(own))}. "
            "`lockstep check` grades one; for a class, give the folder in which the hand-ins lie."
        )


def _is_handed_in_folder(item: Item) -> bool:
    return item.is_folder and _may_be_handed_in(item)


def _marked(items: Iterable[Item], unpack_into: Path) -> list[Item]:
    return [replace(item, stray=_RESULTS) if _is_ours(item, unpack_into) else item for item in items]


def _may_be_handed_in(item: Item) -> bool:
    return not item.stray and not junk_reason(item.name)


def _is_class(items: Sequence[Item], register: Register | None) -> bool:
    """Whether these are the hand-ins of a class rather than the files of one."""
    hand_ins = [item for item in items if _may_be_handed_in(item)]
    if is_lms_made(hand_ins):
        return True
    if any(item.name == ".git" for item in items):
        return False
    known = (item.name if item.is_folder else stem_of(item.name) for item in hand_ins)
    if register is not None and any(register.knows(name) for name in known):
        return True
    packed = [item for item in hand_ins if item.is_folder or item.name.lower().endswith(ARCHIVES)]
    sources = [item for item in hand_ins if PurePosixPath(item.name).suffix.lower() in GRADABLE]
    return len(packed) >= 2 and not sources


def _settled(claims: Sequence[Claim], unpack_into: Path, deadline: datetime | None) -> Iterator[HandIn]:
    places = slugs(claim.student for claim in claims)
    done: dict[int, Settled] = {}
    for each in claims:
        arrival = each.arrival
        # What several handed in together lies there once.
        if id(arrival) not in done:
            done[id(arrival)] = settle(arrival, unpack_into / places[each.student.id])
        settled = done[id(arrival)]
        late_days = _late_days(each, deadline)
        late = (LATE,) if arrival.is_late and late_days is None else ()
        names = few_lines([piece.item.name for piece in arrival.pieces])
        parts = (f"handed in as {len(arrival.pieces)} files: {', '.join(names)}",) if len(names) > 1 else ()
        yield HandIn(
            student=each.student,
            path=settled.path,
            label=arrival.label,
            late_days=late_days,
            problem=settled.problem,
            notes=(*each.notes, *parts, *arrival.notes, *settled.notes, *late),
        )


def _late_days(each: Claim, deadline: datetime | None) -> float | None:
    """Days after the deadline, where the roster gives them or somebody else than the student gives the time."""
    told = late_by_roster(each.entry, deadline) if each.entry is not None else None
    return _days_after(deadline, each.arrival.submitted_at) if told is None else told


def late_by_roster(entry: Entry, deadline: datetime | None) -> float | None:
    """Days after the deadline by what the roster says; None where it says nothing."""
    return _days_after(deadline, entry.submitted_at) if entry.late_days is None else entry.late_days


def _days_after(deadline: datetime | None, at: datetime | None) -> float | None:
    if at is None or deadline is None:
        return None
    # A time without a zone is meant in the zone of the other one, or of this machine.
    if at.tzinfo is None:
        at = at.replace(tzinfo=deadline.tzinfo)
    elif deadline.tzinfo is None:
        deadline = deadline.astimezone()
    return max((at - deadline) / timedelta(days=1), 0.0)
