"""Ways to make a copied source look like one's own.

What comes out is Python and looks like a program that does the same; whoever copies would see to it that it runs.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import random
from collections.abc import Callable, Mapping

Sources = Mapping[str, str]


def renamed(source: str) -> str:
    """Every name that the file itself binds becomes another one; only what others import keeps its name."""
    tree = ast.parse(source)
    bound: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = None
        elif isinstance(node, ast.arg):
            bound[node.arg] = None
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            bound[node.name] = None
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            attributes[node.attr] = None
    kept = {*dir(builtins), *keyword.kwlist, "self", "cls"}
    names = {name: f"my_{number}" for number, name in enumerate(name for name in bound if name not in kept)}
    own = {name: f"its_{number}" for number, name in enumerate(attributes)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = names.get(node.arg, node.arg)
        elif isinstance(node, ast.FunctionDef):
            node.name = names.get(node.name, node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = own.get(node.attr, node.attr)
    return ast.unparse(tree) + "\n"


def reordered(source: str) -> str:
    """Functions and classes in another order, and so the methods of every class."""
    tree = ast.parse(source)
    for node in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        node.body = _shuffled(node.body)
    return ast.unparse(tree) + "\n"


def _shuffled(body: list[ast.stmt]) -> list[ast.stmt]:
    places = [place for place, node in enumerate(body) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    moved = list(reversed(places))
    found = list(body)
    for place, other in zip(places, moved, strict=True):
        found[place] = body[other]
    return found


def other_comments(source: str) -> str:
    """Comments and docstrings of one's own in the place of those that were there."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("What I thought of here, in two lines.\n\nIt took a while."))
    lines = ast.unparse(tree).splitlines()
    text = [
        f"{line}  # my remark {number}" if number % 3 == 0 and line.strip() else line
        for number, line in enumerate(lines)
    ]
    try:
        ast.parse("\n".join(text))
    except SyntaxError:  # a remark inside a text of several lines
        text = lines
    return "\n".join(text) + "\n"


def reformatted(source: str) -> str:
    """Other quotes, other line breaks, no blank lines, as a formatter would have it."""
    return ast.unparse(ast.parse(source)).replace("    ", "  ") + "\n"


def padded(source: str) -> str:
    """After every third statement one that does nothing, and three functions that nobody calls."""
    tree = ast.parse(source)
    number = 0
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            if not isinstance(body, list) or not all(isinstance(item, ast.stmt) for item in body):
                continue
            longer: list[ast.stmt] = []
            for item in body:
                longer.append(item)
                number += 1
                if number % 3 == 0 and not isinstance(item, ast.Return | ast.Raise | ast.ImportFrom):
                    longer += ast.parse(f"checked_{number} = {number} + 1").body
            setattr(node, field, longer)
    spare = "\n".join(
        f"def spare_{n}(values):\n    total = {n}\n    for value in values:\n        total += value * {n}\n"
        f"    return total / (len(values) or 1)\n"
        for n in range(3)
    )
    return ast.unparse(tree) + "\n" + spare


def otherwise(source: str) -> str:
    """`x += y` written out and comparisons turned around."""

    class Other(ast.NodeTransformer):
        def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
            if isinstance(node.target, ast.Name):
                left = ast.Name(node.target.id, ast.Load())
                return ast.copy_location(
                    ast.Assign([node.target], ast.BinOp(left, node.op, node.value)), node
                )
            return node

        def visit_Compare(self, node: ast.Compare) -> ast.AST:
            self.generic_visit(node)
            turned = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
            if len(node.ops) == 1 and type(node.ops[0]) in turned:
                return ast.Compare(node.comparators[0], [turned[type(node.ops[0])]()], [node.left])
            return node

    tree = ast.fix_missing_locations(Other().visit(ast.parse(source)))
    return ast.unparse(tree) + "\n"


def _alone(change: Callable[[str], str]) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {name: change(text) for name, text in sources.items()}


def split(sources: Sources) -> dict[str, str]:
    """Every other function or class in a module of its own, imported from there."""
    found: dict[str, str] = {}
    for name, text in sources.items():
        tree = ast.parse(text)
        defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        away = defined[::2]
        if len(defined) < 2:
            found[name] = text
            continue
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        helper = f"helpers_{name}"
        rest = [node for node in tree.body if node not in away]
        at = max((rest.index(node) for node in imports), default=-1) + 1
        names = ", ".join(node.name for node in away)
        rest[at:at] = ast.parse(f"from {helper.removesuffix('.py')} import {names}").body
        future = [
            node for node in imports if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ]
        others = [node for node in imports if node not in future]
        found[name] = ast.unparse(ast.Module(rest, [])) + "\n"
        found[helper] = ast.unparse(ast.Module([*future, *others, *away], [])) + "\n"
    return found


def everything(sources: Sources) -> dict[str, str]:
    """All of it, one after the other."""
    whole = _alone(lambda text: other_comments(padded(reordered(renamed(text)))))(sources)
    return split(whole)


DISGUISES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "names changed": _alone(renamed),
    "functions in another order": _alone(reordered),
    "comments changed": _alone(other_comments),
    "formatted anew": _alone(reformatted),
    "written otherwise here and there": _alone(otherwise),
    "a third dead code": _alone(padded),
    "split into two files": split,
    "all of it": everything,
}


def half(source: str, seed: int) -> str:
    """A random half of the functions and classes of a source, to be put among one's own."""
    tree = ast.parse(source)
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    kept = random.Random(seed).sample(defined, (len(defined) + 1) // 2)
    return "\n".join(ast.unparse(node) for node in kept) + "\n"
