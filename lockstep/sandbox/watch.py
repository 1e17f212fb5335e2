"""Hooks inside a rank that note what student code does with torch.distributed, as it happens.

Events are evidence for messages (who waits where), not proof: student code could remove the hooks.
What must hold is judged from results and from counters outside.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

COLLECTIVES = (
    "all_reduce reduce broadcast all_gather all_gather_into_tensor all_gather_object gather "
    "gather_object scatter scatter_object_list broadcast_object_list reduce_scatter "
    "reduce_scatter_tensor all_to_all all_to_all_single barrier monitored_barrier send recv isend "
    "irecv batch_isend_irecv send_object_list recv_object_list init_process_group "
    "destroy_process_group"
).split()
MAX_EVENTS = 20_000


class Watch:
    """Writes one JSON line per event to a pipe the trusted side reads while the rank runs."""

    def __init__(self, fd: int, began: int, work: str) -> None:
        """Events go to the pipe `fd`; the pipe `began` is told once that student code comes next, and closed."""
        self._write = functools.partial(os.write, fd)
        self._began: int | None = began
        self._work = work + os.sep
        self._count = 0
        self._depth = 0
        self._watch_collectives()

    def note(self, kind: str, **fields: object) -> None:
        """Record one event; dropped once there are absurdly many. The first phase is the first call of student code."""
        if kind == "phase" and self._began is not None:
            # Student code can read its events back: a pipe belongs to the user who made it, who may be its own.
            os.write(self._began, b".")
            os.close(self._began)
            self._began = None
        self._count += 1
        if self._count <= MAX_EVENTS:
            self._write(json.dumps({"kind": kind, **fields}).encode() + b"\n")

    def where(self) -> str:
        """`file:line` of the innermost student frame, or an empty string."""
        frame = sys._getframe(1)
        current: Any = frame
        while current is not None:
            name = current.f_code.co_filename
            if name.startswith(self._work):
                return f"{name[len(self._work) :]}:{current.f_lineno}"
            current = current.f_back
        return ""

    def _watch_collectives(self) -> None:
        import torch.distributed as dist
        from torch.distributed import distributed_c10d

        for name in COLLECTIVES:
            original = getattr(distributed_c10d, name, None)
            if original is None:
                continue
            watched = self._watched(name, original)
            setattr(distributed_c10d, name, watched)
            if hasattr(dist, name):
                setattr(dist, name, watched)

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth:  # a collective built from others counts once
                return original(*args, **kwargs)
            self._depth += 1
            number = self._count
            self.note("collective", op=name, bytes=_tensor_bytes(args), where=self.where(), number=number)
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1
                self.note("returned", op=name, number=number)

        return call


def _tensor_bytes(args: tuple[Any, ...]) -> int:
    """Bytes of the tensors among a call's arguments, one level of lists deep."""
    import torch

    total = 0
    for argument in args:
        items = argument if isinstance(argument, list | tuple) else (argument,)
        total += sum(item.nbytes for item in items if type(item) is torch.Tensor)
    return total
