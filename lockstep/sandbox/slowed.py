"""Holds up the reading of data and the calls of models for known times, and notes when each of them was.

A script that takes the time of what it does must find these times in its readings. Processes that are forked from
this one, such as the workers of a DataLoader, are held up and noted as well.

What is noted is evidence as long as the script leaves it alone; its readings are held against a clock outside, too.
"""

from __future__ import annotations

import functools
import os
import struct
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter

from lockstep.wire import Json

MAX_EVENTS = 20_000
_EVENT = struct.Struct("<qddq")
_LOADER = struct.Struct("<q?")

# The clock and the sleep of this file stay what they are, whatever a script does to `time`.
_now, _sleep = time.perf_counter, time.sleep


class Holdups:
    """What was held up so far, by whichever process: the n-th time in one process for `seconds[n]`, then over again."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = list(seconds) or [0.0]
        self._main = os.getpid()
        # Forked processes share the file's position, so that each write goes behind the last one, whoever made it.
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - for as long as the process runs
        self._count = 0

    def hold(self) -> None:
        """Wait."""
        _sleep(self._seconds[self._count % len(self._seconds)])
        self._count += 1

    def note(self, start: float, items: int) -> None:
        """Keep that what began at `start` is done, and how many items it was about."""
        if self._count <= MAX_EVENTS:
            os.write(self._file.fileno(), _EVENT.pack(os.getpid() == self._main, start, _now(), items))

    def events(self) -> list[Json]:
        """[in the main process, start, done, items] of each, in the order in which they were done."""
        data = os.pread(self._file.fileno(), MAX_EVENTS * _EVENT.size, 0)
        whole = len(data) - len(data) % _EVENT.size
        return [
            [bool(main), start, done, items] for main, start, done, items in _EVENT.iter_unpack(data[:whole])
        ]


def hold_up_batches(seconds: Sequence[float]) -> Holdups:
    """From now on, hold up every batch that a DataLoader reads from a map-style data set, before it is read."""
    holdups = Holdups(seconds)
    fetcher: Any = _MapDatasetFetcher
    fetch = fetcher.fetch

    @functools.wraps(fetch)
    def held_up(self: Any, index: Any) -> Any:
        start = _now()
        holdups.hold()
        batch = fetch(self, index)
        holdups.note(start, len(index) if isinstance(index, list | tuple) else 1)
        return batch

    fetcher.fetch = held_up
    return holdups


def hold_up_calls(seconds: Sequence[float]) -> Holdups:
    """From now on, hold up every call of a model that no other module makes; its items are its first tensor's rows.

    A model has parameters: losses and torchvision's transforms are modules, too. The wait is in the innermost call that
    ends first, behind what it does: hooks of a script's own, on whichever module, are called outside of it.
    """
    holdups = Holdups(seconds)
    # Replicas of a model run in threads of their own.
    thread = threading.local()

    def before(module: nn.Module, args: tuple[object, ...]) -> None:
        thread.depth = getattr(thread, "depth", 0) + 1
        if thread.depth == 1:
            thread.waits = _is_model(module)
            batch = args[0] if args else None
            thread.items = len(batch) if isinstance(batch, torch.Tensor) and batch.ndim else 0
            thread.start = _now()

    def after(module: nn.Module, args: object, output: object) -> None:
        if thread.waits:
            holdups.hold()
            thread.waits = False
        thread.depth -= 1
        if thread.depth == 0 and _is_model(module):
            holdups.note(thread.start, thread.items)

    nn.modules.module.register_module_forward_pre_hook(before)
    nn.modules.module.register_module_forward_hook(after, always_call=True)
    return holdups


def _is_model(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def watch_workers() -> list[Json]:
    """How the workers of data loaders that are made from now on start: [how many, "fork"], for each loader with any."""
    seen: list[Json] = []
    loader: Any = DataLoader
    make = loader.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if self.num_workers and len(seen) < 1000:
            context = self.multiprocessing_context or torch.multiprocessing
            seen.append([int(self.num_workers), str(context.get_start_method())])

    loader.__init__ = made
    return seen


class Loaders:
    """With how many workers data loaders were read so far, in this process or in one that was forked from it."""

    def __init__(self) -> None:
        # As with hold-ups, forked processes share the file's position.
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - for as long as the process runs
        self._noted: set[tuple[int, bool]] = set()

    def note(self, workers: int, is_torchs_own: bool) -> None:
        """Keep that a loader was read, once for each number."""
        if (workers, is_torchs_own) not in self._noted and len(self._noted) < 1000:
            self._noted.add((workers, is_torchs_own))
            os.write(self._file.fileno(), _LOADER.pack(workers, is_torchs_own))

    def read(self) -> list[Json]:
        """[how many workers, whether the loader was a DataLoader and of no class of a script's own] of each."""
        data = os.pread(self._file.fileno(), MAX_EVENTS * _LOADER.size, 0)
        whole = len(data) - len(data) % _LOADER.size
        return [[workers, own] for workers, own in _LOADER.iter_unpack(data[:whole])]


def watch_loaders() -> Loaders:
    """From now on, note with how many workers data loaders are read.

    That is asked when a pass begins: `loader.num_workers = 2` counts as well.
    """
    loaders = Loaders()
    iterator: Any = _BaseDataLoaderIter
    begin = iterator.__init__

    @functools.wraps(begin)
    def begun(self: Any, loader: Any) -> None:
        loaders.note(int(loader.num_workers), type(loader) is DataLoader)
        begin(self, loader)

    iterator.__init__ = begun
    return loaders
