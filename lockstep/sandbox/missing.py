"""Imports at the top of a student's file that find nothing here: only what uses them fails, and says why.

A package for plots that is not installed, or a helper file that was not handed in, would otherwise take with it
all that stands below. Whoever asks whether it is there, by `try` or `with`, is told as Python does: it is not.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from lockstep.sandbox import exported

_IMPORTS = (ast.Import, ast.ImportFrom)
# Where what an import raises may be caught.
_GUARDS = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
# What these are called for, variables and a loop within a loop, is there without them, or nobody asks for it.
_FORGETTABLE = frozenset(("dotenv", "nest_asyncio"))
# How functions are called that give nothing, whatever they are given.
_SHOWS = re.compile("set|summary|show|plot|print|display|heatmap")
# What prints a line or a table wherever it stands, and gives nothing that anybody asks for.
_TELLS = re.compile("summary|debug|info|success|warning|error|critical|exception")
# And those that do the work of the file, for which it cannot do without.
_DOES = re.compile("main|run|train|fit|eval|test|launch|start|spawn", re.IGNORECASE)
# Not `[]` and `|`, as annotations have them, and not always `==`.
_USES = (
    "iter next len contains enter exit aenter aexit aiter await setitem delitem int float index mro_entries "
    "instancecheck subclasscheck lt le gt ge neg pos abs invert add radd sub rsub mul rmul truediv rtruediv "
    "floordiv rfloordiv mod rmod pow rpow matmul rmatmul and rand"
).split()


def install(work: str, note: Callable[..., None]) -> None:
    """From now on let the files below `work` import what is not there; each such import is noted, once."""
    original = builtins.__import__
    known: set[tuple[str, str, bool]] = set()

    @functools.wraps(original)
    def __import__(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        try:
            return original(name, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            package = name.partition(".")[0]
            if level or error.name != package:
                raise
            where = _taken_for_granted(sys._getframe(1), work)
            if where is None or _lies_in(work, package):
                raise
            file, line = where
            takes_all = "*" in (fromlist or ())
            if (file, package, takes_all) not in known:
                known.add((file, package, takes_all))
                note("missing_import", file=file, line=line, module=package, all=takes_all)
            return Missing(f"No module named {package!r}, which line {line} of {file} imports", package)

    builtins.__import__ = __import__


class Missing:
    """What such an import gives, and everything in it: raises ModuleNotFoundError when it is used."""

    def __init__(self, message: str, package: str, name: str = "") -> None:
        self._message = message
        self._package = package
        self._name = name

    def __getattr__(self, name: str) -> Missing:
        frame = sys._getframe(1)
        imports = frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
        if name.startswith("__") and not imports:
            # Python itself asks for these, and goes on without.
            raise AttributeError(self._message)
        return Missing(self._message, self._package, name)

    def __call__(self, *given: object, **named: object) -> Missing:
        """Raise, but for what only sets something up or shows something: no more can be missed than what it gives."""
        at_top = sys._getframe(1).f_code.co_name == "<module>"
        # A theme for all pictures, the picture of a model, `load_dotenv()` at the top of a file.
        plain = all(map(_is_plain, (*given, *named.values()))) and not _DOES.match(self._name)
        harmless = plain or _SHOWS.match(self._name)
        tells = _TELLS.fullmatch(self._name)
        if not (at_top and harmless) and not tells and self._package not in _FORGETTABLE:
            complain(self)
        return Missing(self._message, self._package, self._name)

    def __getitem__(self, _: object) -> Missing:
        return self

    def __or__(self, _: object) -> Missing:
        return self

    __ror__ = __or__

    def __eq__(self, other: object) -> bool:
        """Raise, unless `Optional[Metric]` and the like ask whether this is a word of theirs."""
        if not _asked_by_typing(sys._getframe(1)):
            complain(self)
        return self is other

    def __bool__(self) -> bool:
        """Raise, unless a `TypeVar` asks whether it has a bound."""
        if not _asked_by_typing(sys._getframe(1)):
            complain(self)
        return True

    def __hash__(self) -> int:
        return id(self)


def _asked_by_typing(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in ("typing", "typing_extensions")


def _is_plain(value: object) -> bool:
    """Whether this is a constant, or missing itself: nothing that the file has made."""
    return type(value) is Missing or value is None or isinstance(value, str | int | float)


def complain(missing: Missing) -> NoReturn:
    """Raise what Python would have raised where this was imported."""
    words: dict[str, str] = missing.__dict__
    raise ModuleNotFoundError(words["_message"], name=words["_package"])


def _used(missing: Missing, *_: object, **__: object) -> NoReturn:
    complain(missing)


for _use in _USES:
    setattr(Missing, f"__{_use}__", _used)


def _lies_in(work: str, package: str) -> bool:
    """Whether a module of this name was handed in, wherever: then it is the way to it that is wrong."""
    return any(package in folders or f"{package}.py" in files for _, folders, files in os.walk(work))


def _taken_for_granted(frame: FrameType, work: str) -> tuple[str, int] | None:
    """The file and line of an import at the top of a student's file, where nothing on the way there is guarded."""
    if frame.f_code.co_name != "<module>" or (found := place(frame, work)) is None:
        return None
    above: FrameType | None = frame
    while above is not None:
        if (one := place(above, work)) is not None and _is_in_question(*one, work, at_top=above is frame):
            return None
        above = above.f_back
    return found


def place(frame: FrameType, work: str) -> tuple[str, int] | None:
    """The file and line of a frame, if it is one of the student's."""
    path = os.path.abspath(frame.f_code.co_filename)
    if not path.startswith(work + os.sep) or not path.endswith(".py"):
        return None
    return os.path.relpath(path, work), frame.f_lineno


def _is_in_question(file: str, line: int, work: str, *, at_top: bool) -> bool:
    """Whether a line of a file is an import within a `try` or `with`; or, where it has to be `at_top`, none at all."""
    tree = _tree(file, work)
    for around, statement in _statements(tree, ()) if tree else ():
        if (
            _brings_in(statement)
            and isinstance(statement, ast.stmt)
            and statement.lineno <= line <= (statement.end_lineno or 0)
        ):
            return any(isinstance(node, _GUARDS) for node in around)
    # A call that comes to an import is no question for what it imports.
    return at_top


def _brings_in(statement: ast.AST) -> bool:
    """Whether this is an import, or a notebook's `%run`."""
    if isinstance(statement, ast.Expr):
        return exported.magic(statement.value)[:1] == ("run",)
    return isinstance(statement, _IMPORTS)


def is_guarded(file: str, line: int, work: str, *, by_name: type[Exception] | None = None) -> bool:
    """Whether what a line of a file raises may be caught there; also where that cannot be told.

    With `by_name`, only by what names this exception or one of its kind.
    """
    tree = _tree(file, work)
    return tree is None or any(_guards(node, line, by_name) for node in ast.walk(tree))


def _guards(node: ast.AST, line: int, by_name: type[Exception] | None) -> bool:
    """Whether this is a `try` or `with` around a line that may catch what is raised there."""
    if not isinstance(node, _GUARDS) or not node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
        return False
    caught: list[ast.expr | None]
    if isinstance(node, ast.Try | ast.TryStar):
        caught = [handler.type for handler in node.handlers]
    else:
        caught = [item.context_expr for item in node.items]
    return bool(caught) if by_name is None else any(one and _names(one, by_name) for one in caught)


def _names(expression: ast.AST, exception: type[Exception]) -> bool:
    """Whether one of the built-in exceptions of this kind is named in an expression."""
    names = (node.id for node in ast.walk(expression) if isinstance(node, ast.Name))
    found = (getattr(builtins, name, None) for name in names)
    return any(isinstance(one, type) and issubclass(one, exception) for one in found)


def _tree(file: str, work: str) -> ast.Module | None:
    """What one of the student's files holds; None where that cannot be read, or not any more."""
    from lockstep.sandbox import reading  # which brings in what a server has to have first

    try:
        return reading.parse(reading.read_source(os.path.join(work, file)), file)[0]
    except (OSError, SyntaxError, ValueError, reading.SourceError):
        return None


def _statements(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[tuple[ast.AST, ...], ast.AST]]:
    for child in ast.iter_child_nodes(node):
        yield around, child
        yield from _statements(child, (*around, child))
