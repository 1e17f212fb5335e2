"""Constants of a notebook that are parts of one thing: of a class, a dict or a Namespace in its parameters cell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from lockstep.sandbox.cells import read_cells
from lockstep.wire import Json

from .constants import HOLDERS, assigned_in, made_like_one, may_be, name_of, option_of

# What a constant may be made with; any other name is that of a constant itself, or of what was computed.
_KNOWN = frozenset("Path pathlib str int float bool os torch".split())


def with_entries(
    source: str, options: Mapping[str, Json], taken: Collection[str] = ()
) -> tuple[str, frozenset[str]]:
    """A notebook's source with the judge's values for such parts, as if they had been edited, and for which options.

    Those that are `taken` have a constant of their own.
    """
    lines, found = source.split("\n"), set()
    for cell in read_cells(source) or ():
        if not cell.is_parameters:
            continue
        entries = list(_entries(ast.parse("\n".join(cell.of(lines))).body))
        # From the last to the first: what stands before one keeps its place.
        for name, value in sorted(
            entries, key=lambda entry: (entry[1].lineno, entry[1].col_offset), reverse=True
        ):
            option = option_of(name)
            if option in taken or option not in options or value.lineno != value.end_lineno:
                continue
            if _is_constant(value) and may_be(value, option, options[option]):
                at = cell.first_line - 2 + value.lineno
                lines[at] = _replaced(lines[at], value, options[option])
                found.add(option)
    return "\n".join(lines), frozenset(found)


def with_parameters(source: str, options: dict[str, Json]) -> str:
    """A notebook's source with the tag `parameters` at the cell that looks most like it, of several at the first.

    It sets the most options. One that looks at data and model has variables of such names as well: of them count
    those that are made like a constant.
    """
    candidates = [source]
    for cell in read_cells(source) or ():
        lines = source.split("\n")
        lines[cell.first_line - 2] = lines[cell.first_line - 2].replace(" lines)", " lines) [parameters]", 1)
        candidates.append("\n".join(lines))
    found = {candidate: len(_options_set(candidate, options)) for candidate in candidates}
    likely = max(found, key=lambda candidate: found[candidate])
    return likely if found[likely] >= 3 else source


def _options_set(source: str, options: dict[str, Json]) -> frozenset[str]:
    """The options that the `parameters` cell sets by what is made like a constant."""
    own = frozenset(option for _, option, _, is_constant in assigned_in(source, options) if is_constant)
    return own | with_entries(source, options, own)[1]


def _entries(statements: Sequence[ast.stmt], *, in_class: bool = False) -> Iterator[tuple[str, ast.expr]]:
    classes = {one.name for one in statements if isinstance(one, ast.ClassDef)}
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _entries(statement.body, in_class=True)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if in_class:
            yield from ((one.id, statement.value) for one in targets if isinstance(one, ast.Name))
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, value
            elif isinstance(node, ast.Call) and name_of(node.func) in HOLDERS | classes:
                yield from ((word.arg, word.value) for word in node.keywords if word.arg)


def _is_constant(value: ast.expr) -> bool:
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return made_like_one(value) and names <= _KNOWN


def _replaced(line: str, value: ast.expr, chosen: Json) -> str:
    text = repr(chosen)
    if isinstance(value, ast.Call) and name_of(value.func) == "Path":
        text = f"{ast.unparse(value.func)}({text})"
    encoded = line.encode()
    return (encoded[: value.col_offset] + text.encode() + encoded[value.end_col_offset :]).decode()
