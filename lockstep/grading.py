"""Grades one submission: runs the graders' tests in this process and returns their Result.

The tests are ordinary pytest tests and `lockstep.plugin` does the work, whether pytest was started here
or by hand. What is special here: no terminal output of pytest's, no settings but our own, and every way
of not reaching a verdict becomes one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from lockstep.exercise import ExerciseError, find_exercises
from lockstep.result import CheckResult, Result
from lockstep.text import safe_line

if TYPE_CHECKING:
    from lockstep.sandbox.box import Box
    from lockstep.submission import Submission

PUBLIC_SEED = 20240917
"""What a self-check draws its data from: the same for everyone, so that two runs can be compared."""

EVENTS_PLUGIN = "lockstep-events"
"""The name under which `lockstep.plugin` finds the object that hears about progress."""

NOT_NEEDED = (
    "cacheprovider",
    "doctest",
    "legacypath",
    "pastebin",
    "setuponly",
    "setupplan",
    "stepwise",
    "terminal",
    "unittest",
    "unraisableexception",
)
"""Plugins of pytest's own that each take time at every start; the last, 0.4 s: it collects garbage, torch's too."""


class CouldNotGrade(Exception):
    """There is no verdict to give. The message is one sentence for the person at the terminal."""


def default_graders() -> Path:
    """The `graders/` folder of the checkout that this package runs from."""
    return Path(__file__).resolve().parent.parent / "graders"


@dataclass(frozen=True)
class Options:
    """What to grade and how. `seed=None` draws a secret one; no exercises or checks means all of them.

    `done` are checks, with their exercises, that were made before, by a grading that was cut off: they are not made
    again, count for those that build on them, and are part of the result.
    """

    submission: Path
    exercises: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    seed: int | None = None
    sandbox: str = "auto"
    device: str = "cpu"
    self_check: bool = False
    world_sizes: tuple[int, ...] = (2, 3, 4)
    done: tuple[tuple[str, CheckResult], ...] = ()
    graders: Path = field(default_factory=default_graders)


class Events(Protocol):
    """What happens while a submission is graded, in this order, in the process that runs pytest."""

    def started(self, total_checks: int, submission: Submission) -> None:
        """The submission was taken in; `total_checks` checks will be made."""

    def check_started(self, exercise: str, check: str, title: str) -> None:
        """A check began. `title` is the sentence that says what it asks for."""

    def check_done(self, exercise: str, result: CheckResult) -> None:
        """A check ended, whichever way."""

    def finished(self, result: Result) -> None:
        """All checks ended."""


class Silent:
    """Events that nobody watches: several submissions are graded at a time."""

    def started(self, total_checks: int, submission: Submission) -> None:
        """See Events."""

    def check_started(self, exercise: str, check: str, title: str) -> None:
        """See Events."""

    def check_done(self, exercise: str, result: CheckResult) -> None:
        """See Events."""

    def finished(self, result: Result) -> None:
        """See Events."""


def known_exercises(graders: Path) -> tuple[str, ...]:
    """The names of the exercises that `graders` can grade. Raises CouldNotGrade for a faulty one."""
    try:
        return tuple(exercise.id for exercise in find_exercises(graders))
    except ExerciseError as error:
        raise CouldNotGrade(str(error)) from error


def grade(options: Options, events: Events, box: Box | None = None) -> Result:
    """Grade one submission; `events` hears about it on the way.

    Without a `box` a sandbox is started and ended for it. One that is lent has to know the graders' probes.
    Raises CouldNotGrade when there is no verdict to give, and KeyboardInterrupt when Ctrl-C ended it.
    """
    _refuse_early(options)
    # It asks this module for the name of its events.
    from lockstep import plugin

    bridge = Bridge(options, events, box)
    with _own_environment():
        # As an object: a name would be looked for among all packages that are installed.
        status = pytest.main(_arguments(options), plugins=[plugin, bridge])
    if status == pytest.ExitCode.INTERRUPTED and bridge.problem is None:
        raise KeyboardInterrupt
    if bridge.problem is not None:
        raise CouldNotGrade(bridge.problem)
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise CouldNotGrade(f"the graders in {options.graders} hold no check for this")
    if bridge.result is None:
        raise CouldNotGrade(f"pytest ended with status {int(status)} before there was a result")
    return bridge.result


def _refuse_early(options: Options) -> None:
    if not options.submission.exists():
        raise CouldNotGrade(f"there is no file or folder {safe_line(str(options.submission))}")
    known = known_exercises(options.graders)
    if not known:
        raise CouldNotGrade(
            f"there are no graders in {options.graders}: each exercise is a folder with an exercise.toml"
        )
    for name in options.exercises:
        if name not in known:
            raise CouldNotGrade(f"there is no exercise {safe_line(name)!r}; there are {', '.join(known)}")


def _arguments(options: Options) -> list[str]:
    """Pytest's command line. Nothing in it depends on the folder we happen to stand in."""
    graders = str(options.graders)
    # Judges of exercises that nobody asked for need not be read.
    arguments = [str(options.graders / name) for name in options.exercises] or [graders]
    arguments += ["--rootdir", graders, "--confcutdir", graders, "-c", os.devnull]
    # Of the plugins installed on this machine none but ours has a say.
    arguments.append("--disable-plugin-autoload")
    for name in NOT_NEEDED:
        arguments += ["-p", f"no:{name}"]
    arguments += ["--submission", str(options.submission), "--sandbox", options.sandbox]
    if options.sandbox == "none":
        # Whoever asked has said so: of the code of a class by the same words, of one's own by asking.
        arguments.append("--i-trust-this-code")
    arguments += ["--device", options.device]
    arguments += ["--world-sizes", ",".join(str(size) for size in options.world_sizes)]
    for name in options.exercises:
        arguments += ["--exercise", name]
    for name in options.checks:
        arguments += ["--check", name]
    seed = PUBLIC_SEED if options.seed is None and options.self_check else options.seed
    if seed is not None:
        arguments += ["--seed", str(seed)]
    return arguments


@contextmanager
def _own_environment() -> Iterator[None]:
    """Hide the variables through which a shell profile adds options and plugins to every pytest."""
    hidden = {name: os.environ.pop(name, None) for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")}
    try:
        yield
    finally:
        os.environ.update({name: value for name, value in hidden.items() if value is not None})


class Bridge:
    """The plugin object that stands between pytest and the caller of `grade`.

    It hands the events on, keeps the result, and turns what pytest would have printed on its way out
    into `problem`, a sentence.
    """

    __name__ = EVENTS_PLUGIN  # pytest registers an object under this attribute

    def __init__(self, options: Options, events: Events, box: Box | None = None) -> None:
        self.box = box
        self.self_check = options.self_check
        self.done = options.done
        self.result: Result | None = None
        self.problem: str | None = None
        self._events = events

    def started(self, total_checks: int, submission: Submission) -> None:
        """See Events."""
        self._events.started(total_checks, submission)

    def check_started(self, exercise: str, check: str, title: str) -> None:
        """See Events."""
        self._events.check_started(exercise, check, title)

    def check_done(self, exercise: str, result: CheckResult) -> None:
        """See Events."""
        self._events.check_done(exercise, result)

    def finished(self, result: Result) -> None:
        """See Events; the result is also what `grade` returns."""
        self.result = result
        self._events.finished(result)

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, object, object]:
        """Keep the sentence of a usage error, which pytest would print itself."""
        try:
            return (yield)
        except pytest.UsageError as error:
            self.problem = "; ".join(str(line) for line in error.args)
            return pytest.ExitCode.USAGE_ERROR

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A grader file that cannot be imported is our fault, never a failed check."""
        if report.failed and self.problem is None:
            # pytest marks the lines of the error itself with an "E".
            last_line = _last_line(report.longreprtext).removeprefix("E").strip()
            self.problem = f"the grader {report.nodeid} cannot be read: {last_line}"

    def pytest_internalerror(self, excrepr: object) -> bool:
        """Replace pytest's traceback by its last line; `pytest graders/` shows the whole."""
        self.problem = (
            f"lockstep itself failed ({_last_line(str(excrepr))}); "
            "`pytest graders/ --submission PATH` shows where"
        )
        return True


def _last_line(text: str) -> str:
    return safe_line((text.strip().splitlines() or ["no reason given"])[-1])
