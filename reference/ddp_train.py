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
    # >>> solution: read torchrun's variables, choose the device and the backend, join the process group
    # RANK counts over all nodes, LOCAL_RANK within one: only the latter is the number of a GPU.
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    backend = backend or ("nccl" if device.type == "cuda" else "gloo")
    if "RANK" in os.environ:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group(backend, init_method=init_method, rank=rank, world_size=world_size)
    else:
        # Started without torchrun: a group of one has nobody to meet, and all that follows stays the same.
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device
    # <<<


def make_loader(
    dataset: Dataset, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False
) -> DataLoader:
    """Batches of this process's share of the data set. Every process must give the same `seed`."""
    # >>> solution: let a DistributedSampler shuffle and share out the items, and give it to the DataLoader
    # The sampler fills up the shares by repeating a few items: every process makes equally many steps.
    sampler = DistributedSampler(dataset, shuffle=shuffle, seed=seed, drop_last=drop_last)
    return DataLoader(dataset, batch_size, sampler=sampler, drop_last=drop_last)
    # <<<


def wrap_model(model: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Move the model to the device and give every process the weights of rank 0.

    From then on `backward` averages the gradients over the processes, provided that the wrapper's forward is
    called and not the inner model's.
    """
    # >>> solution: move the model to the device, then wrap it in DistributedDataParallel
    device_ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model.to(device), device_ids=device_ids)
    # <<<


def train_one_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    criterion: nn.Module,
    device: torch.device,
    epoch: int,
) -> float:
    """Train on this process's share once and return the mean loss over all shares, the same on every rank."""
    # >>> solution: train as in train_noddp.py, but reshuffle for this epoch and average over all ranks
    loader.sampler.set_epoch(epoch)  # without it every epoch has the order of the first
    model.train()
    loss_sum, n_items = 0.0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * len(labels)
        n_items += len(labels)
    totals = torch.tensor([loss_sum, n_items], dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()
    # <<<


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Return the accuracy over the data set, between 0 and 1, the same on every rank."""
    # >>> solution: count the right answers on every rank, without the sampler's padding, and add them up
    model.eval()
    # The sampler deals out the items like cards. What it repeats to fill up comes last and must not count.
    sampler = loader.sampler
    n_own = len(range(sampler.rank, len(loader.dataset), sampler.num_replicas))
    n_correct, n_items = 0, 0
    for images, labels in loader:
        correct = model(images.to(device)).argmax(dim=1) == labels.to(device)
        correct = correct[: n_own - n_items]
        n_correct += correct.sum().item()
        n_items += len(correct)
    totals = torch.tensor([n_correct, n_items], dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()
    # <<<


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, path: str) -> None:
    """Let rank 0 write what a later run needs to go on after `epoch`; nobody goes on before it is written.

    A run that is stopped while it writes must leave the last checkpoint whole.
    """
    # >>> solution: rank 0 writes weights (no `module.`), optimizer state and epoch; the others wait
    if dist.get_rank() == 0:
        # The inner model's keys have no "module." in front, so that the file can be read without DDP.
        plain_model = model.module if isinstance(model, DistributedDataParallel) else model
        checkpoint = {"model": plain_model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        # A run that is killed while it writes leaves the last whole checkpoint in place.
        torch.save(checkpoint, f"{path}.part")
        os.replace(f"{path}.part", path)
    dist.barrier()
    # <<<


def load_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, path: str) -> int:
    """Put weights and optimizer state back and return the epoch after which they were saved."""
    # >>> solution: read the file on every rank, put weights and optimizer state back, return the saved epoch
    # To the CPU first: the file names the GPU of rank 0, and all ranks would meet there.
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    plain_model = model.module if isinstance(model, DistributedDataParallel) else model
    plain_model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"]
    # <<<


def cleanup() -> None:
    """Leave the process group."""
    # >>> solution: destroy the process group
    dist.destroy_process_group()
    # <<<


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
    # >>> solution: with --scale-lr, multiply the learning rate by the number of processes
    lr = args.lr * world_size if args.scale_lr else args.lr
    # <<<
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
