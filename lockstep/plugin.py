"""The pytest plugin: `pytest graders/ --submission PATH` grades a submission.

Only hooks and fixtures live here, in the order pytest calls them. Each grader test is a check; how it
ends becomes a CheckResult that travels with the test's report, also between xdist's processes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from lockstep import arguments, judged, selection
from lockstep.exercise import Exercise
from lockstep.jsonfile import write_json
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.stopping import like_ctrl_c
from lockstep.text import safe
from lockstep.uncollected import keep_for_good, nothing_collected
from lockstep.verdict import CheckEnded, GraderFault, NotChecked, Verdict

if TYPE_CHECKING:
    from lockstep.check import Check, Setting
    from lockstep.sandbox.box import Box
    from lockstep.submission import Submission

PROPERTY = "lockstep"
EVENTS = "lockstep-events"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add lockstep's options."""
    group = parser.getgroup("lockstep", "grading distributed-training labs")
    group.addoption(
        "--submission", type=arguments.place, metavar="PATH", help="folder, archive or file to grade"
    )
    group.addoption(
        "--exercise", action="append", default=[], metavar="ID", help="only this exercise (repeatable)"
    )
    group.addoption("--check", action="append", default=[], metavar="ID", help="only this check (repeatable)")
    group.addoption("--seed", type=int, help="draw the hidden inputs from this seed (default: a secret one)")
    group.addoption(
        "--sandbox", choices=("auto", "bubblewrap", "none"), default="auto", help="where student code runs"
    )
    group.addoption(
        "--i-trust-this-code", action="store_true", help="allow `--sandbox none`, which protects nothing"
    )
    group.addoption(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: checks that ask for a GPU get this machine's, not an emulated one",
    )
    group.addoption(
        "--json",
        dest="lockstep_json",
        type=arguments.place,
        metavar="FILE",
        help="write the result as JSON",
    )
    group.addoption(
        "--world-sizes", default="2,3,4", metavar="N,N", help="numbers of ranks to try (default 2,3,4)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take the submission in and, where checks will run, start the sandbox before anything is imported."""
    path = config.getoption("submission")
    if path:
        stopping = contextlib.ExitStack()
        stopping.enter_context(like_ctrl_c())
        config.add_cleanup(stopping.close)
        # What judges compute is small: more threads would wait for each other, busily, on cores that ranks need.
        os.environ["OMP_NUM_THREADS"] = "1"
        config.pluginmanager.register(_Grading(config, Path(path)), "lockstep-grading")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a submission the graders have nothing to look at."""
    if not config.getoption("submission") and any(selection.exercise_folder(item) for item in items):
        raise pytest.UsageError("grading needs something to grade: pytest graders/ --submission PATH")


class _Grading:
    """The state of one grading; registered only when there is a submission."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        from lockstep.submission import SubmissionError, open_submission

        self._config = config
        self._worker = cast("dict[str, Any] | None", getattr(config, "workerinput", None))
        self._coordinates = self._worker is None and bool(config.getoption("numprocesses", None))
        self.world_sizes = selection.world_sizes(config.getoption("world_sizes"))
        try:
            self.submission: Submission = open_submission(path)
        except SubmissionError as error:
            raise pytest.UsageError(str(error)) from None
        seed = self._worker["lockstep_seed"] if self._worker else config.getoption("seed")
        self.seed: int = secrets.randbits(48) if seed is None else seed
        self._setting: Setting | None = None
        self._exercises: dict[str, Exercise] = {}
        self._full: set[tuple[str, str]] = set()
        self._ended: set[tuple[str, str]] = set()
        self._spoiled: dict[str, str] = {}
        self._remarked: set[tuple[str, str]] = set()
        self._results: dict[tuple[str, str], CheckResult] = {}
        self._taken_over: list[tuple[str, CheckResult]] = []
        self._result: Result | None = None
        self._started = False
        if not config.option.collectonly:
            if self._worker is None:
                self._insist_on_protection()
            if not self._coordinates:
                self._start()

    # Starting

    def _insist_on_protection(self) -> None:
        """Refuse to run student code unprotected, unless somebody said that this is what they want."""
        from lockstep.sandbox import bubblewrap

        if self._config.getoption("sandbox") == "none":
            if not self._config.getoption("i_trust_this_code"):
                raise pytest.UsageError(
                    "--sandbox none runs this submission's code unprotected, with your rights, on this machine; say "
                    "--i-trust-this-code as well if that is what you want"
                )
            return
        if self._lent is not None and self._lent.isolated:
            # Whoever lends a sandbox has found that this machine can make one.
            return
        if refusal := bubblewrap.refusal():
            way_out = (
                "`--sandbox none`, without any protection, is for your own code"
                if self._self_check
                else "`--sandbox none --i-trust-this-code`, without any protection, is for code you trust"
            )
            raise pytest.UsageError(f"{refusal}; {way_out}")

    def _start(self) -> None:
        from lockstep.sandbox import bubblewrap

        isolated = self._config.getoption("sandbox") != "none"
        real_gpus = len(bubblewrap.gpu_devices()) if self._config.getoption("device") == "cuda" else 0
        if self._config.getoption("device") == "cuda" and not real_gpus:
            raise pytest.UsageError(
                "--device cuda, but this machine has no NVIDIA GPU that a process can open (no /dev/nvidia0); without "
                "the option every check runs, on emulated GPUs where it needs one"
            )
        exercises = tuple(selection.exercises_asked(self._config).values())
        box = self._lent or self._own_box(exercises, isolated, real_gpus)
        # Imported while the sandbox warms up; it brings in NumPy.
        from lockstep.check import Setting

        self._setting = Setting(
            box=box,
            submission=self.submission,
            seed=self.seed,
            world_sizes=self.world_sizes,
            self_check=self._self_check,
            real_gpus=real_gpus,
        )

    def _own_box(self, exercises: tuple[Exercise, ...], isolated: bool, real_gpus: int) -> Box:
        from lockstep.sandbox.box import open_box

        box = open_box(exercises, isolated=isolated, real_gpus=real_gpus)
        self._config.add_cleanup(box.close)
        return box

    @property
    def _lent(self) -> Box | None:
        return cast("Box | None", getattr(self._events, "box", None))

    @property
    def _events(self) -> Any:
        return self._config.pluginmanager.get_plugin(EVENTS)

    @property
    def _self_check(self) -> bool:
        return bool(getattr(self._events, "self_check", False))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give an xdist worker the seed, so that all draw from one."""
        node.workerinput["lockstep_seed"] = self.seed

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep an exercise's checks on one worker: they build on each other and share a sandbox."""
        from xdist.scheduler import LoadScopeScheduling

        class ByExercise(LoadScopeScheduling):  # type: ignore[misc]
            def _split_scope(self, nodeid: str) -> str:
                return nodeid.partition("::")[0].rpartition("/")[0]

        return ByExercise(config, log)

    # Collecting

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Import the judges, and with them torch."""
        with nothing_collected():
            found = yield
        keep_for_good()
        return found

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the chosen exercises' checks, in the order of their exercise.toml."""
        self._exercises = selection.exercises_asked(config)
        asked = selection.checks_asked(config, items, self._exercises)
        self._take_over(getattr(self._events, "done", ()))
        kept = [
            item for item in asked if (item.path.parent.name, selection.check_id(item)) not in self._results
        ]
        chosen = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
        items[:] = kept
        if self._worker is None and not self._coordinates:
            self._announce(len(items))

    def _take_over(self, done: Sequence[tuple[str, CheckResult]]) -> None:
        """Count checks that were made before as if they had just ended."""
        for name, result in done:
            exercise = self._exercises.get(name)
            if exercise is not None and result.id in {spec.id for spec in exercise.checks}:
                self._results[name, result.id] = result
                self._taken_over.append((name, result))
                self._note_end(name, result)

    def _note_end(self, exercise: str, result: CheckResult) -> None:
        key = (exercise, result.id)
        self._ended.add(key)
        if result.verdict is Verdict.PASSED:
            self._full.add(key)
        if result.spoils:
            self._spoiled[exercise] = result.id

    def _announce(self, total: int) -> None:
        if not self._started and self._events is not None:
            self._events.started(total, self.submission)
        self._started = True

    # Running

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell whoever listens which check is running now."""
        if self._events is not None and self._worker is None:
            item = self._by_node.get(nodeid)
            if item is not None:
                title = (item.function.__doc__ or "").strip().splitlines() or [""]
                self._events.check_started(item.path.parent.name, selection.check_id(item), title[0])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the checks by the name their reports carry."""
        self._by_node = {item.nodeid: item for item in session.items if isinstance(item, pytest.Function)}

    @pytest.fixture
    def check(self, request: pytest.FixtureRequest) -> Check:
        """The check that the requesting test is."""
        from lockstep.check import Check

        exercise = self._exercises[request.path.parent.name]
        assert self._setting is not None
        check = Check(self._setting, exercise, selection.spec_of(request.node, exercise))
        request.node.stash[_CHECK] = check
        return check

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a judge, once more in a fresh sandbox when lockstep itself failed."""
        check = pyfuncitem.stash.get(_CHECK, None)
        if check is None:
            return None
        exercise = self._exercises[pyfuncitem.path.parent.name]
        for need in exercise.check(check.id).needs:
            key = (exercise.id, need)
            if key in self._ended and key not in self._full:
                raise NotChecked(f"Not looked at, because {need} did not pass.", f"Mend {need} first.")
        spoiler = self._spoiled.get(exercise.id)
        if spoiler is not None:
            raise NotChecked(
                f"Not looked at: what stopped {spoiler} would stop this as well.",
                f"Mend first what {spoiler} tells of.",
            )
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        begun = time.process_time()
        try:
            judged.made(pyfuncitem.obj(**arguments))
        except GraderFault:
            check.again()
            judged.made(pyfuncitem.obj(**arguments))
        finally:
            check.count_cpu(time.process_time() - begun)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn the end of a judge into a verdict; only lockstep's own failures keep their traceback."""
        report = yield
        exercise = self._exercises.get(item.path.parent.name)
        if exercise is None or (call.when != "call" and call.excinfo is None):
            return report
        error = call.excinfo.value if call.excinfo is not None else None
        check = item.stash.get(_CHECK, None)
        notes = [*check.notes, *self._new_remarks(exercise, check)] if check is not None else []
        if isinstance(error, CheckEnded):  # it may have said so itself
            notes = [note for note in notes if note not in error.feedback.message]
        result = judged.result_of(selection.spec_of(item, exercise), error, " ".join(notes), call.duration)
        if check is not None:
            result = replace(
                result,
                reviews=tuple(judged.harmless(review) for review in check.reviews),
                cpu_seconds=check.cpu_seconds,
            )
        self._note_end(exercise.id, result)
        report.user_properties.append((PROPERTY, judged.to_text(exercise.id, result)))
        if isinstance(error, CheckEnded):
            text = f"{result.verdict}: {result.message}\n{result.hint}".rstrip()
            report.longrepr = text
            if isinstance(error, NotChecked):
                report.outcome = "skipped"
                report.longrepr = (str(item.path), 0, f"not checked: {result.message}")
        return report

    def _new_remarks(self, exercise: Exercise, check: Check) -> list[str]:
        """What is worth saying once in an exercise, and has not been said yet."""
        new = [
            text
            for text in check.remarks
            if (exercise.id, text) not in self._remarked and not self._taken_over_says(exercise.id, text)
        ]
        self._remarked |= {(exercise.id, text) for text in (*new, *check.notes)}
        return [text for text in new if text not in check.notes]

    def _taken_over_says(self, exercise: str, text: str) -> bool:
        """Whether a check that was made before already told the student so."""
        return any(name == exercise and safe(text) in result.message for name, result in self._taken_over)

    # Reporting

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect results where they come together: in the only process, or in xdist's coordinator."""
        if self._worker is not None:
            return
        for name, value in report.user_properties:
            if name == PROPERTY and report.when in ("setup", "call"):
                exercise, result = judged.from_text(str(value))
                self._results[exercise, result.id] = result
                if self._events is not None:
                    self._events.check_done(exercise, result)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Put the result together and write it."""
        if self._worker is not None or not self._results:
            return
        order = selection.exercises_asked(self._config)
        self._result = Result(
            submission=self.submission.name,
            seed=self.seed,
            exercises=tuple(
                ExerciseResult(name, tuple(self._of(exercise)), exercise.by_person)
                for name, exercise in order.items()
                if any(key[0] == name for key in self._results)
            ),
        )
        path = self._config.getoption("lockstep_json")
        if path:
            write_json(Path(path), self._result.to_json())
        if self._events is not None:
            self._events.finished(self._result)

    def _of(self, exercise: Exercise) -> Iterator[CheckResult]:
        for spec in exercise.checks:
            result = self._results.get((exercise.id, spec.id))
            if result is not None:
                yield result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table below pytest's own output."""
        from lockstep import terminal

        if self._result is not None:
            terminalreporter.write_line("")
            for line in terminal.table(self._result).splitlines():
                terminalreporter.write_line(line)


_CHECK: pytest.StashKey[Any] = pytest.StashKey()
