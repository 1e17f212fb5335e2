"""What the doctor's own run does inside the sandbox: its ranks add something up, and say how they are confined."""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from lockstep.sandbox.probing import Inputs, Observation, Student


def look(student: Student, inputs: Inputs) -> Observation:
    """A sum over all ranks, the mode of the filter, capabilities, and the networks there are."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    total = torch.tensor([inputs.rank + 1.0])
    dist.all_reduce(total)
    dist.destroy_process_group()
    status = dict(re.findall(r"^(\w+):\s*(\S+)$", Path("/proc/self/status").read_text(), re.MULTILINE))
    return Observation(
        values={
            "total": total.item(),
            "filter": status.get("Seccomp", ""),
            "capabilities": status.get("CapEff", ""),
            "networks": ",".join(sorted(name for _, name in socket.if_nameindex())),
        }
    )
