"""What one run is given: a probe's function, files, private inputs for each rank, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lockstep import wire
from lockstep.exercise import Server
from lockstep.members import parents_of
from lockstep.sandbox.limits import Limits
from lockstep.wire import Array, Json


@dataclass(frozen=True)
class RankInputs:
    """What one rank is given, and its environment on top of the neutral one."""

    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pack:
    """Files to lay out in a run, by relative path."""

    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()

    def frame(self) -> bytes:
        """The pack as one frame."""
        entries: list[Json] = [
            [path, len(data), path in self.executable] for path, data in self.files.items()
        ]
        content = np.frombuffer(b"".join(self.files.values()), dtype=np.uint8)
        return wire.pack({"files": entries}, {"content": content})


def laid_over(below: Mapping[str, bytes], above: Mapping[str, bytes]) -> dict[str, bytes]:
    """Both trees in one; what cannot lie beside a file of the one above, a file where it has a folder, is left out."""
    folders = {folder for path in above for folder in parents_of(path)}
    kept = {
        path: data
        for path, data in below.items()
        if path not in folders and above.keys().isdisjoint(parents_of(path))
    }
    return {**kept, **above}


@dataclass(frozen=True)
class RunSpec:
    """One run: a probe's function, the submission's files, secret data sets, ranks and limits.

    It is forked from `server`, and finds loaded what that one has imported. Each rank has folders of its own,
    as on a machine of its own, unless they have `shared_files`. Where it `counts_left`, processes that still run in
    the end are counted, once they have had time to end.
    """

    probe: str
    call: str
    submission: Pack
    ranks: Sequence[RankInputs]
    data: Mapping[str, Pack] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    server: Server = Server.FULL
    shared_files: bool = False
    counts_left: bool = False

    @property
    def apart(self) -> bool:
        """Whether the ranks have namespaces of their own in the sandbox, each with a supervisor."""
        return len(self.ranks) > 1 and not self.shared_files
