"""Hostile code costs the check it happens in, and says why; everything else about a submission stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict
from tests.attack_corpus import FOLDER, grade
from tests.sandboxed import ROOT, traces

EXERCISE = "lfw_dataset"
# In this order; only `length` calls `__len__`, which is where the hostile code stands.
CHECKS = ["constructs", "length", "transform_applied"]

IGNORE_SIGNALS = """
import signal, time
for number in set(range(1, 65)) - {9, 19, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(1)
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""
FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
FULL_DISK = """
with open("big", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
"""


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        ("import os; os._exit(0)", Verdict.CRASHED, "exit status 0"),
        ("import ctypes; ctypes.string_at(0)", Verdict.CRASHED, "segmentation fault"),
        ("import os; os.abort()", Verdict.CRASHED, "abort"),
        ("import os; os.kill(-1, 15); os.kill(os.getppid(), 9); os.kill(0, 9)", Verdict.CRASHED, "lfw_dataset|kill"),
        (FORK_BOMB, Verdict.LIMIT, "processes"),
        ("kept = bytes(40 << 30)", Verdict.LIMIT, "memory"),
        ("import torch; torch.ones(40 << 28)", Verdict.LIMIT, "memory"),
        (FULL_DISK, Verdict.LIMIT, "disk"),
        ("while True: print('x' * 1000)", Verdict.LIMIT, "printed output"),
        (IGNORE_SIGNALS, Verdict.HUNG, "No answer within"),
        ("import os; os.kill(os.getpid(), 19)", Verdict.HUNG, "stopped itself"),
        (DAEMON, Verdict.PASSED, ""),
    ],
    ids=[
        "exit", "segfault", "abort", "kill", "fork-bomb", "bytes-40GB", "torch-40GB", "full-disk", "endless-print",
        "ignored-signals", "SIGSTOP", "daemon",
    ],
)  # fmt: skip
def test_it_costs_only_its_check(code: str, verdict: Verdict, words: str, box: Box, tmp_path: Path) -> None:
    source = (ROOT / "reference" / "lfw_dataset.py").read_text()
    honest = "        return len(self.paths)\n"
    assert source.count(honest) == 1
    hostile = "".join(f"        {line}\n" for line in code.strip().splitlines())
    (tmp_path / "lfw_dataset.py").write_text(source.replace(honest, hostile + honest))
    before, server = traces(box), box.server_pid()

    results = grade(tmp_path, EXERCISE, CHECKS, box, slow=verdict is Verdict.LIMIT)

    for name in ("constructs", "transform_applied"):
        assert results[name].verdict is Verdict.PASSED
        assert results[name].points == results[name].max_points > 0
    length = results["length"]
    assert length.verdict is verdict, length
    assert length.points == (length.max_points if verdict is Verdict.PASSED else 0)
    assert any(word in length.message for word in words.split("|"))
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


@pytest.mark.parametrize("command", ["lockstep", "pytest"])
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
