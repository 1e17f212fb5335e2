"""`--device cuda`: which GPUs a check gets, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lockstep.exercise import Server
from lockstep.grading import CouldNotGrade, Options, Silent, grade
from lockstep.sandbox import bubblewrap
from lockstep.sandbox.box import Box
from lockstep.sandbox.gpus import REAL_GPUS, gpus
from tests.sandboxed import PROBE, ROOT, message, run, seen

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


@pytest.mark.parametrize(("mode", "opened"), [(0o666, True), (0o660, False), (0o600, False), (0o644, False)])
def test_a_gpu_that_only_root_may_open_is_none_for_the_boxes_of_root(
    mode: int, opened: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    device.chmod(mode)
    monkeypatch.setattr(bubblewrap, "gpu_files", lambda: (device,))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert bubblewrap.gpu_devices() == ((device,) if opened else ())


def test_the_drivers_library_is_found_where_a_container_was_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{tmp_path}")
    # Inside there is nothing of other folders.
    assert bubblewrap.driver_library() is None
    monkeypatch.setattr(Path, "resolve", lambda self: Path("/usr/local/nvidia/lib64"))
    assert bubblewrap.driver_library() == str(tmp_path)


STARTS = """
import torch
from lockstep.sandbox import server

def counts_gpus(*arguments):
    raise SystemExit("autograd was started, and with it CUDA")

torch.autograd.backward = counts_gpus
server.import_the_rest(gpus={gpus})
"""


@pytest.mark.parametrize(("gpus", "said"), [(True, ""), (False, "autograd was started, and with it CUDA\n")])
def test_a_server_whose_runs_use_gpus_does_not_start_cuda_itself(gpus: bool, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS.format(gpus=gpus)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == said


def test_a_run_cannot_import_what_starts_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In mpi4py's place stands a package that is installed here.
    monkeypatch.setattr(bubblewrap, "CLUSTER_PACKAGES", ("jsonschema", "not_installed"))
    source = """
        import jsonschema

        def main():
            from jsonschema import validate
    """
    with Box({"engine": PROBE}, isolated=True, last=Server.EARLY) as box:
        text = message(run(box, source, server=Server.EARLY))
    assert "ImportError: cannot import name 'validate'" in text
