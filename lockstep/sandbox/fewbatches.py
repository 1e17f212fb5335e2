"""Lines like `if i % (len(loader) // 10) == 0`, which divide by nothing where a check has a few batches only.

On the data set that a script is for, a tenth of the batches is some. Here such a divisor is 1 at least, wherever it is
made of a length by a floor division: nothing else is changed, and what divides by another 0 fails as ever.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

Tree = TypeVar("Tree", bound=ast.AST)

_ROUND_DOWN = ("int", "floor")
_ROUND = (*_ROUND_DOWN, "round", "ceil")
_DIVIDE = (ast.Mod, ast.Div, ast.FloorDiv)


def spared(tree: Tree) -> Tree:
    """The tree, in which such divisors are no longer 0; it is changed in place."""
    nodes = list(ast.walk(tree))
    # Most files make no such part of anything, and are through here: every rank reads its file anew.
    if any(map(_may_be_part, nodes)):
        names = _Names(nodes)
        for node in nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVIDE) and names.is_part(node.right):
                one = ast.copy_location(ast.Constant(1), node.right)
                node.right = ast.copy_location(ast.BoolOp(ast.Or(), [node.right, one]), node.right)
    return tree


def _may_be_part(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv)
    return isinstance(node, ast.Call) and _name(node.func) in _ROUND_DOWN


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
        stored = [name for node in nodes if _is_stored(node) and (name := _name(node))]
        self._values = {
            name: values
            for name, values in assigned.items()
            if name not in others and stored.count(name) == len(values)
        }
        self._lengths: set[str] = set()
        self._parts: set[str] = set()
        while True:
            known = len(self._lengths) + len(self._parts)
            for name, values in self._values.items():
                if all(map(self.is_length, values)):
                    self._lengths.add(name)
                if all(map(self.is_part, values)):
                    self._parts.add(name)
            if len(self._lengths) + len(self._parts) == known:
                return

    def is_length(self, node: ast.expr) -> bool:
        """Whether it is a number of items or batches: `len(...)`, or what is worked out from such a number."""
        if isinstance(node, ast.BinOp):
            return self.is_length(node.left) or self.is_length(node.right)
        if isinstance(node, ast.Call):
            called = _name(node.func)
            return called == "len" or (
                called in _ROUND and len(node.args) == 1 and self.is_length(node.args[0])
            )
        return _name(node) in self._lengths

    def is_part(self, node: ast.expr) -> bool:
        """Whether it is a length divided by something, as a whole number: it may be 0 where the length is small."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.FloorDiv) and self.is_length(node.left)
        if isinstance(node, ast.Call) and _name(node.func) in _ROUND_DOWN and len(node.args) == 1:
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
