"""Probes as the warm server and its ranks read them: a file each, or a folder whose files import each other.

The server compiles all of them, so that no rank has to.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType


@functools.cache
def _code(path: str) -> CodeType:
    with open(path, encoding="utf-8") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def read(probe: str) -> None:
    """Compile a probe; the forks of this process find the code there."""
    files = [os.path.join(probe, name) for name in os.listdir(probe)] if os.path.isdir(probe) else [probe]
    for file in files:
        if file.endswith(".py"):
            _code(file)


def load(probe: str) -> ModuleType:
    """The probe as a new module; of a folder, what its `__init__.py` defines."""
    name = f"probe_{os.path.splitext(os.path.basename(probe))[0]}"
    finder = _Finder(name, probe)
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    finally:
        # Nothing of it is there when student code runs: probes import what they need at their top.
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder, Loader):
    """Finds and runs one probe and, in a folder, its files."""

    def __init__(self, name: str, probe: str) -> None:
        self._name = name
        self._probe = probe

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As a finder of the import system."""
        package, _, part = name.partition(".")
        if package != self._name:
            return None
        if not os.path.isdir(self._probe):
            return spec_from_file_location(name, self._probe, loader=self)
        folders = None if part else [self._probe]
        file = os.path.join(self._probe, f"{part or '__init__'}.py")
        return spec_from_file_location(name, file, loader=self, submodule_search_locations=folders)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As a loader of the import system: an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """As a loader of the import system."""
        assert module.__file__ is not None
        exec(_code(module.__file__), module.__dict__)
