"""Does something to a module as soon as it has been imported, or at once where it has been; costs nothing before.

What it is for are old spellings: names and arguments that a library has dropped are brought up to date, and told once.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

Change = Callable[[Any], None]
Tell = Callable[[str], None]
"""Is told the key of an old spelling when it is used."""


def teller(note: Callable[..., None], library: str) -> Tell:
    """What notes each key once, as an event `{"kind": "shim", "name": library, "spelling": key}`."""
    told: set[str] = set()

    def tell(spelling: str) -> None:
        if spelling not in told:
            told.add(spelling)
            note("shim", name=library, spelling=spelling)

    return tell


def change(name: str, how: Change) -> None:
    """Call `how` with the module `name`."""
    if name in sys.modules:
        how(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, how))


def answer(module: Any, old: Mapping[str, Any], tell: Callable[[], None]) -> None:
    """Let a module have names that it has dropped."""
    otherwise = getattr(module, "__getattr__", None)

    def lookup(name: str) -> Any:
        if name in old:
            tell()
            return old[name]
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = lookup


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, how: Change) -> None:
        self._name = name
        self._how = how
        self._busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec, also for those who only ask whether there is one; None for everything else."""
        if name != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def and_change(module: ModuleType) -> None:
                execute(module)
                self._how(module)

            spec.loader.exec_module = and_change  # type: ignore[method-assign]
        return spec
