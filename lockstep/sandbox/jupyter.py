"""What Jupyter gives a notebook's code and plain Python does not, as stand-ins that do no more than exist.

Magics have been made comments where the notebook was taken in (lockstep/magics.py); what is left are names:
`display`, `get_ipython`, the modules of IPython, and tqdm's bars for notebooks.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lockstep.sandbox.cells import read_cells

# Cell magics that run the cell's own Python. `jupyter nbconvert --to script` writes them as calls.
_WRAPPERS = frozenset("time timeit capture prun".split())
# A script that asks where it runs, as in `if get_ipython() is None: main()`, and is to be told what Python would.
_ASKS = re.compile(
    r"get_ipython\(\) *(?:is|==|!=)|(?:==|!=) *get_ipython\(\)|\b(?:if|not|and|or) +get_ipython\(\) *(?:[:)]|and|or|$)",
    re.M,
)
# Tells the notebook's own code from that of libraries.
_MARK = "__notebook__"


def furnish(namespace: dict[str, Any], source: str) -> bool:
    """Put the stand-ins where the code of `source` finds them, if it is a notebook's; say whether it is."""
    is_notebook = read_cells(source) is not None
    if "get_ipython()" not in source and not is_notebook:
        return False
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    namespace |= {"display": display, "get_ipython": get_ipython}
    if not is_notebook and _ASKS.search(source):
        return False
    namespace[_MARK] = True
    return True


def display(*things: object, **_: object) -> None:
    """Print what Jupyter would show."""
    for thing in things:
        print(repr(thing))


def get_ipython() -> Any:
    """A shell whose every method does nothing; None for libraries, which would talk to Jupyter's front end."""
    return _SHELL if _MARK in sys._getframe(1).f_globals else None


class _Shell:
    config: Mapping[str, Any] = {}

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        if name in _WRAPPERS:
            exec(compile(cell, f"%%{name}", "exec", dont_inherit=True), sys._getframe(1).f_globals)

    def getoutput(self, *_: object, **__: object) -> list[str]:
        return []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


_SHELL = _Shell()


_MODULES = ("IPython", "IPython.display", "IPython.core", "IPython.core.display", "tqdm.notebook")


class _Finder:
    """Finds the modules below, also where the real ones are installed: without a front end they do not work."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _MODULES:
            return None
        return ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make it."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill it."""
        if module.__name__ == "tqdm.notebook":
            bars = importlib.import_module("tqdm.std")
            module.__dict__.update(tqdm=bars.tqdm, trange=bars.trange)
            module.__dict__.update(tqdm_notebook=bars.tqdm, tnrange=bars.trange)
            return
        module.__dict__.update(display=display, get_ipython=get_ipython, clear_output=lambda *_, **__: None)
        module.__dict__.update(version_info=(9, 0, 0), __version__="9.0.0", __getattr__=_shown)


def _shown(name: str) -> Any:
    """`HTML`, `Image` and the like: a class that takes anything."""
    if not name[:1].isupper():
        raise AttributeError(name)
    return type(name, (), {"__init__": lambda self, *_, **__: None})
