"""Real runs in one real box: whether all of it works together, and how long it takes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.doctor import mending
from lockstep.doctor.capacity import WITHOUT_GPUS
from lockstep.doctor.finding import Finding, Level
from lockstep.text import safe_line

if TYPE_CHECKING:
    from lockstep.sandbox.outcome import Outcome, RankOutcome

RANKS = 2
SECONDS = 30.0
CONFINED = {"filter": "2", "capabilities": "0000000000000000", "networks": "lo"}
"""What a rank has to say of itself (proc_pid_status(5)): a filter is loaded, no capabilities, only a loopback."""

# CUDA alone takes seconds to start on a machine with many GPUs.
GPU_SECONDS = 90.0
NAME, TITLE = "box", "a run in a box"
GPU_NAME, GPU_TITLE = "gpu_box", "a run on a GPU"


def trial(gpus: int = 0) -> list[Finding]:
    """Start a box and let two ranks add something up; with `gpus`, let a process compute on one of them as well.

    Takes as long as importing torch does.
    """
    begun = time.monotonic()
    try:
        # Imported here: this is where a machine without torch or NumPy fails.
        from lockstep.check import torchrun_environment
        from lockstep.exercise import Server
        from lockstep.sandbox.box import Box
        from lockstep.sandbox.bubblewrap import SandboxUnavailable
        from lockstep.sandbox.gpus import environment
        from lockstep.sandbox.limits import ADDRESS_SPACE_OF_CUDA, Limits
        from lockstep.sandbox.spec import Pack, RankInputs, RunSpec
        from lockstep.verdict import GraderFault
    except ImportError as error:
        return [_refused(str(error))]
    spec = RunSpec(
        probe="doctor",
        call="look",
        submission=Pack({}),
        ranks=[RankInputs(environment=torchrun_environment(rank, RANKS)) for rank in range(RANKS)],
        limits=Limits(seconds=SECONDS),
    )
    on_gpu = replace(
        spec,
        call="compute",
        ranks=[RankInputs(environment={**torchrun_environment(0, 1), **environment(gpus)})],
        limits=Limits(seconds=GPU_SECONDS, address_space=ADDRESS_SPACE_OF_CUDA),
        shared_files=True,
    )
    probes = {"doctor": Path(__file__).with_name("probe.py")}
    try:
        with Box(probes, isolated=True, last=Server.FULL, real_gpus=gpus) as box:
            box.wait_ready()
            started = time.monotonic() - begun
            found = [judged(box.run(spec), started)]
            if gpus:
                found.append(judged_on_gpu(box.run(on_gpu)))
    except (GraderFault, SandboxUnavailable, OSError, RuntimeError) as error:
        return [_refused(str(error))]
    return found


def not_tried() -> Finding:
    """Stands in for a trial where it is known already that there is no sandbox."""
    return Finding(NAME, TITLE, Level.REFUSED, "not tried", "Mend first what is refused above.")


def judged(outcome: Outcome, started: float) -> Finding:
    """What a run says of this machine; the box had started after so many seconds."""
    wrong = next(filter(None, map(_complaint, outcome.ranks)), "")
    if wrong:
        return _refused(wrong)
    seen = f"up in {started:.1f} s; {len(outcome.ranks)} ranks added up in {outcome.elapsed:.2f} s"
    follows = "Grading works, with what is above."
    values = {"start_seconds": round(started, 3), "run_seconds": round(outcome.elapsed, 3)}
    return Finding(NAME, TITLE, Level.OK, seen, follows, values=dict(values))


def judged_on_gpu(outcome: Outcome) -> Finding:
    """What a run on a GPU says of this machine."""
    (rank,) = outcome.ranks
    wrong = _unfinished(rank)
    if not wrong and (rank.values.get("total"), rank.values.get("gradient")) != (1.0, 4.0):
        wrong = f"1 rank added up to {rank.values.get('total')}, a gradient was {rank.values.get('gradient')}"
    if wrong:
        return Finding(GPU_NAME, GPU_TITLE, Level.WEAKER, safe_line(wrong, 300), WITHOUT_GPUS)
    seen = f"computed, and met by NCCL, in {outcome.elapsed:.1f} s"
    values = {"run_seconds": round(outcome.elapsed, 3)}
    return Finding(GPU_NAME, GPU_TITLE, Level.OK, seen, "`--device cuda` works.", values=dict(values))


def _unfinished(rank: RankOutcome) -> str:
    if rank.error is not None:
        return f"{rank.error.type}: {rank.error.message}"
    if not rank.complete:
        return rank.protocol or "the run did not come back"
    return ""


def _complaint(rank: RankOutcome) -> str:
    if unfinished := _unfinished(rank):
        return unfinished
    if rank.values.get("total") != sum(range(1, RANKS + 1)):
        return f"{RANKS} ranks added up to {rank.values.get('total')}"
    loose = [name for name, right in CONFINED.items() if rank.values.get(name) != right]
    return (
        f"a run is not confined: {', '.join(f'{name} {rank.values.get(name)}' for name in loose)}"
        if loose
        else ""
    )


def _refused(why: str) -> Finding:
    first, *others = why.strip().splitlines() or ["no reason given"]
    # Of a traceback the last line is what says it.
    seen = f"{first.partition(':')[0]}: {others[-1]}" if others else first
    lacks = re.search(r"No module named '(?!lockstep)", seen)
    mend = mending.set_up_again() if lacks else ""
    return Finding(NAME, TITLE, Level.REFUSED, safe_line(seen, 300), "Nothing is graded.", mend)
