"""What a person sees: a line of progress while it runs, then a table, then what to do about it.

Names and messages may hold text of the student's making. It is shown as rich `Text`, never as markup,
and in paragraphs with a bar in front of every line: no line of a student's begins a line of a log, where
a CI service would take it for a command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from lockstep.output import stream_for
from lockstep.reasons import by_reason
from lockstep.result import CheckResult, Result
from lockstep.text import safe, safe_line
from lockstep.verdict import Verdict

if TYPE_CHECKING:
    from lockstep.submission import Submission

Titles = Mapping[tuple[str, str], str]
"""(exercise, check) -> the sentence that says what the check asks for."""


@dataclass(frozen=True)
class Mark:
    """How a verdict looks. `plain` stands in for `sign` where only ASCII can be shown."""

    sign: str
    plain: str
    style: str


MARKS = {
    Verdict.PASSED: Mark("✓", "+", "green"),
    Verdict.FAILED: Mark("✗", "x", "red"),
    Verdict.CRASHED: Mark("✗", "x", "red"),
    Verdict.HUNG: Mark("✗", "x", "magenta"),
    Verdict.LIMIT: Mark("✗", "x", "magenta"),
    Verdict.NOT_CHECKED: Mark("–", "-", "bright_black"),
    Verdict.FAULT: Mark("!", "!", "yellow"),
}

WIDE = 100
"""Columns from which the table has room for the checks' titles."""


def table(result: Result, *, width: int = 80, titles: Titles | None = None) -> str:
    """The table of `result` and the feedback below it as plain text, for a log or a pytest summary."""
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(report(result, titles or {}, wide=width >= WIDE))
    return capture.get()


def report(result: Result, titles: Titles, *, wide: bool) -> RenderableType:
    """The table of `result`, then one paragraph for every check that has something to say."""
    parts: list[RenderableType] = [points_table(result, titles, wide=wide)]
    for exercise in result.exercises:
        for checks in by_reason(exercise.checks):
            title = titles.get((exercise.id, checks[0].id), "") if len(checks) == 1 else ""
            parts += [Text(), feedback(exercise.id, checks, title)]
    return Group(*parts, Text(), summary(result), *waiting(result))


def summary(result: Result) -> Text:
    """The last line: what it comes to."""
    verdicts = [check.verdict for exercise in result.exercises for check in exercise.checks]
    passed = verdicts.count(Verdict.PASSED)
    points = f": {of_points(result.points, result.max_points)}" if result.max_points else ""
    if passed == len(verdicts):
        checks = "The one check" if passed == 1 else f"All {passed} checks"
        return Text(f"{checks} passed{points}.", style="bold green")
    line = f"{passed} of {len(verdicts)} check{'s' * (len(verdicts) != 1)} passed{points}."
    if Verdict.FAULT in verdicts:
        line += " A grader fault is lockstep's own failure: tell your instructor."
    return Text(line, style="bold")


def waiting(result: Result) -> Iterator[Text]:
    """One line on the points that are in no total because a person gives them, or none."""
    most = sum(
        max(exercise.by_person, sum(review.max_points for review in exercise.reviews))
        for exercise in result.exercises
    )
    if most:
        count = sum(review.waits for exercise in result.exercises for review in exercise.reviews)
        wait = f"{count} wait" if count > 1 else "1 waits" if count else "none waits"
        yield Text(f"Not counted: up to {most:g} points that a person gives for answers; {wait}.")


def points_table(result: Result, titles: Titles, *, wide: bool) -> Table:
    """One row a check, under a row a exercise; points earned and possible, seconds."""
    # Only the titles give way when the terminal is narrow; nothing else may lose a letter.
    grid = Table(box=None, pad_edge=False, show_header=False, expand=wide)
    grid.add_column()
    grid.add_column(no_wrap=True, overflow="ellipsis", min_width=20)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True, justify="right", style="bright_black")
    if wide:
        grid.add_column(no_wrap=True, overflow="ellipsis", style="bright_black", ratio=1)
    for exercise in result.exercises:
        points = Text(points_cell(exercise.points, exercise.max_points), style="bold")
        grid.add_row("", Text(safe_line(exercise.id), style="bold"), "", points, _seconds(exercise.seconds))
        for check in exercise.checks:
            mark = MARKS[check.verdict]
            grid.add_row(
                Sign(mark),
                Text(safe_line(check.id)),
                Text(str(check.verdict), style=mark.style),
                points_cell(check.points, check.max_points),
                _seconds(check.seconds),
                *([Text(safe_line(titles.get((exercise.id, check.id), "")))] if wide else []),
            )
        grid.add_row()
    seconds = sum(exercise.seconds for exercise in result.exercises)
    total = Text(points_cell(result.points, result.max_points), style="bold")
    grid.add_row("", Text("total", style="bold"), "", total, _seconds(seconds))
    return grid


def feedback(exercise: str, checks: Sequence[CheckResult], title: str) -> RenderableType:
    """What checks of one mind have to say: names, verdict, what is asked for, what was seen, what to try."""
    first = checks[0]
    points, max_points = sum(check.points for check in checks), sum(check.max_points for check in checks)
    lines: list[RenderableType] = [
        Text.assemble(
            (f"{safe_line(exercise)} / {', '.join(safe_line(check.id) for check in checks)}", "bold"),
            ": ",
            (str(first.verdict), MARKS[first.verdict].style),
            f", {of_points(points, max_points)}",
        )
    ]
    if title and first.verdict is not Verdict.NOT_CHECKED:  # the check it waits for comes first
        lines.append(Quote(safe(title), style="bright_black"))
    if first.message:
        lines.append(Quote(safe(first.message)))
    if first.hint:
        lines.append(Quote(f"Try: {safe(first.hint)}", style="cyan"))
    return Group(*lines)


@dataclass(frozen=True)
class Sign:
    """The sign of a mark, or its plain stand-in where the output cannot show it."""

    mark: Mark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose by the encoding of where it is printed."""
        yield Text(self.mark.plain if options.ascii_only else self.mark.sign, style=self.mark.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """One column; a table gives whatever cannot say so all the room there is."""
        return Measurement(1, 1)


@dataclass(frozen=True)
class Quote:
    """A paragraph with a bar in front of every line, broken where the width ends."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Wrap first, then put the bar in front: a line made by wrapping needs it as well."""
        bar = "  | " if options.ascii_only else "  │ "
        whole = Text(self.text, style=self.style)
        whole.highlight_regex(r"`[^`\n]+`", "bold")
        for line in whole.wrap(console, max(options.max_width - len(bar), 10), overflow="fold"):
            line.rstrip()
            yield Text.assemble((bar, "bright_black"), line)


def notes(lines: Iterable[str]) -> RenderableType:
    """Remarks that belong to no check, one paragraph each."""
    return Group(*(Quote(safe(line), style="yellow") for line in lines))


class ProgressLine:
    """An `Events` that shows what is being checked right now, and remembers what the table needs.

    Where the output is not a terminal it stays silent: a log wants no line that is repainted.
    """

    def __init__(self, console: Console) -> None:
        # Redirecting would fight with pytest, which captures the same two streams.
        self._bar = Progress(
            SpinnerColumn("line", style="cyan"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)
        self.titles: dict[tuple[str, str], str] = {}
        self.submission: Submission | None = None

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def started(self, total_checks: int, submission: Submission) -> None:
        """The number of checks is known now."""
        self.submission = submission
        self._bar.update(self._task, total=total_checks, description="starting the sandbox")

    def check_started(self, exercise: str, check: str, title: str) -> None:
        """Name the check that runs."""
        self.titles[exercise, check] = title
        description = f"{safe_line(exercise)} / {safe_line(check)}  {safe_line(title)}"
        self._bar.update(self._task, description=description)

    def check_done(self, exercise: str, result: CheckResult) -> None:
        """One check fewer."""
        self._bar.advance(self._task)

    def finished(self, result: Result) -> None:
        """Nothing left to show."""
        self._bar.update(self._task, description="done")


def console_for(stream: TextIO) -> Console:
    """A console on the stream's own file, which pytest's capturing of the stream does not reach.

    Where nobody reads the file or it is full, printing raises what `lockstep.output` says, or does nothing on stderr.
    """
    return Console(file=stream_for(stream) or stream, highlight=False, markup=False)


def complain(sentence: str, limit: int = 1000) -> None:
    """Print a sentence on stderr, of `limit` characters at most; it may hold text of a student's making."""
    console_for(sys.stderr).print(Text(f"lockstep: {safe_line(sentence, limit)}"), soft_wrap=True)


def of_points(points: float, max_points: float) -> str:
    """Points in a sentence; a check may be there for what it says alone."""
    return f"{points:g} of {max_points:g} points" if max_points else "worth no points"


def points_cell(points: float, max_points: float) -> str:
    """Points in a table."""
    return f"{points:g} of {max_points:g}" if max_points else "-"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"
