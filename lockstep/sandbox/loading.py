"""Bring a student's file in as a module, or run it as a script, the way Python itself would.

Many right solutions parse arguments or start training at import time. Where a file does work at its top
level, only its imports, definitions and constants are executed; so is the rest of a file of which a statement
fails for want of data.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import io
import re
import sys
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType

from lockstep.sandbox import awaiting, jupyter

MAX_SOURCE = 256 << 10
# What a call that runs the script uses, itself or through others, and one that computes a constant does not.
_WORK = frozenset(
    (
        "init_process_group init_device_mesh TCPStore barrier elastic_launch backward DataLoader fit spawn "
        "input Popen"
    ).split()
)
# These read the command line, which is empty where a file is imported: functions may use what comes of it.
_PARSING = frozenset(("parse_args", "parse_known_args"))
# How a parser is told what to read.
_DECLARERS = frozenset("add_argument set_defaults".split())
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# What is called with functions or classes and only keeps them.
_KEEPERS = frozenset("partial partialmethod dict list tuple set frozenset TypeVar NewType".split())
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_LIBRARIES = frozenset(
    (
        "torch np numpy plt matplotlib mpl random warnings logging os sys sns Image ImageFile mp "
        "multiprocessing"
    ).split()
)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
# A file that fails at one of these is not what was asked for, whatever else is in it.
_FATAL = (*_DEFINITIONS, ast.Raise)
# A file that cannot be imported without a GPU is one that checks look for.
_NEEDS_GPU = re.compile("cuda|nvidia", re.IGNORECASE)
_MAX_TEXT = 200


class SourceError(Exception):
    """A file that is not Python source; the message is for the student."""


@dataclass(frozen=True)
class Skipped:
    """A top-level statement that was left out: its line, what it would have bound, and what it `raised`, if tried."""

    line: int
    names: frozenset[str]
    raised: str = ""


@dataclass(frozen=True)
class Loaded:
    """A module, what was left out of it, and whether that is because importing it would run the script."""

    module: ModuleType
    skipped: Sequence[Skipped]
    is_script: bool


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


def load(name: str, path: str) -> Loaded:
    """Make module `name` from a file."""
    source = read_source(path)
    tree = ast.parse(source, filename=path)
    module = ModuleType(name)
    module.__file__ = path
    jupyter.furnish(module.__dict__, source)
    sys.modules[name] = module
    sys.argv = [f"{name}.py"]
    script = _Script(tree)
    is_script = any(map(script.is_work, tree.body))
    if is_script or any(map(script.parses, tree.body)):
        return Loaded(module, _definitions_only(tree.body, tree, path, module, script), is_script)
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
            later = _definitions_only(rest, tree, path, module, script)
        except Exception:
            # As a rule a definition that needs what is missing: the first error is the one to mend.
            raise error from None
        return Loaded(module, [_skipped(failed, path, error), *later], is_script)
    return Loaded(module, [], is_script)


def _compiled(tree: ast.Module, path: str, flags: int = 0) -> CodeType:
    # A student's annotations must not become strings because this file's are.
    code: CodeType = compile(tree, path, "exec", flags, dont_inherit=True)
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


class _Script:
    """Tells, for the top-level statements of one file, which define something and which run the script."""

    def __init__(self, tree: ast.Module) -> None:
        # Who has a main guard means what stands outside of it to happen on import, a loop that defines things too.
        self._guarded = any(map(_is_main_guard, tree.body))
        self._bodies: dict[str, list[ast.AST]] = {}
        self._uses: dict[str, set[str]] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._bodies[node.name] = [node]
            elif isinstance(node, _ASSIGNMENTS) and node.value is not None:
                # `Loader = DataLoader` or a lambda: harmless by itself, but whoever calls it uses what it holds.
                for name in _assigned(node):
                    self._bodies.setdefault(name, []).append(node.value)

    def is_work(self, statement: ast.stmt) -> bool:
        """Loops, calls of the file's own functions; not definitions, constants or parsed arguments."""
        if isinstance(statement, (*_DEFINITIONS, ast.Pass, ast.Delete)) or _is_main_guard(statement):
            return False
        if _awaits(statement):
            return True
        if isinstance(statement, ast.With):
            opened = any(self._works(_called(item.context_expr)) for item in statement.items)
            return opened or any(map(self.is_work, statement.body))
        if isinstance(statement, ast.If):
            return any(map(self.is_work, [*statement.body, *statement.orelse]))
        if isinstance(statement, ast.Try):
            handlers = [inner for handler in statement.handlers for inner in handler.body]
            return any(
                map(self.is_work, [*statement.body, *handlers, *statement.orelse, *statement.finalbody])
            )
        if isinstance(statement, ast.Expr) and (
            isinstance(statement.value, ast.Constant) or self._sets_up(statement.value)
        ):
            return False
        if isinstance(statement, _ASSIGNMENTS):
            return statement.value is not None and self._works(_called(statement.value))
        return not self._guarded or self._works(_names(statement))

    def parses(self, statement: ast.stmt) -> bool:
        """Whether a statement reads the command line when the file is imported."""
        if isinstance(statement, _DEFINITIONS) or _is_main_guard(statement):
            return False
        return not self._reached(_names(statement)).isdisjoint(_PARSING)

    def _works(self, names: set[str]) -> bool:
        """Whether code that uses these names, or what the file's own functions among them use, runs the script.

        A function that parses arguments and comes to a loop is a main function, whatever it is called.
        """
        known = self._reached(names)
        if known.isdisjoint(_WORK):
            return not known.isdisjoint(_PARSING) and any(map(self._loops, known))
        return True

    def _reached(self, names: set[str]) -> set[str]:
        """These names, and those that the file's own functions among them use."""
        known: set[str] = set()
        while names - known:
            known |= names
            names = names.union(*map(self._used_by, names))
        return known

    def _loops(self, name: str) -> bool:
        return any(isinstance(node, _LOOPS) for body in self._bodies.get(name, ()) for node in ast.walk(body))

    def _used_by(self, name: str) -> set[str]:
        """What the file binds to a name uses; looked at when first asked for, as most of it never is."""
        if name not in self._uses:
            self._uses[name] = set().union(*map(_names, self._bodies.get(name, ())))
        return self._uses[name]

    def _sets_up(self, value: ast.expr) -> bool:
        """Calls such as `torch.manual_seed(0)`, `plt.rcParams.update(...)` or `parser.add_argument(...)`: kept."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        names = _names(value)
        known = _root(value.func) in _LIBRARIES or value.func.attr in _DECLARERS
        return known and "distributed" not in names and not self._works(names)


def _assigned(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[str]:
    """The plain names that an assignment binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _called(node: ast.AST) -> set[str]:
    """Every name in the calls that are made when an expression is evaluated.

    What a lambda would call is not called yet, nor is what `partial` or `dict` are given to keep.
    """
    if isinstance(node, ast.Lambda):
        return set()
    if isinstance(node, ast.Call) and _names(node.func).isdisjoint(_KEEPERS):
        return _names(node)
    return set().union(*map(_called, ast.iter_child_nodes(node)))


def _names(node: ast.AST) -> set[str]:
    """Every name and attribute below a node; but not `parse_args` where it reads `[]` or other words in the source."""
    below = list(ast.walk(node))
    of_the_source = [inner.func for inner in below if isinstance(inner, ast.Call) and _parses_literals(inner)]
    attributes = {
        inner.attr for inner in below if isinstance(inner, ast.Attribute) and inner not in of_the_source
    }
    return attributes | {inner.id for inner in below if isinstance(inner, ast.Name)}


def _parses_literals(call: ast.Call) -> bool:
    """Whether this is `parser.parse_args([])`: the defaults, whatever the command line says."""
    words = [*call.args, *(keyword.value for keyword in call.keywords)]
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("parse_args", "parse_known_args")
        and bool(words)
        and not any(isinstance(node, ast.Name) for word in words for node in ast.walk(word))
        and not any(isinstance(word, ast.Constant) and word.value is None for word in words)
    )


def _awaits(node: ast.AST) -> bool:
    """Whether there is an `await` outside of functions, as a cell of a notebook may have it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        return True
    return any(map(_awaits, ast.iter_child_nodes(node)))


def _is_main_guard(statement: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__": main()`, or `__name__ == "__main__" and main()`."""
    test: ast.expr | None = None
    if isinstance(statement, ast.If):
        test = statement.test
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.IfExp):
        test = statement.value.test
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.BoolOp):
        test = statement.value.values[0]
    return test is not None and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test)
    )


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _definitions_only(
    body: Sequence[ast.stmt], tree: ast.Module, path: str, module: ModuleType, script: _Script
) -> list[Skipped]:
    """Execute those statements of a file that define something; what was left out."""
    skipped: list[Skipped] = []
    future = _future(tree)
    for statement in body:
        if script.is_work(statement):
            skipped.append(Skipped(statement.lineno, _bound(statement)))
            continue
        code = _compiled(ast.Module([statement], []), path, future)
        if isinstance(statement, _DEFINITIONS):
            exec(code, module.__dict__)
            continue
        # A constant that needs skipped work (a process group, a data set) is skipped with it.
        try:
            exec(code, module.__dict__)
        except (Exception, SystemExit) as error:
            skipped.append(_skipped(statement, path, error))
    return skipped


def _skipped(statement: ast.stmt, path: str, error: BaseException) -> Skipped:
    return Skipped(_line(path, error) or statement.lineno, _bound(statement), _described(error))


def _bound(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement would define."""
    return frozenset(
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _statement_left_out(tree: ast.Module, path: str, error: Exception) -> ast.stmt | None:
    """The top-level statement that an import can do without although it raised this; None where it cannot."""
    if isinstance(error, MemoryError) or _NEEDS_GPU.search(_described(error)):
        return None
    line = _line(path, error)
    failed = next((statement for statement in tree.body if _is_at(statement, line)), None)
    if failed is None or any(
        isinstance(node, ast.stmt) and isinstance(node, _FATAL) and _is_at(node, line)
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
    tree = ast.parse(source, path)
    main = new_main(path)
    if jupyter.furnish(main.__dict__, source):
        awaiting.evaluate(tree, path, main.__dict__)
    else:
        exec(_compiled(tree, path), main.__dict__)


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
