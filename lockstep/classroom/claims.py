"""Says whose each arrival is, and which one counts where a student has several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lockstep.classroom.arrival import Arrival, Person
from lockstep.classroom.filenames import is_archive, label, stem_of
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.matching import Nobody, Register, may_be_one
from lockstep.classroom.people import Student
from lockstep.classroom.roster import Entry
from lockstep.classroom.strangers import ids_of_several, stranger
from lockstep.members import SubmissionError, shown

SAME_TIME = 2.0
"""Seconds; archives keep times in steps of two."""

_JOINT = "of "
"""What the name of a team begins with that only a joint hand-in has made one."""

_HOLDS_HAND_INS = (
    "It holds hand-ins of several students. Give that folder by itself, or move them up to the others."
)


@dataclass(frozen=True)
class Claim:
    """An arrival and the student it is for. `entry` is the roster's row.

    `by_name` says that only a name led there, `for_team` that it is the team's.
    """

    student: Student
    person: Person
    arrival: Arrival
    entry: Entry | None = None
    by_name: bool = False
    for_team: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claimed:
    """One claim for each student who handed in, and what is nobody's or was left for another one, that one last."""

    claims: tuple[Claim, ...]
    unmatched: tuple[Unmatched, ...]


def claim(arrivals: Iterable[Arrival], register: Register | None) -> Claimed:
    """Find out whose the arrivals are. Without a roster everybody who hands in is a student, not enrolled."""
    claims: dict[str, list[Claim]] = defaultdict(list)
    unmatched: list[Unmatched] = []
    arrivals = list(arrivals)
    people = (person for arrival in arrivals for person in arrival.people)
    shared = ids_of_several(people) if register is None else frozenset()
    for arrival in arrivals:
        for each in _claims_of(arrival, register, shared):
            if isinstance(each, Claim):
                claims[each.student.id].append(each)
            else:
                unmatched.append(each)
    chosen: list[Claim] = []
    namesakes: list[tuple[Claim, str]] = []
    left: list[tuple[Claim, str]] = []
    for several in claims.values():
        one_persons, others = _of_one_person(several)
        namesakes += others
        if one_persons:
            winner, older = _newest(one_persons)
            chosen.append(winner)
            left += older
    # A team's hand-in that one member has replaced still is the others', and is listed once where it is nobody's.
    told = {id(each.arrival) for each in chosen}
    superseded: list[Unmatched] = []
    for claimed, listed in ((namesakes, unmatched), (left, superseded)):
        for each, reason in claimed:
            if id(each.arrival) not in told:
                told.add(id(each.arrival))
                listed += _left(each.arrival, reason)
    return Claimed(tuple(chosen), (*unmatched, *(replace(item, set_aside=True) for item in superseded)))


def in_their_teams(students: Iterable[Student], before: Iterable[Student]) -> Iterator[Student]:
    """`students` who hand in nothing this time, in the teams that a joint hand-in of `before` has made of them."""
    teams = {student.id: student.team for student in before if student.team.startswith(_JOINT)}
    for student in students:
        yield student if student.team else replace(student, team=teams.get(student.id, ""))


def _claims_of(
    arrival: Arrival, register: Register | None, shared: Collection[str]
) -> list[Claim | Unmatched]:
    found: list[Claim | Unmatched] = []
    for person in arrival.people:
        if register is None:
            if arrival.doubt:
                found += _left(arrival, arrival.doubt)
            else:
                found.append(Claim(stranger(person, shared), person, arrival))
            continue
        match = register.find(person)
        if (isinstance(match, Nobody) or match.for_team) and _holds_hand_ins(arrival, register):
            match = Nobody(_HOLDS_HAND_INS)
        if isinstance(match, Nobody):
            reasons = [arrival.doubt or match.reason, *arrival.notes]
            who = f" ({label(person.name or person.email)})" if len(arrival.people) > 1 else ""
            found += _left(arrival, " ".join(filter(None, reasons)), who)
        else:
            notes = (match.note,) if match.note else ()
            found += (
                Claim(entry.student, person, arrival, entry, match.by_name, match.for_team, notes)
                for entry in match.entries
            )
    return _as_a_team(found, arrival)


def _holds_hand_ins(arrival: Arrival, register: Register) -> bool:
    """Whether it is a folder of several students' folders, such as a tutorial's."""
    try:
        inside = [item.name for piece in arrival.pieces for item in piece.item.inside()]
    except SubmissionError:
        return False
    return sum(register.knows(stem_of(name) if is_archive(name) else name) for name in inside) > 1


def _as_a_team(found: Sequence[Claim | Unmatched], arrival: Arrival) -> list[Claim | Unmatched]:
    """Who hands in together is a team, also where nobody said so: equal work of theirs is no copy."""
    claims = [each for each in found if isinstance(each, Claim)]
    if len(claims) < 2:
        return list(found)
    team = next((each.student.team for each in claims if each.student.team), "") or f"{_JOINT}{arrival.label}"
    together: list[Claim | Unmatched] = []
    for each in found:
        if isinstance(each, Claim):
            others = ", ".join(label(other.student.shown) for other in claims if other is not each)
            notes = (*each.notes, f"handed in together with {others}")
            student = each.student if each.student.team else replace(each.student, team=team)
            together.append(replace(each, student=student, notes=notes))
        else:
            together.append(each)
    return together


def _of_one_person(several: Sequence[Claim]) -> tuple[list[Claim], list[tuple[Claim, str]]]:
    """Those of a student's claims that can be one person's."""
    if may_be_one(each.person for each in several if not each.for_team):
        return list(several), []
    known = several[0].student
    kept = [each for each in several if not each.by_name]
    reason = (
        f"Its name is that of {label(known.shown)} ({label(known.id)}), but somebody else of that name handed in, "
        "too, and the roster does not tell them apart. Give it a column with the LMS's ids."
    )
    return kept, [(each, reason) for each in several if each.by_name]


def _newest(several: Sequence[Claim]) -> tuple[Claim, list[tuple[Claim, str]]]:
    *older, newest = sorted(several, key=_rank)
    if not older:
        return newest, []
    surer = _sure(newest) != _sure(older[-1])
    newer = _time(newest) - _time(older[-1]) > SAME_TIME
    why = (
        "it is the surest"
        if surer
        else "it is the newest"
        if newer
        else "though nothing says that it is newer; look at it"
    )
    taken, others = shown(newest.arrival.label), ", ".join(shown(each.arrival.label) for each in older[:4])
    note = f"handed in {len(several)} times: {taken} was taken, {why}; not {others}"
    reason = f"Another hand-in of {label(newest.student.shown)}, {taken}, was taken: {why}."
    return replace(newest, notes=(*newest.notes, note)), [(each, reason) for each in older]


def _left(arrival: Arrival, reason: str, who: str = "") -> list[Unmatched]:
    """Each piece of what is nobody's, by its own name."""
    return [Unmatched(f"{piece.item.label}{who}", reason) for piece in arrival.pieces]


def _rank(claim: Claim) -> tuple[bool, bool, bool, bool, float, str]:
    return *_sure(claim), _time(claim), claim.arrival.label


def _sure(claim: Claim) -> tuple[bool, bool, bool, bool]:
    """What can be graded goes before what cannot, a student's own before the team's, an id before a name."""
    return not claim.arrival.problem, not claim.arrival.doubt, not claim.for_team, not claim.by_name


def _time(claim: Claim) -> float:
    at = claim.arrival.submitted_at
    return at.timestamp() if at is not None else claim.arrival.changed
