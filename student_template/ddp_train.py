"""Trains ResNet-18 on CIFAR-10 on as many processes as torchrun starts. Compare with `train_noddp.py`.

In one process:     python ddp_train.py --training-data data --epochs 3
In many, one node:  ./ddp_train.sh --training-data data --epochs 3
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import datasets, models, transforms

EPOCHS = 3
BATCH_SIZE = 32  # of one process: the effective batch is this times the number of processes
LEARNING_RATE = 0.01
MOMENTUM = 0.9
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)


def setup(backend: str | None = None, init_method: str | None = None) -> torch.device:
    """Join the process group that torchrun's variables describe and return the device of this process.

    `backend` is nccl where there are GPUs and gloo elsewhere, unless it is given. `init_method` says where
    the processes meet, for example `file:///scratch/meet`; by default at MASTER_ADDR and MASTER_PORT.
    """
    # TODO: read torchrun's variables, choose the device and the backend, join the process group
    raise NotImplementedError("ddp_train.py is not written yet")


def make_loader(
    dataset: Dataset, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False
) -> DataLoader:
    """Batches of this process's share of the data set. Every process must give the same `seed`."""
    # TODO: let a DistributedSampler shuffle and share out the items, and give it to the DataLoader
    raise NotImplementedError("ddp_train.py is not written yet")


def wrap_model(model: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Move the model to the device and give every process the weights of rank 0.

    From then on `backward` averages the gradients over the processes, provided that the wrapper's forward is
    called and not the inner model's.
    """
    # TODO: move the model to the device, then wrap it in DistributedDataParallel
    raise NotImplementedError("ddp_train.py is not written yet")


def train_one_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    criterion: nn.Module,
    device: torch.device,
    epoch: int,
) -> float:
    """Train on this process's share once and return the mean loss over all shares, the same on every rank."""
    # TODO: train as in train_noddp.py, but reshuffle for this epoch and average over all ranks
    raise NotImplementedError("ddp_train.py is not written yet")


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Return the accuracy over the data set, between 0 and 1, the same on every rank."""
    # TODO: count the right answers on every rank, without the sampler's padding, and add them up
    raise NotImplementedError("ddp_train.py is not written yet")


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, path: str) -> None:
    """Let rank 0 write what a later run needs to go on after `epoch`; nobody goes on before it is written.

    A run that is stopped while it writes must leave the last checkpoint whole.
    """
    # TODO: rank 0 writes weights (no `module.`), optimizer state and epoch; the others wait
    raise NotImplementedError("ddp_train.py is not written yet")


def load_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, path: str) -> int:
    """Put weights and optimizer state back and return the epoch after which they were saved."""
    # TODO: read the file on every rank, put weights and optimizer state back, return the saved epoch
    raise NotImplementedError("ddp_train.py is not written yet")


def cleanup() -> None:
    """Leave the process group."""
    # TODO: destroy the process group
    raise NotImplementedError("ddp_train.py is not written yet")


def main() -> None:
    """Train, evaluate, and let rank 0 print, keep a checkpoint after every epoch and write the report."""
    parser = argparse.ArgumentParser(description="ResNet-18 on CIFAR-10 on one process or many.")
    parser.add_argument("--training-data", default="data", metavar="DIR")
    parser.add_argument("--epochs", default=EPOCHS, type=int)
    parser.add_argument("--batch-size", default=BATCH_SIZE, type=int, help="of one process")
    parser.add_argument("--lr", default=LEARNING_RATE, type=float)
    parser.add_argument("--scale-lr", action="store_true", help="multiply --lr by the number of processes")
    parser.add_argument("--backend", help="default: nccl on GPUs, gloo elsewhere")
    parser.add_argument(
        "--init-method", metavar="URL", help="where the processes meet, for example file:///x"
    )
    parser.add_argument("--checkpoint", metavar="FILE", help="written after every epoch")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument(
        "--report", metavar="FILE", help="write the seconds of every epoch, for example to reports/ddp.json"
    )
    args = parser.parse_args()
    if args.resume and not args.checkpoint:
        parser.error("--resume needs --checkpoint FILE")

    # No `finally: cleanup()` around what follows. A rank that fails must end at once, so that torchrun stops
    # the others; leaving the group in good order could mean to wait for ranks that wait for this one.
    device = setup(args.backend, args.init_method)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(CIFAR10_MEAN, CIFAR10_STD)])
    train_data = datasets.CIFAR10(args.training_data, train=True, transform=transform)
    test_data = datasets.CIFAR10(args.training_data, train=False, transform=transform)
    train_loader = make_loader(train_data, args.batch_size, seed=args.seed)
    test_loader = make_loader(test_data, args.batch_size, shuffle=False)

    model = models.resnet18()
    model.fc = nn.Linear(model.fc.in_features, len(train_data.classes))
    model = wrap_model(model, device)

    criterion = nn.CrossEntropyLoss()  # takes logits: a softmax of our own would be one too many
    # TODO: with --scale-lr, multiply the learning rate by the number of processes
    raise NotImplementedError("ddp_train.py is not written yet")
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)

    first_epoch = 0
    if args.resume:
        first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1

    runs = []
    for epoch in range(first_epoch, args.epochs):
        t_start, start = time.time(), time.perf_counter()
        # Ends with an all-reduce, so that the clock of rank 0 has waited for the slowest rank.
        loss = train_one_epoch(model, train_loader, optimizer, criterion, device, epoch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        wall, t_end = time.perf_counter() - start, time.time()
        accuracy = evaluate(model, test_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}, {wall:.2f} s")
        if args.checkpoint:
            save_checkpoint(model, optimizer, epoch, args.checkpoint)
        runs.append(
            {
                "config": {
                    "world_size": world_size,
                    "batch_per_rank": args.batch_size,
                    "backend": dist.get_backend(),
                },
                "rep": len(runs),
                "t_start": t_start,
                "t_end": t_end,
                "wall_s": repr(wall),
                "samples": len(train_loader.sampler) * world_size,
                "steps": len(train_loader),
                "epochs": 1,
            }
        )

    if args.report and runs and rank == 0:
        from perf_report import write_report

        write_report(
            args.report,
            "ddp_scaling",
            __file__,
            runs,
            workload={
                "model": "resnet18",
                "params": sum(parameter.numel() for parameter in model.parameters()),
                "input_shape": list(train_data[0][0].shape),
                "dataset": "CIFAR10",
                "dataset_n": len(train_data),
                "optimizer": "sgd-momentum",
            },
            timed_region="a training epoch with data loading, without evaluation",
        )

    cleanup()


if __name__ == "__main__":
    main()
