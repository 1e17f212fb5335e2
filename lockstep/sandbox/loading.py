"""Bring a student's file in as a module, or run it as a script, the way Python itself would.

Many right solutions parse arguments or start training at import time. Where a file does work at its top
level, only its imports, definitions and constants are executed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tokenize
from types import CodeType, ModuleType

MAX_SOURCE = 256 << 10
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


class SourceError(Exception):
    """A file that is not Python source; the message is for the student."""


def read_source(path: str) -> str:
    """The text of a source file, by its own coding cookie. Raises SourceError."""
    with open(path, "rb") as file:
        data = file.read(MAX_SOURCE + 1)
    if len(data) > MAX_SOURCE:
        raise SourceError(f"the file is larger than {MAX_SOURCE >> 10} KiB")
    if b"\0" in data:
        raise SourceError("the file holds NUL bytes: it is not a text file (saved as UTF-16?)")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise SourceError(f"line {line} is not UTF-8 text: save the file as UTF-8") from None


def load(name: str, path: str) -> tuple[ModuleType, list[int]]:
    """Make module `name` from a file; also the lines of top-level statements that were not executed."""
    tree = ast.parse(read_source(path), filename=path)
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    sys.argv = [f"{name}.py"]
    if not any(map(_is_work, tree.body)):
        exec(compile(tree, path, "exec"), module.__dict__)
        return module, []
    return module, _definitions_only(tree, path, module)


def _is_work(statement: ast.stmt) -> bool:
    """Whether a top-level statement runs the script: loops, calls of the file's own, parsed arguments."""
    if isinstance(statement, (*_DEFINITIONS, ast.Pass)):
        return False
    if isinstance(statement, ast.If):
        return not _is_main_guard(statement) and any(map(_is_work, [*statement.body, *statement.orelse]))
    if isinstance(statement, ast.Try):
        handlers = [inner for handler in statement.handlers for inner in handler.body]
        return any(map(_is_work, [*statement.body, *handlers, *statement.orelse, *statement.finalbody]))
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant) and not _is_library_call(statement.value)
    if isinstance(statement, _ASSIGNMENTS):
        return any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("parse_args", "parse_known_args")
            for node in ast.walk(statement)
        )
    return True


def _is_main_guard(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def _is_library_call(value: ast.expr) -> bool:
    """Calls such as `torch.manual_seed(0)` or `plt.rcParams.update(...)` set things up; they are kept."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and _root(value.func) in (
        "torch", "np", "numpy", "plt", "matplotlib", "mpl", "random", "warnings", "logging", "os", "sys",
        "sns", "Image", "ImageFile", "mp", "multiprocessing",
    )  # fmt: skip


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _definitions_only(tree: ast.Module, path: str, module: ModuleType) -> list[int]:
    skipped: list[int] = []
    for statement in tree.body:
        code = compile(ast.Module([statement], []), path, "exec")
        if isinstance(statement, _DEFINITIONS):
            exec(code, module.__dict__)
        elif isinstance(statement, _ASSIGNMENTS) or not _is_work(statement):
            # A constant that needs skipped work (parsed arguments, a data set) is skipped with it.
            try:
                exec(code, module.__dict__)
            except (Exception, SystemExit):
                skipped.append(statement.lineno)
        else:
            skipped.append(statement.lineno)
    return skipped


def run_as_main(path: str) -> None:
    """Execute a file as `__main__`; SystemExit and every other exception propagate."""
    run_code_as_main(compile(read_source(path), path, "exec"), path)


def run_code_as_main(code: CodeType, path: str | None) -> None:
    """Execute code in a new `__main__` module, as `python FILE` does."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if path is not None:
        main.__file__ = path
    sys.modules["__main__"] = main
    with contextlib.suppress(AttributeError):
        del main.__spec__
    main.__spec__ = None
    exec(code, main.__dict__)
