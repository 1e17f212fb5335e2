"""TorchScript in a run: what `torch.jit` makes is what was written, and only what is saved is compiled.

Its calls go past Python, so that nobody would see what a network is given and what it answers; and a network of a
probe's is none that it could read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

MAKERS = ("script", "trace")
TAKE_SCRIPTS = ("freeze", "optimize_for_inference")
WAYS_TO_SAVE = ("save", "save_to_buffer")
Function = Callable[..., Any]


def install(tell: Callable[[], None]) -> None:
    """Let torch.jit make nothing until something is saved; `tell` is called where it would have."""
    from torch import jit

    makers: dict[str, Function] = {name: getattr(jit, name) for name in MAKERS}
    for name in MAKERS:
        setattr(jit, name, _as_written(makers, name, tell))
    for name in TAKE_SCRIPTS:
        setattr(jit, name, _unless_written(getattr(jit, name)))


def _as_written(makers: dict[str, Function], name: str, tell: Callable[[], None]) -> Function:
    from torch import nn

    @functools.wraps(makers[name])
    def make(made: Any, *args: Any, **kwargs: Any) -> Any:
        tell()
        if isinstance(made, nn.Module):
            # Whoever hands a network on as a file needs the real thing.
            for way in WAYS_TO_SAVE:
                vars(made)[way] = functools.partial(_save, way, makers, name, made, args, kwargs)
        return made

    return make


def _unless_written(original: Function) -> Function:
    from torch import jit

    @functools.wraps(original)
    def change(module: Any, *args: Any, **kwargs: Any) -> Any:
        return original(module, *args, **kwargs) if isinstance(module, jit.ScriptModule) else module

    return change


def _save(
    way: str,
    makers: dict[str, Function],
    name: str,
    module: Any,
    args: Any,
    kwargs: Any,
    *target: Any,
    **options: Any,
) -> Any:
    from torch import jit

    # torch makes what a module calls by the same names.
    written = {each: getattr(jit, each) for each in makers}
    vars(jit).update(makers)
    try:
        return getattr(makers[name](module, *args, **kwargs), way)(*target, **options)
    finally:
        vars(jit).update(written)
