"""Two students' reports: copies are found, scaled and jittered ones too; teams and chance are left alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures.reports import CLOCKS, KINDS, Noise, honest, knowledge
from fixtures.reports.rework import configs, runs_of, settle
from fixtures.reports.sample import start
from lockstep.reports import between
from lockstep.reports.document import document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify

Report = dict[str, Any]


OTHER_DAY_S = 86_400.123457


def original(kind: str = "dataloader", **options: Any) -> Report:
    return {**copy.deepcopy(start(kind, **options)), "student": {"id": "ann"}}


def handed_in_by(
    student: str, report: Report, change: Callable[[float], float | str] = lambda x: x
) -> Report:
    """What another student makes of a report: other readings, and all that follows from them."""
    report = copy.deepcopy(report)
    report["student"] = {"id": student}
    report["runs"][0]["t_start"] += OTHER_DAY_S
    for run in report["runs"]:
        value = change(float(run["wall_s"]))
        run["wall_s"] = value if isinstance(value, str) else repr(value)
    settle(report)
    return report


def found(*reports: Report) -> list[list[Finding]]:
    return [list(findings) for findings in between.compared([document(report) for report in reports])]


def words(*reports: Report) -> list[list[str]]:
    return [[str(finding.judgement) for finding in findings] for findings in found(*reports)]


def jitter(size: float, scale: float = 1.05) -> Callable[[float], float]:
    rng = np.random.default_rng(1)
    return lambda value: value * scale * float(np.exp(size * rng.standard_normal()))


def test_readings_of_one_exercise_in_the_report_of_another_are_told() -> None:
    one, other = original("ddp_scaling"), original("amp")
    assert words(one, other) == [[], []]
    for own, theirs in zip(other["runs"][:3], one["runs"], strict=False):
        own["wall_s"] = theirs["wall_s"]
    settle(other)
    assert words(one, other) == [["unusual"], ["unusual"]]
    assert "in the ddp_scaling report of the same student" in found(one, other)[1][0].message


def test_readings_of_one_exercise_times_a_constant_in_the_report_of_another_are_told() -> None:
    one, other = original("ddp_scaling"), original("amp")
    for own, theirs in zip(other["runs"][:5], reversed(one["runs"][:5]), strict=True):
        own["wall_s"] = repr(0.77 * float(theirs["wall_s"]))
    settle(other)
    assert words(one, other) == [["unusual"], ["unusual"]]
    assert "times a constant" in found(one, other)[1][0].message


def with_moments_of(original: Report, moved: Callable[[float], float] = lambda x: x) -> Report:
    """Readings of one's own, shorter than the runs of another report whose times were kept."""
    report = handed_in_by("ben", original, jitter(0.03, 0.6))
    for mine, hers in zip(report["runs"], original["runs"], strict=True):
        mine.update({name: moved(hers[name]) for name in ("t_start", "t_end")})
    return report


def test_moments_of_another_report_are_told_whatever_the_readings_are() -> None:
    ann = original()
    (one,), (other,) = found(ann, with_moments_of(ann))
    assert [one.judgement, other.judgement] == [Judgement.UNUSUAL] * 2
    assert "t_start and t_end also stand in the dataloader report of ben" in one.message


@pytest.mark.parametrize("coarse", [1, 64, 1000])
def test_moments_that_a_timetable_or_a_coarse_clock_makes_alike_say_nothing(coarse: int) -> None:
    ann = original()
    for run in ann["runs"]:
        run.update({name: round(run[name] * coarse) / coarse for name in ("t_start", "t_end")})
    assert words(ann, with_moments_of(ann)) == [[], []]


def test_times_that_were_left_at_nought_say_nothing() -> None:
    ann = original()
    for run in ann["runs"]:
        run.update(t_start=0.0, t_end=1e15)
    assert words(ann, with_moments_of(ann)) == [[], []]


COPIES: dict[str, tuple[Callable[[float], float | str], str]] = {
    "as it is": (lambda x: x, "inconsistent"),
    "rounded to 4 decimals": (lambda x: x, "inconsistent"),
    "another spelling": (lambda x: f"{x:.12e}", "inconsistent"),
    "noise behind the digits": (lambda x: x * (1 + 1e-13), "inconsistent"),
    "scaled": (lambda x: x * 1.05, "unusual"),
    "scaled and rounded": (lambda x: f"{x * 1.05:.3f}", "unusual"),
    "scaled, 0.05 % of jitter": (jitter(5e-4), "unusual"),
    "jitter alone": (jitter(5e-4, 1.0), "unusual"),
}


@pytest.mark.parametrize(("change", "word"), COPIES.values(), ids=COPIES)
def test_a_copy_is_found_in_both_reports(change: Callable[[float], float | str], word: str) -> None:
    ann = original()
    (one,), (other,) = found(ann, handed_in_by("ben", ann, change))
    assert [str(one.judgement), str(other.judgement)] == [word, word]
    assert "ben" in one.message
    assert "ann" in other.message
    assert "?" in one.message
    assert one.numbers


@pytest.mark.parametrize(("change", "word"), COPIES.values(), ids=COPIES)
def test_no_other_rule_finds_a_copy(change: Callable[[float], float | str], word: str) -> None:
    ann = original()
    ben = handed_in_by("ben", ann, change)
    facts = knowledge(ben, others=(document(ann),))
    told = [
        each for each in verify(document(ben), facts).findings if each.judgement is not Judgement.CONSISTENT
    ]
    assert {
        (each.rule, str(each.judgement)) for each in told if each.judgement is not Judgement.NOT_VERIFIED
    } == {("F11", word)}
    assert not [each for each in verify(document(ben), knowledge(ben)).findings if each.rule == "F11"]


def test_a_copy_of_two_hundred_runs_is_found_in_another_order_as_well() -> None:
    ann, carl = (original(repetitions=200, seed=seed) for seed in (11, 5))
    ben = handed_in_by("ben", ann)
    for config in configs(ben):
        own = runs_of(ben, **config)
        for run, wall in zip(own, [run["wall_s"] for run in reversed(own)], strict=True):
            run["wall_s"] = repr(1.05 * float(wall))
    settle(ben)
    assert words(ann, {**carl, "student": {"id": "carl"}}, ben) == [["unusual"], [], ["unusual"]]


def test_three_shared_readings_are_a_copy_and_two_are_not() -> None:
    ann = original()
    for count, word in ((2, []), (3, ["inconsistent"]), (9, ["inconsistent"])):
        ben = handed_in_by("ben", ann, jitter(0.02))
        for mine, hers in zip(ben["runs"][:count], ann["runs"], strict=False):
            mine["wall_s"] = hers["wall_s"]
        settle(ben)
        assert words(ann, ben) == [word, word], count


def test_readings_of_another_exercise_are_shared_as_well() -> None:
    ann = original()
    ben = handed_in_by("ben", original("amp"))
    for mine, hers in zip(ben["runs"][:4], ann["runs"], strict=False):
        mine["wall_s"] = hers["wall_s"]
    (one,), _ = found(ann, ben)
    assert one.judgement is Judgement.INCONSISTENT
    assert "amp report of ben" in one.message


@pytest.mark.parametrize(
    ("ann_names", "ben_names", "expected"),
    [
        (["ann", "ben"], ["ben", "ann"], []),
        (["Ben "], ["ann"], []),
        (["ben"], [], ["unusual"]),
        ([], ["ann"], ["unusual"]),
        (["carl"], ["carl"], ["inconsistent"]),
    ],
)
def test_a_team_shares_its_measurements(
    ann_names: list[str], ben_names: list[str], expected: list[str]
) -> None:
    ann = original()
    ben = handed_in_by("ben", ann)
    ann["student"]["team"], ben["student"]["team"] = ann_names, ben_names
    assert words(ann, ben) == [expected, expected]


@pytest.mark.parametrize("side", ["ann", "ben"])
def test_who_names_another_without_being_named_is_compared_all_the_same(side: str) -> None:
    """Whoever copies could name whom it was copied from."""
    ann = original()
    ben = handed_in_by("ben", ann, lambda x: x * 1.07)
    if side == "ann":
        ann["student"]["team"] = ["ben"]
    else:
        ben["student"]["team"] = ["ann"]
    assert words(ann, ben) == [["unusual"], ["unusual"]]
    exact = handed_in_by("ben", ann)
    exact["student"] = ben["student"]
    assert "only one of the two names the other" in found(ann, exact)[0][0].message


@pytest.mark.parametrize("name", ["unknown", "Unknown ", "todo", "", "?"])
def test_two_that_name_no_student_are_not_one(name: str) -> None:
    ann, carl = original(), original(seed=5)
    ann["student"] = carl["student"] = {"id": name, "team": ["unknown"]}
    scaled, exact = handed_in_by(name, ann, lambda x: x * 1.05), handed_in_by(name, ann)
    assert words(ann, scaled) == [["unusual"], ["unusual"]]
    # Perhaps it is one student's own earlier file.
    assert words(ann, exact) == [["unusual"], ["unusual"]]
    assert "Neither names a student" in found(ann, exact)[0][0].message
    assert words(ann, carl) == [[], []]


def test_one_student_is_not_compared_with_oneself() -> None:
    reports = [original(kind) for kind in KINDS]
    for report in reports[1:]:
        report["runs"][0]["wall_s"] = reports[0]["runs"][0]["wall_s"]
    assert words(*reports) == [[]] * 5
    # The same report twice is worth a word, and costs nothing.
    assert words(reports[0], reports[0]) == [["consistent"], ["consistent"]]


def test_a_third_student_has_nothing_to_do_with_a_copy() -> None:
    ann = original()
    carl = {**original(seed=5), "student": {"id": "carl"}}
    assert words(ann, carl, handed_in_by("ben", ann)) == [["inconsistent"], [], ["inconsistent"]]


def test_settings_told_apart_do_not_hide_a_copy() -> None:
    ann = original()
    ben = handed_in_by("ben", ann, jitter(5e-4))
    for run in ben["runs"]:
        run["config"]["pin_memory"] = not run["config"].get("pin_memory", False)
    assert words(ann, ben) == [["unusual"], ["unusual"]]


def test_a_step_series_is_compared_as_well() -> None:
    ann = original("ddp_scaling")
    steps = [repr(0.1 + 1e-3 * float(x)) for x in np.random.default_rng(0).standard_normal(40)]
    ann["runs"][0]["step_s"] = steps
    ben = handed_in_by("ben", ann, jitter(0.05))
    ben["runs"][0]["step_s"] = steps
    assert words(ann, ben) == [["inconsistent"], ["inconsistent"]]


def coarse(walls: Callable[[float], float | str], seed: int, student: str) -> Report:
    return handed_in_by(student, original(seed=seed), walls)


COARSE: dict[str, Callable[[float], float | str]] = {
    "ticks of 1/64 s": lambda x: round(x * 64) / 64,
    "ticks of 1/64 s, long runs": lambda x: round(x * 20 * 64) / 64,
    "ticks, six decimals": lambda x: f"{round(x * 64) / 64:.6f}",
    "milliseconds of ticks": lambda x: int(round(x * 64) / 64 * 1000) / 1000,
    "two decimals": lambda x: f"{x:.2f}",
    "three decimals of short runs": lambda x: f"{x / 50:.3f}",
}


@pytest.mark.parametrize("change", COARSE.values(), ids=COARSE)
def test_readings_of_a_coarse_clock_repeat_by_chance(change: Callable[[float], float | str]) -> None:
    reports = [coarse(change, seed, f"student {seed}") for seed in range(8)]
    shared = {run["wall_s"] for run in reports[0]["runs"]} & {run["wall_s"] for run in reports[1]["runs"]}
    assert words(*reports) == [[]] * 8, shared


def test_a_slow_first_run_is_nothing_that_students_share() -> None:
    """A cold cache makes the first run of every configuration the slow one, for everybody."""
    reports = []
    for seed in range(6):
        report = {**original(seed=seed), "student": {"id": str(seed)}}
        for run in report["runs"]:
            if run["rep"] == min(each["rep"] for each in report["runs"] if each["config"] == run["config"]):
                run["wall_s"] = repr(float(run["wall_s"]) * 2.1)
        reports.append(report)
    ready = [between.prepared(document(report)) for report in reports]
    pairs = between._aligned(ready[0], ready[1])
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    assert between._correlation(between._residuals(ours), between._residuals(theirs)) > between.CORRELATION
    assert words(*reports) == [[]] * 6


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_honest_students_on_one_machine_share_nothing(kind: str, clock: str) -> None:
    options = dict(start_options(kind), clock=clock)
    reports = [honest(kind, np.random.default_rng(seed), student=str(seed), **options) for seed in range(8)]
    assert words(*reports) == [[]] * 8


def start_options(kind: str) -> dict[str, Any]:
    machine = "laptop" if kind in ("dataloader", "lightning") else "two 3090"
    return {"machine": machine, "noise": Noise(0.002), "repetitions": 5}


def test_a_name_of_a_student_is_made_harmless() -> None:
    ann = original()
    (one,), _ = found(ann, handed_in_by("ben\x1b[31m\nsays\u202e", ann))
    assert "\x1b" not in one.message
    assert "\n" not in one.message
    assert "report of ben says" in one.message


def test_others_among_the_facts_are_compared() -> None:
    ann = original()
    ben = document(handed_in_by("ben", ann))
    assert [
        each.rule for each in verify(document(ann), Facts(others=(ben,))).findings if each.judgement.costs
    ] == ["F11"]


def test_a_class_that_shares_one_report_is_told_in_a_few_words() -> None:
    ann = original()
    reports = [ann, *(handed_in_by(f"student {number}", ann) for number in range(9))]
    for findings in found(*reports):
        assert len(findings) == 4
        assert "6 more" in findings[-1].message


def test_one_slow_run_in_the_same_place_is_nothing_that_students_share() -> None:
    reports = []
    for seed in range(4):
        report = {**original(seed=seed), "student": {"id": str(seed)}}
        slow = report["runs"][7]
        slow["wall_s"] = repr(float(slow["wall_s"]) * 1.9)
        reports.append(report)
    assert words(*reports) == [[]] * 4
