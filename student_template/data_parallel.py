"""Inference on several GPUs with `nn.DataParallel`, and whether it pays: the seconds of one forward call.

A look:    python data_parallel.py --batch-sizes 1 64 --devices 1
A report:  python data_parallel.py --report reports/data_parallel.json
"""

import argparse
import time
from collections.abc import Sequence
from statistics import fmean, pstdev

import torch
from torch import nn

BATCH_SIZES = (1, 8, 64, 256)
DEVICES = (1, 2)
N_REPS = 20  # calls in one timing
TIMINGS = 5  # of every configuration, for one mean and one standard deviation
WARM_UP = 3  # calls that are not timed
IMAGE = (1, 28, 28)


class FashionCNN(nn.Module):
    """The network of `fashion_trainer.py`: pictures (n, 1, 28, 28) in, logits (n, 10) out."""

    def __init__(self) -> None:
        super().__init__()
        self.block1 = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.block2 = nn.Sequential(
            nn.Conv2d(32, 64, kernel_size=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 6 * 6, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of a batch."""
        return self.classifier(self.block2(self.block1(images)))


def make_data_parallel(model: nn.Module, device_ids: Sequence[int] | None = None) -> nn.DataParallel:
    """Wrap `model` so that every batch is split over the GPUs `device_ids`, all of them if None.

    Without a GPU the wrapper hands the whole batch to the model.
    """
    # TODO: wrap the model in nn.DataParallel for these devices, with its weights on the first of them
    raise NotImplementedError("data_parallel.py is not written yet")


def time_inference(model: nn.Module, batch: torch.Tensor, n_reps: int) -> list[float]:
    """Return the seconds of each of `n_reps` calls `model(batch)`.

    Calls before the first timed one warm up: they load kernels, fill caches and take memory that later calls
    find in place. The model is in evaluation mode and no gradients are prepared.
    """
    # TODO: warm up, then read the clock before and after each call, once the device has nothing left to do
    raise NotImplementedError("data_parallel.py is not written yet")


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done all that it was asked to do; a CPU does everything at once."""
    # TODO: on a GPU, wait for it
    raise NotImplementedError("data_parallel.py is not written yet")


def measure(n_devices: int, batch_size: int, n_reps: int) -> list[dict]:
    """Time one configuration `TIMINGS` times and return the runs of a report, one per timing."""
    gpus = list(range(n_devices)) if torch.cuda.is_available() else None
    model = make_data_parallel(FashionCNN(), gpus)
    batch = torch.rand(batch_size, *IMAGE)
    runs = []
    for rep in range(TIMINGS):
        t_start = time.time()
        seconds = time_inference(model, batch, n_reps)
        runs.append(
            {
                "config": {"batch_size": batch_size, "n_devices": n_devices}
                | ({"device_ids": gpus} if gpus else {}),
                "rep": rep,
                "t_start": t_start,
                "t_end": time.time(),
                "wall_s": repr(float(sum(seconds))),
                "step_s": [repr(float(second)) for second in seconds],
                "samples": batch_size * n_reps,
                "steps": n_reps,
            }
        )
    per_call = [float(second) for run in runs for second in run["step_s"]]
    print(
        f"batch {batch_size}, devices {n_devices}: {fmean(per_call):.6f} +- {pstdev(per_call):.6f} s per call"
    )
    return runs


def main() -> None:
    """Time every batch size on every number of devices that this machine has."""
    parser = argparse.ArgumentParser(description="How long a forward call takes on one GPU and on several.")
    parser.add_argument("--batch-sizes", default=BATCH_SIZES, type=int, nargs="+", metavar="N")
    parser.add_argument("--n-reps", default=N_REPS, type=int, help="calls in one timing")
    parser.add_argument("--devices", default=DEVICES, type=int, nargs="+", help="numbers of GPUs to compare")
    parser.add_argument(
        "--report", metavar="FILE", help="write all readings, for example to reports/data_parallel.json"
    )
    args = parser.parse_args()

    # TODO: measure what this machine has devices for; list in `not_available` what it lacks, and why
    raise NotImplementedError("data_parallel.py is not written yet")

    if args.report and runs:
        # Here and not on top: the functions work without the file that was handed out with the exercise.
        from perf_report import write_report

        write_report(
            args.report,
            "dp_inference",
            __file__,
            runs,
            workload={
                "model": "FashionCNN",
                "params": sum(parameter.numel() for parameter in FashionCNN().parameters()),
                "input_shape": list(IMAGE),
            },
            timed_region="forward calls in evaluation mode, one after the other",
            method={"warmup_steps": WARM_UP},
            not_available=not_available,
        )


if __name__ == "__main__":
    main()
