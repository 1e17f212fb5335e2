"""Turn the stack a rank wrote at its deadline into words: which collective, at which line of whose file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockstep.sandbox.channel import MAX_STARTED, STARTED
from lockstep.sandbox.outcome import CodeFrame, Standing
from lockstep.sandbox.watch import COLLECTIVES
from lockstep.wire import Json

# What faulthandler writes: innermost frame first.
_FRAME = re.compile(r'^  File "([^"\n]{1,400})", line (\d{1,9}) in ([^\n]{1,200})$', re.MULTILINE)
COLLECTIVES_FILE = "torch/distributed/distributed_c10d.py"
_STATES = {"T": "stopped", "Z": "dead", "X": "dead"}

_FIRST_WEIGHTS = "DistributedDataParallel(...)'s broadcast of the first weights"
_BUFFERS = "DistributedDataParallel's broadcast of buffers before forward"
_GRADIENTS = "the gradient all_reduce inside backward()"

WITH_OTHERS = frozenset({_FIRST_WEIGHTS, _BUFFERS, _GRADIENTS})
"""What the stack looks like as well when a process that is alone computes there."""

# (part of a file name, functions): what waiting there means. The first match, innermost frame first, wins.
_PLACES: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("torch/nn/parallel/distributed.py", ("__init__",), _FIRST_WEIGHTS),
    ("torch/nn/parallel/distributed.py", ("forward", "_pre_forward", "_sync_buffers"), _BUFFERS),
    ("torch/distributed/rendezvous.py", (), "init_process_group (it waits until all ranks have joined)"),
    ("torch/distributed/distributed_c10d.py", ("init_process_group", "_store_based_barrier", "_new_process_group_helper"), "init_process_group (it waits until all ranks have joined)"),
    ("torch/utils/data/dataloader.py", ("_try_get_data", "_get_data", "_next_data"), "a DataLoader worker"),
    ("torch/autograd/graph.py", ("_engine_run_backward",), _GRADIENTS),
    ("subprocess.py", ("wait", "_wait", "communicate", "_communicate"), "a command that has not ended"),
    ("threading.py", ("join", "_wait_for_tstate_lock"), "a thread that has not ended"),
    ("multiprocessing/", ("wait", "join", "poll"), "a child process that has not ended"),
)  # fmt: skip


def read(stack: str, work: str, state: str, events: Sequence[Mapping[str, Json]]) -> Standing:
    """Where a rank stood. `stack` is untrusted text: it is matched, never interpreted."""
    own, *started = re.split(rf"\n{STARTED}(?=[0-9]{{1,9}}\n)", stack)
    ranks = (text.partition("\n") for text in started[:MAX_STARTED])
    return replace(
        _one(own, work, state, events),
        started=tuple((int(rank), _one(text, work, "", ())) for rank, _, text in ranks),
    )


def _one(stack: str, work: str, state: str, events: Sequence[Mapping[str, Json]]) -> Standing:
    frames = [CodeFrame(name, int(line), function) for name, line, function in _FRAME.findall(stack)[:200]]
    # Without a folder of theirs, no file is theirs. A script that was started by its bare name goes by that.
    theirs = [replace(frame, file=frame.file.removeprefix(f"{work}/")) for frame in frames] if work else []
    innermost = next((i for i, frame in enumerate(theirs) if not frame.file.startswith(("/", "<"))), None)
    own = None if innermost is None else theirs[innermost]
    words = _STATES.get(state, "")
    # What called their code does not wait while that runs, as the forward of a wrapper around their module.
    waits_in = _pending(events) or _place(frames[:innermost])
    return Standing(waits_in, own, words)


def _place(frames: Sequence[CodeFrame]) -> str:
    for frame in frames:
        for part, functions, words in _PLACES:
            if part in frame.file and (not functions or frame.function in functions):
                return words
    in_torch = (frame.function for frame in frames if COLLECTIVES_FILE in frame.file)
    return next((function for function in in_torch if function in COLLECTIVES), "")


def _pending(events: Sequence[Mapping[str, Json]]) -> str:
    """The last collective that was entered and has not returned."""
    returned = {_number(event) for event in events if event.get("kind") == "returned"}
    for event in reversed(events):
        if event.get("kind") == "collective" and _number(event) not in returned:
            name = event.get("op")
            if isinstance(name, str):
                note = " (it waits until all ranks have joined)" if name == "init_process_group" else ""
                return f"{name}{note}"
    return ""


def _number(event: Mapping[str, Json]) -> int | None:
    """Which call an event is about; a forged one may hold what no set can."""
    number = event.get("number")
    return number if isinstance(number, int) else None
