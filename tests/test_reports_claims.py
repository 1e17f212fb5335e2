"""Claims are worked out again: what the readings can mean is accepted, what they cannot is told with its cause."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.reports import KINDS, honest, knowledge
from lockstep.reports.claims import RULES
from lockstep.reports.document import Number, document
from lockstep.reports.finding import Judgement
from lockstep.reports.format import MAX_CONFIGS, MAX_ENTRIES, schema_problems
from lockstep.reports.provenance import RULES as PROVENANCE
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify
from tests.effort import costs_at_most
from tests.small_reports import COSTS, Raw, found, loader, runs_of, small, told, training

# Mean 2, median 1.5, minimum 1; standard deviation 1.05 by n, 1.17 by n - 1.
ONE = ("1.0", "1.5", "1.5", "2.0", "4.0")
TWO = ("0.5", "0.75", "0.75", "1.0", "2.0")
THREE = ("3.0", "3.0", "3.1", "3.0", "3.2")
# A speed-up of 4/3 by means (mean 1.5), of 1.5/1.25 by medians, of 1/1.25 by minima.
FOUR = ("1.25", "1.25", "1.25", "1.25", "2.5")
# ONE's readings are 1.053, 1.2, 1.154, 1.25 and 1.333 times as long: 1.198 on average, 1.2 in the middle; the means 1.235.
PAIRED = ("0.95", "1.25", "1.3", "1.6", "3.0")
DDOF_0, DDOF_1 = statistics.pstdev(map(float, ONE)), statistics.stdev(map(float, ONE))


def claim(what: str, value: str | None, config: Raw | None = None, **more: Any) -> Raw:
    stated = {"what": what, "config": config or {"num_workers": 0}, **more}
    return stated if value is None else {**stated, "value": value}


def of_loader(what: str, value: str | None, **more: Any) -> Raw:
    return loader(ONE, TWO, THREE, claims=[claim(what, value, **more)])


def of_two(
    what: str, value: str, two: tuple[str, ...] = FOUR, samples: tuple[int, ...] = (), **more: Any
) -> Raw:
    """A claim on two processes over one."""
    stated = claim(what, value, **{"config": {"world_size": 2}, "base": {"world_size": 1}, **more})
    return training(ONE, two, claims=[stated], samples=samples)


def of_accuracy(value: str, **more: Any) -> Raw:
    return of_amp([claim("accuracy_pct", value, {"precision": "fp32"}, **more)])


def amp_runs(*seconds: tuple[str, int, str]) -> list[Raw]:
    runs = [
        runs_of({"precision": precision, "batch_size": batch}, [text] * 3, samples=batch * 8)
        for precision, batch, text in seconds
    ]
    return [run for group in runs for run in group]


def of_amp(claims: list[Raw], **sections: Any) -> Raw:
    timed = amp_runs(
        ("fp32", 8, "1.0"), ("fp32", 16, "2.0"), ("fp32", 32, "4.0"),
        ("fp16-amp", 8, "1.5"), ("fp16-amp", 16, "1.9"), ("fp16-amp", 32, "2.5"),
    )  # fmt: skip
    return small("amp", timed, claims, **sections)


def of_search(value: str, *trials: tuple[str, int, bool], precision: str = "fp16-amp") -> Raw:
    searched = [{"precision": p, "batch_size": batch, "ok": ok} for p, batch, ok in trials]
    return of_amp([claim("max_batch", value, {"precision": precision})], batch_search=searched)


def crossover(value: str, **more: Any) -> Raw:
    return of_amp([claim("crossover_batch", value, {"precision": "fp16-amp"}, **more)])


def discarded_one(value: str) -> Raw:
    dropped = [{"config": {"num_workers": 0, "batch_size": 8}, "reason": "cold", "wall_s": "14.0"}]
    return loader(ONE, TWO, THREE, claims=[claim("mean_s", value)], discarded=dropped)


def of_options(*claims: Raw, **option: Any) -> Raw:
    """A baseline and another precision, each also with an option that the baseline's plain runs do not name."""
    timed = [
        run
        for config, text in (
            ({"precision": "fp32"}, "4.0"),
            ({"precision": "fp32", **option}, "3.0"),
            ({"precision": "fp16-amp", **option}, "2.0"),
        )
        for run in runs_of({**config, "batch_size": 8}, [text] * 3)
    ]
    return small("amp", timed, claims)


def option_only_in_one(key: str, value: Any) -> Raw:
    """Claims on two processes over one that repeat their runs' settings; one has a setting more, for some of its runs."""
    one, two = ({"world_size": world, "batch_per_rank": 8} for world in (1, 2))
    timed = [
        run
        for config, text in ((one, "4.0"), (two, "2.5"), ({**two, key: value}, "2.0"))
        for run in runs_of(config, [text] * 3)
    ]
    claims = [
        claim("mean_s", "2.50", two),
        claim("mean_s", "2.00", {**two, key: value}),
        claim("throughput_ips", "25.60", two),
        claim("speedup", "1.60", two, base=one),
        claim("efficiency", "1.00", {**two, key: value}, base=one, unit="1"),
        claim("best_config", None, {**two, key: value}),
    ]
    return small("ddp_scaling", timed, claims)


FP32, CHANNELS_LAST = {"precision": "fp32", "batch_size": 8}, {"channels_last": True}


def drawn(**axes: list[float]) -> Raw:
    report = loader(ONE, TWO, THREE)
    report["plot"] |= axes
    return report


WRONG: list[tuple[str, str, Raw, str]] = [
    # C00
    ("C00", "no such configuration", of_loader("mean_s", "2.0", config={"num_workers": 3}), "num_workers 3"),
    ("C00", "of another kind of value", of_loader("mean_s", "2.0", config={"num_workers": True}), "no run has"),
    ("C00", "every configuration", of_loader("mean_s", "2.0", config={"batch_size": 8}), "num_workers"),
    ("C00", "no best of several", of_loader("best_config", None, config={"batch_size": 8}), "3 configurations fit"),
    ("C00", "no such base", of_two("speedup", "1.33", base={"world_size": 3}), "base: no run"),
    ("C00", "an open base", of_two("speedup", "1.33", base={"batch_per_rank": 8}), "base: 2 configurations fit"),
    ("C00", "a setting that differs by default", of_two("speedup", "1.33", base={"world_size": 1, "nnodes": 2}),
     "nnodes 1 instead of nnodes 2"),
    ("C00", "settings of neither", of_options(claim("mean_s", "4.0", {"precision": "fp32"}), **CHANNELS_LAST),
     "They differ in channels_last. Give the claim every setting that the runs it is about have, and no other"),
    ("C01", "exactly one of two", of_options(claim("mean_s", "3.0", FP32), **CHANNELS_LAST), "readings is 4 s"),
    ("C03", "neither base", of_options(claim("speedup", "1.80", {**FP32, "precision": "fp16-amp", **CHANNELS_LAST}, base=FP32),
     **CHANNELS_LAST), "here 2 ("),
    # C01
    ("C01", "two units off", of_loader("mean_s", "2.2"), "is 2 s"),
    ("C01", "two small units off", of_loader("mean_s", "2.00002"), "added or left out"),
    ("C01", "milliseconds", of_loader("mean_s", "2000"), "in milliseconds"),
    ("C01", "microseconds", of_loader("mean_s", "2000000"), "in microseconds"),
    ("C01", "minutes", of_loader("mean_s", "0.0333"), "in minutes"),
    ("C01", "of one step", of_loader("mean_s", "0.25"), "one step"),
    ("C01", "a sum", of_loader("mean_s", "10.0"), "sum over the runs"),
    ("C01", "a median for a mean", of_loader("mean_s", "1.50"), "their median"),
    ("C01", "a mean for a median", of_loader("median_s", "2.0"), "their mean"),
    ("C01", "a median for a minimum", of_loader("min_s", "1.5"), "their median"),
    ("C01", "negative", of_loader("mean_s", "-2.0"), "is 2 s"),
    ("C01", "with the discarded run", discarded_one("4.0"), "discarded"),
    # C02
    ("C02", "too small", of_loader("std_s", "1.3"), f"{DDOF_0:.6g} (ddof 0)"),
    ("C02", "the standard error", of_loader("std_s", f"{DDOF_1 / 5**0.5:.4f}"), "standard error"),
    ("C02", "the variance", of_loader("std_s", f"{DDOF_0**2:.4f}"), "square root"),
    ("C02", "the range", of_loader("std_s", "3.000"), "range"),
    # C03
    ("C03", "too high", of_two("speedup", "1.50"), "1.33333"),
    ("C03", "the other way round", of_two("speedup", "0.75"), "other way round"),
    ("C03", "in percent", of_two("speedup", "133.3"), "in percent"),
    ("C03", "what was gained", of_two("speedup", "0.333"), "add 1"),
    ("C03", "the gain in percent", of_two("speedup", "33.3"), "gain in percent"),
    ("C03", "seconds of unlike work", of_two("speedup", "1.333", samples=(64, 128)), "different numbers of samples"),
    # C04
    ("C04", "not divided", of_two("efficiency", "1.333"), "It is the speed-up"),
    ("C04", "percent said to be none", of_two("efficiency", "66.67", unit="1"), "in percent"),
    ("C04", "a fraction said to be percent", of_two("efficiency", "0.6667", unit="%"), "fraction"),
    ("C04", "one unit off", of_two("efficiency", "0.67667"), "0.666667"),
    # C05
    ("C05", "too high", of_two("throughput_ips", "45.0", config={"world_size": 1}), "32 ("),
    ("C05", "steps", of_two("throughput_ips", "4.00", config={"world_size": 1}), "steps, not images"),
    ("C05", "of one process", of_two("throughput_ips", "21.333"), "one process"),
    ("C05", "seconds for an image", of_two("throughput_ips", "0.03125", config={"world_size": 1}), "for an image"),
    # C09
    ("C09", "not their ratio", of_accuracy("70.98", correct=7096, total=10_000), "70.96 %"),
    ("C09", "two percent off where there are no decimals", of_accuracy("70", correct=72, total=100), "72 %"),
    ("C09", "more than all", of_accuracy("70.0", correct=71, total=70), "swapped"),
    ("C09", "more than all, averaged", of_accuracy("70.0", correct=71, total=70, aggregation="batch_mean"), "swapped"),
    ("C09", "a fraction", of_accuracy("0.7096", correct=7096, total=10_000), "It is a fraction"),
    ("C09", "wrong ones", of_accuracy("29.04", correct=7096, total=10_000), "wrong predictions"),
    ("C09", "no share of 90", of_accuracy("70.50", total=90), "63 of 90"),
    ("C09", "no share of 9,999", of_accuracy("70.965", total=999), "nothing lies between"),
    # C11
    ("C11", "not the fastest", of_loader("best_config", None, config={"num_workers": 0}), "num_workers 1"),
    ("C11", "wins earlier", crossover("32"), "from batch size 16 on"),
    ("C11", "wins later", crossover("8"), "from batch size 16 on"),
    ("C11", "between", crossover("12"), "not values between"),
    ("C11", "a largest batch that failed", of_search("96", ("fp16-amp", 64, True), ("fp16-amp", 96, False)),
     "fitted is 64; 96 did not fit"),
    ("C11", "a largest batch with more to come", of_search("48", ("fp16-amp", 48, True), ("fp16-amp", 64, True)),
     "fitted is 64"),
    ("C11", "a larger batch was timed", of_search("16"), "a run has the batch size 32"),
    # C12
    ("C12", "a point moved", drawn(y=[2.01, 1.0, 3.06]), "plot point 0"),
    ("C12", "milliseconds", drawn(y=[2000, 1000, 3060]), "in milliseconds"),
    ("C12", "whole seconds", drawn(y=[2, 1, 3], yerr=[1, 1, 0]), "plot point 2"),
    ("C12", "standard errors", drawn(yerr=[0.4583, 0.2291, 0.0358]), "standard error"),
    ("C12", "an axis too short", drawn(yerr=[DDOF_0]), "3 x, 3 y and 1 yerr"),
    ("C12", "a point of nothing", drawn(x=[0, 1, 7]), "no run has so many workers"),
    ("C12", "a point left out", drawn(x=[0, 1], y=[2, 1], yerr=[DDOF_0, DDOF_0 / 2]), "leaves out"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "report", "words"), [(r, raw, w) for r, _, raw, w in WRONG],
                         ids=[f"{r}: {name}" for r, name, _, _ in WRONG])  # fmt: skip
def test_what_does_not_follow_is_told_with_its_usual_cause(rule: str, report: Raw, words: str) -> None:
    costly = [each for each in found(report, RULES) if each.judgement in COSTS]
    assert {each.rule for each in costly} == {rule}, told(costly)
    assert words in told(costly), told(costly)
    assert all(each.message.isprintable() and len(each.message) < 900 for each in costly), told(costly)


RIGHT: list[tuple[str, Raw]] = [
    ("exact", of_loader("mean_s", "2.0")),
    ("every digit", of_loader("mean_s", "2.0000000000000004")),
    ("float32", of_loader("mean_s", "2.0000002384185791")),
    ("a setting by default", of_two("mean_s", "2", config={"world_size": 1, "nnodes": 1, "comm_hook": "none"})),
    ("what another has one setting more than", of_options(claim("mean_s", "4.0", FP32), **CHANNELS_LAST)),
    ("the same, spelled out", of_options(claim("mean_s", "4.0", {**FP32, "channels_last": False}), **CHANNELS_LAST)),
    ("a hook in one", option_only_in_one("comm_hook", "fp16_compress")),
    ("a backend that the baseline leaves out", option_only_in_one("backend", "gloo")),
    ("compiled in one", option_only_in_one("compiled", True)),
    ("loader workers in one", option_only_in_one("num_workers", 2)),
    ("over the plain baseline", of_options(
        claim("speedup", "2.00", {**FP32, "precision": "fp16-amp", **CHANNELS_LAST}, base=FP32), **CHANNELS_LAST)),
    ("over the one with the same option", of_options(
        claim("speedup", "1.50", {**FP32, "precision": "fp16-amp", **CHANNELS_LAST}, base=FP32), **CHANNELS_LAST)),
    ("ddof 0", of_loader("std_s", f"{DDOF_0:.3f}")),
    ("ddof 1, declared", of_loader("std_s", f"{DDOF_1:.3f}", ddof=1)),
    ("ddof 0, cut off", of_loader("std_s", f"{DDOF_0 - 0.0005:.3f}")),
    ("by means", of_two("speedup", "1.333", stat="mean")),
    ("by medians", of_two("speedup", "1.20")),
    ("by minima", of_two("speedup", "0.800", stat="median")),
    ("cut off", of_two("speedup", "1.33")),
    ("percent, as declared", of_two("speedup", "133.3", unit="%")),
    ("of images a second", of_two("speedup", "2.667", samples=(64, 128))),
    ("a base that leaves the batch out", of_two("speedup", "1.333", base={"world_size": 1})),
    ("an efficiency", of_two("efficiency", "0.6667", unit="1")),
    ("in percent", of_two("efficiency", "66.67", unit="%")),
    ("the mean of the ratios run by run", of_two("speedup", "1.1980", two=PAIRED)),
    ("the median of the ratios run by run", of_two("speedup", "1.2000", two=PAIRED)),
    ("their efficiency", of_two("efficiency", "59.90", two=PAIRED, unit="%")),
    ("in percent, not said", of_two("efficiency", "66.67")),
    ("serial after Karp and Flatt", of_two("serial_fraction", "0.5")),
    ("serial after Gustafson", of_two("serial_fraction", "0.667")),
    ("all images over all seconds", of_two("throughput_ips", "32.0", config={"world_size": 1})),
    ("the mean of the runs", of_two("throughput_ips", "39.47", config={"world_size": 1})),
    ("the median of the runs", of_two("throughput_ips", "42.667", config={"world_size": 1})),
    ("the best of the runs", of_two("throughput_ips", "64", config={"world_size": 1})),
    ("rounded", of_accuracy("70.97", correct=70_966, total=100_000)),
    ("cut off", of_accuracy("70.96", correct=70_966, total=100_000)),
    ("float32", of_accuracy("70.96600341796875", correct=70_966, total=100_000)),
    ("a fraction, as declared", of_accuracy("0.70966", correct=70_966, total=100_000, unit="1")),
    ("a mean over batches", of_accuracy("70.98", correct=70_966, total=100_000, aggregation="batch_mean")),
    ("a share of 90, rounded", of_accuracy("71.11", total=90)),
    ("a share of 90, cut off", of_accuracy("73.33", total=90)),
    ("a share of 90, rounded up", of_accuracy("76.67", total=90)),
    ("too few decimals to tell", of_accuracy("70.5", total=1000)),
    ("no share, averaged", of_accuracy("70.50", total=90, aggregation="batch_mean")),
    ("the fastest", of_loader("best_config", None, config={"num_workers": 1})),
    ("a tie", loader(ONE, ONE, THREE, claims=[claim("best_config", None)])),
    ("the crossover", crossover("16")),
    ("the crossover, base given", crossover("16", base={"precision": "fp32"})),
    ("the largest", of_search("64", ("fp32", 512, True), ("fp16-amp", 64, True), ("fp16-amp", 96, False))),
    ("the largest that was timed", of_search("32", ("fp16-amp", 16, True))),
    ("medians drawn", drawn(y=[1.5, 0.75, 3.0])),
    ("the other deviation drawn", drawn(yerr=[DDOF_1, DDOF_1 / 2, 0.0894427])),
    ("drawn in another order", drawn(x=[1, 0, 2], y=[1.0, 2.0, 3.06], yerr=[DDOF_0 / 2, DDOF_0, 0.08])),
    ("drawn with two decimals", drawn(y=[2.0, 1.0, 3.06], yerr=[1.05, 0.52, 0.08])),
    ("drawn in float32", drawn(y=[2.0000001, 1.0000001, 3.0599999])),
]  # fmt: skip


@pytest.mark.parametrize("report", [raw for _, raw in RIGHT], ids=[name for name, _ in RIGHT])
def test_what_the_readings_can_mean_is_accepted(report: Raw) -> None:
    assert found(report, RULES) == ()


@pytest.mark.parametrize(
    ("report", "judgement", "words"),
    [
        (of_loader("std_s", f"{DDOF_1:.3f}"), Judgement.CONSISTENT, "ddof 1, and the claim does not say so: ddof 0 is"),
        (of_loader("std_s", f"{DDOF_1:.3f}", ddof=0), Judgement.CONSISTENT, "ddof 1, and the claim says ddof 0"),
        (of_loader("std_s", f"{DDOF_0:.3f}", ddof=1), Judgement.CONSISTENT, "1.1180"),
        (of_loader("peak_alloc_mib", "12"), Judgement.NOT_VERIFIED, "no peak_alloc_bytes"),
        (of_loader("efficiency", "1.0", base={"num_workers": 0}), Judgement.NOT_VERIFIED, "no number of devices"),
        (of_two("serial_fraction", "0.1"), Judgement.NOT_VERIFIED, "Gustafson"),
        (of_accuracy("70.0"), Judgement.NOT_VERIFIED, "give correct and total"),
        (of_search("64"), Judgement.NOT_VERIFIED, "no trial"),
        (crossover("16", base={"precision": "tf32"}), None, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said(report: Raw, judgement: Judgement | None, words: str) -> None:
    findings = found(report, RULES)
    if judgement is None:
        assert {each.rule for each in findings if each.judgement in COSTS} == {"C00"}
        return
    (finding,) = findings
    assert finding.judgement is judgement
    assert words in finding.message


def test_rounding_of_the_printed_means_excuses_a_ratio_of_them() -> None:
    """2 s over 1.5 s, printed as 2 and 2: the ratio may be off by 5 %, and no more."""
    means = [claim("mean_s", "2", {"world_size": 1}), claim("mean_s", "1.5", {"world_size": 2})]
    for value, right in (("1.3900", True), ("1.2700", True), ("1.4100", False), ("1.0900", False)):
        ratio = claim("speedup", value, {"world_size": 2}, base={"world_size": 1})
        report = training(ONE, FOUR, claims=[*means, ratio])
        assert (found(report, RULES) == ()) is right, value
    assert found(training(ONE, FOUR, claims=[{**ratio, "value": "1.3900"}]), RULES)


def test_an_epoch_with_a_short_last_batch_is_the_same_work() -> None:
    """64 images and 60, of eight to a batch: drop_last; seconds compare."""
    assert found(of_two("speedup", "1.33333", samples=(640, 636)), RULES) == ()
    assert found(of_two("speedup", "1.33333", samples=(640, 480)), RULES) != ()


def test_a_partial_base_is_otherwise_like_the_configuration() -> None:
    stated = claim("speedup", "0.667", {"precision": "fp16-amp", "batch_size": 8}, base={"precision": "fp32"})
    assert found(of_amp([stated]), RULES) == ()


def test_a_slip_that_frameworks_make_costs_nothing() -> None:
    config = {"precision_requested": "32-true", "precision_resolved": "32-true", "batch_size": 8,
              "accelerator": "cpu", "devices": 2}  # fmt: skip
    for value, judgement in (
        ("16.0", Judgement.UNUSUAL),
        ("4.00", Judgement.UNUSUAL),
        ("99.0", Judgement.INCONSISTENT),
    ):
        report = small(
            "lightning", runs_of(config, ["2.0"] * 3), [claim("throughput_ips", value, {"devices": 2})]
        )
        (finding,) = found(report, RULES)
        assert (finding.rule, finding.judgement) == ("C05", judgement)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("100.0", None),
        ("100", None),
        ("104.9", "1,000,000"),
        ("0.0977", "GiB"),
        ("104857600", "bytes"),
        ("90", "at most"),
    ],
)
def test_peaks_of_memory_are_those_of_the_runs(value: str, words: str | None) -> None:
    runs = [{**run, "peak_alloc_bytes": 100 << 20} for run in amp_runs(("fp32", 8, "1.0"))]
    report = small("amp", runs, [claim("peak_alloc_mib", value, {"precision": "fp32"})])
    findings = found(report, RULES)
    assert [each.rule for each in findings] == ["C01"] * (words is not None)
    assert words is None or words in findings[0].message


def test_many_slips_of_one_kind_are_told_in_a_few_findings() -> None:
    report = loader(ONE, TWO, claims=[claim("mean_s", "9.0")] * 40)
    assert [each.message for each in found(report, RULES)][-1] == "The same holds for 37 more."


@pytest.mark.parametrize(
    ("text", "value", "prints"),
    [
        ("2", 1.5, True),
        ("1", 1.9, True),
        ("101", 101.9003, True),
        ("1.5", 1.4496, True),
        ("0.00", 0.0043, True),
        ("0", 0.4, True),
        ("-1", -1.9, True),
        ("-2", -1.5, True),
        ("1e1", 12.0, True),
        ("1e1", 9.6, True),
        ("1e+02", 104.0, True),
        ("8.5e-05", 8.55e-5, True),
        ("1200", 1200.4, True),
        ("2", 1.06, False),
        ("-1", -0.1, False),
        ("0.1", 0.021, False),
        ("1e1", 1.06, False),
        ("1e1", 5.5, False),
        ("0e9", 123.0, False),
        ("1e1", 0.0, False),
        ("2", float("nan"), False),
    ],
)
def test_a_coarse_number_is_rounded_or_cut_off(text: str, value: float, prints: bool) -> None:
    assert Number(text).agrees_with(value) is prints


def test_coarse_claims_excuse_nothing() -> None:
    """A speed-up of 1.06; "2" has no digit of it, nor has "0e9" of any throughput."""
    slow = tuple(repr(float(text) / 1.06) for text in ONE)
    for what, value in (("speedup", "2"), ("speedup", "1e1"), ("throughput_ips", "0e9"), ("mean_s", "0e9")):
        costly = [each for each in found(of_two(what, value, two=slow), RULES) if each.judgement in COSTS]
        assert costly, (what, value)
    for what, value in (("speedup", "1"), ("speedup", "1.1"), ("efficiency", "0.5"), ("mean_s", "2")):
        assert found(of_two(what, value, two=slow), RULES) == (), (what, value)
    assert found(of_accuracy("0e9", correct=70, total=100), RULES)


ODD_TEXTS = st.sampled_from(
    ["0", "0.0", "-1", "1e-30", "1e15", "9" * 15, "0E-17", "100", "1", "2", "1.333", "-0.0", "0." + "1" * 90]
) | st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,6})?", fullmatch=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, database=None)
@given(data=st.data())
def test_no_rule_raises_on_a_report_of_the_right_form(kind: str, data: st.DataObject) -> None:
    report = honest(kind, np.random.default_rng(data.draw(st.integers(0, 20))), thorough=True)
    for _ in range(data.draw(st.integers(1, 8))):
        change_something(report, data)
    if schema_problems(report):
        return
    findings = verify(document(report), knowledge(report), (*PROVENANCE, *RULES)).findings
    json.dumps([each.to_json() for each in findings], allow_nan=False)
    assert all(each.message.isprintable() for each in findings), told(findings)


def change_something(report: Raw, data: st.DataObject) -> None:
    """Odd numbers, and settings swapped between claims."""
    run = data.draw(st.sampled_from(report["runs"]))
    stated = data.draw(st.sampled_from(report["claims"]))
    other = data.draw(st.sampled_from(report["claims"]))
    change = data.draw(st.integers(0, 9))
    whole = st.sampled_from([1, 2, 7, 2**62, 10**18])
    if change == 0:
        run["wall_s"] = data.draw(ODD_TEXTS.filter(lambda text: not text.startswith("-")))
    elif change == 1:
        stated["value"] = data.draw(ODD_TEXTS)
    elif change == 2:
        stated["config"] = dict(
            data.draw(st.sampled_from([other["config"], {}, run["config"], {"x": [None]}]))
        )
    elif change == 3:
        stated["what"] = other["what"]
        stated.setdefault("base", dict(run["config"]))
        stated.setdefault("value", "1.0")
    elif change == 4:
        run[data.draw(st.sampled_from(["samples", "steps", "epochs", "peak_alloc_bytes"]))] = data.draw(whole)
    elif change == 5:
        stated |= {"correct": data.draw(whole), "total": data.draw(whole)}
    elif change == 6:
        stated["unit"] = data.draw(st.sampled_from(["s", "%", "1", "x", "MiB"]))
    elif change == 7:
        key = data.draw(st.sampled_from(sorted(run["config"])))
        run["config"][key] = data.draw(st.sampled_from([0, 1, 2, 10**18, "fp32", "32-true", True, None]))
    elif change == 8 and "plot" in report:
        axis = data.draw(st.sampled_from(["x", "y", "yerr"]))
        report["plot"][axis] = data.draw(st.lists(st.sampled_from([0, 1, -1, 1e30, 0.5]), max_size=4))
    else:
        report["runs"].remove(run)


@pytest.mark.parametrize(
    "what", ["mean_s", "speedup", "efficiency", "serial_fraction", "crossover_batch", "max_batch"]
)
def test_the_longest_report_is_judged_in_time(what: str) -> None:
    """As many claims on as many configurations as the format takes."""
    timed = [
        run
        for batch in range(1, MAX_CONFIGS // 2 + 1)
        for size in (1, 2)
        for run in runs_of({"world_size": size, "batch_per_rank": batch}, ["1.0", "1.5"])
    ]
    claims = [
        claim(what, "1", {"world_size": 2, "batch_per_rank": number % 100 + 1}, base={"world_size": 1})
        for number in range(MAX_ENTRIES)
    ]
    report = document(small("ddp_scaling", timed, claims))
    with costs_at_most(100):
        verify(report, Facts(), (*PROVENANCE, *RULES))
