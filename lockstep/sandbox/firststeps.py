"""The first, slow, step of what ranks do: taken once in the server, where every rank would take it anew."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.sandbox.device import emulated_gpus


def take(*, gpus: bool) -> None:
    """Take them all; but none of autograd where runs may use real `gpus`.

    It starts CUDA to count them, and no fork can start it again.
    """
    _train("cpu", backward=not gpus)
    torch.optim.Adam(nn.Linear(2, 2).parameters())
    if not gpus:
        # Python gets an object for each operator when a mode that watches operators first meets it: 1 ms of CPU each.
        with emulated_gpus():
            _train("cuda", backward=True)
    _remember_backends()


def _train(device: str, *, backward: bool) -> None:
    """What most trainings begin with, and what they ask of a batch."""
    model = nn.Sequential(
        nn.Conv2d(3, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    images, labels = torch.ones(2, 3, 4, 4).to(device), torch.tensor([0, 1]).to(device)
    for _ in range(2):  # the second has gradients to clear, and momentum
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        if backward:
            torch.autograd.backward(loss)
        optimizer.step()
    with torch.no_grad():
        (scores.argmax(dim=1) == labels).sum().item()
        loss.detach().clone().cpu()


def _remember_backends() -> None:
    """Let torch know the backends of groups: one that it has not met it looks for in all installed packages.

    It does so for every group anew, in 10 ms of CPU. Before 2.15 it did not look.
    """
    if remember := getattr(torch.distributed.Backend, "_ensure_backend_registered", None):
        for name in ("gloo", "nccl"):
            remember(name)
