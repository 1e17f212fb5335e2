"""Data loaders that read in the process that made them."""

from __future__ import annotations

import functools
from typing import Any

from torch.utils.data import DataLoader

# Without workers torch refuses most of them.
_OF_WORKERS = ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")


def read_in_this_process() -> None:
    """Let no DataLoader start workers: for a few images that takes longer, and here reading can be noted.

    Which items are read does not depend on it. Many workers would also fill a run's room for processes, and those that
    begin anew (`spawn`) do not know a data set that is the probe's.
    """
    original = DataLoader.__init__

    @functools.wraps(original)
    def init(self: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        for name in _OF_WORKERS:
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    DataLoader.__init__ = init  # type: ignore[method-assign]
