"""The slips that are made most are caught however the code is built: as functions, as a class, in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.build import Sample, all_submissions, build

# exercise, the check that has to fail, and the samples: functions, a class, a notebook. The tables of each exercise's
# own tests grade them; `make samples` does, too.
SLIPS = {
    "clipping before unscale_": (
        "amp", "clip_is_unscaled",
        ("clips_scaled_gradients", "trainer_clips_scaled_gradients", "notebook_clips_scaled_gradients"),
    ),
    "model.half()": ("amp", "params_fp32", ("half_model", "half_model_in_trainer", "half_model_in_notebook")),
    "the last batch never logged": (
        "amp", "tensorboard",
        ("last_batch_never_logged", "trainer_never_logs_the_last_batch", "notebook_never_logs_the_last_batch"),
    ),
    "softmax twice": (
        "lightning_train", "training_step_loss",
        ("softmax_before_loss", "softmax_before_loss_tower", "softmax_before_loss_notebook"),
    ),
    ".cuda() written out": (
        "fashion_trainer", "device_agnostic", ("cuda_hard_coded", "cuda_hard_coded_class", "cuda_hard_coded_notebook"),
    ),
    ".cuda() in a module": (
        "lightning_train", "no_device_calls", ("cuda_in_training_step", "cuda_in_class_tower", "cuda_in_notebook"),
    ),
    "a clock read before the GPU is done": (
        "data_parallel", "timing_is_sound", ("no_synchronise", "no_synchronise_class", "no_synchronise_notebook"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_each_slip_is_there_in_three_structures(slip: str, tmp_path: Path) -> None:
    exercise, check, names = SLIPS[slip]
    samples = {sample.name: sample for sample in all_submissions(exercise) if sample.kind == "mistake"}
    three = [samples[name] for name in names]
    assert all(check in sample.fails for sample in three)
    assert len({_source(sample, tmp_path) for sample in three}) == 3
    assert any((tmp_path / three[2].name).glob("*.ipynb"))


def _source(sample: Sample, folder: Path) -> str:
    """The text of the file that is graded, as built."""
    built = build(sample, folder / sample.name)
    (file,) = [*built.glob(f"{sample.exercise}*.py"), *built.glob("*_train.py"), *built.glob("*.ipynb")][:1]
    return file.read_text()
