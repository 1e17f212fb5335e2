"""Hostile code costs the check it happens in, and says why; everything else about a submission stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.hostile import HOSTILE, Hostile, laced
from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict
from tests.attack_corpus import FOLDER, grade
from tests.sandboxed import ROOT, traces

EXERCISE = "lfw_dataset"
# In this order; only `length` calls `__len__`, which is where the hostile code stands.
CHECKS = ["constructs", "length", "transform_applied"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_it_costs_only_its_check(hostile: Hostile, box: Box, tmp_path: Path) -> None:
    source = (ROOT / "reference" / "lfw_dataset.py").read_text()
    (tmp_path / "lfw_dataset.py").write_text(laced(source, "        return len(self.paths)\n", hostile))
    before, server = traces(box), box.server_pid()

    results = grade(tmp_path, EXERCISE, CHECKS, box, slow=hostile.verdict is Verdict.LIMIT)

    for name in ("constructs", "transform_applied"):
        assert results[name].verdict is Verdict.PASSED
        assert results[name].points == results[name].max_points > 0
    length = results["length"]
    passed = hostile.verdict is Verdict.PASSED
    assert length.verdict is hostile.verdict, length
    assert length.points == (length.max_points if passed else 0)
    assert passed or any(word in length.message for word in hostile.words)
    assert box.server_pid() == server
    assert traces(box) == before


PLANTED = ["F07_conftest", "F08_pytest_ini", "F09_other_settings", "F10_sitecustomize", "F11_shadows_pytest", "F12_shadows_modules"]  # fmt: skip


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with everything planted in it that might reach into whoever grades it, and a canary."""
    folder = tmp_path / "hand-in"
    for name in PLANTED:
        shutil.copytree(
            FOLDER / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("attack.toml")
        )
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    for path in folder.rglob("*.py"):
        path.write_text(path.read_text().replace("@CANARY@", str(canary)))
    return folder


@pytest.mark.parametrize("command", ["lockstep", pytest.param("pytest", marks=pytest.mark.slow)])
def test_what_is_planted_does_not_reach_the_grader(command: str, planted: Path) -> None:
    """Run from inside the folder, which is where students run it."""
    out = planted.parent / "out.json"
    tool = str(Path(sys.executable).with_name(command))
    arguments = {
        "lockstep": ["check", ".", "--exercise", EXERCISE, "--json", str(out)],
        "pytest": [
            str(ROOT / "graders"),
            "--submission",
            ".",
            "--exercise",
            EXERCISE,
            "--json",
            str(out),
            "-q",
        ],
    }[command]
    if command == "pytest":
        arguments += ["-k", "test_length or test_transform_applied", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [tool, *arguments],
        cwd=planted,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    result = json.loads(out.read_text())
    (exercise,) = result["exercises"]
    verdicts = {check["id"]: (check["verdict"], check["points"]) for check in exercise["checks"]}
    assert verdicts["transform_applied"] == ("failed", 0)
    assert verdicts["length"] == ("failed", 0)
    assert (planted.parent / "canary").read_text() == "untouched"
    assert str(planted) not in out.read_text()
