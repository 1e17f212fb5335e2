"""TorchScript in a run: what a student's `torch.jit` makes is what was written, until it is saved or printed.

Calls of a script go past Python, so that nobody would see what a network is given and what it answers; and a network
of a probe's is none that TorchScript could read. Libraries get the real thing: TensorBoard draws its graphs with it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

MAKERS = ("script", "trace")
TAKE_SCRIPTS = ("freeze", "optimize_for_inference")
WAYS_TO_SAVE = ("save", "save_to_buffer")
TEXTS = ("code", "graph", "inlined_graph")
OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def install(tell: Callable[[], None]) -> None:
    """Let torch.jit make nothing that student code only calls; `tell` is called where it would have."""
    import torch

    libraries = os.path.dirname(os.path.dirname(torch.__file__)) + os.sep
    for name in MAKERS:
        setattr(torch.jit, name, _as_written(getattr(torch.jit, name), libraries, tell))
    for name in TAKE_SCRIPTS:
        setattr(torch.jit, name, _unless_written(getattr(torch.jit, name)))


class _Text:
    """What a script says of itself, which is made when somebody reads it."""

    def __init__(self, script: Callable[[], Any], name: str) -> None:
        self._script, self._name = script, name

    def __str__(self) -> str:
        return str(getattr(self._script(), self._name))


def _as_written(original: Callable[..., Any], libraries: str, tell: Callable[[], None]) -> Callable[..., Any]:
    from torch import nn

    @functools.wraps(original)
    def make(made: Any, *args: Any, **kwargs: Any) -> Any:
        if _who_calls().startswith(libraries):
            return original(made, *args, **kwargs)
        tell()
        if isinstance(made, nn.Module):
            script = functools.partial(original, made, *args, **kwargs)
            vars(made).update({way: functools.partial(_save, script, way) for way in WAYS_TO_SAVE})
            vars(made).update({name: _Text(script, name) for name in TEXTS})
        return made

    return make


def _who_calls() -> str:
    """The file that calls torch.jit, our own wrappers around it left out."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    return frame.f_code.co_filename


def _save(script: Callable[[], Any], way: str, *target: Any, **options: Any) -> Any:
    """Whoever hands a network on as a file needs the real thing."""
    return getattr(script(), way)(*target, **options)


def _unless_written(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch import jit

    @functools.wraps(original)
    def change(module: Any, *args: Any, **kwargs: Any) -> Any:
        return original(module, *args, **kwargs) if isinstance(module, jit.ScriptModule) else module

    return change
