"""`kill`, and a terminal that is closed, stop a grading as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.stopping import ENDING, like_ctrl_c
from tests.batches import LAB
from tests.sandboxed import ROOT, _descendants, is_alive

CHECK = [sys.executable, "-m", "lockstep.cli", "check", ".", "--graders", str(LAB)]
PYTEST = [sys.executable, "-m", "pytest", str(LAB), "--submission", ".", "-p", "no:cacheprovider"]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("command", "status"),
    [
        pytest.param(CHECK, 130, id="check"),
        pytest.param(PYTEST, pytest.ExitCode.INTERRUPTED, id="pytest"),
    ],
)
def test_a_grading_that_is_told_to_end_leaves_nothing(
    command: list[str], status: int, number: signal.Signals, tmp_path: Path
) -> None:
    work, gate, temporary = tmp_path / "class" / "ada", tmp_path / "gate", tmp_path / "temporary"
    work.mkdir(parents=True)
    (work / "steps.md").write_text("three:waits")
    temporary.mkdir()
    os.mkfifo(gate)
    handle = os.open(gate, os.O_RDWR)
    grading = subprocess.Popen(
        command,
        cwd=work,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "LOCKSTEP_TESTS_GATE": str(gate),
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(3):
            os.read(handle, 1)  # a check begins
        started = _descendants(grading.pid)
        grading.send_signal(number)
        _, said = grading.communicate(timeout=300)
    finally:
        os.close(handle)
        if grading.poll() is None:
            os.killpg(grading.pid, signal.SIGKILL)
            grading.wait()
    assert grading.returncode == status, said
    assert "Traceback" not in said
    assert not [pid for pid in started if is_alive(pid)]
    assert list(temporary.iterdir()) == []


def test_only_the_first_interrupts() -> None:
    with like_ctrl_c():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
    assert [signal.getsignal(number) for number in ENDING] == [signal.SIG_DFL] * len(ENDING)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with like_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
