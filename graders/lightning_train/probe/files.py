"""Which files the data set is read from, and by whom it is made."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.utils.data import DataLoader
from torchvision import datasets

from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.wire import Json

from .besides import is_besides
from .recorder import MAX_ROWS

BATCH_SIZE = 8
MAX_LOCKS = 20
MAX_DOWNLOADS = 100
MAX_PATH = 200


class Files:
    """Which pictures of Fashion-MNIST are read in which part of the training, and who asks for a download.

    A process that holds a lock on a file while it asks, as with FileLock, gets in nobody's way who locks the same one:
    that is noted, by the part of the data asked for. So is how often it has waited for all others before.
    """

    def __init__(self, offered: str | None) -> None:
        self.items: dict[str, list[Json]] = {"train": [], "val": []}
        # Of each call: how many barriers lie behind it, and whether it is made under a lock.
        self.downloads: dict[str, list[Json]] = {"train": [], "test": []}
        self.barriers = 0
        self.locks: dict[str, list[Json]] = {"train": [], "test": []}
        self.trainer: pl.Trainer | None = None
        self.is_open = False
        self.when_opened: Callable[[], None] = lambda: None
        self._note_opening()
        self._note_items()
        self._note_downloads()
        self._count_barriers()
        if offered is not None:
            _offer(offered)

    def _note_opening(self) -> None:
        original = datasets.FashionMNIST.__init__

        def opened() -> None:
            if not self.is_open:
                self.is_open = True
                self.when_opened()

        @functools.wraps(original)
        def noted(dataset: datasets.FashionMNIST, *args: Any, **kwargs: Any) -> None:
            original(dataset, *args, **kwargs)
            opened()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            # Who reads the files without torchvision: train-images-idx3-ubyte and the like.
            if not self.is_open and event == "open" and "-ubyte" in str(arguments[0]):
                opened()

        datasets.FashionMNIST.__init__ = noted
        sys.addaudithook(hook)

    def _note_items(self) -> None:
        original = datasets.FashionMNIST.__getitem__

        def noted(dataset: datasets.FashionMNIST, index: int) -> tuple[Any, Any]:
            trainer = self.trainer
            if trainer is not None and not trainer.sanity_checking:
                stage = "train" if trainer.training else "val"
                counts = not is_besides(trainer, stage, len(self.items["val"]))
                if counts and len(self.items[stage]) < MAX_ROWS:
                    self.items[stage].append(["train" if dataset.train else "test", int(index)])
            item: tuple[Any, Any] = original(dataset, index)
            return item

        datasets.FashionMNIST.__getitem__ = noted

    def _note_downloads(self) -> None:
        original = datasets.FashionMNIST.download

        def noted(dataset: datasets.FashionMNIST) -> None:
            locked = _locked_files()
            part = "train" if dataset.train else "test"
            held, asked = self.locks[part], self.downloads[part]
            if len(asked) < MAX_DOWNLOADS:
                asked.append([self.barriers, bool(locked)])
            if len(held) < MAX_LOCKS:
                held += locked[:MAX_LOCKS]
            original(dataset)

        datasets.FashionMNIST.download = noted

    def _count_barriers(self) -> None:
        original = distributed_c10d.barrier

        @functools.wraps(original)
        def counted(group: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = original(group, *args, **kwargs)
            # Of a part of the processes, or one that others may still be on their way to, is none.
            self.barriers += group in (None, dist.group.WORLD) and result is None
            return result

        dist.barrier = distributed_c10d.barrier = counted


def _locked_files() -> list[str]:
    """The files on which this process holds a lock for itself alone, by flock or by fcntl."""
    locked = []
    for descriptor in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}") as file:
            if any(line.startswith("lock:") and " WRITE " in line for line in file):
                path = os.readlink(f"/proc/self/fd/{descriptor}")
                # Some remove the file they have locked; who locks the next of its name has waited all the same.
                locked.append(path.removesuffix(" (deleted)")[-MAX_PATH:])
    return locked


def _offer(offered: str) -> None:
    """Where code opens Fashion-MNIST at a place that is not there, open this one instead."""
    original = datasets.FashionMNIST.__init__

    @functools.wraps(original)
    def init(self: datasets.FashionMNIST, root: Any, *args: Any, **kwargs: Any) -> None:
        there = os.path.isdir(os.path.join(os.fspath(root), "FashionMNIST", "raw"))
        original(self, root if there else offered, *args, **kwargs)

    datasets.FashionMNIST.__init__ = init


def small_loaders() -> None:
    """Read in this process, and in small batches, so that little data makes several."""
    read_in_this_process()
    original = DataLoader.__init__

    @functools.wraps(original)
    def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        args = (min(args[0] or BATCH_SIZE, BATCH_SIZE), *args[1:]) if args and args[0] else args
        if not args and kwargs.get("batch_size"):
            kwargs["batch_size"] = min(kwargs["batch_size"], BATCH_SIZE)
        original(self, dataset, *args, **kwargs)

    DataLoader.__init__ = init  # type: ignore[method-assign]
