"""Lines like `if i % (len(loader) // 10) == 0`, which divide by nothing where a check has a few batches only.

On the data set that a script is for, a tenth of the batches is some, as is one of its epochs. Here such a divisor, or
the step of a range, is 1 at least, wherever it is made of a length by a floor division, or of what is called a number
of epochs, steps or batches: nothing else is changed, and another 0 fails as ever.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeGuard, TypeVar

Tree = TypeVar("Tree", bound=ast.AST)

_WHOLE = ("int", "floor", "round")
_ROUND = (*_WHOLE, "ceil")
# Operators within one another, of which sums of many texts have hundreds; names made of other names.
_DEEP = 8
_COUNTS = re.compile(r"(?:.*_)?(?:epochs|steps|batches|iterations|iters)", re.IGNORECASE)
_DIVIDE = (ast.Mod, ast.Div, ast.FloorDiv)


def spared(tree: Tree) -> Tree:
    """The tree, in which such divisors and steps are no longer 0; it is changed in place."""
    nodes = list(ast.walk(tree))
    # Most files make no such part of anything, and are through here: every rank reads its file anew.
    if any(map(_may_be_part, nodes)):
        names = _Names(nodes)
        for node in nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVIDE) and names.is_part(node.right):
                node.right = _one_at_least(node.right)
            elif isinstance(node, ast.Slice) and node.step is not None and names.is_part(node.step):
                node.step = _one_at_least(node.step)
            elif _is_range_by_steps(node) and names.is_part(node.args[2]):
                node.args[2] = _one_at_least(node.args[2])
    return tree


def _one_at_least(part: ast.expr) -> ast.expr:
    one = ast.copy_location(ast.Constant(1), part)
    return ast.copy_location(ast.BoolOp(ast.Or(), [part, one]), part)


def _is_range_by_steps(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _name(node.func) == "range" and len(node.args) == 3


def _may_be_part(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv)
    return isinstance(node, ast.Call) and _name(node.func) in _WHOLE


class _Names:
    """Which variables and attributes hold a length, and which a part of one; of each its name alone."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        assigned: dict[str, list[ast.expr]] = {}
        others: set[str] = set()
        for node in nodes:
            targets, value = _assignment(node)
            for target in targets:
                if name := _name(target):
                    assigned.setdefault(name, []).append(value)
            if isinstance(node, ast.arg):
                others.add(node.arg)
        # What is also assigned in another way, as by a loop, may be anything.
        stored = Counter(_name(node) for node in nodes if _is_stored(node))
        self._values = {
            name: values
            for name, values in assigned.items()
            if name not in others and stored[name] == len(values)
        }
        self._lengths: set[str] = set()
        self._parts: set[str] = set()
        # Each time one more that is made of others: nobody has many in a row.
        for _ in range(_DEEP):
            self._lengths |= {
                name for name, values in self._values.items() if all(map(self.is_length, values))
            }
            self._parts |= {name for name, values in self._values.items() if all(map(self.is_part, values))}

    def is_length(self, node: ast.expr, depth: int = _DEEP) -> bool:
        """Whether it is a number of items, batches or epochs, or worked out from one: by `len` or by its name."""
        if depth == 0:
            return False
        if isinstance(node, ast.BinOp):
            return self.is_length(node.left, depth - 1) or self.is_length(node.right, depth - 1)
        if isinstance(node, ast.Call):
            called = _name(node.func)
            return called == "len" or (
                called in _ROUND and len(node.args) == 1 and self.is_length(node.args[0], depth - 1)
            )
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return _COUNTS.fullmatch(str(node.slice.value)) is not None  # config["epochs"]
        return _name(node) in self._lengths or _COUNTS.fullmatch(_name(node)) is not None

    def is_part(self, node: ast.expr) -> bool:
        """Whether it is a length divided by something, as a whole number: it may be 0 where the length is small."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.FloorDiv) and self.is_length(node.left)
        if isinstance(node, ast.Call) and _name(node.func) in _WHOLE and len(node.args) == 1:
            inner = node.args[0]
            return isinstance(inner, ast.BinOp) and self.is_length(inner)
        return _name(node) in self._parts


def _assignment(node: ast.AST) -> tuple[list[ast.expr], ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        return [node.target], node.value
    return [], ast.Constant(None)


def _name(node: ast.AST) -> str:
    """Of a variable, or of an attribute; nothing of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
