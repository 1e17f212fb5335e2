"""Students whom no roster names, only their download; and how they are known again on a roster that comes later."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from lockstep.classroom.arrival import Person
from lockstep.classroom.filenames import label
from lockstep.classroom.gradescope import number_of
from lockstep.classroom.matching import Found, Register, may_be_one
from lockstep.classroom.names import folded, share_a_word
from lockstep.classroom.people import Student

_NO_ID = frozenset({"n/a", "na", "none", "null", "nil", "no", "unknown", "tba", "tbd", "x", "xx", "xxx"})
_CANVAS, _MOODLE, _GITHUB = "ID", "Identifier", "github"


def ids_of_several(people: Iterable[Person]) -> frozenset[str]:
    """The ids that several of Gradescope's students have typed in, such as `N/A`; they are nobody's."""
    by_id: dict[str, list[Person]] = defaultdict(list)
    for person in people:
        if person.system == "gradescope" and person.id:
            by_id[person.id].append(person)
    return frozenset(number for number, several in by_id.items() if any(map(_are_two, several, several[1:])))


def _are_two(one: Person, other: Person) -> bool:
    addresses = {folded(one.email), folded(other.email)} - {""}
    return len(addresses) == 2 and not share_a_word(one.name, other.name)


def _is_id(text: str) -> bool:
    """Whether it is more than what people type in where an id is asked for and they have none: N/A, 000, ---."""
    return any(character.isalnum() for character in text.strip("0")) and folded(text) not in _NO_ID


def stranger(person: Person, shared: Collection[str] = ()) -> Student:
    """The student that a download without a roster speaks of, with what the same LMS needs to know them again.

    `shared` are ids that are those of several and so of nobody.
    """
    columns: tuple[tuple[str, str], ...] = ()
    number = person.number
    if person.system == "gradescope":
        is_own = _is_id(person.id) and person.id not in shared
        number = (person.id if is_own else "") or person.email or f"submission_{person.number}"
    elif person.system == "canvas":
        columns = ((_CANVAS, number),)
    elif person.system == "moodle":
        columns = ((_MOODLE, f"Participant {number}"),)
    elif person.system == "github":
        columns = ((_GITHUB, label(number)),)
    if person.system:
        name = label(person.name) if person.name else ""
        return Student(
            _storable(number),
            name,
            label(person.email) if "@" in person.email else "",
            "",
            0.0,
            columns,
            False,
        )
    return Student(_storable(person.id), enrolled=False)


def recognised(students: Iterable[Student], register: Register) -> Mapping[str, str]:
    """By the ids of strangers among the students, the ids that the roster has for them.

    They are found as a hand-in of theirs would be. What was a team's is nobody's alone and stays a stranger's.
    """
    found: dict[str, list[tuple[str, Person, Found]]] = defaultdict(list)
    for student in students:
        if (person := _person(student)) is None:
            continue
        match = register.find(person)
        if isinstance(match, Found) and not match.for_team:
            (entry,) = match.entries
            found[entry.student.id].append((student.id, person, match))
    return {
        known: student
        for student, several in found.items()
        for known, _, match in several
        if not match.by_name or may_be_one(person for _, person, _ in several)
    }


def _person(student: Student) -> Person | None:
    """What the download said of a stranger; None for somebody whom a roster names or has named."""
    if student.enrolled or number_of(student.id):
        return None
    match student.columns:
        case ():
            system = "gradescope" if student.name or student.email else ""
            alone = "" if system else student.id
            return Person(system, "", student.id, student.name or alone, student.email or alone)
        case ((title, _),) if title == _CANVAS:
            return Person("canvas", student.id, name=student.name)
        case ((title, _),) if title == _MOODLE:
            return Person("moodle", student.id, name=student.name)
        case ((title, login),) if title == _GITHUB:
            return Person("github", login, id=login, name=login, email=login)
    return None


def _storable(text: str) -> str:
    """`text` as an id that can be stored and shown, and is not another's for what cannot be seen of it."""
    clean = label(text)
    if clean == text:
        return text
    return f"{clean} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
