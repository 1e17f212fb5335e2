"""Flags that come from laying hand-ins side by side. Two that are alike prove nothing: both may have one source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from lockstep.classroom.copies import Alike, alike
from lockstep.classroom.overlap import is_common
from lockstep.classroom.people import Student
from lockstep.classroom.readings import Shared, gravest_first, shared
from lockstep.classroom.record import Flag, Record
from lockstep.classroom.traces import Traces
from lockstep.classroom.wording import same_words
from lockstep.text import listed, safe_line

EQUAL, CODE, FILES, READINGS, ANSWERS = (
    "equal hand-in",
    "similar code",
    "equal files",
    "shared readings",
    "similar answer",
)
TOLD = 20
"""Others whose ids stand in a flag."""
NAMED = 3
"""Others whose names stand in its text."""


@dataclass(frozen=True)
class People:
    """Those who are compared, in order."""

    students: Sequence[Student]

    @cached_property
    def _known(self) -> Counter[str]:
        return Counter(student.shown for student in self.students)

    def name(self, place: int) -> str:
        """For a message; with the id where several have the same."""
        student = self.students[place]
        twin = f" ({student.id})" if self._known[student.shown] > 1 else ""
        return safe_line(f"{student.shown[:60]}{twin}", 120)

    def team(self, a: int, b: int) -> bool:
        """Whether two may share work."""
        return bool(self.students[a].team) and self.students[a].team == self.students[b].team

    def without_team(self, place: int, others: Iterable[int]) -> list[int]:
        """The first of those who are neither oneself nor in one's team."""
        strangers = (other for other in others if other != place and not self.team(place, other))
        return list(islice(strangers, TOLD))

    def names(self, others: Sequence[int], more: int = 0) -> str:
        """A few names in a sentence, and how many more there are."""
        rest = len(others) - NAMED + more if len(others) > NAMED else more
        told = [self.name(other) for other in others[:NAMED]]
        if rest > 0:
            return f"{', '.join(told)} and {rest} more"
        return listed(told)

    def flag(self, kind: str, subject: str, detail: str, others: Sequence[int]) -> Flag:
        """A flag with the ids of the others."""
        return Flag(kind, subject, detail, tuple(self.students[other].id for other in others[:TOLD]))


Told = Iterator[tuple[str, Flag]]
"""Flags, each with the id of the student it is for."""
_Placed = Iterator[tuple[int, Flag]]
"""The same with the place of the student."""


def from_hand_ins(students: Sequence[Student], found: Sequence[Traces]) -> Mapping[str, Told]:
    """By kind the flags for what the files of hand-ins have in common, worked out as they are asked for."""
    people = People(students)

    def excused(a: int, b: int) -> bool:
        # Whoever handed in the same as a whole is told so once.
        return people.team(a, b) or (found[a].own and found[a].digest == found[b].digest)

    def told(flags: _Placed) -> Told:
        return ((students[place].id, flag) for place, flag in flags)

    return {
        EQUAL: told(_equal(people, found)),
        CODE: told(_code(people, found, excused)),
        FILES: told(_files(people, found, excused)),
        READINGS: told(_readings(people, found, excused)),
    }


def from_answers(records: Sequence[Record]) -> Told:
    """Flags for written answers that share their words."""
    people = People([record.student for record in records])
    titles: dict[tuple[str, str], str] = {}
    answers: dict[tuple[str, str], list[str]] = {}
    for place, record in enumerate(records):
        for exercise in record.exercises:
            for review in exercise.reviews:
                key = exercise.id, review.question
                titles[key] = review.title
                answers.setdefault(key, [""] * len(records))[place] = review.answer
    told: dict[int, list[tuple[str, str, Sequence[int]]]] = {}
    for (_, question), texts in answers.items():
        for same in same_words(texts, titles[_, question], people.team):
            detail = (
                f"{safe_line(question, 40)}: {same.shares[0]:.0%} of the runs of three words in the shorter answer are "
                f"shared with {people.names(same.others)}."
            )
            told.setdefault(same.student, []).append((safe_line(question, 40), detail, same.others))
    for place, found in told.items():
        others = dict.fromkeys(other for _, _, own in found for other in own)
        detail = (
            f"Runs of three words shared, of the shorter answer. {'; '.join(each for _, each, _ in found)}."
        )
        subject = ", ".join(question for question, _, _ in found)
        yield records[place].student.id, people.flag(ANSWERS, subject, detail, [*others])


def _equal(people: People, found: Sequence[Traces]) -> _Placed:
    same: dict[str, list[int]] = {}
    for place, traces in enumerate(found):
        if traces.own:
            same.setdefault(traces.digest, []).append(place)
    for places in same.values():
        for place in places:
            others = people.without_team(place, places)
            if others:
                more = len(places) - 1 - len(others) if len(others) == TOLD else 0
                detail = f"Every file is byte for byte what {people.names(others, more)} handed in."
                yield place, people.flag(EQUAL, "the whole hand-in", detail, others)


def _code(people: People, found: Sequence[Traces], excused: Callable[[int, int], bool]) -> _Placed:
    for place, each in alike([traces.prints for traces in found], excused).items():
        work = f"the work of {people.name(each.others[0])}"
        detail = beside(each, work, "what was handed out or is common in the class")
        if len(each.others) > 1:
            detail += f" Alike as well: {people.names(each.others[1:], each.more)}."
        yield place, people.flag(CODE, listed_paths(each.files), detail, each.others)


def beside(each: Alike, work: str, left_out: str) -> str:
    """A sentence or two on a file that is like one of the `work`; `left_out` says what counted for nothing."""
    mine, theirs = each.mine, each.theirs
    if each.same:
        return f"{safe_line(mine.path)} is byte for byte {safe_line(theirs.path)} in {work}."
    return (
        f"{safe_line(mine.path)}, {mine.where}: {mine.share:.0%} of what is the student's own in this file also stands "
        f"in {work}, most of it in {safe_line(theirs.path)}, {theirs.where}; the other way round it is "
        f"{theirs.share:.0%}. Names, texts, numbers, layout and comments make no difference; {left_out} is left out."
    )


def _files(people: People, found: Sequence[Traces], excused: Callable[[int, int], bool]) -> _Placed:
    holders: dict[bytes, list[tuple[int, str]]] = {}
    for place, traces in enumerate(found):
        for path, value in traces.made:
            holders.setdefault(value, []).append((place, path))
    holders = {
        value: held for value, held in holders.items() if not is_common(np.array(len(held)), len(found))
    }
    for place, traces in enumerate(found):
        files: dict[str, None] = {}
        others: dict[int, str] = {}
        for path, value in traces.made:
            for other, their_path in holders.get(value, ()):
                if other != place and not excused(place, other):
                    files[path] = None
                    others.setdefault(other, their_path)
        if others:
            first = next(iter(others))
            detail = (
                f"{safe_line(next(iter(files)))} is byte for byte {safe_line(others[first])} of {people.name(first)}. "
                "A plot of measurements, or a log with times in it, comes out once; a plot of given data may come out "
                "twice."
            )
            if len(others) > 1:
                detail += f" The same files: {people.names([*others][1:])}."
            yield place, people.flag(FILES, listed_paths([*files]), detail, [*others])


def _readings(people: People, found: Sequence[Traces], excused: Callable[[int, int], bool]) -> _Placed:
    told: dict[int, list[Shared]] = {}
    aliases = [frozenset({each.id, each.name, each.email}) for each in people.students]
    names = [people.name(place) for place in range(len(found))]
    for each in shared([traces.readings for traces in found], names, aliases, excused):
        told.setdefault(each.student, []).append(each)
    for place, own in sorted(told.items()):
        first, *rest = gravest_first(own)
        others = dict.fromkeys(each.other for each in (first, *rest))
        detail = f"{safe_line(first.path)} beside {safe_line(first.other_path)}: {first.finding.message}"
        if len(others) > 1:
            detail += f" The like with {people.names([*others][1:])}."
        paths = dict.fromkeys(each.path for each in (first, *rest))
        yield place, people.flag(READINGS, listed_paths([*paths]), detail, [*others])


def listed_paths(paths: Sequence[str]) -> str:
    """A few paths for the subject of a flag, and how many more there are."""
    told = ", ".join(safe_line(path, 80) for path in paths[:NAMED])
    return f"{told} and {len(paths) - NAMED} more" if len(paths) > NAMED else told
