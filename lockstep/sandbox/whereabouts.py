"""Where a name is that a file was expected to define: under another spelling, inside of something, or nowhere."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from lockstep.sandbox.scripts import assigned_names, is_main_guard

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)
# `load_checkpoint` is as near to `save_checkpoint` as 0.8, and another function.
_ALIKE = 0.85
_MAX_NAMES = 5
_MAX_NAME = 60


def is_without_code(tree: ast.Module) -> bool:
    """Whether a file does nothing at all: empty, or comments and text alone."""
    return all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in tree.body)


def enclosing(tree: ast.Module, name: str) -> str:
    """Inside of what a file defines `name`, in words, where not at its top level; else empty."""
    return next((where for found, where in _definitions(tree) if found == name), "")


def nearest(tree: ast.Module, name: str) -> str:
    """A name of the file's top level that is spelled nearly like `name`; else empty."""
    own = [found for found, where in _definitions(tree) if not where and found != name]
    near = next((one for one in own if _plain(one) == _plain(name)), "")
    # A little more than the name is long: what is longer by far is not alike, and takes long to compare.
    short = [one for one in own if len(one) <= 2 * len(name)]
    return near or next(iter(difflib.get_close_matches(name, short, 1, _ALIKE)), "")


def defined(tree: ast.Module) -> list[str]:
    """The functions and classes of a file's top level, the first few of them."""
    kinds = (*_FUNCTIONS, ast.ClassDef)
    return [one.name[:_MAX_NAME] for one in tree.body if isinstance(one, kinds)][:_MAX_NAMES]


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _definitions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a file defines, in its order, and inside of what; a variable only at the top level, being no function's."""
    pending: list[tuple[ast.stmt, str]] = [(one, "") for one in reversed(tree.body)]
    while pending:
        statement, where = pending.pop()
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            yield statement.name, where
        elif not where:
            yield from ((name, "") for name in assigned_names(statement))
        inside = where or _words(statement)
        blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        handlers = [handler.body for handler in getattr(statement, "handlers", [])]
        below = [inner for block in (*blocks, *handlers) for inner in block]
        pending += [(inner, inside) for inner in reversed(below)]


def _words(statement: ast.stmt) -> str:
    if isinstance(statement, _FUNCTIONS):
        return f"inside the function {statement.name[:_MAX_NAME]}"
    if isinstance(statement, ast.ClassDef):
        return f"inside the class {statement.name[:_MAX_NAME]}"
    if is_main_guard(statement):
        return 'below `if __name__ == "__main__":`, which does not run when the file is imported'
    return (
        "inside an `if`, a `try` or a loop that did not come to it" if isinstance(statement, _BLOCKS) else ""
    )
