"""Slips of the pen in lines that are reached on a GPU only: no emulation could be to blame for them.

Whatever else goes wrong on an emulated GPU may go well on a real one, and is not held against anyone.
"""

from __future__ import annotations

import ast
import difflib
import re

import torch

from lockstep.check import Check
from lockstep.sandbox.outcome import StudentError
from lockstep.text import safe_line
from lockstep.verdict import Feedback

_NAME = re.compile(r"name '(\w{1,60})' is not defined")
_OF_TORCH = re.compile(r"module '(torch|torch\.cuda)' has no attribute '(\w{1,60})'")
_MODULES = {"torch": torch, "torch.cuda": torch.cuda}
# What is no word of Python but defined where a notebook runs; what may define a name that is nowhere assigned.
_OF_JUPYTER = {"display", "get_ipython"}
_DEFINES = {"exec", "globals", "locals", "builtins", "__builtins__"}
# An older or a newer torch may know a name that this one does not: it is no slip unless it is nearly one of this one's.
NEARLY = 0.9


def slip(check: Check, error: StudentError | None) -> Feedback | None:
    """What to say of an error, where it is a name that the student's own file cannot know, in that very line."""
    frame = error.frames[-1] if error is not None and error.frames else None
    if error is None or frame is None or frame.file in check.submission.notebooks:
        return None
    source = check.submission.files.get(frame.file, b"").decode("utf-8", errors="replace")
    hint = found(source, frame.line, error.type, error.message)
    if hint is None:
        return None
    place = f"{safe_line(frame.file, 80)}, line {frame.line}"
    return Feedback(f"{error.type}: {safe_line(error.message)} ({place})", hint)


def found(source: str, line: int, kind: str, message: str) -> str | None:
    """What to do about an error of that kind in a line of a source; None where it may be no slip of the pen."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return None
    here = [node for node in nodes if getattr(node, "lineno", None) == line]
    if kind == "NameError" and (unknown := _NAME.fullmatch(message)):
        name = unknown[1]
        is_used = any(isinstance(node, ast.Name) and node.id == name for node in here)
        if is_used and name not in _OF_JUPYTER and not any(_may_define(node, name) for node in nodes):
            return f"`{name}` is assigned nowhere: was another name meant?"
    if kind == "AttributeError" and (unknown := _OF_TORCH.fullmatch(message)):
        module, name = unknown[1], unknown[2]
        near = difflib.get_close_matches(name, dir(_MODULES[module]), 1, NEARLY)
        is_used = any(isinstance(node, ast.Attribute) and node.attr == name for node in here)
        is_set = any(_may_define(node, name) for node in nodes)
        if is_used and near and not is_set and not hasattr(_MODULES[module], name):
            return f"Was {module}.{near[0]} meant?"
    return None


def _may_define(node: ast.AST, name: str) -> bool:
    """Whether a node may give `name` a meaning: whatever has it, but for those that ask for it."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        return isinstance(node, ast.Name) and node.id in _DEFINES
    if isinstance(node, ast.keyword):
        return False
    if isinstance(node, ast.alias):
        return node.name == "*" or name in (node.asname or node.name).split(".")
    fields = [value for _, value in ast.iter_fields(node)]
    return any(name in value if isinstance(value, list) else value == name for value in fields)
