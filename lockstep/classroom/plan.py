"""What of a class has to be graded now: what is new or changed, whose graders have, or whose last attempt failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.received import Graded, Received
from lockstep.exercise import Exercise
from lockstep.grading import CouldNotGrade
from lockstep.result import CheckResult
from lockstep.submission import SubmissionError, open_submission
from lockstep.text import safe_line
from lockstep.verdict import Verdict

FORCED = "forced"
"""Under this the gradebook keeps which forced grading was begun, and after which attempt, until it is through."""

NOT_MADE = frozenset({Verdict.NOT_CHECKED, Verdict.FAULT})
"""How a check ends that nobody has looked at: it is made along with the one it may have waited for."""


@dataclass(frozen=True)
class Wanted:
    """Which exercises are graded, by id, with their fingerprints; and what is graded although nothing changed.

    `only` names for exercises the checks that alone are made again; empty means all.
    """

    fingerprints: Mapping[str, str]
    only: Mapping[str, frozenset[str]]
    regrade: bool = False

    @property
    def force(self) -> str:
        """A name for what is forced; empty where nothing is."""
        if self.only:
            return " ".join(
                sorted(f"{name}/{check}" for name, checks in self.only.items() for check in checks)
            )
        return " ".join(sorted(self.fingerprints)) if self.regrade else ""


@dataclass(frozen=True)
class Work:
    """A hand-in to grade: its number in the gradebook, where it lies, and its exercises with their fingerprints.

    From the attempts in `before`, by exercise, the checks are taken over that need not be made. `seed` is theirs.
    """

    handin: int
    name: str
    path: Path
    digest: str
    fingerprints: Mapping[str, str]
    before: Mapping[str, int]
    seed: int | None = None


@dataclass(frozen=True)
class Plan:
    """The work there is, and how many hand-ins are graded already or cannot be."""

    work: tuple[Work, ...]
    unchanged: int
    problems: int


def only_checks(names: Sequence[str], exercises: Sequence[Exercise]) -> Mapping[str, frozenset[str]]:
    """The checks that `CHECK` or `EXERCISE/CHECK` means, by exercise. Raises CouldNotGrade where it means none."""
    found: dict[str, frozenset[str]] = {}
    for name in names:
        exercise_id, _, check_id = name.rpartition("/")
        meant = [
            exercise.id
            for exercise in exercises
            if exercise_id in ("", exercise.id) and check_id in {check.id for check in exercise.checks}
        ]
        if not meant:
            named = [exercise for exercise in exercises if exercise.id == exercise_id] or exercises
            known = dict.fromkeys(check.id for exercise in named for check in exercise.checks)
            raise CouldNotGrade(
                f"there is no check {safe_line(name)!r}; name it as CHECK or EXERCISE/CHECK, where CHECK is one of "
                f"{', '.join(known)}"
            )
        for exercise in meant:
            found[exercise] = found.get(exercise, frozenset()) | {check_id}
    return found


def make_plan(book: Gradebook, handins: Iterable[HandIn], wanted: Wanted) -> Plan:
    """Write every hand-in down that is new or changed, and find out what has to be graded."""
    known = book.received()
    after = _forced_after(book, wanted, known)
    come = []
    for handin in handins:
        look = _look_into(handin)
        _receive(book, look, known.get(handin.student.id))
        come.append(look)
    # Anew: work that had been handed in before came back with its grades.
    known = book.received()
    work: list[Work] = []
    unchanged = problems = 0
    for look in come:
        received = known[look.handin.student.id]
        todo = {
            name: fingerprint
            for name, fingerprint in wanted.fingerprints.items()
            if _has_to_be_graded(received.graded.get(name), fingerprint, after)
        }
        if look.handin.problem or look.handin.path is None:
            problems += 1
        elif not todo:
            unchanged += 1
        else:
            work.append(_work(look, received, todo, wanted))
    return Plan(tuple(work), unchanged, problems)


@dataclass(frozen=True)
class _Look:
    """A hand-in after a look into it: with its problem, its digest and what there is to say about its files."""

    handin: HandIn
    digest: str = ""
    notes: tuple[str, ...] = ()


def _look_into(handin: HandIn) -> _Look:
    """Read what was handed in. One that cannot be read is no reason to stop."""
    if handin.problem or handin.path is None:
        return _Look(handin)
    try:
        submission = open_submission(handin.path)
    except SubmissionError as error:
        problem = str(error)
    except Exception as error:
        problem = (
            f"lockstep itself failed to read it ({type(error).__name__}), and a person has to look at it."
        )
    else:
        return _Look(handin, submission.digest, submission.notes)
    return _Look(replace(handin, problem=problem))


def _receive(book: Gradebook, look: _Look, known: Received | None) -> None:
    """Write a hand-in down where anything about it is new; a class of which nothing is takes no time."""
    handin = look.handin
    now = (look.digest, handin.label, handin.late_days, handin.problem, (*handin.notes, *look.notes))
    if known is None or now != (known.digest, known.label, known.late_days, known.problem, known.notes):
        book.receive(handin, look.digest, look.notes)


def _work(look: _Look, received: Received, todo: Mapping[str, str], wanted: Wanted) -> Work:
    assert look.handin.path is not None
    before = {
        name: graded for name, graded in received.graded.items() if name in todo and name in wanted.only
    }
    return Work(
        handin=received.id,
        name=look.handin.student.shown,
        path=look.handin.path.absolute(),
        digest=look.digest,
        fingerprints=todo,
        before={name: graded.attempt for name, graded in before.items()},
        seed=next((graded.seed for graded in before.values()), None),
    )


def forget_forced(book: Gradebook) -> None:
    """Note that what was forced has been graded: the next time it is forced anew."""
    book.remember(FORCED, None)


def taken_over(book: Gradebook, work: Work, wanted: Wanted) -> Iterator[tuple[str, int, CheckResult]]:
    """The checks of this work that need not be made, by exercise and position."""
    for exercise, attempt in work.before.items():
        for position, result in book.checks_of(attempt, exercise):
            if result.id not in wanted.only[exercise] and result.verdict not in NOT_MADE:
                yield exercise, position, result


def _forced_after(book: Gradebook, wanted: Wanted, known: Mapping[str, Received]) -> int | None:
    """The attempt after which a grading counts as part of the forced one; None where nothing is forced."""
    if not wanted.force:
        book.remember(FORCED, None)
        return None
    begun = book.recall(FORCED)
    if begun is not None and begun["what"] == wanted.force:
        return int(begun["after"])
    attempts = (graded.attempt for received in known.values() for graded in received.graded.values())
    after = max(attempts, default=0)
    book.remember(FORCED, {"what": wanted.force, "after": after})
    return after


def _has_to_be_graded(graded: Graded | None, fingerprint: str, after: int | None) -> bool:
    if graded is None or graded.faulty or graded.failed_since or graded.fingerprint != fingerprint:
        return True
    return after is not None and graded.attempt <= after
