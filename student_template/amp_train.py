"""Trains a ResNet on CINIC-10 with automatic mixed precision, and logs to TensorBoard and to Weights & Biases.

With AMP and without:         python amp_train.py --training-data data --amp     (or --no-amp)
How large may a batch be?     python amp_train.py --training-data data --find-batch-size
Look at the curves:           tensorboard --logdir runs
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import wandb
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, models, transforms

ARCH = "resnet152"
BATCH_SIZE = 64
EPOCHS = 3
LEARNING_RATE = 0.02
MOMENTUM = 0.9
CINIC10_MEAN = (0.4789, 0.4723, 0.4305)
CINIC10_STD = (0.2421, 0.2383, 0.2587)

Batch = tuple[torch.Tensor, torch.Tensor]


def build_model(arch: str = ARCH, num_classes: int = 10) -> nn.Module:
    """One of torchvision's models by its name, with fresh weights in fp32: autocast casts what it needs."""
    return models.get_model(arch, weights=None, num_classes=num_classes)


def make_loader(folder: str, part: str, batch_size: int, shuffle: bool) -> DataLoader:
    """Batches of CINIC-10's `train`, `valid` or `test` images: one folder for each class."""
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(CINIC10_MEAN, CINIC10_STD)])
    dataset = datasets.ImageFolder(str(Path(folder, part)), transform)
    return DataLoader(
        dataset, batch_size, shuffle=shuffle, num_workers=2, pin_memory=torch.cuda.is_available()
    )


def topk_accuracy(logits: torch.Tensor, labels: torch.Tensor, k: int) -> float:
    """The percentage of items whose label is among the k largest logits."""
    # TODO: count the rows whose label is among the k largest logits, in percent
    raise NotImplementedError("amp_train.py is not written yet")


def train_step(
    model: nn.Module,
    batch: Batch,
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    device: torch.device,
    amp: bool = True,
    grad_clip: float | None = None,
) -> dict[str, float]:
    """Train on one batch and return its `loss`, `acc1` and `acc5` (in percent).

    `grad_clip` is the largest norm that the gradient of all parameters together may have.
    """
    # TODO: autocast the forward and the loss; scale, backward, unscale and clip if asked to, step, update
    raise NotImplementedError("amp_train.py is not written yet")


def evaluate(
    model: nn.Module, loader: DataLoader, criterion: nn.Module, device: torch.device, amp: bool = True
) -> dict[str, float]:
    """Return the mean `loss`, `acc1` and `acc5` (in percent) over a whole data set."""
    # TODO: evaluation mode, no gradients, autocast as in training; weigh every batch by its size
    raise NotImplementedError("amp_train.py is not written yet")


def find_batch_size(
    arch: str, example: torch.Tensor, device: torch.device, amp: bool, largest: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the largest batch size, up to `largest`, with which a step fits into memory, and all trials."""
    # TODO: double the size until a step runs out of memory, then bisect; free the memory in between
    raise NotImplementedError("amp_train.py is not written yet")


def precision_name(device: torch.device, amp: bool) -> str:
    """What a report calls the precision of a training."""
    if not amp:
        return "fp32"
    return "fp16-amp" if device.type == "cuda" else "bf16-amp"


def train(args: argparse.Namespace) -> None:
    """Train and validate for some epochs; every step is logged."""
    device = torch.device("cuda", args.gpu) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    batch_size, trials = args.batch_size, []
    if args.find_batch_size:
        dataset = make_loader(args.training_data, "train", 1, shuffle=False).dataset
        batch_size, trials = find_batch_size(args.arch, dataset[0][0], device, args.amp, len(dataset))
        if batch_size == 0:
            raise SystemExit("Not even two images fit: choose a smaller --arch.")
        print(f"The largest batch size that fits is {batch_size}.")
    train_loader = make_loader(args.training_data, "train", batch_size, shuffle=True)
    valid_loader = make_loader(args.training_data, "valid", batch_size, shuffle=False)

    model = build_model(args.arch).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=MOMENTUM)
    n_steps = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp)

    # TODO: open a SummaryWriter and a W&B run, and log loss, acc1, acc5 and lr of every step to both
    raise NotImplementedError("amp_train.py is not written yet")

    runs = []
    global_step = 0  # goes on through all epochs
    for epoch in range(args.epochs):
        model.train()
        t_start, start = time.time(), time.perf_counter()
        for batch in train_loader:
            metrics = train_step(model, batch, criterion, optimizer, scaler, device, args.amp, args.grad_clip)
            # TODO: log the step with the learning rate that it had, then let the scheduler go on
            raise NotImplementedError("amp_train.py is not written yet")
            global_step += 1
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        wall, t_end = time.perf_counter() - start, time.time()
        metrics = evaluate(model, valid_loader, criterion, device, args.amp)
        # TODO: log what the epoch came to
        raise NotImplementedError("amp_train.py is not written yet")
        print(f"epoch {epoch}: loss {metrics['loss']:.4f}, acc1 {metrics['acc1']:.2f} %, {wall:.2f} s")
        measured = {
            "config": {
                "precision": precision_name(device, args.amp),
                "batch_size": batch_size,
                "grad_scaler": scaler.is_enabled(),
            },
            "rep": epoch,
            "t_start": t_start,
            "t_end": t_end,
            "wall_s": repr(wall),
            "samples": len(train_loader.dataset),
            "steps": len(train_loader),
            "epochs": 1,
        }
        if device.type == "cuda":
            measured["peak_alloc_bytes"] = torch.cuda.max_memory_allocated(device)
            measured["peak_reserved_bytes"] = torch.cuda.max_memory_reserved(device)
        runs.append(measured)

    # TODO: close both logs; what has not been written yet would be lost
    raise NotImplementedError("amp_train.py is not written yet")

    if args.report and runs:
        write_amp_report(args, model, list(train_loader.dataset[0][0].shape), runs, trials)


def write_amp_report(
    args: argparse.Namespace,
    model: nn.Module,
    input_shape: list[int],
    runs: list[dict[str, Any]],
    trials: list[dict[str, Any]],
) -> None:
    """Write the seconds of every epoch. A call with --amp and one with --no-amp share a report."""
    from perf_report import write_report

    searched: dict[str, Any] = {}
    if trials:
        config = {"precision": trials[0]["precision"]}
        best = max(trial["batch_size"] for trial in trials if trial["ok"])
        searched["batch_search"] = trials
        searched["claims"] = [{"what": "max_batch", "config": config, "value": str(best), "unit": "images"}]
    write_report(
        args.report,
        "amp",
        __file__,
        runs,
        workload={
            "model": args.arch,
            "params": sum(parameter.numel() for parameter in model.parameters()),
            "input_shape": input_shape,
            "num_classes": 10,
            "dataset": "CINIC-10",
            "optimizer": "sgd-momentum",
        },
        timed_region="a training epoch with data loading and logging, without validation",
        **searched,
    )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A ResNet on CINIC-10 with automatic mixed precision.")
    parser.add_argument("--training-data", default="data", metavar="DIR", help="holds train/ and valid/")
    parser.add_argument("--arch", default=ARCH, help="a model of torchvision.models")
    parser.add_argument("--batch-size", default=BATCH_SIZE, type=int)
    parser.add_argument("--epochs", default=EPOCHS, type=int)
    parser.add_argument("--lr", default=LEARNING_RATE, type=float)
    parser.add_argument("--amp", default=True, action=argparse.BooleanOptionalAction)
    parser.add_argument("--grad-clip", type=float, metavar="NORM", help="default: do not clip")
    parser.add_argument("--gpu", default=0, type=int, help="number of the GPU to use, if there is one")
    parser.add_argument("--logdir", default="runs", metavar="DIR", help="where TensorBoard's files go")
    parser.add_argument("--wandb", default="offline", choices=("offline", "online", "disabled"))
    parser.add_argument(
        "--find-batch-size",
        action="store_true",
        help="first search for the largest batch that fits, and use it",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write the seconds of every epoch, for example to reports/amp.json"
    )
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_arguments())
