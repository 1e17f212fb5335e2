"""Names of students that every file system can hold: for folders, files and links of the results."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.members import is_reserved, twin_key
from lockstep.submission import display_name

SLUG_BYTES = 120
"""Of a slug without its hash: a path with two of them stays below the 260 characters of Windows."""


def slugs(people: Iterable[Student | Record]) -> Mapping[str, str]:
    """A unique name for each student, by id: the id itself as far as file systems can hold it.

    Ids that come to the same name, on systems that ignore case as well, get a hash of the id behind it. The
    order in which students come makes no difference.
    """
    ids = {person.student.id if isinstance(person, Record) else person.id for person in people}
    names = {student: _slug_of(student) for student in sorted(ids)}
    extra = 0
    while twins := _twins(names):
        for student in twins:
            names[student] = f"{_slug_of(student)}-{_hash(student, extra)}"
        extra += 1
    return names


def _slug_of(student: str) -> str:
    """The name for a student's id as long as nobody else has it too."""
    name = display_name(student).encode("utf-8")[:SLUG_BYTES].decode("utf-8", "ignore").rstrip(" .")
    return f"_{name}" if not name or is_reserved(name) else name


def _twins(names: Mapping[str, str]) -> list[str]:
    count = Counter(twin_key(name) for name in names.values())
    return [student for student, name in names.items() if count[twin_key(name)] > 1]


def _hash(student: str, extra: int) -> str:
    return hashlib.sha256(f"{extra} {student}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
