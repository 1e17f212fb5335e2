"""The weight-sync check as a plain pytest test with torch.multiprocessing.spawn: what lockstep is measured against.

The same work as the warm server's check: two ranks import the student's file, join a group, wrap a model,
make five steps and send their weights back; the test compares them with a training in one process.
Run by `make bench` with the submission's folder in LOCKSTEP_BENCH_SUBMISSION.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as mp
from torch.utils.data import TensorDataset

from benchmarks.weight_sync import BATCH_SIZE, LR, STEPS, WORLD, inputs, single_process
from graders.ddp_train.probe import build_model

SUBMISSION = os.environ["LOCKSTEP_BENCH_SUBMISSION"]


def rank_main(rank: int, port: int, seed: int, results: Any) -> None:
    """One spawned rank: train an epoch with the student's functions and send the weights back."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(WORLD),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    sys.path.insert(0, SUBMISSION)
    student = importlib.import_module("ddp_train")
    shape, weights, data = inputs(np.random.default_rng(seed))
    device = student.setup()
    model = student.wrap_model(build_model(shape, weights), device)
    dataset = TensorDataset(torch.from_numpy(data.images), torch.from_numpy(data.labels))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=LR)
    loader = student.make_loader(dataset, BATCH_SIZE, shuffle=True, seed=seed)
    order = list(loader.sampler)
    student.train_one_epoch(model, loader, optimizer, torch.nn.CrossEntropyLoss(), device, 0)
    final = {
        name.removeprefix("module."): value.detach().numpy().copy()
        for name, value in model.named_parameters()
    }
    results.put((rank, order, final))
    student.cleanup()


def test_weights_in_sync() -> None:
    """Both ranks end with the weights of one process."""
    seed = 5
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(  # type: ignore[attr-defined,no-untyped-call]
        rank_main, (port, seed, results), nprocs=WORLD, join=False
    )
    seen = sorted((results.get() for _ in range(WORLD)), key=lambda entry: entry[0])
    while not context.join():
        pass
    orders = [order for _, order, _ in seen]
    expected = single_process(np.random.default_rng(seed), orders)
    assert len(orders[0]) == STEPS * BATCH_SIZE
    for _, _, final in seen:
        assert final.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(final[name], value, rtol=2e-3, atol=2e-5)
