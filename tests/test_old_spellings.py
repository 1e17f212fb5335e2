"""What libraries have dropped works as it did where work is graded, and is noted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.sandbox import library_spellings, wandb_spellings

ROOT = Path(__file__).resolve().parent.parent
# In a process of its own: libraries stay changed.
START = """
import os, sys
os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MPLBACKEND": "agg"}
from lockstep.sandbox import library_spellings, wandb_spellings
noted = []
"""
INSTALL = """
for module in (library_spellings, wandb_spellings):
    module.install(lambda kind, name, spelling: noted.append(spelling))
"""
LIBRARIES = """
import numpy as np, torch, torchvision
from matplotlib import pyplot as plt
from PIL import Image
from torch.optim import lr_scheduler
from torchvision.transforms import RandomAffine
"""
OLD = """
from matplotlib.cm import get_cmap
assert np.Inf == float("inf") and np.product([2, 3]) == 6 and np.float is float and np.float_(1) == 1
try:
    np.nothing_of_that_name
    raise SystemExit("a name that was never there")
except AttributeError as error:
    assert "nothing_of_that_name" in str(error)
plt.style.use("seaborn-whitegrid")
plt.switch_backend("module://a_window_of_which_nothing_is_here")
plt.figure().canvas.set_window_title("a window")
assert get_cmap("viridis").name == "viridis"
assert Image.ANTIALIAS == Image.LANCZOS
turned = RandomAffine(5, resample=Image.BILINEAR, fillcolor=7)
assert (turned.interpolation.value, turned.fill) == ("bilinear", 7)
assert RandomAffine(5, resample=False).interpolation.value == "nearest"
assert torchvision.utils.make_grid(torch.rand(2, 3, 4, 4), normalize=True, range=(0, 1)).ndim == 3
class Own(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, last_epoch=-1, verbose=False):
        super().__init__(optimizer, last_epoch, verbose)
    def get_lr(self):
        return [0.5 for _ in self.base_lrs]
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
Own(optimizer)
assert optimizer.param_groups[0]["lr"] == 0.5
lr_scheduler.StepLR(optimizer, 1, verbose=True)
lr_scheduler.ReduceLROnPlateau(optimizer, "min", verbose=True)
print(*sorted(set(noted)))
"""
RUNS = """
run = wandb.init(project="p", dir=sys.argv[1], id=wandb.util.generate_id(), settings={"start_method": "fork"})
run.save()
run.define_metric("a", goal="maximize")
wandb.log({"a": 1}, sync=False)
assert run.get_url() is None
wandb.finish(quiet=True)
wandb.init(project="p", dir=sys.argv[1], settings=wandb.Settings(start_method="thread"), magic=True).join()
print(*sorted(set(noted)))
"""


@pytest.mark.parametrize("order", [(INSTALL, LIBRARIES), (LIBRARIES, INSTALL)], ids=["before", "after"])
def test_dropped_names_and_arguments_are_translated(order: tuple[str, str]) -> None:
    assert told("".join((START, *order, OLD))) == sorted(library_spellings.EXPLAINED)


@pytest.mark.parametrize(
    "order", [(INSTALL, "import wandb"), ("import wandb", INSTALL)], ids=["before", "after"]
)
def test_what_older_wandb_took_is_taken(order: tuple[str, str], tmp_path: Path) -> None:
    assert told("".join((START, *order, RUNS)), str(tmp_path)) == sorted(wandb_spellings.EXPLAINED)


def told(program: str, *arguments: str) -> list[str]:
    """The spellings that a program prints in the end."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LIGHTNING = """
import warnings; warnings.simplefilter("ignore")
from lockstep.sandbox import lightning_spellings
lightning_spellings.install(lambda kind, name, spelling: noted.append(spelling))
import pytorch_lightning as pl
from lightning.pytorch.utilities.distributed import rank_zero_warn
from pytorch_lightning.callbacks import GPUStatsMonitor, LearningRateLogger, ModelCheckpoint
from pytorch_lightning.core.memory import ModelSummary
from pytorch_lightning.loggers import LightningLoggerBase
from pytorch_lightning.profiler import SimpleProfiler
from pytorch_lightning.trainer.supporters import CombinedLoader
from pytorch_lightning.utilities.distributed import rank_zero_only
from pytorch_lightning.utilities.seed import seed_everything
from pytorch_lightning.utilities.types import EPOCH_OUTPUT
assert isinstance(pl.loggers.CSVLogger("x"), LightningLoggerBase)
assert isinstance(GPUStatsMonitor(memory_utilization=True), pl.callbacks.DeviceStatsMonitor)
kept = ModelCheckpoint(filepath="a/b/{epoch}", prefix="p", period=2)
assert (kept.dirpath[-4:], kept.filename, kept._every_n_epochs) == ("/a/b", "{epoch}", 2)
trainer = pl.Trainer(logger=False, max_steps=None, max_epochs=1, reload_dataloaders_every_epoch=True)
assert trainer.max_steps == -1 and trainer.reload_dataloaders_every_n_epochs == 1
print(*sorted(set(noted)))
"""


def test_what_lightning_has_moved_is_found() -> None:
    assert told(START + LIGHTNING) == ["checkpoint", "dropped", "moved", "renamed"]


ASKED_BEFORE = """
import importlib.util
assert importlib.util.find_spec("wandb") is not None
import wandb
assert wandb.util.generate_id()
print(*noted)
"""


def test_who_only_asks_whether_it_is_there_changes_nothing() -> None:
    assert told(START + INSTALL + ASKED_BEFORE) == ["wandb_name"]
