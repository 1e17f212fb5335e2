"""What a network finds around it in a script, and finds in the probe's Trainers as well."""

from __future__ import annotations

import os

from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers.logger import DummyLogger

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


def no_checkpoints() -> ModelCheckpoint:
    """The callback that a script has by default, to be asked for its best checkpoint, and that saves none."""
    return ModelCheckpoint(save_top_k=0)
