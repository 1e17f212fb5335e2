"""What an exception that ended the script means here: GradScaler's own complaints, and a notebook's missing data."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.verdict import CheckEnded, Feedback

# Where the data of every run is.
DATA = "/data/cinic"

COMPLAINTS = {
    "unscale_() has already been called": "unscale_ divides the gradients by the scale, and would do so twice: call "
    "scaler.unscale_(optimizer) once in a step, right before the clipping.",
    "unscale_() is being called after step()": "scaler.step(optimizer) has used the gradients by then: "
    "scaler.unscale_(optimizer) and the clipping stand between backward and it.",
    "since the last update()": "scaler.update() has to follow scaler.step(optimizer) in every training step, with "
    "its brackets.",
    "No inf checks were recorded for": "scaler.step(optimizer) found no gradients: backward() comes before it, with "
    "its brackets and no zero_grad in between, and the optimizer must hold the parameters of the very model that is "
    "trained.",
    "No inf checks were recorded prior": "scaler.update() goes by what scaler.step(optimizer) found: call step first, "
    "then update, in every training step.",
    "_scale is None": "First comes scaler.scale(loss).backward(), and only then scaler.unscale_(optimizer) and "
    "scaler.step(optimizer).",
    "unscale FP16 gradients": "The parameters are fp16 themselves. Leave the model in fp32: autocast casts what it "
    "needs.",
}

NOT_SET = (
    "The data is elsewhere where this is graded, and no constant of the notebook was set to that folder. Those of the "
    "cell with the tag `parameters` are set, known by their names: TRAINING_DATA or DATA_DIR for the folder, EPOCHS, "
    "BATCH_SIZE, LOGDIR and so on as the options of amp_train.py. Let all cells take them from there."
)


def explain(check: Check, ended: CheckEnded) -> None:
    """End the check with a better hint, where it ended with a complaint of GradScaler's; know one for missing data."""
    said = ended.feedback.message
    for words, hint in COMPLAINTS.items():
        if words in said:
            check.fail(said, hint)
    # Cells are named in notebooks alone.
    in_a_cell = "FileNotFoundError" in said and "amp_train.ipynb, cell" in said
    if in_a_cell and not any(f"{DATA}{end}" in said for end in ("'", "/")):
        ended.feedback = Feedback(said, NOT_SET)
