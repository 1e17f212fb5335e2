"""What Jupyter gives a notebook's code and plain Python does not, as stand-ins that do no more than exist.

Magics have been made comments where the notebook was taken in (lockstep/magics.py); what is left are names:
`display`, `get_ipython`, the modules of IPython, tqdm's bars for notebooks, and what Colab and Kaggle have.
"""

from __future__ import annotations

import collections
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lockstep.magics import WRAPPERS
from lockstep.sandbox import databricks, running
from lockstep.sandbox.cells import read_cells

# A script that asks where it runs, as in `if get_ipython() is None: main()`, and is to be told what Python would.
_ASKS = re.compile(
    r"get_ipython\(\) *(?:is|==|!=)|(?:==|!=) *get_ipython\(\)|\b(?:if|not|and|or) +get_ipython\(\) *(?:[:)]|and|or|$)",
    re.M,
)
# Tells the notebook's own code from that of libraries.
_MARK = "__notebook__"
_IPYTHON = ("IPython",)
# Modules that only a platform has, or Jupyter's front end.
_PLATFORM = ("google.colab", "kaggle_secrets", "ipywidgets")
# `import google.colab` within a `try` or an `if` asks where the code runs, and is to be told: not there.
_TAKEN_FOR_GRANTED = re.compile(r"^(?:from|import) +(?:google\.colab|kaggle_secrets|ipywidgets)\b", re.M)
# Also of a notebook that was saved as Python; what begins with its first line is one of Databricks.
_DATABRICKS = re.compile(r"\A# Databricks notebook source|\bdbutils\.|\bdisplayHTML\(")
# A line of a Python file that only IPython understands: Colab's download has them.
_NOTATION = re.compile(r"^(?:\w+ *= *)?[!%]\w", re.M)
_MENTIONS = re.compile(r"\b(?:IPython|tqdm\.notebook)\b")


def furnish(namespace: dict[str, Any], source: str) -> bool:
    """Put the stand-ins where the code of `source` finds them, if it is a notebook's; say whether it is."""
    is_notebook = read_cells(source) is not None
    # A notebook's code may have been saved as Python, with or without a call of the shell in it.
    is_exported = "get_ipython()" in source
    if granted := _TAKEN_FOR_GRANTED.search(source) is not None:
        _offer(_PLATFORM)
    if is_notebook or is_exported or granted or _MENTIONS.search(source):
        _offer((*_IPYTHON, "tqdm.notebook"))
    if _DATABRICKS.search(source):
        namespace |= {"dbutils": databricks.Dbutils(), "displayHTML": databricks.displayHTML}
        namespace["display"] = display
    if not is_notebook and not is_exported and not _NOTATION.search(source):
        return False
    namespace |= {"display": display, "get_ipython": get_ipython}
    # What cells held and showed, until the code makes something else of these names.
    namespace |= {"In": [""], "Out": collections.defaultdict(_Nothing)}
    namespace |= dict.fromkeys(("_", "__", "___"), _Nothing())
    if not is_notebook and _ASKS.search(source):
        return False
    namespace[_MARK] = True
    return True


def _offer(packages: Sequence[str]) -> None:
    """Let imports find the stand-ins of these packages."""
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.packages.update(packages)


class _Handle:
    """What `display(..., display_id=True)` returns."""

    def update(self, *things: object, **_: object) -> None:
        """Print what would be shown instead."""
        display(*things)

    display = update


def display(*things: object, display_id: object = None, **_: object) -> _Handle | None:
    """Print what Jupyter would show."""
    for thing in things:
        print(repr(thing))
    return _Handle() if display_id else None


def get_ipython() -> Any:
    """A shell whose every method does nothing; None for libraries, which would talk to Jupyter's front end."""
    return _SHELL if _MARK in sys._getframe(1).f_globals else None


class _Shell:
    config: Mapping[str, Any] = {}

    def run_cell_magic(self, name: str, line: str, cell: str) -> running.Captured | None:
        # `jupyter nbconvert --to script` writes them as such calls.
        if name in WRAPPERS:
            exec(compile(cell, f"%%{name}", "exec", dont_inherit=True), sys._getframe(1).f_globals)
        return running.Captured() if name == "capture" else None

    def run_line_magic(self, name: str, line: str = "", *_: object) -> object:
        if name == "run":
            running.run_file(line, sys._getframe(1))
        if name == "timeit":
            return running.timed(line, sys._getframe(1))
        if name == "env":
            return os.environ.get(line, "") if line else dict(os.environ)
        return os.getcwd() if name == "pwd" else None

    def getoutput(self, command: str = "", *_: object, **__: object) -> list[str]:
        return running.printed(command)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


_SHELL = _Shell()


class _Willing:
    """Can be entered, and asked for anything."""

    def __getattr__(self, name: str) -> Any:
        # Who asks for these wants to know what it is.
        if name.startswith("_"):
            raise AttributeError(name)
        return _Nothing()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


class _Nothing(_Willing, str):
    """An empty text, as for a key that nobody stored, and a function that gives it."""

    def __call__(self, *given: Any, **_: Any) -> Any:
        # A decorator gives back what it decorates.
        return given[0] if len(given) == 1 and callable(given[0]) else self


class _Shown(_Willing):
    """`HTML`, `Image`, `IntSlider` and the like: takes anything."""

    def __init__(self, *_: object, **__: object) -> None:
        """Forget it."""


class _Finder:
    """Finds stand-ins for `packages`, also where the real ones are installed: without a front end they do not work."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(name == package or name.startswith(f"{package}.") for package in self.packages):
            return None
        return ModuleSpec(name, self, is_package=name != "tqdm.notebook")  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make it."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill it."""
        if module.__name__ == "tqdm.notebook":
            bars = importlib.import_module("tqdm.std")
            module.__dict__.update(tqdm=bars.tqdm, trange=bars.trange)
            module.__dict__.update(tqdm_notebook=bars.tqdm, tnrange=bars.trange)
            return
        module.__dict__.update(__getattr__=_shown)
        if module.__name__.partition(".")[0] in _IPYTHON:
            module.__dict__.update(get_ipython=get_ipython, version_info=(9, 0, 0), __version__="9.0.0")
            module.__dict__.update(clear_output=lambda *_, **__: None)
        if module.__name__ == "IPython":
            module.__dict__["display"] = importlib.import_module("IPython.display")
        elif module.__name__ in ("IPython.display", "IPython.core.display"):
            module.__dict__["display"] = display


def _shown(name: str) -> Any:
    """What a module of this name would have: a class, or a function."""
    if name.startswith("__"):
        raise AttributeError(name)
    if not name[:1].isupper():
        return _Nothing()
    return type(name, (_Shown,), {})
