"""`--device cuda`: which GPUs a check gets, and what is said where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from lockstep.grading import CouldNotGrade, Options, Silent, grade
from lockstep.sandbox import bubblewrap
from lockstep.sandbox.box import Box
from lockstep.sandbox.gpus import REAL_GPUS, gpus
from tests.sandboxed import ROOT, seen

LAB = ROOT / "tests" / "labs" / "graders"


def test_without_a_gpu_there_is_no_verdict_but_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "gpu_devices", lambda: ())
    (tmp_path / "tiny.py").touch()
    with pytest.raises(CouldNotGrade, match="no NVIDIA GPU that a process can open"):
        grade(Options(tmp_path, device="cuda", graders=LAB), Silent())


def test_gpus_are_emulated_unless_the_run_may_use_as_many_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for real in (None, "0", "1"):
        if real is not None:
            monkeypatch.setenv(REAL_GPUS, real)
        with gpus(2):
            assert torch.cuda.device_count() == 2
            assert torch.ones(2, device="cuda:1").sum().item() == 2
    monkeypatch.setenv(REAL_GPUS, "2")
    with gpus(2):
        # Whether this machine has any does not matter: they are no longer hidden, and nothing stands in for them.
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
        assert torch.cuda.is_available.__module__ == "torch.cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_driver_is_within_reach_only_where_it_was_asked_for(tmp_path: Path) -> None:
    device = tmp_path / "nvidia0"
    device.touch()

    def command(*devices: Path) -> list[str]:
        return bubblewrap.command(["true"], {}, {}, {}, None, devices)

    assert str(device) not in command()
    place = command(device).index(str(device))
    assert command(device)[place - 1 : place + 2] == ["--dev-bind", str(device), str(device)]


def test_a_run_sees_no_gpu_by_itself(box: Box) -> None:
    source = """
        import os, torch

        def main():
            return [torch.cuda.is_available(), torch.cuda.device_count(), sorted(n for n in os.listdir("/dev") if "nvidia" in n)]
    """
    assert seen(box, source) == [False, 0, []]
