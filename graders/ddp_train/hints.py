"""What checks in more than one file advise."""

from __future__ import annotations

TO_THE_DEVICE = (
    "Move the model, the images and the labels to the device that your function is given, and make tensors of your own "
    "there."
)
ONE_GPU_EACH = (
    "Two GPUs meet in that line, and each rank has one of its own. DistributedDataParallel moves the images to the GPU "
    "that device_ids names: device_ids=[device.index] of the device that wrap_model is given, neither [0] nor the rank."
)
SUMS_TO_THE_DEVICE = (
    "Between GPUs it is nccl that adds up, and it takes no tensor of the CPU: make the sums that the ranks exchange "
    "on the device, as in torch.tensor([right, items], device=device)."
)
OWN_GPU_HINT = (
    "Plain `.cuda()` and `cuda` mean the current GPU, and that is GPU 0 on every rank until "
    "torch.cuda.set_device(device): the others stay idle, and nccl refuses two ranks on one GPU. Call set_device in "
    "setup, or move everything with .to(device), to the device that setup returned."
)
WRAP_HINT = (
    "wrap_model has to return DistributedDataParallel(model), and train_one_epoch has to call that wrapped "
    "model, not model.module: only its forward prepares the averaging that backward() does; no_sync() leaves it out."
)
ORDER_HINT = (
    "In a batch the order is zero_grad, forward, loss, backward, step, each of them called, with its brackets: what is "
    "cleared behind backward never reaches the step."
)
NOT_CALLED = (
    'It printed nothing either: is main() called, as the last line of the file, below `if __name__ == "__main__":`, '
    "with two underscores on either side of both?"
)
LOOP_FIRST = (
    "Where single_process loses points too, the loop is wrong in one process already: mend that first."
)
