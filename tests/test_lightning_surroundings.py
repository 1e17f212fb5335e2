"""The grader of exercise 5, networks that ask the Trainer for what a script has: they find it in the checks as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from tests.test_lightning_grader import changed, checks_of

CHECKS = (
    "training_step_loss",
    "configure_optimizers",
    "no_device_calls",
    "no_manual_loop",
    "validation_logged",
    "learns",
    "trainer_flags",
)
LAST_LINE = "        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n"
IN_FOLDERS = f"""{LAST_LINE}
    def on_validation_epoch_end(self) -> None:
        import os

        name, version = str(self.logger.name), str(self.logger.version)
        assert name and version
        named = os.path.join(self.logger.save_dir, name, version)
        for folder in (self.logger.log_dir, self.trainer.log_dir, self.trainer.default_root_dir, named):
            with open(os.path.join(folder, "history.txt"), "a") as file:
                file.write(f"{{self.current_epoch}} {{self.trainer.callback_metrics['val_acc']:.4f}}\\n")
"""
BEST = f"""{LAST_LINE}
    def on_train_end(self) -> None:
        best = self.trainer.checkpoint_callback
        print(f"best checkpoint: {{best.best_model_path}}, {{best.best_model_score:.4f}}")
        again = type(self).load_from_checkpoint(best.best_model_path)
        self.load_state_dict(torch.load(best.best_model_path, weights_only=False)["state_dict"])
        assert str(again.state_dict()) == str(self.state_dict())
"""

STEPS = """        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        steps = len(self.trainer.datamodule.train_dataloader()) * self.trainer.max_epochs
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]
"""
SIZE = f"""{LAST_LINE}
    def on_train_batch_start(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        data = self.trainer.datamodule
        assert len(batch[0]) <= data.batch_size == data.hparams.batch_size
        self.log("size", float(data.batch_size), batch_size=data.batch_size)
"""
OF_THEIRS = f"""{LAST_LINE}
    def on_fit_start(self) -> None:
        self.names, self.root = self.trainer.datamodule.train_data.classes, self.trainer.datamodule.data
        assert len(self.names) == 10
        assert not hasattr(self.trainer.datamodule, "nothing_of_that_name")
"""
CLASSES = f"""{LAST_LINE}
    def on_validation_epoch_end(self) -> None:
        data = self.trainer.val_dataloaders.dataset
        assert len(data.classes) == 10
        assert len(data.targets) == len(data)
"""
ASKED = {
    "folders of the logger": IN_FOLDERS,
    "the best checkpoint": BEST,
    "how many batches there are": STEPS,
    "the size of a batch": SIZE,
    "what only their data module has": OF_THEIRS,
    "the classes": CLASSES,
}


@pytest.mark.parametrize("lines", ASKED.values(), ids=ASKED)
def test_what_is_asked_of_the_trainer_is_there(lines: str, tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, (LAST_LINE, lines)), box, *CHECKS)
    assert [check.message for check in checks.values() if check.points < check.max_points] == []


def test_no_line_of_their_data_module_runs_unasked(tmp_path: Path, box: Box) -> None:
    find = "        self.data, self.batch_size = data, batch_size\n"
    checks = checks_of(changed(tmp_path, (find, f"{find}        raise SystemExit(3)\n")), box, *CHECKS)
    assert [check.message for check in checks.values() if check.points < check.max_points] == []


def test_whose_data_module_cannot_be_made_is_told_so(tmp_path: Path, box: Box) -> None:
    needed = ('self, data: str = "data", batch_size', "self, data: str, batch_size")
    checks = checks_of(changed(tmp_path, needed, (LAST_LINE, OF_THEIRS)), box, "learns")
    assert "a data module of their own" in checks["learns"].hint
