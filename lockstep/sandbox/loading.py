"""Bring a student's file in as a module, or run it as a script, the way Python itself would.

Many right solutions parse arguments or start training at import time. Where a file does work at its top
level, only its imports, definitions and constants are executed; so is the rest of a file of which a statement
fails for want of data.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import CodeType, ModuleType
from typing import Any

from lockstep.sandbox import awaiting, fewbatches, jupyter
from lockstep.sandbox.reading import parse, read_source
from lockstep.sandbox.scripts import DEFINITIONS, Script

# A file that fails at one of these is not what was asked for, whatever else is in it.
_FATAL = (*DEFINITIONS, ast.Raise)
# A file that cannot be imported without a GPU is one that checks look for.
_NEEDS_GPU = re.compile("cuda|nvidia", re.IGNORECASE)
_MAX_TEXT = 200


@dataclass(frozen=True)
class Skipped:
    """A top-level statement that was left out: its line, what it would have bound, and what it `raised`, if tried."""

    line: int
    names: frozenset[str]
    raised: str = ""


@dataclass(frozen=True)
class Loaded:
    """A module, what was left out of it, and whether that is because importing it would run the script.

    `unread` are the errors of those cells of a notebook that Python cannot read, one each; of another file, the
    error of its first line that only IPython understands.
    """

    module: ModuleType
    skipped: Sequence[Skipped]
    is_script: bool
    unread: Sequence[SyntaxError] = ()


def load(name: str, path: str) -> Loaded:
    """Make module `name` from a file."""
    source = read_source(path)
    tree, unread = parse(source, path)
    loaded = _loaded(name, path, source, tree)
    return replace(loaded, unread=unread)


def _loaded(name: str, path: str, source: str, tree: ast.Module) -> Loaded:
    module = ModuleType(name)
    module.__file__ = path
    jupyter.furnish(module.__dict__, source)
    sys.modules[name] = module
    sys.argv = [f"{name}.py"]
    script = Script(tree)
    is_script = any(map(script.is_work, tree.body))
    if is_script or any(map(script.parses, tree.body)):
        return Loaded(module, _definitions_only(tree.body, tree, path, module.__dict__, script), is_script)
    code = _compiled(tree, path)
    try:
        exec(code, module.__dict__)
    except Exception as error:
        failed = _statement_left_out(tree, path, error)
        if failed is None:
            raise
        # What came before has happened, and happens once.
        rest = tree.body[tree.body.index(failed) + 1 :]
        try:
            later = _definitions_only(rest, tree, path, module.__dict__, script)
        except Exception:
            # As a rule a definition that needs what is missing: the first error is the one to mend.
            raise error from None
        return Loaded(module, [_skipped(failed, path, error), *later], is_script)
    return Loaded(module, [], is_script)


def _compiled(tree: ast.Module, path: str, flags: int = 0) -> CodeType:
    # A student's annotations must not become strings because this file's are.
    code: CodeType = compile(fewbatches.spared(tree), path, "exec", flags, dont_inherit=True)
    return code


def _future(tree: ast.Module) -> int:
    """The compiler's flags for what the file imports from __future__, which goes for all of its statements."""
    return sum(
        {
            getattr(__future__, alias.name).compiler_flag
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for alias in node.names
            if alias.name in __future__.all_feature_names
        }
    )


def _definitions_only(
    body: Sequence[ast.stmt], tree: ast.Module, path: str, namespace: dict[str, Any], script: Script
) -> list[Skipped]:
    """Execute those statements of a file that define something; what was left out."""
    skipped: list[Skipped] = []
    future = _future(tree)
    for statement in body:
        if script.is_work(statement):
            skipped.append(Skipped(statement.lineno, _bound(statement)))
            continue
        code = _compiled(ast.Module([statement], []), path, future)
        # A constant that needs skipped work (a process group, a data set) is skipped with it.
        try:
            exec(code, namespace)
        except (Exception, SystemExit) as error:
            if isinstance(statement, DEFINITIONS) and _is_fatal(statement, error):
                raise
            skipped.append(_skipped(statement, path, error))
    return skipped


def _skipped(statement: ast.stmt, path: str, error: BaseException) -> Skipped:
    return Skipped(_line(path, error) or statement.lineno, _bound(statement), _described(error))


def _bound(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement would define."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset((statement.name,))
    return frozenset(
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _is_fatal(statement: ast.stmt, error: BaseException) -> bool:
    """Whether a file can do nothing without this; a class of which the base is not here it may do without."""
    lacks = isinstance(error, ModuleNotFoundError)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.Raise) if lacks else _FATAL)


def _statement_left_out(tree: ast.Module, path: str, error: Exception) -> ast.stmt | None:
    """The top-level statement that an import can do without although it raised this; None where it cannot."""
    if isinstance(error, MemoryError) or _NEEDS_GPU.search(_described(error)):
        return None
    line = _line(path, error)
    failed = next((statement for statement in tree.body if _is_at(statement, line)), None)
    if failed is None or any(
        isinstance(node, ast.stmt) and _is_fatal(node, error) and _is_at(node, line)
        for node in ast.walk(failed)
    ):
        return None
    return failed


def _is_at(statement: ast.stmt, line: int) -> bool:
    """Whether a line is one of a statement's, or of its decorators'."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first <= line <= (statement.end_lineno or 0)


def _line(path: str, error: BaseException) -> int:
    """The line of the file's top level that raised this, by itself or in what it called; 0 where there is none."""
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if code.co_filename == path and code.co_name == "<module>":
            return place.tb_lineno
        place = place.tb_next
    return 0


def _described(error: BaseException) -> str:
    """An exception's type and message; `str` of it is the student's own, so it may raise or be endless."""
    name = type(error).__name__[:_MAX_TEXT]
    try:
        text = str(error)[:_MAX_TEXT]
        text.encode("utf-8")
    except BaseException:
        text = ""
    return f"{name}: {text}" if text else name


def run_as_main(path: str) -> None:
    """Execute a file as `__main__`; SystemExit and every other exception propagate."""
    source = read_source(path)
    tree, _ = parse(source, path)
    main = new_main(path)
    if jupyter.furnish(main.__dict__, source):
        awaiting.evaluate(tree, path, main.__dict__)
    else:
        exec(_compiled(tree, path), main.__dict__)


def run_into(path: str, namespace: dict[str, Any]) -> None:
    """Execute a file among the names of another: all of it where that is `__main__`, else only its definitions."""
    tree, _ = parse(read_source(path), path)
    if namespace.get("__name__") == "__main__":
        awaiting.evaluate(tree, path, namespace)
    else:
        _definitions_only(tree.body, tree, path, namespace, Script(tree))


def run_code_as_main(code: CodeType, path: str | None) -> None:
    """Execute code in a new `__main__` module, as `python FILE` does."""
    exec(code, new_main(path).__dict__)


def new_main(path: str | None) -> ModuleType:
    """A new `__main__` module for the file at `path`, if it is a file's."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if path is not None:
        main.__file__ = path
    sys.modules["__main__"] = main
    with contextlib.suppress(AttributeError):
        del main.__spec__
    main.__spec__ = None
    return main
