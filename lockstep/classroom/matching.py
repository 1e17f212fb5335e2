"""Finds a hand-in's student on the roster: by ids first, by names only where they leave no doubt.

To give somebody another one's grade is worse than to ask. Whatever fits two students, or fits one by name and
contradicts the same student's id, fits nobody, and the reason names those it could be. What is weak, a part of a name
or of an address, fits only where nothing else leads to another one. A name fits only where nobody else has its words
in another order: some write the last name first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lockstep.classroom.arrival import Person
from lockstep.classroom.names import NAME_LENGTH, exact, folded, rotations, share_a_word, spellings, words_of
from lockstep.classroom.roster import Entry, Roster
from lockstep.text import safe_line

ID_IN_NAME = 4
"""Characters of an id, digits among them, that is looked for inside of a longer name such as `lab3_1234567`."""

WORDS_IN_NAME = 20
"""Words of such a name."""

_SYSTEMS = {"canvas": "Canvas id", "moodle": "Moodle id", "github": "GitHub name", "login": "login"}
_COLUMNS = {"canvas": "canvas id", "moodle": "moodle id", "github": "github"}


@dataclass(frozen=True)
class Found:
    """The students of a hand-in: one, or all of a team. `by_name` says that nothing but a name led to them."""

    entries: tuple[Entry, ...]
    by_name: bool = False
    for_team: bool = False
    note: str = ""


@dataclass(frozen=True)
class Nobody:
    """No student, and why; a sentence or two."""

    reason: str


@dataclass(frozen=True)
class _Criterion:
    of_entry: Callable[[Entry], Iterable[str]]
    of_person: Callable[[Person], Iterable[str]]
    by_name: bool = False
    weak: bool = False
    any_order: bool = False
    note: str = ""


class Register:
    """A roster that can be searched."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._indexes = [self._index(criterion.of_entry) for criterion in _CRITERIA]
        self._teams = self._index(lambda entry: spellings(entry.student.team))
        self._words = self._index(lambda entry: _words(entry.student.name))

    def _index(self, keys: Callable[[Entry], Iterable[str]]) -> dict[str, list[Entry]]:
        index: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._roster.entries:
            for key in set(keys(entry)):
                if key:
                    index[key].append(entry)
        return dict(index)

    def find(self, person: Person) -> Found | Nobody:
        """The one student whom everything that is known of `person` fits, or the team that has its name."""
        person = self._without_group(person)
        suspects: list[Entry] = []
        turned_away: list[Entry] = []
        perhaps: list[Entry] = []
        for criterion, index in zip(_CRITERIA, self._indexes, strict=True):
            fitting = _fitting(criterion, index, person)
            agreeing = [entry for entry in fitting if not _contradicts(entry, person, criterion)]
            turned_away += [entry for entry in fitting if entry not in agreeing]
            if person.system == "github" and criterion is not _NUMBER:
                # Anybody may take a login that is another one's id, name or beginning of an address.
                perhaps += agreeing
                continue
            if suspects:
                agreeing = [entry for entry in agreeing if entry in suspects]
            if len(agreeing) == 1:
                (entry,) = agreeing
                if others := self._elsewhere(entry, person):
                    return Nobody(self._reason(person, [entry, *others], []))
                if namesakes := self._namesakes(entry, person, criterion):
                    return Nobody(_other_number(entry, namesakes, person))
                if others := self._others(entry, person, criterion):
                    return Nobody(self._reason(person, [entry, *others], []))
                return self._with_team(entry, person, criterion)
            suspects = agreeing or suspects
        team = self._team(person)
        if team and not suspects and not turned_away and all(entry in team for entry in perhaps):
            return _for(team)
        return Nobody(self._reason(person, suspects, _unique(turned_away)))

    def _elsewhere(self, entry: Entry, person: Person) -> list[Entry]:
        """Those to whom what a student of Gradescope has typed in leads, where not all of it leads to `entry`.

        Id, address and name are the student's own words, and none of them is surer than the others.
        """
        if person.system != "gradescope":
            return []
        by_id, by_address, by_name = (
            self._led_to(person, lambda criterion: criterion in (_ID, _ID_WITHOUT_ZEROS)),
            self._led_to(person, lambda criterion: criterion is _ADDRESS),
            self._led_to(person, lambda criterion: criterion.by_name and not criterion.weak),
        )
        if entry in by_id and entry in by_address and share_a_word(entry.student.name, person.name):
            return []
        groups = (by_id, by_address, by_name)
        return _unique(each for group in groups if entry not in group for each in group)

    def _led_to(self, person: Person, asked: Callable[[_Criterion], bool]) -> list[Entry]:
        """Everybody to whom one of the criteria that are `asked` for leads."""
        return _unique(
            entry
            for criterion, index in zip(_CRITERIA, self._indexes, strict=True)
            if asked(criterion)
            for entry in _fitting(criterion, index, person)
        )

    def _namesakes(self, entry: Entry, person: Person, criterion: _Criterion) -> list[Entry]:
        """Those who are called as `person` is where a number that may be another one's leads to `entry`."""
        if not (criterion is _NUMBER_AS_ID or (criterion is _NUMBER and person.system == "moodle")):
            return []
        called = self._led_to(person, lambda other: other.by_name and not other.weak)
        return called if entry not in called else []

    def _others(self, entry: Entry, person: Person, criterion: _Criterion) -> list[Entry]:
        """Those to whom a name or something weak leads as well as `criterion` to `entry`, and not to `entry`.

        A name leads as well to those who have its words in another order, `Yang Wang` and `Wang Yang`.
        """
        if not (criterion.weak or criterion.by_name):
            return []
        others = self._team(person) if criterion.weak else []
        others = others if entry not in others else []
        letters = spellings(person.name)
        for other, index in zip(_CRITERIA, self._indexes, strict=True):
            fitting = _fitting(other, index, person)
            agreeing = [each for each in fitting if not _contradicts(each, person, other)]
            if other.weak or (criterion.weak and other.by_name):
                others += agreeing if entry not in agreeing else []
            elif other.any_order:
                # In the same order they differ in their accents, and these have told them apart.
                others += (each for each in agreeing if not letters & spellings(each.student.name))
        return _unique(each for each in others if each is not entry)

    def knows(self, name: str) -> bool:
        """Whether a file or folder called `name` is a student's."""
        return isinstance(self.find(Person(id=name, name=name, email=name)), Found)

    def others_called(self, name: str, student: str) -> str:
        """Those to whom `name` leads by something that does not lead to `student`, an id, as well; empty if nobody."""
        person = Person(id=name, name=name, email=name)
        groups = [
            *(
                _fitting(criterion, index, person)
                for criterion, index in zip(_CRITERIA, self._indexes, strict=True)
            ),
            self._team(person),
        ]
        return _listed(
            _unique(
                entry
                for group in groups
                if all(folded(entry.student.id) != folded(student) for entry in group)
                for entry in group
            )
        )

    def _without_group(self, person: Person) -> Person:
        """Moodle writes a group in front of its members' names where it divides them into groups."""
        group, dash, name = person.name.partition("-")
        while dash and person.system == "moodle":
            if any(key in self._teams for key in spellings(group)):
                return replace(person, name=name)
            rest, dash, name = name.partition("-")
            group = f"{group}-{rest}"
        return person

    def _with_team(self, entry: Entry, person: Person, criterion: _Criterion) -> Found:
        # Canvas names a group's hand-in by the group, and numbers it by one of its members.
        team = self._team(person)
        if person.system == "canvas" and entry in team and not share_a_word(entry.student.name, person.name):
            return _for(team)
        return Found((entry,), criterion.by_name, note=criterion.note)

    def _team(self, person: Person) -> list[Entry]:
        teams = _unique(entry for key in spellings(person.name) for entry in self._teams.get(key, ()))
        return teams if len({folded(entry.student.team) for entry in teams}) == 1 else []

    def _reason(self, person: Person, suspects: Sequence[Entry], turned_away: Sequence[Entry]) -> str:
        column = _COLUMNS.get(person.system)
        remedy = f" Give the roster a column `{column}`." if column else " Rename it to the student's id."
        if suspects:
            return f"It fits more than one on the roster: {_listed(suspects)}.{remedy}"
        if turned_away:
            number = person.number if person.system in _SYSTEMS else person.id or person.email
            return (
                f"Its name is like that of {_listed(turned_away)}, but its {_SYSTEMS.get(person.system, 'id')} "
                f"`{safe_line(number, 60)}` is another one's."
            )
        about = [
            f"the {_SYSTEMS[person.system]} `{safe_line(person.number, 60)}`"
            if person.system in _SYSTEMS
            else "",
            f"the id `{safe_line(person.id, 60)}`" if person.id and person.id != person.number else "",
            f"the address `{safe_line(person.email, 60)}`" if "@" in person.email else "",
            f"the name `{safe_line(person.name, 60)}`" if person.name and person.name != person.id else "",
        ]
        near = self._near(person)
        hint = (
            f" Perhaps it is {_listed(near)}'s.{remedy if person.system == 'github' else ''}" if near else ""
        )
        return f"Nobody on the roster has {' or '.join(filter(None, about)) or 'its name'}.{hint}"

    def _near(self, person: Person) -> list[Entry]:
        """Those whom a person may have meant: by a middle name more, or by what is not enough of an address."""
        named = _unique(entry for word in _words(person.name) for entry in self._words.get(word, ()))
        # What a folder is called would do, were there no LMS that says more.
        alike = Person(id=person.id, name=person.name, email=_beginning(person.email))
        fitting = self._led_to(alike, lambda criterion: True)
        return _unique([*(entry for entry in named if _is_near(entry, person)), *fitting])


def may_be_one(people: Iterable[Person]) -> bool:
    """Whether these can be one and the same: an LMS gives nobody two numbers."""
    numbers = {
        (person.system, folded(person.number)) for person in people if person.system in ("canvas", "moodle")
    }
    return len(numbers) == len({system for system, _ in numbers})


def _for(team: Sequence[Entry]) -> Found:
    return Found(tuple(team), for_team=True, note=f"handed in for the team {safe_line(team[0].student.team)}")


def _other_number(entry: Entry, namesakes: Sequence[Entry], person: Person) -> str:
    """Why a number is not enough: the name is another one's."""
    system, column = _SYSTEMS[person.system], _COLUMNS[person.system]
    return (
        f"Its {system} `{safe_line(person.number, 60)}` is that of {_listed([entry])}, but its name is that of "
        f"{_listed(namesakes)}. Give the roster a column `{column}` with the numbers of this download."
    )


def _fitting(criterion: _Criterion, index: Mapping[str, list[Entry]], person: Person) -> list[Entry]:
    return _unique(entry for key in criterion.of_person(person) if key for entry in index.get(key, ()))


def _contradicts(entry: Entry, person: Person, criterion: _Criterion) -> bool:
    """Whether something that is known of both says that they are two people."""
    if criterion is _NUMBER:
        # Moodle numbers participants anew in every assignment: the roster's may be another one's.
        named = person.system == "moodle" and person.name and entry.student.name
        return bool(named) and not share_a_word(entry.student.name, person.name)
    if criterion is _NUMBER_AS_ID:
        return bool(entry.student.name) and not share_a_word(entry.student.name, person.name)
    number = entry.numbers.get(person.system)
    if number is not None and folded(number) != folded(person.number):
        return True
    if person.system != "gradescope" or criterion is _ID:
        return False
    sid, email = folded(person.id), folded(person.email) if "@" in person.email else ""
    is_other_sid = bool(sid) and not _is_id(entry, sid)
    is_other_address = bool(email and entry.student.email) and email != folded(entry.student.email)
    if criterion.weak:
        return is_other_sid or is_other_address
    return is_other_sid and is_other_address


def _is_id(entry: Entry, number: str) -> bool:
    return bool(
        {folded(number), *_without_zeros(number)}
        & {folded(entry.student.id), *_without_zeros(entry.student.id)}
    )


def _numbers(person: Person) -> Iterable[str]:
    if person.system in _COLUMNS:
        yield f"{person.system} {folded(person.number)}"
    elif person.id:
        systems = ("login",) if person.system else ("login", "canvas", "github")
        yield from (f"{system} {folded(person.id)}" for system in systems)


def _without_zeros(number: str) -> Iterable[str]:
    """Spreadsheets take the zeros in front of a number for nothing."""
    plain = folded(number)
    return [plain.lstrip("0")] if plain.isdecimal() and plain.isascii() else []


def _beginning(address: str) -> str:
    return folded(address).partition("@")[0]


def _address(entry: Entry) -> str:
    """Where ids are addresses nobody gives a second column of them."""
    return entry.student.email or (entry.student.id if "@" in entry.student.id else "")


def _words_without_digits(person: Person) -> Iterable[str]:
    """Of `lab3_jane_doe` and `Jane Doe_5511` the name; a single word is not enough of one."""
    if person.system:
        return []
    words = (
        [word for word in words.split() if not any(character.isdigit() for character in word)]
        for words in words_of(person.name)
    )
    return [" ".join(rest) for rest in words if len(rest) > 1]


def _ids_inside(person: Person) -> Iterable[str]:
    """Words with digits, and several in a row as they stand there: ids may have signs in them."""
    if person.system:
        return
    text = folded(person.id[:NAME_LENGTH])
    words = list(re.finditer(r"[^\W_]+", text))[:WORDS_IN_NAME]
    for first, start in enumerate(words):
        for end in words[first:]:
            part = text[start.start() : end.end()]
            if len(part) >= ID_IN_NAME and any(character.isdigit() for character in part):
                yield part


_ID = _Criterion(lambda entry: [folded(entry.student.id)], lambda person: [folded(person.id)])
_NUMBER = _Criterion(
    lambda entry: (f"{system} {folded(number)}" for system, number in entry.numbers.items()), _numbers
)
_NUMBER_AS_ID = _Criterion(
    lambda entry: [folded(entry.student.id)],
    lambda person: [folded(person.number)] if person.system == "canvas" else [],
)
_ID_WITHOUT_ZEROS = _Criterion(
    lambda entry: _without_zeros(entry.student.id), lambda person: _without_zeros(person.id)
)
_ADDRESS = _Criterion(lambda entry: [folded(_address(entry))], lambda person: [folded(person.email)])
_CRITERIA = (
    _ID,
    _NUMBER,
    _NUMBER_AS_ID,
    _ID_WITHOUT_ZEROS,
    _ADDRESS,
    _Criterion(
        lambda entry: [_beginning(_address(entry))],
        # Who has an address elsewhere may be another one.
        lambda person: [] if "@" in person.email else [folded(person.email)],
        weak=True,
    ),
    _Criterion(lambda entry: [exact(entry.student.name)], lambda person: [exact(person.name)], by_name=True),
    _Criterion(
        lambda entry: spellings(entry.student.name), lambda person: spellings(person.name), by_name=True
    ),
    _Criterion(
        lambda entry: rotations(entry.student.name),
        lambda person: rotations(person.name),
        by_name=True,
        any_order=True,
    ),
    _Criterion(
        lambda entry: words_of(entry.student.name),
        lambda person: words_of(person.name),
        by_name=True,
        any_order=True,
    ),
    _Criterion(
        lambda entry: [folded(entry.student.id)],
        _ids_inside,
        by_name=True,
        weak=True,
        note="the student is known by the id inside the name",
    ),
    _Criterion(
        lambda entry: words_of(entry.student.name),
        _words_without_digits,
        by_name=True,
        weak=True,
        note="the student is known by the name without its numbers",
    ),
)
"""What a person is known by, the surest first."""


def _words(name: str) -> set[str]:
    return {word for words in words_of(name) for word in words.split()}


def _is_near(entry: Entry, person: Person) -> bool:
    """Whether one has all words of the other's name: a middle name makes the difference."""
    for ours in words_of(entry.student.name):
        for theirs in words_of(person.name):
            shorter, longer = sorted((set(ours.split()), set(theirs.split())), key=len)
            if len(shorter) >= 2 and shorter <= longer:
                return True
    return False


def _listed(entries: Sequence[Entry]) -> str:
    names = [
        f"{safe_line(entry.student.name, 60)} ({safe_line(entry.student.id, 60)})"
        if entry.student.name
        else safe_line(entry.student.id, 60)
        for entry in entries[:4]
    ]
    return ", ".join([*names, f"{len(entries) - 4} more"] if len(entries) > 4 else names)


def _unique(entries: Iterable[Entry]) -> list[Entry]:
    return list({entry.student.id: entry for entry in entries}.values())
