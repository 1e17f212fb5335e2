"""What checks in more than one file advise."""

from __future__ import annotations

TO_THE_DEVICE = (
    "Move the model, the images and the labels to the device that your function is given, and make tensors of your own "
    "there."
)
WRAP_HINT = (
    "wrap_model has to return DistributedDataParallel(model), and train_one_epoch has to call that wrapped "
    "model, not model.module: only its forward prepares the averaging that backward() does."
)
