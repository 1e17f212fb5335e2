"""How many batches' graphs are still held once backward has come through them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import torch

EVERY = 50


class Graphs:
    """Hears of backward passes, and counts at every fiftieth call what the earlier ones left behind."""

    def __init__(self) -> None:
        self.most = 0
        self._passes: list[weakref.ref[_Pass]] = []

    def expect(self, output: torch.Tensor, tell: Callable[[], None]) -> None:
        """Tell when backward comes through what a network answered."""
        one = _Pass(tell)
        output.register_hook(one)
        self._passes.append(weakref.ref(one))
        if len(self._passes) % EVERY == 0:
            if self._held() > EVERY // 2:
                # A cycle may wait for the collector.
                gc.collect()
            self.most = max(self.most, self._held())

    def _held(self) -> int:
        return sum(one is not None and one.came for one in (ref() for ref in self._passes))


class _Pass:
    """Hooked to a graph: lives as long as that does."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell, self.came = tell, False

    def __call__(self, gradient: torch.Tensor) -> None:
        self.came = True
        self._tell()
