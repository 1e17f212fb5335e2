"""What the doctor's own runs do inside the sandbox: ranks add something up, say how they are confined, use a GPU."""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from lockstep.sandbox.gpus import gpus
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


def compute(student: Student, inputs: Inputs) -> Observation:
    """A convolution and its gradient on a GPU, and a sum over one rank by NCCL."""
    with gpus(1):
        model = torch.nn.Conv2d(1, 2, 3).cuda()
        model(torch.ones(1, 1, 4, 4, device="cuda")).sum().backward()
        dist.init_process_group("nccl", timeout=timedelta(seconds=50))
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total)
        dist.destroy_process_group()
        gradient = model.weight.grad
        assert gradient is not None
        return Observation(values={"total": total.item(), "gradient": gradient.mean().item()})
