"""Runs that share real GPUs (lockstep/sandbox/turns.py); on a real one in tests/test_real_gpu.py."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.sandbox import turns
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from tests.sandboxed import seen


def ended(*messages: str, complete: bool = False, output: str = "") -> Outcome:
    """A run whose ranks raised these; an empty one stands for a rank that raised nothing."""
    errors = [
        StudentError("RuntimeError", message, (), "running") if message else None for message in messages
    ]
    return Outcome(
        tuple(RankOutcome(complete or error is None, error=error, output=output) for error in errors), 1.0
    )


def is_free(folder: str, how: int) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_TURN", "_GPUS"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(turns, name, str(tmp_path / name))
    yield
    assert is_free(turns._TURN, fcntl.LOCK_EX)
    assert is_free(turns._GPUS, fcntl.LOCK_EX)


SAID = {
    "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 79.11 GiB": True,
    "CUDA error: out of memory": True,
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": True,
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`": True,
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": True,
    "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details)": True,
    "ncclUnhandledCudaError: Call to CUDA function failed.": True,
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!": False,
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.": False,
}


@pytest.mark.parametrize("message", SAID)
def test_a_run_without_memory_is_repeated_alone(message: str) -> None:
    alone, well = [], ended("", complete=True)

    def once() -> Outcome:
        assert is_free(turns._TURN, fcntl.LOCK_EX) == (not alone)
        alone.append(not is_free(turns._GPUS, fcntl.LOCK_SH))
        return well if alone[-1] else ended("", message)

    outcome = turns.run_beside_others(once)
    assert alone == ([False, True] if SAID[message] else [False])
    assert (outcome is well) == SAID[message]


def test_what_a_script_prints_before_it_ends_counts() -> None:
    outcomes = [ended("exit status 1", output="torch.OutOfMemoryError: CUDA out of memory."), ended("")]
    assert turns.run_beside_others(lambda: outcomes.pop(0)) == ended("")


def test_a_run_that_got_over_it_is_not_repeated() -> None:
    outcomes = [ended("", output="CUDA out of memory: going on with 64 pictures a batch")]
    assert turns.run_beside_others(lambda: outcomes.pop(0)).ranks[0].complete


def test_what_is_out_of_memory_alone_is_told() -> None:
    outcomes = [ended("CUDA out of memory."), ended("CUDA out of memory. ")]
    assert turns.run_beside_others(lambda: outcomes.pop(0)) == ended("CUDA out of memory. ")


def test_the_repetition_waits_for_who_is_there_and_goes_before_who_comes() -> None:
    began, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def long() -> Outcome:
        began.set()
        may_end.wait()
        order.append("was there")
        return ended("")

    def out_of_memory() -> Outcome:
        if "failed" in order:
            order.append("repeated")
            return ended("")
        order.append("failed")
        return ended("CUDA out of memory.")

    def newcomer() -> Outcome:
        order.append("came")
        return ended("")

    first = threading.Thread(target=turns.run_beside_others, args=[long])
    second = threading.Thread(target=turns.run_beside_others, args=[out_of_memory])
    third = threading.Thread(target=turns.run_beside_others, args=[newcomer])
    first.start()
    began.wait()
    second.start()
    # It holds the turn while it waits.
    while "failed" not in order or is_free(turns._TURN, fcntl.LOCK_EX):
        pass
    third.start()
    may_end.set()
    for thread in (first, second, third):
        thread.join()
    assert order == ["failed", "was there", "repeated", "came"]


LOCKS = """
    import fcntl, os

    def main():
        for folder in ("/dev", "/tmp"):
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "locked"
"""


def test_no_run_can_take_the_turn(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with turns._locked(turns._TURN), turns._locked(turns._GPUS):
        assert seen(box, LOCKS) == "locked"
