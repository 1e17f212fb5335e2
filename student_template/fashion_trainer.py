"""Trains a small convolutional network on Fashion-MNIST, on a GPU where there is one and on the CPU elsewhere.

    python fashion_trainer.py --data data --epochs 3
    python fashion_trainer.py --device cpu              # even where there is a GPU

Get the data once, before the first run:

    python -c "from torchvision.datasets import FashionMNIST; FashionMNIST('data', download=True)"
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

EPOCHS = 3
BATCH_SIZE = 100
LEARNING_RATE = 1e-3
FASHION_MNIST_MEAN = (0.2860,)
FASHION_MNIST_STD = (0.3530,)


class FashionCNN(nn.Module):
    """Two convolutional blocks and a classifier: pictures (n, 1, 28, 28) in, logits (n, 10) out."""

    def __init__(self) -> None:
        super().__init__()
        self.block1 = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.block2 = nn.Sequential(
            nn.Conv2d(32, 64, kernel_size=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 6 * 6, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits: the loss below does the softmax."""
        return self.classifier(self.block2(self.block1(images)))


def get_device() -> torch.device:
    """The device to work on: a GPU where there is one, else the CPU."""
    # TODO: ask torch whether it can use a GPU, and return that device or the CPU
    raise NotImplementedError("fashion_trainer.py is not written yet")


def train(
    model: nn.Module, loader: DataLoader, device: torch.device, epochs: int = 1, lr: float = 1e-3
) -> list[float]:
    """Train on every item `epochs` times and return the mean loss over the items of each epoch."""
    # TODO: put the model and every batch on the device, train with Adam, and keep each epoch's mean loss
    raise NotImplementedError("fashion_trainer.py is not written yet")


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Return the share of items that the model classifies rightly, between 0 and 1."""
    # TODO: switch dropout, batch norm and gradients to evaluation, and count the right answers
    raise NotImplementedError("fashion_trainer.py is not written yet")


def main() -> None:
    """Train, evaluate on the pictures that were kept apart for it, and write down how it went."""
    parser = argparse.ArgumentParser(description="A convolutional network on Fashion-MNIST, on any device.")
    parser.add_argument("--data", default="data", metavar="DIR")
    parser.add_argument("--epochs", default=EPOCHS, type=int)
    parser.add_argument("--batch-size", default=BATCH_SIZE, type=int)
    parser.add_argument("--lr", default=LEARNING_RATE, type=float)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--report", metavar="FILE", help="write losses, accuracy and seconds, as JSON")
    args = parser.parse_args()

    device = get_device() if args.device == "auto" else torch.device(args.device)
    torch.manual_seed(0)

    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize(FASHION_MNIST_MEAN, FASHION_MNIST_STD)]
    )
    train_data = datasets.FashionMNIST(args.data, train=True, transform=transform)
    test_data = datasets.FashionMNIST(args.data, train=False, transform=transform)
    train_loader = DataLoader(train_data, args.batch_size, shuffle=True)
    test_loader = DataLoader(test_data, args.batch_size)

    model = FashionCNN()
    start = time.perf_counter()
    # TODO: train on the training data and evaluate on the test data
    raise NotImplementedError("fashion_trainer.py is not written yet")
    # No need to synchronise a GPU before reading the clock: evaluate() ended with a number from it.
    seconds = time.perf_counter() - start

    for epoch, loss in enumerate(losses):
        print(f"epoch {epoch}: loss {loss:.4f}")
    print(f"accuracy {accuracy:.4f} on {len(test_data)} test pictures, {seconds:.1f} s on {device}")

    if args.report:
        report = {
            "device": str(device),
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "lr": args.lr,
            "losses": losses,
            "accuracy": accuracy,
            "seconds": seconds,
        }
        Path(args.report).parent.mkdir(parents=True, exist_ok=True)
        Path(args.report).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
