"""Trains a small convolutional network on Fashion-MNIST with Lightning, on whatever devices there are.

    python lightning_train.py --data data --max-epochs 3
    python lightning_train.py --accelerator cpu --devices 2 --strategy ddp
    python lightning_train.py --precision bf16-mixed --logger csv --limit-train-batches 1.0

What the other trainers spell out, Lightning does: the loop, the devices, the processes, mixed precision, logging and
checkpoints. What is left to write is what is particular to this training.
"""

import argparse
import time
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

MAX_EPOCHS = 3
LIMIT_TRAIN_BATCHES = 0.2  # a share of the batches because it is a float: the int 20 would be 20 batches
BATCH_SIZE = 64  # of one process
LEARNING_RATE = 1e-3
FASHION_MNIST_MEAN = (0.2860,)
FASHION_MNIST_STD = (0.3530,)


class FashionData(pl.LightningDataModule):
    """Fashion-MNIST below the folder `data`: its training part to train on, its test part for validation."""

    def __init__(self, data: str = "data", batch_size: int = BATCH_SIZE) -> None:
        super().__init__()
        self.data, self.batch_size = data, batch_size

    def prepare_data(self) -> None:
        """Download what is not there yet. Lightning calls this in one process of each node and lets the others wait."""
        # >>> solution: have torchvision download Fashion-MNIST; keep nothing on self, other processes would not have it
        datasets.FashionMNIST(self.data, train=True, download=True)
        datasets.FashionMNIST(self.data, train=False, download=True)
        # <<<

    def setup(self, stage: str) -> None:
        """Open the data sets. Lightning calls this in every process."""
        # >>> solution: make both data sets, with a transform that turns pictures into normalised tensors
        transform = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize(FASHION_MNIST_MEAN, FASHION_MNIST_STD)]
        )
        self.train_data = datasets.FashionMNIST(self.data, train=True, transform=transform)
        self.val_data = datasets.FashionMNIST(self.data, train=False, transform=transform)
        # <<<

    def train_dataloader(self) -> DataLoader:
        """Batches to train on, in a new order every epoch."""
        # >>> solution: return a DataLoader that shuffles
        # No DistributedSampler: with several processes, Lightning puts one in by itself.
        return DataLoader(self.train_data, self.batch_size, shuffle=True)
        # <<<

    def val_dataloader(self) -> DataLoader:
        """Batches for validation."""
        # >>> solution: return a DataLoader over the pictures that are not trained on
        return DataLoader(self.val_data, self.batch_size)
        # <<<


class LitFashion(pl.LightningModule):
    """A convolutional network, pictures (n, 1, 28, 28) in and logits (n, 10) out, and how it is trained."""

    def __init__(self, lr: float = LEARNING_RATE) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits: the loss below does the softmax."""
        return self.network(images)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Log and return the mean loss of one batch. Lightning has moved the batch to the device of the model."""
        # >>> solution: compute the cross-entropy of the logits, log it and return it; Lightning does the rest
        images, labels = batch
        loss = F.cross_entropy(self(images), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss
        # <<<

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        """Log loss and accuracy of one batch; Lightning has switched to evaluation and takes the mean over all."""
        # >>> solution: log val_loss and val_acc so that several processes agree on them
        images, labels = batch
        logits = self(images)
        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        # Without sync_dist every process would log what it found in its own share of the data.
        self.log_dict(
            {"val_loss": F.cross_entropy(logits, labels), "val_acc": accuracy}, prog_bar=True, sync_dist=True
        )
        # <<<

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer of all parameters."""
        # >>> solution: return an optimizer of all parameters of this module
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        # <<<


def make_logger(name: str) -> Logger:
    """A logger by its name on the command line. W&B stays on this machine with WANDB_MODE=offline."""
    if name == "wandb":
        return WandbLogger(project="lightning_train", save_dir="lightning_logs")
    return {"tensorboard": TensorBoardLogger, "csv": CSVLogger}[name](
        "lightning_logs", name="lightning_train"
    )


def build_trainer(**overrides: Any) -> pl.Trainer:
    """A Trainer for MAX_EPOCHS epochs over LIMIT_TRAIN_BATCHES of the batches, with a logger, unless told otherwise."""
    # >>> solution: put the defaults and `overrides` together, and hand them to Trainer
    settings = {"max_epochs": MAX_EPOCHS, "limit_train_batches": LIMIT_TRAIN_BATCHES, **overrides}
    if "logger" not in settings:
        settings["logger"] = make_logger("tensorboard")
    return pl.Trainer(**settings)
    # <<<


class EpochClock(pl.Callback):
    """Times every epoch: `runs` are the runs of a report, as far as a clock knows them."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock."""
        wait_for_gpu()
        self.t_start, self.start = time.time(), time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop it. Lightning validates within the epoch, so that this is timed as well."""
        wait_for_gpu()
        wall, t_end = time.perf_counter() - self.start, time.time()
        times = {"t_start": self.t_start, "t_end": t_end, "wall_s": repr(wall)}
        self.runs.append({"rep": len(self.runs), **times, "steps": trainer.num_training_batches, "epochs": 1})


def wait_for_gpu() -> None:
    """Wait until the GPU has done all that it was asked to do; without one there is nothing to wait for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def share_or_count(text: str) -> float | int:
    """Lightning's rule: "0.2" and "1.0" are shares of all batches, "20" and "1" are numbers of batches."""
    return int(text) if text.isdigit() else float(text)


def main() -> None:
    """Train and validate, and write down how long it took."""
    parser = argparse.ArgumentParser(description="A convolutional network on Fashion-MNIST with Lightning.")
    parser.add_argument("--data", default="data", metavar="DIR")
    parser.add_argument("--max-epochs", default=MAX_EPOCHS, type=int)
    parser.add_argument(
        "--limit-train-batches", default=LIMIT_TRAIN_BATCHES, type=share_or_count, metavar="X",
        help="a share such as 0.2 or 1.0, or a number of batches such as 20",
    )  # fmt: skip
    parser.add_argument("--batch-size", default=BATCH_SIZE, type=int, help="of one process")
    parser.add_argument("--accelerator", default="auto", help="cpu, gpu or auto")
    parser.add_argument("--devices", default="auto", help="a number, or auto")
    parser.add_argument("--strategy", default="auto", help="ddp, for example")
    parser.add_argument("--precision", default="32-true", help="32-true, bf16-mixed or 16-mixed")
    parser.add_argument("--logger", default="tensorboard", choices=["tensorboard", "wandb", "csv"])
    parser.add_argument(
        "--report", metavar="FILE", help="write the seconds, to reports/lightning.json for example"
    )
    args = parser.parse_args()

    pl.seed_everything(0)
    model = LitFashion()
    data = FashionData(args.data, args.batch_size)
    clock = EpochClock()
    # >>> solution: build the Trainer from the arguments, with callbacks=[clock]
    trainer = build_trainer(
        max_epochs=args.max_epochs,
        limit_train_batches=args.limit_train_batches,
        accelerator=args.accelerator,
        devices=args.devices,
        strategy=args.strategy,
        precision=args.precision,
        logger=make_logger(args.logger),
        callbacks=[clock],
    )
    # <<<
    # >>> solution: train the model on the data
    trainer.fit(model, datamodule=data)
    # <<<
    # `--strategy ddp` starts this script once for each further device: one of them speaks for all.
    if args.report and clock.runs and trainer.is_global_zero:
        from perf_report import write_report

        per_epoch = trainer.num_training_batches * args.batch_size * trainer.world_size
        config = {
            "precision_requested": args.precision,
            "precision_resolved": str(trainer.precision),
            "batch_size": args.batch_size,
            "accelerator": type(trainer.accelerator).__name__.removesuffix("Accelerator").lower(),
            "devices": trainer.num_devices,
            "strategy": args.strategy,
            "max_epochs": args.max_epochs,
            "limit_train_batches": args.limit_train_batches,
        }
        samples = min(per_epoch, len(data.train_data))
        write_report(
            args.report,
            "lightning",
            __file__,
            [{"config": config, "samples": samples, **run} for run in clock.runs],
            workload={
                "model": "LitFashion",
                "params": sum(parameter.numel() for parameter in model.parameters()),
                "input_shape": list(data.train_data[0][0].shape),
                "dataset": "FashionMNIST",
                "num_classes": 10,
                "optimizer": "adam",
            },
            timed_region="a training epoch with data loading and validation",
        )


if __name__ == "__main__":
    main()
