"""What one run may use, and what it used."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20
# CUDA reserves addresses for all memory of all GPUs before it uses any.
ADDRESS_SPACE_OF_CUDA = 1 << 46


@dataclass(frozen=True)
class Limits:
    """Limits of one run: seconds of wall time; bytes; counts. Each trips with a verdict of its own."""

    seconds: float = 10.0
    memory: int = 4 * GIB
    # Per process. Torch's wheel alone maps 3.4 GiB, so this cannot be tight.
    address_space: int = 12 * GIB
    processes: int = 256
    open_files: int = 1024
    disk: int = 64 * MIB
    shared_memory: int = 256 * MIB
    output: int = 8 * MIB

    def for_inside(self) -> dict[str, int]:
        """The limits that are set from within the sandbox."""
        return {
            "address_space": self.address_space,
            "processes": self.processes,
            "open_files": self.open_files,
            "disk": self.disk,
            "shared_memory": self.shared_memory,
        }


@dataclass(frozen=True)
class Usage:
    """What a run used: peak bytes of memory, CPU seconds, and the limit that it hit, if any.

    That is "memory", "processes", or "machine" where it left the machine no memory although its limit allows more.
    """

    peak_memory: int | None
    cpu_seconds: float | None
    exceeded: str | None
