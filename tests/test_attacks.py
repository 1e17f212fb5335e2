"""Every attack of `tests/attacks/` earns nothing, learns nothing, breaks nothing and leaves nothing."""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from lockstep.exercise import find_exercises
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box, open_box
from lockstep.submission import SubmissionError, open_submission
from lockstep.text import safe
from lockstep.verdict import Verdict
from tests.attack_corpus import SEED, Attack, all_attacks, grade, refusal
from tests.sandboxed import ROOT, seen, traces

ATTACKS = all_attacks()
SUBMISSIONS = [attack for attack in ATTACKS if not attack.is_upload]
UPLOADS = [attack for attack in ATTACKS if attack.is_upload]


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file beside the submission that everybody may write, if they get there."""
    path = tmp_path / "canary"
    path.write_text(secrets.token_hex(16))
    path.chmod(0o666)
    return path


def named(name: str) -> Attack:
    (attack,) = (attack for attack in ATTACKS if attack.name.startswith(f"{name}_"))
    return attack


# What whoever comes next finds: their own file, and in /tmp the empty folders that imported modules made.
FILES = """
import os
def main():
    found = []
    for place in (".", "/tmp"):
        for at, folders, names in os.walk(place):
            found += [f"{at}/{name}" for name in names] + [f"{at}/{name}/" for name in folders]
    return sorted(found)
"""


def judged(
    attack: Attack, box: Box, folder: Path, canary: Path, *, seed: int = SEED
) -> dict[str, CheckResult]:
    about = attack.about
    submission = attack.build(folder, canary)
    return grade(
        submission, about["exercise"], about["checks"], box, seed=seed, slow=about.get("slow", False)
    )


@pytest.mark.parametrize("attack", SUBMISSIONS, ids=lambda attack: attack.name)
def test_an_attack_earns_learns_breaks_and_leaves_nothing(
    attack: Attack, box: Box, tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    files = seen(box, FILES)
    assert isinstance(files, list)
    assert [name for name in files if not str(name).endswith("/")] == ["./student.py"]
    box.settle()
    before, secret, server = traces(box), canary.read_text(), box.server_pid()

    results = judged(attack, box, tmp_path / "hand-in", canary)
    box.settle()

    allowed = attack.about["verdict"]
    assert results.keys() == set(attack.about["checks"])
    for result in results.values():
        assert (result.verdict in allowed, result.points) == (True, 0), result
    told = " ".join(result.message for result in results.values())
    assert attack.about.get("says", "") in told
    assert safe(told) == told
    # A spreadsheet would run what begins like a formula.
    assert [result for result in results.values() if result.message.startswith(tuple("=+-@"))] == []
    assert_no_secret_in(results, secret, str(tmp_path / "hand-in"))
    # A server that had to be started anew would cost whoever comes next several seconds.
    assert box.server_pid() == server
    assert traces(box) == before
    assert list(scratch.iterdir()) == []
    assert canary.read_text() == secret
    assert seen(box, FILES) == files


def assert_no_secret_in(results: Mapping[str, CheckResult], secret: str, place: str) -> None:
    text = json.dumps([asdict(result) for result in results.values()], ensure_ascii=False)
    told = {
        "the seed": str(SEED),
        "what a file outside holds": secret,
        "a path of the host": str(ROOT),
        "where the submission lies": place,
        "a home": "/root",
        "the judge": "test_lfw_dataset",
        "a traceback": "Traceback",
        "lockstep's own code": "lockstep/",
        "what an attack says that got somewhere": "RuntimeError: found",
    }
    assert {what for what, words in told.items() if words in text} == set(), text


@pytest.mark.parametrize("attack", UPLOADS, ids=lambda attack: attack.name)
def test_a_hostile_upload_is_refused_with_a_sentence(attack: Attack, tmp_path: Path, canary: Path) -> None:
    path = attack.build(tmp_path / "upload", canary)
    before = sorted(str(entry) for entry in tmp_path.rglob("*"))
    try:
        sentence = refusal(path)
    except SubmissionError as error:
        sentence = str(error)
    assert attack.about["refused"] in sentence
    assert str(tmp_path) not in sentence
    assert sorted(str(entry) for entry in tmp_path.rglob("*")) == before


def test_the_catalogue_is_well_represented() -> None:
    groups = {group: sum(attack.name.startswith(group) for attack in ATTACKS) for group in "FSTRMX"}
    assert sum(groups.values()) == len(ATTACKS)
    assert min(groups.values()) >= 10
    assert groups["X"] >= 20


NASTY = ["F07", "F10", "S09", "T04", "T07", "T13", "R05", "X13"]
HONEST = {"lfw_dataset": ["constructs", "length", "transform_applied"]}
# With ranks that are apart, too.
HONEST_SLOWLY = {**HONEST, "ddp_train": ["starts_equal"]}


def honest(box: Box, checks: Mapping[str, list[str]]) -> list[tuple[str, Verdict, float, str, str]]:
    """What an honest submission is told in a box."""
    results = [
        result
        for exercise, names in checks.items()
        for result in grade(ROOT / "reference", exercise, names, box, slow=True).values()
    ]
    return [(each.id, each.verdict, each.points, each.message, each.hint) for each in results]


def test_the_next_honest_submission_is_unharmed(box: Box, tmp_path: Path, canary: Path) -> None:
    before = honest(box, HONEST)
    assert {told[1] for told in before} == {Verdict.PASSED}
    for name in NASTY:
        judged(named(name), box, tmp_path / name, canary)
    assert honest(box, HONEST) == before


@pytest.fixture(scope="module")
def wanted() -> list[tuple[str, Verdict, float, str, str]]:
    """What an honest submission is told on a machine on which nothing has run before."""
    with open_box(find_exercises(ROOT / "graders"), isolated=True) as fresh:
        told = honest(fresh, HONEST_SLOWLY)
    assert {entry[1] for entry in told} == {Verdict.PASSED}
    return told


@pytest.mark.slow
@pytest.mark.parametrize("attack", SUBMISSIONS, ids=lambda attack: attack.name)
def test_after_any_attack_the_next_result_is_that_of_a_fresh_machine(
    attack: Attack,
    wanted: list[tuple[str, Verdict, float, str, str]],
    box: Box,
    tmp_path: Path,
    canary: Path,
) -> None:
    judged(attack, box, tmp_path / "hand-in", canary)
    assert honest(box, HONEST_SLOWLY) == wanted


def test_a_seed_replays_inputs_and_verdicts(box: Box, tmp_path: Path, canary: Path) -> None:
    """S05 raises a digest of the hidden data that it was given."""
    spy = named("S05")

    def told(folder: str, seed: int) -> list[tuple[str, Verdict, float, str]]:
        results = judged(spy, box, tmp_path / folder, canary, seed=seed).values()
        return [(result.id, result.verdict, result.points, result.message) for result in results]

    first = told("first", SEED)
    assert first == told("again", SEED)
    other = told("other", SEED + 1)
    assert [entry[:3] for entry in other] == [entry[:3] for entry in first]
    assert [entry[3] for entry in other] != [entry[3] for entry in first]


def test_the_security_page_names_tests_and_attacks_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert set(re.findall(r"`(test_\w+)`", page)) <= tests
    promises, _, _ = page.partition("## The catalogue")
    known = {attack.name.partition("_")[0] for attack in ATTACKS}
    assert set(re.findall(r"\b([FSTRMX]\d\d)\b", promises)) <= known


def test_a_name_is_no_formula(tmp_path: Path) -> None:
    """T11: a hand-in's name goes into tables that a spreadsheet opens."""
    folder = tmp_path / "=cmd|'calc'!A0"
    folder.mkdir()
    (folder / "lfw_dataset.py").write_text("x = 1")
    assert open_submission(folder).name[0] not in "=+-@\t\r"
