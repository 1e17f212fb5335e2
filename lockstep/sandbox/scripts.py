"""Which top-level statements of a file define something, and which run it as a script."""

from __future__ import annotations

import ast

from lockstep.sandbox.exported import magic

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
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
_LIBRARIES = frozenset(
    (
        "torch np numpy plt matplotlib mpl random warnings logging os sys sns Image ImageFile mp "
        "multiprocessing"
    ).split()
)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


# Magics that define something, or give a value.
_HARMLESS = frozenset("run capture pwd env".split())


class Script:
    """Tells, for the top-level statements of one file, which define something and which run the script."""

    def __init__(self, tree: ast.Module) -> None:
        # Who has a main guard means what stands outside of it to happen on import, a loop that defines things too.
        self._guarded = any(map(is_main_guard, tree.body))
        self._bodies: dict[str, list[ast.AST]] = {}
        self._uses: dict[str, set[str]] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._bodies[node.name] = [node]
            elif isinstance(node, _ASSIGNMENTS) and node.value is not None:
                # `Loader = DataLoader` or a lambda: harmless by itself, but whoever calls it uses what it holds.
                for name in assigned_names(node):
                    self._bodies.setdefault(name, []).append(node.value)

    def is_work(self, statement: ast.stmt) -> bool:
        """Loops, calls of the file's own functions; not definitions, constants or parsed arguments."""
        if isinstance(statement, (*DEFINITIONS, ast.Pass, ast.Delete)) or is_main_guard(statement):
            return False
        if _awaits(statement):
            return True
        if isinstance(statement, ast.Expr | ast.Assign) and (words := magic(statement.value)):
            # `%run` brings the names of another file in; what is timed is work.
            return words[0] in ("time", "timeit") if self._guarded else words[0] not in _HARMLESS
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
        if isinstance(statement, DEFINITIONS) or is_main_guard(statement):
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


def assigned_names(statement: ast.stmt) -> list[str]:
    """The plain names that a statement binds, if it is an assignment."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
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


def is_main_guard(statement: ast.stmt) -> bool:
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
