"""C13 and C17: logs that a report names, written by TensorBoard's own record writer or as Lightning's metrics.csv."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from fixtures.reports import honest
from lockstep.reports import format as report_format
from lockstep.reports.document import document
from lockstep.reports.finding import Finding
from lockstep.reports.folder import Handed
from lockstep.reports.logs import FEW_POINTS, MAX_LOGS, RULES
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify

PATH = "runs/events.out.tfevents.1.host"
ACCURACY = 71.25
Points = Sequence[tuple[int, float, float]]


def event_file(series: dict[str, Points]) -> bytes:
    """An event file with these curves, each a list of step, value and time."""
    file = io.BytesIO()
    writer = RecordWriter(file)
    writer.write(Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString())
    for tag, points in series.items():
        for step, value, time in points:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.write(Event(wall_time=time, step=step, summary=summary).SerializeToString())
    return file.getvalue()


def training(
    start: float, end: float, *, lr: Callable[[int], float] = lambda step: 0.1, points: int = 20
) -> dict[str, Points]:
    """The curves of an honest training from `start` to `end`."""
    steps = [round(10 * step) for step in range(points)]
    times = np.linspace(start, end, points)
    curves = {
        "loss": [2.3 - 0.05 * step for step in range(points)],
        "acc1": [ACCURACY / 100 * (step + 1) / points for step in range(points)],
        "acc5": [0.5 + 0.4 * (step + 1) / points for step in range(points)],
        "lr": [lr(step) for step in range(points)],
    }
    return {
        tag: [(at, value, float(time)) for at, value, time in zip(steps, values, times, strict=True)]
        for tag, values in curves.items()
    }


def reported(**log: Any) -> dict[str, Any]:
    """An AMP report with one log, of its first run."""
    report = honest("amp", np.random.default_rng(3))
    run = report["runs"][0]
    report["logs"] = [
        {"kind": "tensorboard", "path": PATH, "config": run["config"], "rep": run["rep"], **log}
    ]
    report["claims"] = [
        {"what": "accuracy_pct", "config": run["config"], "value": f"{ACCURACY:.2f}", "unit": "%"}
    ]
    report["workload"]["lr"] = {"base": 0.1, "schedule": "constant"}
    return report


def found(report: dict[str, Any], files: dict[str, bytes] | None) -> tuple[Finding, ...]:
    """What C13 and C17 say of a report with these files beside it."""
    assert report_format.schema_problems(report) == []
    beside = None if files is None else Handed(files, "")
    return verify(document(report), Facts(files=beside), RULES).findings


def costing(report: dict[str, Any], data: bytes) -> list[tuple[str, str]]:
    """What costs points where the log holds these bytes."""
    return [(each.rule, each.message) for each in found(report, {PATH: data}) if each.judgement.costs]


def span(report: dict[str, Any]) -> tuple[float, float]:
    """When the run that wrote the log began and ended."""
    return report["runs"][0]["t_start"], report["runs"][0]["t_end"]


def test_an_honest_log_is_left_alone() -> None:
    report = reported()
    data = event_file(training(*span(report)))
    report["logs"][0]["sha256"] = hashlib.sha256(data).hexdigest()
    assert found(report, {PATH: data}) == ()


def test_a_folder_is_read_as_a_whole() -> None:
    report = reported(path="runs")
    assert found(report, {PATH: event_file(training(*span(report)))}) == ()


@pytest.mark.parametrize(("files", "words"), [(None, "not handed in"), ({}, "not there"), ({PATH: b""}, "")])
def test_a_log_that_is_not_there_is_not_held_against_anyone(
    files: dict[str, bytes] | None, words: str
) -> None:
    findings = found(reported(), files)
    assert findings
    assert not any(each.judgement.costs for each in findings)
    assert any(words in each.message for each in findings)


def test_changed_bytes_show() -> None:
    report = reported()
    data = bytearray(event_file(training(*span(report))))
    data[len(data) // 2] ^= 1
    told = costing(report, bytes(data))
    assert {rule for rule, _ in told} == {"C13"}
    assert "Hand in the original file" in told[0][1]


def test_a_log_written_to_after_the_report_shows_by_its_hash() -> None:
    report = reported(sha256="0" * 64)
    ((rule, message),) = costing(report, event_file(training(*span(report))))
    assert (rule, "SHA-256 differ" in message) == ("C13", True)


def test_a_log_cut_off_by_a_crash_is_read_as_far_as_it_goes() -> None:
    report = reported()
    data = event_file(training(*span(report)))
    assert costing(report, data[:-5]) == []


def backwards(report: dict[str, Any]) -> dict[str, Points]:
    """A training that was started again into the same file."""
    start, end = span(report)
    curves = training(start, (start + end) / 2)
    again = training((start + end) / 2, end)
    return {tag: [*curves[tag], *again[tag]] for tag in curves}


def test_a_step_counter_that_goes_back_is_told_unless_declared() -> None:
    report = reported()
    data = event_file(backwards(report))
    ((rule, message),) = costing(report, data)
    assert (rule, '"declared": ["resumed"]' in message) == ("C13", True)
    assert costing({**report, "declared": ["resumed"]}, data) == []


def test_time_that_goes_back() -> None:
    report = reported()
    curves = {tag: list(points) for tag, points in training(*span(report)).items()}
    for points in curves.values():
        step, value, _ = points[9]
        points[9] = (step, value, span(report)[0] - 500)
    (told, *_) = costing(report, event_file(curves))
    assert told[0] == "C13"
    assert "written" in told[1]


@pytest.mark.parametrize(("shift", "part", "words"), [(-86400, 1.0, "another time"), (0, 0.2, "spans")])
def test_a_log_of_another_run_or_of_a_part(shift: float, part: float, words: str) -> None:
    report = reported()
    start, _ = span(report)
    # Long enough that the slack of the clock does not count.
    report["runs"][0] |= {"t_end": start + 1000, "wall_s": "999.5"}
    ((rule, message),) = costing(report, event_file(training(start + shift, start + shift + 1000 * part)))
    assert (rule, words in message) == ("C13", True)


def test_a_first_epoch_that_takes_most_of_the_run_is_for_a_person_to_read() -> None:
    report = reported()
    start, _ = span(report)
    report["runs"][0] |= {"t_end": start + 1000, "wall_s": "999.5"}
    (told,) = found(report, {PATH: event_file(training(start + 700, start + 999))})
    assert (told.rule, str(told.judgement)) == ("C13", "unusual")
    assert "begins 700 s after the run" in told.message


def written_at_once(start: float) -> bytes:
    """A history that was kept in a list and logged when all was over."""
    return event_file(training(start, start + 0.05))


@pytest.mark.parametrize(("after", "costs"), [(0.5, False), (200_000.0, True), (-200_000.0, True)])
def test_a_history_logged_in_one_go_is_advice_where_it_was_before_the_report(
    after: float, costs: bool
) -> None:
    report = reported()
    report["runs"][0]["t_start"] -= 1000.0
    start, end = span(report)
    report["runs"][0]["wall_s"] = repr(end - start - 1.0)
    findings = found(report, {PATH: written_at_once(end + after)})
    assert any(each.judgement.costs for each in findings) is costs
    assert any("at one moment" in each.message for each in findings) is not costs


@pytest.mark.parametrize(("behind", "costs"), [(2, False), (50, False), (70, True)])
def test_a_history_logged_in_one_go_by_another_clock_than_the_report_s(behind: int, costs: bool) -> None:
    report = reported()
    start, end = span(report)
    end = math.ceil(end)
    report["runs"][0] |= {"t_start": start - 1000, "t_end": end, "wall_s": repr(end - start + 999)}
    created = datetime.fromtimestamp(end - behind, UTC)
    report["attempt"]["created_utc"] = f"{created:%Y-%m-%dT%H:%M:%SZ}"
    assert bool(costing(report, event_file(training(end + 1.2, end + 1.25)))) is costs


def of_two(
    first: dict[str, Any], second: dict[str, Any], losses: Sequence[object], others: Sequence[object] = ()
) -> tuple[Finding, ...]:
    """What is said of tables with these losses, or with others in the second, as the logs of two configurations."""

    def table(values: Sequence[object]) -> bytes:
        rows = [f"{step},{loss},0.7125" for step, loss in enumerate(values)]
        return "\n".join(["step,loss,acc1", *rows]).encode()

    report = reported()
    report["workload"]["num_classes"] = 10
    report["logs"] = [
        {"kind": "lightning_csv", "path": f"{name}/metrics.csv", "config": config}
        for name, config in (("a", first), ("b", second))
    ]
    files = {"a/metrics.csv": table(losses), "b/metrics.csv": table(others or losses)}
    return tuple(each for each in found(report, files) if "the same losses" in each.message)


FP32, AMP = {"precision": "fp32"}, {"precision": "fp16-amp"}
MEASURED = [2.2871043 * 0.97123**step for step in range(20)]


@pytest.mark.parametrize("losses", [MEASURED, MEASURED[:3], [float(np.float32(loss)) for loss in MEASURED]])
def test_one_table_for_two_precisions_is_for_a_person_to_read(losses: Sequence[float]) -> None:
    (finding,) = of_two(FP32, AMP, losses)
    assert str(finding.judgement) == "unusual"
    assert "log a/metrics.csv and the lightning_csv log b/metrics.csv hold" in finding.message


def test_tables_that_may_be_alike_are_left_alone() -> None:
    assert of_two(FP32, AMP, MEASURED, [1.01 * loss for loss in MEASURED]) == ()
    # Seeds make the repetitions of one configuration alike.
    assert of_two(FP32, FP32, MEASURED) == ()
    # Both of a log that is of all of them.
    assert of_two(FP32, {}, MEASURED) == ()


@pytest.mark.parametrize(
    "losses",
    [
        ["0.83", "0.51", "0.44"],
        [f"{loss:.2f}" for loss in MEASURED],
        [float(np.float32(round(loss, 2))) for loss in MEASURED],
        [2.3025850, 2.3025851, 2.3025853, 2.3025849],
        [1.2345678] * 5,
        ["nan", "inf", "0.0", "nan"],
    ],
    ids=["three epochs", "two decimals", "two decimals in a float32", "a guess", "stuck", "no numbers"],
)
def test_losses_that_two_trainings_share_by_chance_are_left_alone(losses: Sequence[object]) -> None:
    assert of_two(FP32, AMP, losses) == ()


def test_few_points_are_advice() -> None:
    report = reported()
    start, _ = span(report)
    report["runs"][0] |= {"t_end": start + 1000, "wall_s": "999.5"}
    findings = found(report, {PATH: event_file(training(start, start + 1, points=FEW_POINTS - 1))})
    assert [(each.rule, str(each.judgement)) for each in findings] == [("C13", "consistent")]


@pytest.mark.parametrize(
    ("stated", "unit", "caught"),
    [
        ("71.25", "%", False),
        ("71.3", "%", False),
        ("71.2", "%", False),
        ("0.7125", "1", False),
        ("84.1", "%", True),
    ],
)
def test_an_accuracy_is_found_in_the_log(stated: str, unit: str, caught: bool) -> None:
    report = reported(tags={"acc1": "acc1"})
    report["claims"][0] |= {"value": stated, "unit": unit}
    told = costing(report, event_file(training(*span(report))))
    assert [rule for rule, _ in told] == ["C13"] * caught
    assert all("nowhere in the log" in message for _, message in told)


@pytest.mark.parametrize(
    ("tags", "counted", "says"),
    [
        ({"acc1": "valid/acc1"}, {}, "inconsistent"),
        (
            {"acc1": "valid/acc1"},
            {"aggregation": "batch_mean", "correct": 55_143, "total": 90_000},
            "inconsistent",
        ),
        ({"acc1": "valid/acc1"}, {"correct": 55_143, "total": 90_000}, "consistent"),
        ({}, {"correct": 55_143, "total": 90_000}, "consistent"),
        ({}, {}, "consistent"),
        ({"loss": "train/loss"}, {}, "consistent"),
    ],
)
def test_a_log_of_the_validation_is_not_held_against_a_test_accuracy(
    tags: dict[str, str], counted: dict[str, Any], says: str
) -> None:
    report = reported(kind="lightning_csv", path="metrics.csv", tags=tags)
    report["claims"][0] |= {"value": "61.27", **counted}
    rows = ["step,train/loss,train/acc1,valid/acc1,valid/acc5,lr"] + [
        f"{n * 1407},{2 - 0.1 * n:.6f},{30 + 2 * n:.4f},{28.1234 + 2 * n:.4f},{80 + n:.4f},0.1"
        for n in range(12)
    ]
    findings = found(report, {"metrics.csv": "\n".join(rows).encode()})
    told = [str(each.judgement) for each in findings if "nowhere in the log" in each.message]
    assert told == [says]


def test_the_best_epoch_may_be_claimed_and_other_names_may_hold_it() -> None:
    report = reported()
    curves = training(*span(report))
    curves["best/val_accuracy"] = [(0, 0.9, span(report)[0])]
    report["claims"][0]["value"] = "90.00"
    assert costing(report, event_file(curves)) == []
    # Under a name that the report gives, only that curve counts.
    report["logs"][0]["tags"] = {"acc1": "acc1"}
    assert [rule for rule, _ in costing(report, event_file(curves))] == ["C13"]


def _half_way(step: int) -> float:
    return 0.1 if step < 10 else 0.05


def test_a_rate_that_moves_under_a_constant_schedule() -> None:
    report = reported()
    data = event_file(training(*span(report), lr=_half_way))
    ((rule, message),) = costing(report, data)
    assert rule == "C17"
    assert "from 0.1 to 0.05" in message
    for schedule in ("step", "multistep", "cosine", "plateau", "other"):
        report["workload"]["lr"]["schedule"] = schedule
        assert costing(report, data) == []


def test_other_rates_are_advice() -> None:
    report = reported()
    scaled = found(report, {PATH: event_file(training(*span(report), lr=lambda step: 0.4))})
    assert [(each.rule, str(each.judgement)) for each in scaled] == [("C17", "consistent")]
    report["workload"]["lr"]["schedule"] = "cosine"
    rising = found(report, {PATH: event_file(training(*span(report), lr=lambda step: 0.1 + 0.001 * step))})
    assert [(each.rule, str(each.judgement)) for each in rising] == [("C17", "consistent")]


def test_warm_up_is_left_out() -> None:
    report = reported()
    report["workload"]["lr"]["warmup_steps"] = 50
    assert (
        found(
            report, {PATH: event_file(training(*span(report), lr=lambda step: min(0.1, 0.02 * (step + 1))))}
        )
        == ()
    )


def test_lightning_csv() -> None:
    report = reported(kind="lightning_csv", path="metrics.csv")
    rows = ["epoch,step,loss,acc1,acc5,lr"] + [
        f"0,{10 * n},{2.3 - n / 20},{n * 0.0375},0.9,0.1" for n in range(20)
    ]
    csv = "\n".join(rows).encode()
    assert found(report, {"metrics.csv": csv}) == ()
    assert [
        each.rule
        for each in found(report, {"metrics.csv": csv + b"\n0,5,1.0,0.1,0.9,0.1\n"})
        if each.judgement.costs
    ] == ["C13"]
    for odd in (b"", b"\xff\xfe\x00", b'"' * 100_000, b"a,b\n" * 10, b"step,acc1\nnan,inf\n1e999,2\n"):
        found(report, {"metrics.csv": odd})


def test_many_logs_are_not_all_read() -> None:
    report = reported()
    report["logs"] = report["logs"] * (MAX_LOGS + 1)
    data = event_file(training(*span(report)))
    assert [str(each.judgement) for each in found(report, {PATH: data})] == ["not verified"]
