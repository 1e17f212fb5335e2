"""X01 to X08, on re-runs that are made up: clocks that tell the truth, however slowly, and clocks that do not."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fixtures.reports import honest
from fixtures.reports.rework import restate
from lockstep.reports.document import Report, document
from lockstep.reports.evidence import Asked, Holdup, Rerun, Source
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.rerun import MANY, RATIO, RULES, SLACK, first_misfit
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify

COUNTS = (0, 1, 2)
BEGAN = 1_790_000_000.0


class Machine:
    """A machine on which all takes longer than it should by times that nobody knows, with a clock that is right."""

    def __init__(self, seed: int, busy: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.now = 50.0
        self.busy = busy
        self.holds = self.rng.uniform(0.005, 0.025, 64).tolist()
        self.held: list[Holdup] = []
        self.runs: list[dict[str, Any]] = []

    def work(self, seconds: float) -> None:
        """Take so long, and as much longer as the machine is busy."""
        self.now += seconds + float(self.rng.exponential(self.busy)) if self.busy else seconds

    def pass_over(self, batches: int, size: int) -> None:
        """Read some batches in this process."""
        for _ in range(batches):
            self.work(1e-5)
            start, hold = self.now, self.holds[sum(each.in_main for each in self.held) % 64]
            self.work(hold + 0.002)
            self.held.append(Holdup(True, start, self.now, size, hold))

    def pass_with_workers(self, batches: int, size: int, workers: int) -> None:
        """Read some batches in other processes."""
        self.work(0.05)
        begun = self.now
        for batch in range(batches):
            start = begun + 0.01 * (batch // workers)
            self.held.append(Holdup(False, start, start + 0.009, size, 0.0))
        self.now = begun + 0.01 * -(-batches // workers)
        self.work(0.005)

    def measure(self, read: Callable[[float], float] = lambda seconds: seconds) -> None:
        """What the script does: five passes for each number of workers, and what `read` makes of the seconds."""
        self.work(0.2)
        for workers, rep in itertools.product(COUNTS, range(5)):
            start = self.now
            self.work(1e-5)
            if workers:
                self.pass_with_workers(4, 2, workers)
            else:
                self.pass_over(4, 2)
            self.work(1e-5)
            self.runs.append(
                {
                    "config": {"num_workers": workers, "batch_size": 2},
                    "rep": rep,
                    "t_start": BEGAN + start,
                    "t_end": BEGAN + self.now,
                    "wall_s": repr(float(read(self.now - start))),
                    "samples": 8,
                    "steps": 4,
                }
            )
        self.work(0.1)

    def rerun(self, **other: Any) -> Rerun:
        """What was seen of it."""
        facts: dict[str, Any] = {
            "command": "`python lfw_dataset.py -get_timing`",
            "elapsed": self.now - 50.0,
            "began": BEGAN + 50.0,
            "ended": BEGAN + self.now,
            "start": 50.0,
            "end": self.now,
            "report": written(self.runs),
            "holdups": tuple(sorted(self.held, key=lambda each: each.done)),
        }
        return Rerun(**{**facts, **other})


def written(runs: list[dict[str, Any]], size: int = 8) -> Report:
    """The report of a re-run; what it claims is other rules' business, so it claims next to nothing."""
    report = copy.deepcopy(honest("dataloader", np.random.default_rng(0)))
    report["runs"] = runs
    report["workload"]["dataset_n"] = size
    report["claims"] = [{"what": "best_config", "config": {"num_workers": 0}}]
    report["plot"] = {"x": list(COUNTS), "y": [], "yerr": []}
    report["attempt"]["created_utc"] = "2027-01-01T00:00:00Z"
    for part in ("discarded", "not_available", "logs", "answers"):
        report.pop(part, None)
    restate(report)
    return document(report)


def measured(
    seed: int = 1, busy: float = 0.0, read: Callable[[float], float] = lambda seconds: seconds
) -> Machine:
    machine = Machine(seed, busy)
    machine.measure(read)
    return machine


def found(rerun: Rerun | None) -> tuple[Finding, ...]:
    report = document(honest("dataloader", np.random.default_rng(3)))
    return verify(report, Facts(rerun=rerun), RULES).findings


def costing(rerun: Rerun) -> set[str]:
    return {finding.rule for finding in found(rerun) if finding.judgement.costs}


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("busy", [0.0, 0.005, 0.05, 2.0])
def test_a_clock_that_is_right_is_right_on_any_machine(seed: int, busy: float) -> None:
    assert costing(measured(seed, busy).rerun()) == set()


def test_without_a_rerun_there_is_one_word_about_it() -> None:
    assert [(f.rule, f.judgement) for f in found(None)] == [("X01", Judgement.NOT_VERIFIED)]


@pytest.mark.parametrize(("size", "rules"), [("as in the report", set()), (8, set()), (7_000, {"X01"})])
def test_the_size_of_the_real_data_set_may_be_written_out(size: int | str, rules: set[str]) -> None:
    machine = measured()
    runs = [{**run, "epochs": 1} for run in machine.runs]
    number = (
        honest("dataloader", np.random.default_rng(3))["workload"]["dataset_n"]
        if isinstance(size, str)
        else size
    )
    assert costing(machine.rerun(report=written(runs, number))) == rules


def test_a_quiet_honest_rerun_leaves_nothing_to_say() -> None:
    assert found(measured().rerun()) == ()


def _without(machine: Machine, share: float) -> tuple[Holdup, ...]:
    return tuple(machine.held[: int(len(machine.held) * share)])


BROKEN: dict[str, tuple[str, Callable[[], Rerun]]] = {
    "does not end well": ("X01", lambda: measured().rerun(problem="ended with status 1.", report=None)),
    "writes no report": ("X01", lambda: measured().rerun(report=None, form="no report.")),
    "contradicts itself": ("X01", lambda: _claiming(measured())),
    "longer than the script": ("X02", lambda: _slept_through(measured())),
    "reads less than it counts": ("X03", lambda: measured().rerun(holdups=_without(measured(), 0.99))),
    "counts half of what it reads": ("X03", lambda: _counting(measured(), 4)),
    "half of the time": ("X04", lambda: measured(read=lambda seconds: seconds / 2).rerun()),
    "the processor's time": ("X04", lambda: measured(read=lambda seconds: 0.002 + seconds / 1000).rerun()),
    "invented with workers": ("X04", lambda: _invented(measured())),
    "an earlier day": ("X05", lambda: measured().rerun(began=BEGAN + 86400, ended=BEGAN + 86500)),
    "one worker at the most": ("X08", lambda: measured().rerun(loaders=frozenset({0, 1}))),
    "the same workers for all": ("X08", lambda: measured().rerun(loaders=frozenset({0}))),
}


def _claiming(machine: Machine) -> Rerun:
    rerun = machine.rerun()
    assert rerun.report is not None
    (claim,) = rerun.report.claims
    slowest = {"num_workers": max(COUNTS, key=lambda n: _mean(machine, n))}
    return replace(rerun, report=replace(rerun.report, claims=(replace(claim, config=slowest),)))


def _mean(machine: Machine, count: int) -> float:
    return float(
        np.mean([float(run["wall_s"]) for run in machine.runs if run["config"]["num_workers"] == count])
    )


def _counting(machine: Machine, samples: int) -> Rerun:
    for run in machine.runs:
        run["samples"] = samples
    return machine.rerun()


def _slept_through(machine: Machine) -> Rerun:
    """The readings fit all that was noted inside, and not the clock outside."""
    rerun = machine.rerun()
    assert rerun.report is not None
    return replace(rerun, elapsed=sum(run.seconds for run in rerun.report.runs) / 1.03)


def _invented(machine: Machine) -> Rerun:
    for run in machine.runs:
        if run["config"]["num_workers"]:
            run["wall_s"] = repr(float(run["wall_s"]) / 20)
    return machine.rerun()


@pytest.mark.parametrize("slip", BROKEN)
def test_each_slip_is_seen_by_its_own_rule(slip: str) -> None:
    rule, make = BROKEN[slip]
    assert costing(make()) == {rule}


@pytest.mark.parametrize(
    ("equal", "judgement"), [(MANY, Judgement.INCONSISTENT), (MANY - 1, Judgement.UNUSUAL)]
)
def test_readings_that_come_again_are_no_readings(equal: int, judgement: Judgement) -> None:
    again = measured().rerun()
    assert again.report is not None
    before = replace(again.report, runs=again.report.runs[:equal])
    (finding,) = verify(before, Facts(rerun=again), RULES).findings
    assert (finding.rule, finding.judgement) == ("X05", judgement)


@pytest.mark.parametrize(
    ("factor", "fits"),
    [(1.0, True), (1 - 0.9 * RATIO, True), (0.5, False), (1 + 0.9 * RATIO, True), (3.0, False)],
)
def test_where_the_line_is(factor: float, fits: bool) -> None:
    held = [Holdup(True, i * 1.0, i + 1.0, 1, 1.0) for i in range(6)]
    runs = [replace(written_run(2), wall=replace(written_run(2).wall, text=repr(2 * factor)))]
    assert (first_misfit(runs * 3, held, 0.0, 6.0) is None) == fits


def written_run(steps: int) -> Any:
    return replace(written(measured().runs).runs[0], steps=steps)


def test_warm_ups_and_evaluations_in_between_are_nobodys_steps() -> None:
    held = [Holdup(True, i * 1.0, i + 0.9, 1, 0.1 + 0.1 * i) for i in range(12)]
    # Three steps each, at 1, 2, 3 and at 7, 8, 9.
    runs = [
        replace(written_run(3), wall=replace(written_run(3).wall, text=text)) for text in ("2.95", "2.98")
    ]
    assert first_misfit(runs, held, 0.0, 12.0) is None


def test_more_steps_than_there_were_fit_nothing() -> None:
    assert first_misfit([written_run(1 << 60)], [Holdup(True, 0, 1, 1, 1)], 0.0, 1.0) is not None


@pytest.mark.parametrize(
    ("source", "rule", "word"),
    [
        (Source(reassigned=(("time.sleep", "x.py:3"),)), "X06", "time.sleep in x.py:3"),
        (Source(shuffles_by_rank=True), "X07", "set_epoch"),
        (Source(softmax_before_loss=True), "X07", "logits"),
    ],
)
def test_what_stands_in_the_source_costs_nothing(source: Source, rule: str, word: str) -> None:
    (finding,) = found(measured().rerun(source=source))
    assert (finding.rule, finding.judgement.costs, word in finding.message) == (rule, False, True)


@pytest.mark.parametrize(("kind", "told"), [("dp_inference", True), ("dataloader", False)])
def test_a_clock_that_does_not_wait_is_told_where_a_gpu_was_timed(kind: str, told: bool) -> None:
    report = document(honest(kind, np.random.default_rng(3)))
    rerun = measured().rerun(source=Source(reads_clock=True, uses_gpu=True))
    findings = verify(report, Facts(rerun=rerun), RULES).findings
    assert any(f.rule == "X07" and "synchronize" in f.message for f in findings) is told


def test_readings_in_the_source_are_for_a_person() -> None:
    report = document(honest("dataloader", np.random.default_rng(3)))
    numbers = frozenset(run.seconds for run in report.runs)
    (finding,) = found(measured().rerun(source=Source(numbers=numbers)))
    assert (finding.rule, finding.judgement) == ("X06", Judgement.UNUSUAL)


def test_little_of_the_time_is_unusual_and_on_a_busy_machine_unknown() -> None:
    rerun = measured().rerun(elapsed=1e4)
    assert [(f.rule, f.judgement) for f in found(rerun)] == [("X02", Judgement.UNUSUAL)]
    busy = replace(rerun, busy="the machine is busy")
    assert [(f.rule, f.judgement) for f in found(busy)] == [("X02", Judgement.NOT_VERIFIED)]


def out_of_sight(machine: Machine, **other: Any) -> Rerun:
    """The same with workers that are spawned: nothing of what they read is seen."""
    main = tuple(each for each in machine.held if each.in_main)
    return machine.rerun(**{"holdups": main, "unseen": "its workers are not forked", **other})


def test_workers_that_cannot_be_seen_are_not_held_against_anybody() -> None:
    rerun = out_of_sight(measured())
    assert [(f.rule, f.judgement) for f in found(rerun)] == [("X03", Judgement.NOT_VERIFIED)]
    report = written(measured().runs)
    nobody_says_who_read = tuple(replace(run, config={"batch_size": 2}) for run in report.runs)
    said_less = replace(rerun, report=replace(report, runs=nobody_says_who_read), holdups=())
    assert costing(said_less).isdisjoint({"X03", "X04"})


def test_what_is_read_without_workers_is_counted_whatever_others_are_like() -> None:
    assert costing(out_of_sight(measured(), holdups=())) == {"X03", "X04"}
    assert costing(out_of_sight(measured(read=lambda seconds: seconds / 2))) == {"X04"}


@pytest.mark.parametrize(
    ("other", "steps"),
    [
        ({"loaders": frozenset({0, 1, 2, 4})}, 4),
        ({"loaders": None}, 4),
        ({"loaders": frozenset({0}), "unseen": "its workers are not forked"}, 4),
        ({"loaders": frozenset({0, 1})}, 1),  # a second worker has nothing to do
    ],
)
def test_numbers_of_workers_are_asked_for_where_they_can_be_known(other: dict[str, Any], steps: int) -> None:
    machine = measured()
    for run in machine.runs:
        run["steps"] = steps
    assert "X08" not in costing(machine.rerun(**other))


@pytest.mark.parametrize(
    ("asked", "costs"),
    [
        (Asked(), False),
        (Asked(step=2), False),  # as many as in every step
        (Asked(step=1), True),
        (Asked(run=8), False),
        (Asked(step=2, run=7), True),
    ],
)
def test_a_report_of_more_than_there_was_is_about_something_else(asked: Asked, costs: bool) -> None:
    for rerun in (measured().rerun(asked=asked), out_of_sight(measured(), asked=asked)):
        assert costing(rerun) == ({"X03"} if costs else set())


def test_batches_that_nobody_counts_leave_a_pass_what_it_was() -> None:
    machine = Machine(1)
    machine.pass_over(1, 64)  # a look at a batch, a warm-up
    machine.pass_over(4, 2)
    machine.measure()
    machine.pass_over(1, 1)
    assert costing(machine.rerun()) == set()


def test_readings_that_were_rounded_to_milliseconds_fit() -> None:
    assert SLACK >= 1e-3
    assert costing(measured(read=lambda seconds: round(seconds, 3)).rerun()) == set()
