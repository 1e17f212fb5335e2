"""Whether reports are told apart: broken ones are caught by the right rule, honest ones never cost a point.

The samples are in fixtures/reports: `broken`, `odd` and `malformed` are tables, `honest` makes as many as it takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fixtures.reports import KINDS, honest, knowledge
from fixtures.reports.broken import BROKEN, COSTS, Broken
from fixtures.reports.malformed import MALFORMED, sound
from fixtures.reports.odd import ODD, Odd
from fixtures.reports.sample import Report, Sample
from lockstep.reports.document import document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.format import schema_problems
from lockstep.reports.provenance import wrong_form
from lockstep.reports.rule import Facts
from lockstep.reports.verify import RULES, verify
from tests.sandboxed import ROOT

GENERATED, SOAKED = 300, 20_000
MAX_UNUSUAL = 0.01
NOTHING_SAID = (Judgement.CONSISTENT, Judgement.NOT_VERIFIED)


def findings(report: Report, facts: Facts) -> Sequence[Finding]:
    problems = schema_problems(report)
    return wrong_form(problems) if problems else verify(document(report), facts).findings


def found_in(sample: Sample) -> Sequence[Finding]:
    report = sample.report()
    return findings(report, sample.known(report))


def told(found: Sequence[Finding]) -> str:
    return "\n".join(f"{each.rule} {each.judgement}: {each.message}" for each in found)


@pytest.mark.parametrize("sample", BROKEN, ids=lambda sample: f"{sample.rule}: {sample.name}")
def test_a_broken_report_is_caught_by_its_own_rule(sample: Broken) -> None:
    found = found_in(sample)
    own = [each for each in found if each.rule == sample.rule]
    expected = [
        each
        for each in own
        if (each.judgement.costs if sample.says == COSTS else each.judgement == sample.says)
    ]
    assert expected, told(found)
    others = [each for each in found if each.rule not in {sample.rule, *sample.follows}]
    assert all(each.judgement in NOTHING_SAID for each in others), told(others)


@pytest.mark.parametrize("sample", ODD, ids=lambda sample: sample.name)
def test_an_odd_but_honest_report_costs_nothing(sample: Odd) -> None:
    found = found_in(sample)
    assert not any(each.judgement.costs for each in found), told(found)
    unusual = {each.rule for each in found if each.judgement is Judgement.UNUSUAL}
    assert unusual == sample.flags, told(found)


def test_the_corpora_are_large_enough_and_their_names_tell_samples_apart() -> None:
    assert len(BROKEN) >= 60
    assert len(ODD) >= 30
    for names in ([(each.rule, each.name) for each in BROKEN], [each.name for each in ODD]):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_rule_catches_a_broken_report() -> None:
    rules = {rule.id for rule in RULES}
    assert rules == {sample.rule for sample in BROKEN}


def test_what_is_changed_was_right_before() -> None:
    starts = {(sample.kind, tuple(sample.options)): sample for sample in BROKEN if not sample.options}
    for sample in starts.values():
        untouched = Sample(sample.name, sample.kind, lambda report: None, "as it was")
        assert all(each.judgement in NOTHING_SAID for each in found_in(untouched)), told(found_in(untouched))


@pytest.mark.parametrize("kind", KINDS)
def test_generated_reports_are_honest(kind: str) -> None:
    """None costs anything, and few are unusual; `make soak` makes many more."""
    unusual = sum(_unusual(kind, [0, number]) for number in range(GENERATED // len(KINDS)))
    assert unusual <= MAX_UNUSUAL * GENERATED / len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_generated_reports_have_the_right_form(kind: str) -> None:
    for number in range(10):
        assert schema_problems(honest(kind, np.random.default_rng([0, number]))) == []


def verify_report(folder: Path, *names: str) -> tuple[int, list[dict[str, object]], float]:
    """Exit status, what is printed as JSON, and the seconds of the whole command."""
    command = [sys.executable, "-m", "lockstep.cli", "verify-report", "--json", *names]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, json.loads(done.stdout), time.perf_counter() - began


# An NVIDIA H200 measured most of them in November 2026: ten steps of training, five times in each precision. On an H100
# the worked solutions did. To count what a model computes takes seconds for each.
MEASURED = sorted((ROOT / "fixtures" / "reports" / "measured").glob("*.json"))
COUNTED_AT_ONCE = (
    "h100_reference_data_parallel",
    "h200_resnet18_32_64",
    "h200_resnet50_224_256_channels_last",
)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in COUNTED_AT_ONCE else pytest.mark.slow)
        for path in MEASURED
    ],
)
def test_nothing_speaks_against_what_a_real_gpu_measured(report: Path) -> None:
    status, told_of, _ = verify_report(ROOT, str(report))
    assert [entry["verdict"] for entry in told_of] == ["consistent"], told_of
    assert status == 0


def test_reports_of_a_real_gpu_are_there() -> None:
    assert len(MEASURED) == 9
    assert set(COUNTED_AT_ONCE) < {path.stem for path in MEASURED}


def test_a_malformed_file_gets_a_sentence(tmp_path: Path) -> None:
    names = [f"{place}.json" for place in range(len(MALFORMED))]
    for name, malformed in zip(names, MALFORMED, strict=True):
        malformed.write(tmp_path / name)
    sound(tmp_path / "sound.json")
    status, told_of, _ = verify_report(tmp_path, *names, "sound.json")
    assert status == 2
    *entries, last = told_of
    assert last["verdict"] == "consistent"
    for malformed, entry in zip(MALFORMED, entries, strict=True):
        messages = [finding["message"] for finding in entry["findings"]]  # type: ignore[attr-defined, index]
        assert any(malformed.says in message for message in messages), (malformed.name, messages)
        assert all(len(message) < 500 for message in messages), malformed.name
        assert entry["verdict"] in ("not verified", "inconsistent"), malformed.name


def test_a_malformed_file_takes_no_longer_than_a_report(tmp_path: Path) -> None:
    """All of them together take about as long as one: what takes time is to start Python."""
    for place, malformed in enumerate(MALFORMED):
        malformed.write(tmp_path / f"{place}.json")
    sound(tmp_path / "sound.json")
    seconds: dict[str, list[float]] = {"sound": [], "malformed": []}
    for _ in range(3):
        seconds["sound"].append(verify_report(tmp_path, "sound.json")[2])
        names = [f"{place}.json" for place in range(len(MALFORMED))]
        seconds["malformed"].append(verify_report(tmp_path, *names)[2])
    assert min(seconds["malformed"]) < 5 * min(seconds["sound"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_more_generated_reports_are_honest(kind: str) -> None:
    """Seeds that nobody has tried; a failure names the one to try again."""
    fresh = int.from_bytes(os.urandom(4))
    unusual = sum(_unusual(kind, [fresh, number]) for number in range(SOAKED // len(KINDS)))
    assert unusual <= MAX_UNUSUAL * SOAKED / len(KINDS), f"seed {fresh}"


def _unusual(kind: str, seed: list[int]) -> bool:
    """Whether a report has anything unusual; that it costs nothing is asserted."""
    report = honest(kind, np.random.default_rng(seed))
    found = verify(document(report), knowledge(report)).findings
    assert not any(each.judgement.costs for each in found), (
        f"honest({kind!r}, default_rng({seed})):\n{told(found)}"
    )
    return any(each.judgement is Judgement.UNUSUAL for each in found)
