"""Code in which, as in a cell of Jupyter, `await` may stand outside of functions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Coroutine
from types import CodeType
from typing import Any, cast

from lockstep.sandbox import fewbatches


def evaluate(tree: ast.Module | ast.Expression, path: str, namespace: dict[str, Any]) -> object:
    """Run statements, or compute an expression and return its value; what they raise propagates."""
    mode = "exec" if isinstance(tree, ast.Module) else "eval"
    code: CodeType = compile(
        fewbatches.spared(tree), path, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    value: object = eval(code, namespace)
    if not code.co_flags & inspect.CO_COROUTINE:
        return value
    import asyncio  # hardly any notebook needs it

    return asyncio.run(cast(Coroutine[object, object, object], value))
