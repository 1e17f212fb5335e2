"""What a network finds around it in a script, and finds in the probe's Trainers as well."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers.logger import DummyLogger
from torch.utils.data import DataLoader

Loader = DataLoader[tuple[torch.Tensor, torch.Tensor]]
# By the same name on every rank: Lightning tells all of them that of the first.
FOLDER = "logs_of_the_check"


class QuietLogger(DummyLogger):
    """Logs nothing, and has a folder all the same: hooks write histories and pictures into that of their logger."""

    def __init__(self) -> None:
        super().__init__()
        os.makedirs(self.log_dir, exist_ok=True)

    @property
    def save_dir(self) -> str:
        """A folder below that of the run."""
        return FOLDER

    @property
    def log_dir(self) -> str:
        """The folder of this training, as the loggers of a script name theirs."""
        return os.path.join(self.save_dir, self.name, self.version)

    @property
    def name(self) -> str:
        """As Lightning names it where nobody does."""
        return "lightning_logs"

    @property
    def version(self) -> str:
        """The first one."""
        return "version_0"


class Checkpoints(ModelCheckpoint):
    """The callback that a script has, to be asked for its best checkpoint: it saves none before it is asked."""

    def __init__(self) -> None:
        super().__init__(save_top_k=0)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remember whose network it is to save."""
        super().setup(trainer, pl_module, stage)
        self._trainer = trainer

    @property
    def best_model_score(self) -> torch.Tensor:
        """Some number: which one is best, only the script knows."""
        return torch.tensor(0.5)

    @best_model_score.setter
    def best_model_score(self, score: object) -> None:
        """Lightning writes None into a new one."""

    @property
    def best_model_path(self) -> str:
        """A file of this rank's own: Lightning's way to save waits for all ranks, of which one alone may ask."""
        if not hasattr(self, "_trainer"):
            return ""
        path = os.path.join(FOLDER, f"best-{self._trainer.global_rank}.ckpt")
        os.makedirs(FOLDER, exist_ok=True)
        torch.save(self._trainer._checkpoint_connector.dump_checkpoint(weights_only=True), path)
        return path

    @best_model_path.setter
    def best_model_path(self, path: object) -> None:
        """Lightning writes "" into a new one."""


class JudgesData(pl.LightningDataModule):
    """The judge's batches, by a data module as networks may ask for it: `self.trainer.datamodule.batch_size`.

    What else is asked of it, their own is asked for. Of that no line runs before.
    """

    def __init__(self, module: object, train: Loader, val: Loader) -> None:
        super().__init__()
        self.batch_size, self.num_workers = train.batch_size, train.num_workers
        self.save_hyperparameters(
            {"batch_size": self.batch_size, "num_workers": self.num_workers}, logger=False
        )
        self._module, self._train, self._val = module, train, val

    def train_dataloader(self) -> Loader:
        """To train on."""
        return self._train

    def val_dataloader(self) -> Loader:
        """For validation."""
        return self._val

    def __getattr__(self, name: str) -> Any:
        # Python and Lightning look for names that begin so, and may do so before there is anything to find.
        if not name.startswith("_"):
            with suppress(AttributeError):
                return getattr(self._theirs, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @functools.cached_property
    def _theirs(self) -> object:
        """Theirs, as far as it can be made without arguments, and set up with the small data set that is here."""
        classes = [
            value
            for value in vars(self._module).values()
            if isinstance(value, type)
            and issubclass(value, pl.LightningDataModule)
            and value is not pl.LightningDataModule
        ]
        theirs = None
        # The last: those before may be what it is derived from.
        with suppress(Exception, SystemExit):
            theirs = classes[-1]()
            theirs.trainer = self.trainer
            theirs.setup("fit")
        return theirs
