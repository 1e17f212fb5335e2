"""Bring a student's file in as a module, or run it as a script, the way Python itself would.

Many right solutions parse arguments or start training at import time. Where a file does work at its top
level, only its imports, definitions and constants are executed.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import io
import sys
import tokenize
from types import CodeType, ModuleType

from lockstep.sandbox import awaiting, jupyter

MAX_SOURCE = 256 << 10
# What a call that runs the script uses, itself or through others, and one that computes a constant does not.
_WORK = frozenset(
    (
        "init_process_group init_device_mesh TCPStore barrier elastic_launch backward DataLoader fit spawn "
        "parse_args parse_known_args input Popen"
    ).split()
)
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
    source = read_source(path)
    tree = ast.parse(source, filename=path)
    module = ModuleType(name)
    module.__file__ = path
    jupyter.furnish(module.__dict__, source)
    sys.modules[name] = module
    sys.argv = [f"{name}.py"]
    script = _Script(tree)
    if not any(map(script.is_work, tree.body)):
        exec(_compiled(tree, path), module.__dict__)
        return module, []
    return module, _definitions_only(tree, path, module, script)


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
        """Loops, calls of the file's own functions, parsed arguments; not definitions or constants."""
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

    def _works(self, names: set[str]) -> bool:
        """Whether code that uses these names, or what the file's own functions among them use, runs the script."""
        known: set[str] = set()
        while names - known:
            known |= names
            names = names.union(*map(self._used_by, names))
        return not known.isdisjoint(_WORK)

    def _used_by(self, name: str) -> set[str]:
        """What the file binds to a name uses; looked at when first asked for, as most of it never is."""
        if name not in self._uses:
            self._uses[name] = set().union(*map(_names, self._bodies.get(name, ())))
        return self._uses[name]

    def _sets_up(self, value: ast.expr) -> bool:
        """Calls such as `torch.manual_seed(0)` or `plt.rcParams.update(...)`; they are kept."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        names = _names(value)
        return _root(value.func) in _LIBRARIES and "distributed" not in names and not self._works(names)


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


def _definitions_only(tree: ast.Module, path: str, module: ModuleType, script: _Script) -> list[int]:
    skipped: list[int] = []
    future = _future(tree)
    for statement in tree.body:
        if script.is_work(statement):
            skipped.append(statement.lineno)
            continue
        code = _compiled(ast.Module([statement], []), path, future)
        if isinstance(statement, _DEFINITIONS):
            exec(code, module.__dict__)
            continue
        # A constant that needs skipped work (parsed arguments, a data set) is skipped with it.
        try:
            exec(code, module.__dict__)
        except (Exception, SystemExit):
            skipped.append(statement.lineno)
    return skipped


def binds(path: str, lines: list[int], name: str) -> bool:
    """Whether one of the top-level statements at these lines of a file would define `name`."""
    return any(
        statement.lineno in lines
        and any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(statement)
        )
        for statement in ast.parse(read_source(path)).body
    )


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
