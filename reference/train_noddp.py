"""Trains ResNet-18 on CIFAR-10 in one process. Given: `ddp_train.py` is this script on many processes.

Start it with: python train_noddp.py --training-data data --epochs 3
"""

import argparse
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, models, transforms

EPOCHS = 3
BATCH_SIZE = 32
LEARNING_RATE = 0.01
MOMENTUM = 0.9
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)


def get_device() -> torch.device:
    """The GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_loader(
    dataset: Dataset, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False
) -> DataLoader:
    """Batches of the whole data set."""
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(dataset, batch_size, shuffle=shuffle, generator=generator, drop_last=drop_last)


def train_one_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    criterion: nn.Module,
    device: torch.device,
) -> float:
    """Train on every batch once and return the mean loss over the data set."""
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
    return loss_sum / n_items


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Return the accuracy over the data set, between 0 and 1."""
    model.eval()
    n_correct, n_items = 0, 0
    for images, labels in loader:
        correct = model(images.to(device)).argmax(dim=1) == labels.to(device)
        n_correct += correct.sum().item()
        n_items += len(labels)
    return n_correct / n_items


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, path: str) -> None:
    """Write what a later run needs to go on after `epoch`."""
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    # A run that is killed while it writes leaves the last whole checkpoint in place.
    torch.save(checkpoint, f"{path}.part")
    os.replace(f"{path}.part", path)


def load_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, path: str) -> int:
    """Put weights and optimizer state back and return the epoch after which they were saved."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"]


def main() -> None:
    """Train, evaluate, and keep a checkpoint after every epoch."""
    parser = argparse.ArgumentParser(description="ResNet-18 on CIFAR-10 in one process.")
    parser.add_argument("--training-data", default="data", metavar="DIR")
    parser.add_argument("--epochs", default=EPOCHS, type=int)
    parser.add_argument("--batch-size", default=BATCH_SIZE, type=int)
    parser.add_argument("--lr", default=LEARNING_RATE, type=float)
    parser.add_argument("--checkpoint", metavar="FILE", help="written after every epoch")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint")
    parser.add_argument("--seed", default=0, type=int)
    args = parser.parse_args()
    if args.resume and not args.checkpoint:
        parser.error("--resume needs --checkpoint FILE")

    device = get_device()
    torch.manual_seed(args.seed)

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(CIFAR10_MEAN, CIFAR10_STD)])
    train_data = datasets.CIFAR10(args.training_data, train=True, transform=transform)
    test_data = datasets.CIFAR10(args.training_data, train=False, transform=transform)
    train_loader = make_loader(train_data, args.batch_size, seed=args.seed)
    test_loader = make_loader(test_data, args.batch_size, shuffle=False)

    model = models.resnet18()
    model.fc = nn.Linear(model.fc.in_features, len(train_data.classes))
    model = model.to(device)

    criterion = nn.CrossEntropyLoss()  # takes logits: a softmax of our own would be one too many
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=MOMENTUM)

    first_epoch = 0
    if args.resume:
        first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1

    for epoch in range(first_epoch, args.epochs):
        start = time.perf_counter()
        loss = train_one_epoch(model, train_loader, optimizer, criterion, device)
        wall = time.perf_counter() - start
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}, {wall:.2f} s")
        if args.checkpoint:
            save_checkpoint(model, optimizer, epoch, args.checkpoint)


if __name__ == "__main__":
    main()
