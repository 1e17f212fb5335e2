"""The script: its loaders, its times, its pictures."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from lockstep.sandbox.probing import Inputs, Observation, Student, plain
from lockstep.wire import Json

from .figures import Figures
from .opens import opens_by_any_means, slow_opens
from .reading import describe

SETTINGS = (
    "batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "multiprocessing_context"
)  # fmt: skip

# There is no screen here: a back end with windows, which right solutions ask for, would only raise.
plt.switch_backend("agg")
matplotlib.use = plt.switch_backend = lambda *args, **kwargs: None  # type: ignore[assignment]


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the script; note its figures, its data loaders, how many images it opened, and how it ended."""
    slow_opens(cast(float, inputs.values["seconds_per_image"]))
    figures = Figures()
    loaders = watch_loaders(cast(list[float], inputs.values["seconds_per_batch"]))
    bars = watch_error_bars()
    status, problem = None, None
    given = given_files(student.data)
    with opens_by_any_means(Path(student.data), given) as opened_by_any:
        try:
            arguments = cast(list[str], inputs.values["arguments"])
            status = student.run_script("lfw_dataset.py", arguments)
        except Exception as error:
            problem = describe(student, error)
        opened: int | None = opened_by_any()
        # Where nothing is heard of this one, nothing was of others.
        with contextlib.suppress(OSError):
            for name in given[:1]:
                Path(student.data, name).read_bytes()
        if not opened_by_any():
            opened = None
    outlets_used = figures.outlets.were_used()
    with student.calling("drawing the figures"):
        pictures = figures.finish()
    return Observation(
        {
            "status": status,
            "problem": problem,
            "loaders": cast(Json, loaders),
            "bars": cast(Json, bars),
            "opened": opened,
            "outlets_used": outlets_used,
        },
        {f"picture{number}": picture for number, picture in enumerate(pictures)},
    )


def given_files(data: str) -> list[str]:
    """The files that lie at any depth below the data folder, as paths within it."""
    found = ((folder, name) for folder, _, names in os.walk(data) for name in names)
    return [os.path.relpath(os.path.join(folder, name), data) for folder, name in found]


def watch_loaders(seconds: Sequence[float]) -> list[dict[str, Any]]:
    """The data loaders that are made from now on: workers asked for, and how many batches each pass got of it.

    `length` is how many batches a whole pass has, `seconds` what a pass took up to its last batch, `settings` what the
    loader has in common with others that were made alike, of the same data set.

    In the n-th pass over any loader every batch comes `seconds[n]` late, then over again. It is held up here, when it
    has come: what workers read ahead makes up for no delay of the last batch, so that a pass takes longer than another
    by what their delays differ, at least.
    """
    loaders: list[dict[str, Any]] = []
    make, iterate, step = DataLoader.__init__, DataLoader.__iter__, _BaseDataLoaderIter.__next__
    delays = itertools.cycle(seconds or [0.0])
    sleep, now = time.sleep, time.perf_counter
    datasets: list[Any] = []

    def number_of(dataset: Any) -> int:
        datasets.append(dataset)
        return next(number for number, other in enumerate(datasets) if other is dataset)

    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        length = None
        # Whatever a data set of the student's own does when it is asked for its length.
        with contextlib.suppress(Exception):
            length = plain(len(self))
        batch_size = plain(self.batch_size)
        record = {
            "workers": plain(self.num_workers),
            "batch_size": batch_size,
            "length": length,
            "settings": str([number_of(self.dataset), *(getattr(self, name, None) for name in SETTINGS)]),
            "batches": [],
            "seconds": [],
        }
        loaders.append(record)
        object.__setattr__(self, "_seen", record)

    def iterating(self: Any) -> Any:
        began = now()
        iterator: Any = iterate(self)
        if hasattr(self, "_seen"):
            # Persistent workers have one iterator for all passes.
            iterator._seen, iterator._pass, iterator._delay = (
                self._seen,
                len(self._seen["batches"]),
                next(delays),
            )
            iterator._began = began
            self._seen["batches"].append(0)
            self._seen["seconds"].append(0.0)
        return iterator

    def stepping(self: Any) -> Any:
        batch = step(self)
        if hasattr(self, "_seen"):
            self._seen["batches"][self._pass] += 1
            sleep(self._delay)
            self._seen["seconds"][self._pass] = now() - self._began
        return batch

    DataLoader.__init__ = making  # type: ignore[method-assign]
    DataLoader.__iter__ = iterating  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = stepping  # type: ignore[method-assign]
    return loaders


def watch_error_bars() -> list[dict[str, Any]]:
    """What `errorbar` is asked to draw from now on."""
    bars: list[dict[str, Any]] = []
    draw = matplotlib.axes.Axes.errorbar

    def drawing(self: Any, x: Any, y: Any, yerr: Any = None, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            heights, errors = (np.atleast_1d(np.asarray(values, float)) for values in (y, yerr))
            if np.isfinite(heights).all() and np.isfinite(errors).all():
                bars.append({"y": heights[:20].tolist(), "yerr": errors[:20].tolist()})
        return draw(self, x, y, yerr, *args, **kwargs)

    matplotlib.axes.Axes.errorbar = drawing  # type: ignore[method-assign]
    return bars
