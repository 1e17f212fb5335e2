"""Files that a tool made of a notebook: what IPython did with a cell or a line stands in them as a call with a text.

`jupyter nbconvert --to script` makes `get_ipython().run_cell_magic('time', '', 'class Net: ...')` of a timed cell. Its
statements belong to the file, so that importing that finds what they define.
"""

from __future__ import annotations

import ast

from lockstep.magics import WRAPPERS, plain_python


def inlined(tree: ast.Module) -> ast.Module:
    """The same file with the statements of such cells in the place of the calls, which keep their lines."""
    body = [one for statement in tree.body for one in _statements(statement)]
    return ast.Module(body, tree.type_ignores)


def magic(node: ast.AST) -> tuple[str, ...]:
    """What `get_ipython().run_line_magic(...)` or `.run_cell_magic(...)` is given; nothing for any other node."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("run_line_magic", "run_cell_magic")
        and isinstance(node.func.value, ast.Call)
        and isinstance(node.func.value.func, ast.Name)
        and node.func.value.func.id == "get_ipython"
    ):
        return tuple(str(word.value) for word in node.args if isinstance(word, ast.Constant))
    return ()


def _statements(statement: ast.stmt) -> list[ast.stmt]:
    words = magic(statement.value) if isinstance(statement, ast.Expr) else ()
    if len(words) == 3 and words[0] in WRAPPERS:
        # The line of a `%%capture` names a variable, for what the cell prints.
        source = "\n".join((f"%%{words[0]} {words[1]}", words[2]))
    elif len(words) == 2 and words[0] == "time":
        source = words[1]
    else:
        return [statement]
    try:
        inner = ast.parse("\n".join(plain_python(source.split("\n")).lines)).body
    except SyntaxError:
        return [statement]
    for one in inner:
        for node in ast.walk(one):
            ast.copy_location(node, statement)
    return inner
