"""Data loaders that read in the process that made them."""

from __future__ import annotations

import functools
from typing import Any

from torch.utils.data import DataLoader


def read_in_this_process() -> None:
    """Let no DataLoader start workers: for a few images that takes longer, and here reading can be noted.

    Which items are read does not depend on it.
    """
    original = DataLoader.__init__

    @functools.wraps(original)
    def init(self: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    DataLoader.__init__ = init  # type: ignore[method-assign]
