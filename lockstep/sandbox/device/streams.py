"""Streams and events of the emulated GPUs; every GPU works off one queue, however many streams there are."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch

from lockstep.sandbox.device.machine import Machine


class StreamBase:
    """A queue of a GPU. What makes it differ from others has no effect here."""

    machine: Machine

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device_index = self.machine.gpu(device)
        self.device = self.machine.device(self.device_index)
        self.priority = priority
        self.stream_id = self.cuda_stream = 0
        self.device_type = 1
        self._outer: list[int] = []

    def synchronize(self) -> None:
        """Wait until the GPU has done what is queued."""
        self.machine.clock.wait(self.device_index, "Stream.synchronize", explicit=True)

    def query(self) -> bool:
        """Whether all is done."""
        clock = self.machine.clock
        clock.queries += 1
        return clock.done_at(self.device_index) > clock.busy_until[self.device_index]

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being recorded: never."""
        return False

    def wait_stream(self, stream: StreamBase) -> None:
        """Work that follows waits for another stream: it does anyway."""

    def wait_event(self, event: EventBase) -> None:
        """Work that follows waits for an event: it does anyway."""

    def record_event(self, event: EventBase | None = None) -> EventBase:
        """Record an event, a new one where none is given."""
        kind: Any = torch.cuda.Event
        made: EventBase = kind() if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> StreamBase:
        self._outer.append(self.machine.current)
        self.machine.current = self.device_index
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.current = self._outer.pop()

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


class EventBase:
    """A point in a GPU's queue, whose time is when the work before it is done."""

    machine: Machine

    def __init__(self, enable_timing: Any = False, *_: Any, **others: Any) -> None:
        # `torch.Event("cuda", enable_timing=True)` names a device first.
        self._timing = others.get("enable_timing", enable_timing) is True
        self._time: float | None = None
        self._index = 0

    def record(self, stream: StreamBase | None = None) -> None:
        """Put the event behind what is queued now."""
        self._index = self.machine.current if stream is None else stream.device_index
        self._time = self.machine.clock.done_at(self._index)

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        self.machine.clock.wait(self._index, "Event.synchronize", explicit=True, until=self._time or 0.0)

    def wait(self, stream: StreamBase | None = None) -> None:
        """Work that follows waits for the event: it does anyway."""

    def query(self) -> bool:
        """Whether the work before the event is done."""
        self.machine.clock.queries += 1
        return self._time is None or self._time <= time.perf_counter()

    def elapsed_time(self, end_event: EventBase) -> float:
        """Milliseconds of the GPU's time from this event to another."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not end_event.query():
            raise RuntimeError(
                "CUDA error: device not ready\nCUDA kernel errors might be asynchronously reported at some other "
                "API call, so the stacktrace below might be incorrect."
            )
        return (end_event._time - self._time) * 1000.0


def stream_and_event(machine: Machine) -> tuple[type[StreamBase], type[EventBase]]:
    """The classes of a machine's streams and events."""
    stream = type("Stream", (StreamBase,), {"machine": machine, "__module__": "torch.cuda.streams"})
    event = type("Event", (EventBase,), {"machine": machine, "__module__": "torch.cuda.streams"})
    return stream, event


class _GeneratorMeta(type(torch._C.Generator)):  # type: ignore[misc]
    """Every generator is an instance of what takes the class's place."""

    def __instancecheck__(cls, instance: object) -> bool:
        return issubclass(type(instance), torch._C.Generator)


def generator_class(machine: Machine) -> Any:
    """`torch.Generator`, which can be asked for one of an emulated GPU."""

    def new(cls: Any, device: Any = "cpu") -> Any:
        base: Any = torch._C.Generator
        made = base.__new__(cls, "cpu")
        made.index = machine.generators[made._cdata] = machine.index(device)
        return made

    members = {
        "__module__": "torch._C",
        "__new__": new,
        "__init__": lambda self, device="cpu": None,
        "__del__": lambda self: machine.generators.pop(self._cdata, None),
        "__reduce__": lambda self: (torch.Generator, (self.device,), self.get_state()),
        "__setstate__": lambda self, state: self.set_state(state),
        "clone_state": copy.copy,
        "device": property(lambda self: machine.device(self.index)),
    }
    return _GeneratorMeta("Generator", (torch._C.Generator,), members)
