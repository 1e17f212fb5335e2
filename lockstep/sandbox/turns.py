"""Real GPUs have room for all: a run that found their memory taken is repeated when no other is on them.

A class is graded by several processes, whose runs meet on the same GPUs, and nothing limits what a run takes of their
memory: some work takes all of it before it begins, and on a small GPU a few processes that have only started do. None
of that is the fault of whoever runs beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator

from lockstep.sandbox.outcome import Outcome, RankOutcome

# Folders of the machine's that every grader of it can lock, and that no run sees: a box has its own in their place.
# Who wants the GPUs alone keeps the turn while it waits, so that nobody new begins.
_TURN, _GPUS = "/dev", "/tmp"
# How torch, cuBLAS, cuDNN and NCCL say that there was no memory left, some of them only that they could not begin.
_TAKEN = re.compile(
    r"out of memory|_ALLOC_FAILED|CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED|unhandled ?cuda ?error", re.IGNORECASE
)


def run_beside_others(run: Callable[[], Outcome]) -> Outcome:
    """What comes of a run on real GPUs, of its repetition alone where it was out of their memory."""
    with _locked(_TURN):
        beside = contextlib.ExitStack()
        beside.enter_context(_locked(_GPUS, fcntl.LOCK_SH))
    with beside:
        outcome = run()
    if not any(_found_them_taken(rank) for rank in outcome.ranks):
        return outcome
    with _locked(_TURN), _locked(_GPUS):
        return run()


def _found_them_taken(rank: RankOutcome) -> bool:
    said = rank.output if rank.error is None else f"{rank.error.type}: {rank.error.message}\n{rank.output}"
    return (rank.error is not None or not rank.complete) and _TAKEN.search(said) is not None


@contextlib.contextmanager
def _locked(folder: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    # The lock goes with the descriptor, and that with this process: nothing is left locked.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
