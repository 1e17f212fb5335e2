"""What a rank writes while it saves a checkpoint."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import torch
from torch import nn

from lockstep.sandbox.probing import plain_tensor

MANY = 100
_LOCKS = (".lock", ".lck")


def fingerprint(path: str) -> str:
    """What tells a file from one with another content; nothing where there is none."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Writes:
    """Files that this process opens for writing from now on, and those that it renames to others.

    They are named relative to the folder where they are in it.
    """

    def __init__(self, path: str) -> None:
        self.path, self._last = path, fingerprint(path)
        # Whether the last checkpoint stood nowhere else when this one was begun in its place.
        self.over_the_last = False
        self._written: list[str] = []
        self._renamed: dict[str, str] = {}
        self._work = os.getcwd()
        sys.addaudithook(self._hook)
        # torch.save opens its file in C++, which no audit hook sees; by whatever name it is imported, it comes by here.
        original = torch.serialization._open_zipfile_writer

        def open_noted(name_or_buffer: Any) -> Any:
            if isinstance(name_or_buffer, str):
                self._begun(name_or_buffer)
            return original(name_or_buffer)

        torch.serialization._open_zipfile_writer = open_noted

    def of_the_checkpoint(self, model: nn.Module) -> list[str]:
        """Those that are the checkpoint, or became it, or may have been meant to.

        A rank may keep what is its own beside it, as the state of its random numbers, which is none of the weights.
        """
        became = {self._renamed.get(name, name) for name in self._written}
        became |= {name for name in self._renamed.values() if name == self.path}
        named = [
            name for name in became if os.path.basename(name).startswith(("checkpoint", ".checkpoint", "tmp"))
        ]
        return sorted(name for name in named if name == self.path or not _is_beside(name, model))

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            mode, flags = args[1], args[2]
            writes = (
                any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            )
            if writes:
                self._begun(os.fsdecode(args[0]))
        elif event == "os.rename" and len(self._renamed) < MANY:
            self._renamed[self._named(args[0])] = self._named(args[1])

    def _begun(self, path: str) -> None:
        name = self._named(path)
        if len(self._written) >= MANY or name in self._written:
            return
        if name == self.path:
            # Whoever moves or copies it elsewhere first has that one while this is written.
            others = [*self._written, self._renamed.get(name, name)]
            self.over_the_last = all(fingerprint(one) != self._last for one in others if one != name)
        self._written.append(name)

    def _named(self, path: str | bytes) -> str:
        return os.path.relpath(os.path.join(self._work, os.fsdecode(path)), self._work)


def _is_beside(name: str, model: nn.Module) -> bool:
    """Whether it is a lock, or is there and holds none of the matrices of a network."""
    if name.endswith(_LOCKS):
        return True
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        content = file.read()
    matrices = [plain_tensor(value) for value in model.parameters() if value.ndim == 2]
    return not any(matrix is not None and matrix.tobytes() in content for matrix in matrices)
