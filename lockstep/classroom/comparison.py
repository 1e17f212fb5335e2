"""`lockstep compare`: two gradings of a class, or two results of one submission, side by side.

Exit status: 0 every student, verdict and grade is the same, 1 something is another, 2 one of them cannot be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lockstep import terminal
from lockstep.classroom.difference import (
    UNEXPLAINED,
    Difference,
    Grading,
    Moved,
    Turned,
    difference,
    side_of_record,
    side_of_result,
)
from lockstep.classroom.gradebook import GradebookError, open_gradebook
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.text import safe_line
from lockstep.verdict import Verdict

SAME, CHANGED, UNREADABLE = 0, 1, 2

SCHEMA = "lockstep/comparison/1"

NAMED, LISTED = 6, 40
"""Students named at a check that turned, and rows of points that are shown; `--json` has all of them."""


class ComparisonError(Exception):
    """Two things that cannot be compared; the message is a sentence."""


def run_compare(*, old: str, new: str, as_json: bool) -> int:
    """`lockstep compare OLD NEW`. Returns the exit status."""
    out = terminal.console_for(sys.stdout)
    try:
        found = compare(old, new)
    except (ComparisonError, GradebookError) as refusal:
        terminal.complain(str(refusal))
        return UNREADABLE
    if as_json:
        out.print(Text(json.dumps(to_json(found), indent=2, allow_nan=False)), soft_wrap=True)
    else:
        out.print(told(found))
    return CHANGED if found.changed else SAME


def compare(old: str, new: str) -> Difference:
    """What changed from `old` to `new`: folders of results, gradebooks or database URLs, or two results as JSON.

    Raises ComparisonError and GradebookError.
    """
    if _is_result(old) and _is_result(new):
        before, after = side_of_result(read_result(Path(old))), side_of_result(read_result(Path(new)))
        # One submission may have been checked under two names, before and after somebody's changes.
        return difference({after.name: before}, {after.name: after})
    for one, other in ((old, new), (new, old)):
        if _is_result(one):
            raise ComparisonError(f"{one} is a result and {other} is none: compare like with like")
    return difference(_of_gradebook(old), _of_gradebook(new))


def _of_gradebook(place: str) -> Grading:
    with open_gradebook(place, create=False) as book:
        received = book.received()

        def fingerprints(student: str) -> Mapping[str, str]:
            graded = received[student].graded if student in received else {}
            return {exercise: grading.fingerprint for exercise, grading in graded.items()}

        return {
            record.student.id: side_of_record(record, fingerprints(record.student.id))
            for record in book.records()
        }


def _is_result(place: str) -> bool:
    """Whether it is a file, and none of SQLite's."""
    path = Path(place)
    if "://" in place or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(16) != b"SQLite format 3\0"
    except OSError as error:
        raise ComparisonError(f"{place} cannot be read: {error.strerror}") from error


def read_result(path: Path) -> Result:
    """A result as `lockstep check --json` wrote it, without its written answers. Raises ComparisonError."""
    import jsonschema  # slow to load, and most comparisons are of gradebooks

    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ComparisonError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ComparisonError(
            f"{path} is neither a gradebook nor a result of `lockstep check --json`: {error}"
        ) from error
    schema = json.loads(files("lockstep").joinpath("schemas/result-1.schema.json").read_text())
    problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the whole"
        raise ComparisonError(
            f"{path} is no result of `lockstep check --json`: {where}: {problem.message[:200]}"
        )
    return Result(value["submission"], value["seed"], tuple(_exercise(item) for item in value["exercises"]))


def _exercise(value: Mapping[str, Any]) -> ExerciseResult:
    return ExerciseResult(
        value["id"],
        tuple(
            CheckResult(item["id"], Verdict(item["verdict"]), item["points"], item["max_points"])
            for item in value["checks"]
        ),
    )


# For a program


def to_json(found: Difference) -> Mapping[str, object]:
    """The form of `lockstep/schemas/comparison-1.schema.json`."""
    return {
        "schema": SCHEMA,
        "changed": found.changed,
        "students": {"both": found.both, "added": list(found.added), "gone": list(found.gone)},
        "checks": found.compared,
        "verdicts": [vars(item) for item in found.turned],
        "points": [{**vars(item), "where": list(item.where)} for item in found.moved],
        "graders": [{"exercise": name, "students": count} for name, count in found.graders.items()],
        "versions": [
            {"name": name, "before": list(before), "after": list(after)}
            for name, (before, after) in found.versions.items()
        ],
    }


# For a person


def told(found: Difference) -> RenderableType:
    """What changed, the worst first, and what it comes to."""
    parts: list[RenderableType] = [*_notes(found)]
    if found.turned:
        parts += [_verdicts(found.turned), Text()]
    if found.moved:
        parts += [_points(found.moved[:LISTED])]
        if len(found.moved) > LISTED:
            parts += [Text(f"and {len(found.moved) - LISTED} more: --json has them all")]
        parts += [Text()]
    return Group(*parts, Text(_summary(found), style="bold"))


def _notes(found: Difference) -> Iterator[RenderableType]:
    lines = []
    for what, students in (("Only in the first", found.gone), ("Only in the second", found.added)):
        if students:
            lines.append(f"{what}: {_few([safe_line(student, 60) for student in students])}.")
    if found.graders:
        exercises = [f"{name} ({_students(count)})" for name, count in found.graders.items()]
        lines.append(f"Graded with something else: {', '.join(exercises)}.")
    for name, (before, after) in found.versions.items():
        lines.append(f"{name}: {', '.join(before) or 'none'}, now {', '.join(after) or 'none'}.")
    if any(item.cause == UNEXPLAINED for item in found.turned):
        lines.append(
            "Where nothing else changed, work, graders and data are the same and the verdict is not: "
            "that check does not always end alike."
        )
    if lines:
        yield terminal.notes(lines)
        yield Text()


def _verdicts(turned: Sequence[Turned]) -> Table:
    grid = Table("", "check", "was", "is now", "why", "students", box=None, pad_edge=False)
    for (lost, gained, exercise, check, *_), items in _alike(turned):
        first = items[0]
        mark = terminal.MARKS[Verdict.PASSED if gained else Verdict.FAILED if lost else Verdict.NOT_CHECKED]
        named = _few([safe_line(item.name, 40) for item in items])
        grid.add_row(
            terminal.Sign(mark),
            Text(f"{safe_line(exercise)} / {safe_line(check)}"),
            _verdict(first.before, first.points_before),
            _verdict(first.after, first.points_after),
            Text(first.cause),
            Text(f"{len(items)}: {named}"),
        )
    return grid


def _alike(turned: Sequence[Turned]) -> Iterator[tuple[tuple[Any, ...], list[Turned]]]:
    def key(item: Turned) -> tuple[Any, ...]:
        ends = str(item.before), item.points_before, str(item.after), item.points_after
        return (item.lost, item.gained, item.exercise, item.check, *ends, item.cause)

    order = sorted(turned, key=lambda item: (not item.lost, not item.gained, key(item)))
    return ((found, list(items)) for found, items in groupby(order, key))


def _verdict(verdict: Verdict | None, points: float) -> Text:
    if verdict is None:
        return Text("not made", style="bright_black")
    return Text(f"{verdict}, {points:g}", style=terminal.MARKS[verdict].style)


def _points(moved: Sequence[Moved]) -> Table:
    grid = Table("student", "was", "is now", "by", "where", box=None, pad_edge=False)
    for item in moved:
        grid.add_row(
            Text(safe_line(item.name, 40)),
            f"{item.before:g}",
            f"{item.after:g}",
            Text(f"{item.after - item.before:+g}", style="red" if item.after < item.before else "green"),
            ", ".join(item.where),
        )
    return grid


def _summary(found: Difference) -> str:
    of = f"{_students(found.both)} and {found.compared} verdicts in both"
    if not found.changed:
        return f"Nothing changed: {of}."
    lost, gained = sum(item.lost for item in found.turned), sum(item.gained for item in found.turned)
    rest = len(found.turned) - lost - gained
    turned = f"{lost} passed before, {gained} pass now, {rest} changed otherwise"
    return f"{of}. Of the verdicts {turned}; {_students(len(found.moved))} with other points."


def _few(names: Sequence[str]) -> str:
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])


def _students(count: int) -> str:
    return "1 student" if count == 1 else f"{count} students"
