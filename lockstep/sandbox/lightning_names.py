"""Lightning under both of its names, and its parts where they used to be.

Only `pytorch_lightning` is installed; `lightning.pytorch` is the same code under the name that it has had since
2.0. Both have to be the same modules: a Trainer of the one refuses a LightningModule of the other.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from lockstep.sandbox.after_import import Tell

PACKAGE, ALIAS = "pytorch_lightning", "lightning"
# Modules that are known under another name today.
MOVED = {
    f"{PACKAGE}.core.lightning": f"{PACKAGE}.core.module",
    f"{PACKAGE}.callbacks.base": f"{PACKAGE}.callbacks.callback",
    f"{PACKAGE}.loggers.base": f"{PACKAGE}.loggers.logger",
    f"{PACKAGE}.utilities.cli": f"{PACKAGE}.cli",
    f"{PACKAGE}.utilities.distributed": f"{PACKAGE}.utilities.rank_zero",
    f"{PACKAGE}.profiler": f"{PACKAGE}.profilers",
    f"{PACKAGE}.core.memory": f"{PACKAGE}.utilities.model_summary",
    f"{PACKAGE}.trainer.supporters": f"{PACKAGE}.utilities.combined_loader",
}
METRICS = {f"{PACKAGE}.metrics": "torchmetrics", f"{PACKAGE}.metrics.functional": "torchmetrics.functional"}


class Names(importlib.abc.MetaPathFinder):
    """Finds `lightning` and its parts where only `pytorch_lightning` is installed, and what has moved since."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for one of the other names; None for everything else."""
        if name == ALIAS:
            return importlib.util.spec_from_loader(name, _Loader(self._umbrella), is_package=True)
        real = self._real(name)
        if real is None:
            return None
        return importlib.util.spec_from_loader(name, _Loader(lambda: importlib.import_module(real)))

    def _real(self, name: str) -> str | None:
        if name in METRICS:
            self._tell("metrics")
            return METRICS[name]
        if name in MOVED:
            self._tell("moved")
            return MOVED[name]
        for alias, package in ((f"{ALIAS}.pytorch", PACKAGE), (f"{ALIAS}.fabric", "lightning_fabric")):
            if name == alias or name.startswith(f"{alias}."):
                return package + name.removeprefix(alias)
        return None

    def _umbrella(self) -> ModuleType:
        """The package `lightning`: the parts under their new names, and what it offers at its top."""
        module = ModuleType(ALIAS)
        pytorch, fabric = importlib.import_module(PACKAGE), importlib.import_module("lightning_fabric")
        module.__path__ = []
        for name in (*pytorch.__all__, "__version__"):
            setattr(module, name, getattr(pytorch, name))
        module.Fabric = fabric.Fabric  # type: ignore[attr-defined]
        module.pytorch, module.fabric = pytorch, fabric  # type: ignore[attr-defined]
        sys.modules.setdefault(f"{ALIAS}.pytorch", pytorch)
        sys.modules.setdefault(f"{ALIAS}.fabric", fabric)
        return module


class _Loader(importlib.abc.Loader):
    """Hands out a module that exists already, or is made by a function."""

    def __init__(self, find: Callable[[], ModuleType]) -> None:
        self._find = find
        self._spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module itself; what it says of itself must outlive its import under a second name."""
        module = self._find()
        self._spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to execute."""
        if self._spec is not None:
            module.__spec__ = self._spec
