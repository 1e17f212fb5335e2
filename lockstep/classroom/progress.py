"""What a person sees while a class is graded: how far it is, how long it takes, what each worker is at.

Where nobody watches, as in a log, each hand-in is one line when it is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from lockstep.classroom.plan import Plan, Work
from lockstep.result import CheckResult
from lockstep.text import safe_line

NAME_WIDTH = 28
ESTIMATE_SECONDS = 900.0
"""How far back it is looked for how fast it goes: hand-ins differ, and so do their checks."""


class _Remaining(ProgressColumn):
    """The time that is left, for all of it only."""

    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        if task.id != 0 or not task.total:
            return Text()
        seconds = task.time_remaining
        if seconds is None:
            return Text("-:--:-- left", style="bright_black")
        minutes, seconds = divmod(int(seconds), 60)
        return Text(f"{minutes // 60}:{minutes % 60:02}:{seconds:02} left", style="cyan")


class ClassProgress:
    """A Watcher that shows what it hears. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._bar = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", width=NAME_WIDTH),
            ),
            BarColumn(bar_width=20),
            TextColumn(
                "{task.fields[counts]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            _Remaining(),
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self._live,
            speed_estimate_period=ESTIMATE_SECONDS,
            refresh_per_second=4,
        )
        self._all = self._bar.add_task("reading what was handed in", total=None, counts="")
        self._rows: dict[int, TaskID] = {}
        self._checks: Mapping[str, int] = {}
        self._made_of: Counter[int] = Counter()
        self._total = 0
        self._done: Counter[str] = Counter()

    def __enter__(self) -> ClassProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    @property
    def through(self) -> int:
        """Hand-ins that are done, graded or given up."""
        return self._done["through"]

    def say(self, sentence: str) -> None:
        """Show a sentence that stays."""
        self._console.print(Text(safe_line(sentence, 1000)), soft_wrap=True)

    def planned(self, plan: Plan, checks: Mapping[str, int]) -> None:
        """What there is to do is known now, and how many checks each exercise has."""
        self._checks = checks
        self._total = len(plan.work)
        self._done["unchanged"], self._done["problems"] = plan.unchanged, plan.problems
        total = sum(self._checks_of(work) for work in plan.work)
        self._bar.update(self._all, total=total, description="grading", counts=self._counts())
        if not self._live and plan.work:
            self.say(f"{self._total} to grade, {self._others()}")

    def stopping(self) -> None:
        """Somebody wants it to stop."""
        text = "stopping after the present checks; Ctrl-C again stops at once"
        self._bar.update(self._all, counts=text)
        if not self._live:
            self.say(text)

    def begun(self, attempt: int, work: Work, node: str, total_checks: int) -> None:
        """See Watcher."""
        self._rows[attempt] = self._bar.add_task(f"  {safe_line(work.name)}", total=total_checks, counts="")
        self._note(work, self._checks_of(work) - total_checks)

    def checked(self, attempt: int, work: Work, exercise: str, result: CheckResult) -> None:
        """See Watcher."""
        last = f"{safe_line(exercise)} / {safe_line(result.id)}: {result.verdict}"
        self._bar.update(self._rows[attempt], advance=1, counts=last)
        self._note(work, self._made_of[work.handin] + 1)

    def ended(self, attempt: int, work: Work, problem: str) -> None:
        """See Watcher."""
        self._forget(attempt)
        self._note(work, self._checks_of(work))
        self._done["problems" if problem else "graded"] += 1
        self._done["through"] += 1
        self._bar.update(self._all, counts=self._counts())
        if problem:
            self.say(f"{work.name}: {problem}")
        elif not self._live:
            self.say(f"{self._done['through']} of {self._total}: {work.name}")

    def lost(self, attempt: int, work: Work, reason: str) -> None:
        """See Watcher."""
        self._forget(attempt)
        self.say(f"{work.name} is taken up again, because {reason}")

    def _forget(self, attempt: int) -> None:
        row = self._rows.pop(attempt, None)
        if row is not None:
            self._bar.remove_task(row)

    def _note(self, work: Work, made: int) -> None:
        """Move the bar to where so many checks of a hand-in are made; one may be begun more than once."""
        self._bar.advance(self._all, made - self._made_of[work.handin])
        self._made_of[work.handin] = made

    def _checks_of(self, work: Work) -> int:
        return sum(self._checks[exercise] for exercise in work.fingerprints)

    def _counts(self) -> str:
        return f"{self._done['through']} of {self._total}, {self._others()}"

    def _others(self) -> str:
        return f"{self._done['unchanged']} unchanged, {self._done['problems']} not graded"
