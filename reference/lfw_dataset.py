"""Labeled Faces in the Wild as a lazy data set, a look at one batch, and the time a pass takes.

A look:    python lfw_dataset.py -path_to_folder lfw -visualize_batch
A timing:  python lfw_dataset.py -path_to_folder lfw -get_timing -num_workers 1
A report:  python lfw_dataset.py -path_to_folder lfw -get_timing -report reports/loader.json
"""

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

IMAGE_SUFFIXES = (".jpg", ".jpeg")
PASSES = 5  # over the data, for one mean and one standard deviation
WORKER_COUNTS = (0, 1, 2, 4)  # what a report compares
IMAGES_SHOWN = 16  # of a batch; hundreds would be too small to see
BATCH_PICTURE = "reports/batch.png"


class LFWDataset(Dataset):
    """The images of a folder `FOLDER/Person_Name/Person_Name_0001.jpg`, each read when it is asked for."""

    def __init__(self, path_to_folder: str, transform: Callable[[Image.Image], torch.Tensor]) -> None:
        # >>> solution: remember the transform and the path of every image below the folder; open no image yet
        folder = Path(path_to_folder)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {str(folder)!r}; give it with -path_to_folder")
        # A real folder also holds READMEs, .DS_Store and "._name.jpg" files, which are no images at all.
        self.paths = sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
        if not self.paths:
            raise FileNotFoundError(f"no .jpg images in {str(folder)!r} or the folders below it")
        self.transform = transform
        # <<<

    def __len__(self) -> int:
        """Count the images (not the people)."""
        # >>> solution: return the number of images
        return len(self.paths)
        # <<<

    def __getitem__(self, index: int) -> torch.Tensor:
        """Read one image with PIL as RGB and return what the transform makes of it: no label beside it."""
        # >>> solution: open image number `index` with PIL, close its file again, return it transformed
        path = self.paths[index]
        try:
            # `convert` decodes all pixels; then the file is closed, so that handles do not pile up.
            with Image.open(path) as file:
                image = file.convert("RGB")
        except OSError as error:
            raise OSError(f"{path} cannot be read: {error}") from error
        return self.transform(image)
        # <<<


def show_batch(images: torch.Tensor) -> None:
    """Draw images of shape (n, 3, height, width) in one figure; without a screen the file is what remains."""
    # >>> solution: draw the images of the batch side by side in one matplotlib figure, then show it
    images = images[:IMAGES_SHOWN]
    columns = int(np.ceil(np.sqrt(len(images))))
    rows = int(np.ceil(len(images) / columns))
    figure, axes = plt.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, image in zip(axes.flat, images, strict=False):
        axis.imshow(image.permute(1, 2, 0))  # matplotlib wants the channels last
    Path(BATCH_PICTURE).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(BATCH_PICTURE)
    print(f"Batch drawn to {BATCH_PICTURE}")
    plt.show()
    # <<<


def time_passes(loader: DataLoader, batches_to_check: int) -> list[dict]:
    """Read at most `batches_to_check` batches, `PASSES` times; return one reading per pass.

    A reading holds `rep` (0, 1, ...), `t_start` and `t_end` (`time.time()`), `wall_s` (`repr` of the seconds,
    from `time.perf_counter()`), and the number of `samples` and of `steps`, which are batches.
    """
    # >>> solution: iterate over the loader PASSES times and take the time of each pass
    readings = []
    for rep in range(PASSES):
        samples = steps = 0
        t_start, start = time.time(), time.perf_counter()
        for batch in islice(loader, batches_to_check):
            samples += len(batch)
            steps += 1
        wall = time.perf_counter() - start
        readings.append(
            {
                "rep": rep,
                "t_start": t_start,
                "t_end": time.time(),
                "wall_s": repr(wall),
                "samples": samples,
                "steps": steps,
            }
        )
    return readings
    # <<<


def write_loader_report(path: str, runs: list[dict], n_images: int) -> None:
    """Write the readings to `path` and the error bars, workers against seconds, to a picture beside it."""
    # Here and not on top: the data set works without the file that was handed out with the exercise.
    from perf_report import write_report

    # >>> solution: work out the lists `workers`, `means`, `stds`; draw them to `picture` with plt.errorbar
    workers = sorted({run["config"]["num_workers"] for run in runs})
    seconds = [[float(r["wall_s"]) for r in runs if r["config"]["num_workers"] == n] for n in workers]
    means = [float(np.mean(s)) for s in seconds]
    stds = [float(np.std(s)) for s in seconds]
    picture = Path(path).with_suffix(".png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots()
    axis.errorbar(workers, means, yerr=stds, marker="o", capsize=4)
    axis.set_xlabel("number of workers")
    axis.set_ylabel("seconds per pass")
    figure.savefig(picture)
    # <<<
    write_report(
        path,
        "dataloader",
        __file__,
        runs,
        workload={"dataset": "LFW", "dataset_n": n_images},
        timed_region="one pass over the loader, workers started included",
        plot={"x": workers, "y": means, "yerr": stds, "file": picture.name},
    )


def main() -> None:
    """Build the data set and do what the flags ask for."""
    parser = argparse.ArgumentParser(description="Labeled Faces in the Wild, loaded lazily.")
    parser.add_argument("-path_to_folder", default="lfw", help="the unpacked download")
    parser.add_argument("-batch_size", default=64, type=int)
    parser.add_argument("-num_workers", default=0, type=int, help="processes that load; 0: none of their own")
    parser.add_argument("-visualize_batch", action="store_true", help="show one batch")
    parser.add_argument("-get_timing", action="store_true", help=f"time {PASSES} passes")
    parser.add_argument("-batches_to_check", default=100, type=int, help="batches in one timed pass")
    parser.add_argument("-pin_memory", action="store_true", help="page-locked memory for a GPU")
    parser.add_argument("-report", metavar="FILE", help=f"with -get_timing: compare {WORKER_COUNTS} workers")
    args = parser.parse_args()

    transform = transforms.Compose(
        [transforms.RandomAffine(degrees=5, translate=(0.1, 0.1), scale=(0.5, 2.0)), transforms.ToTensor()]
    )
    try:
        dataset = LFWDataset(args.path_to_folder, transform)
    except FileNotFoundError as error:
        parser.error(str(error))
    print(f"{len(dataset)} images in {args.path_to_folder}")

    def make_loader(num_workers: int) -> DataLoader:
        return DataLoader(
            dataset, args.batch_size, shuffle=False, num_workers=num_workers, pin_memory=args.pin_memory
        )

    if args.visualize_batch:
        show_batch(next(iter(make_loader(args.num_workers))))

    if args.get_timing:
        runs = []
        for num_workers in WORKER_COUNTS if args.report else (args.num_workers,):
            # A loader of its own for every count: the number of workers is fixed when a loader is made.
            loader = make_loader(num_workers)
            readings = time_passes(loader, args.batches_to_check)
            seconds = [float(reading["wall_s"]) for reading in readings]
            print(f"Timing: {np.mean(seconds):.4f} +- {np.std(seconds):.4f} s with num_workers={num_workers}")
            config = {
                "num_workers": num_workers,
                "batch_size": args.batch_size,
                "pin_memory": args.pin_memory,
            }
            runs += [{"config": config, **reading} for reading in readings]
        if args.report:
            write_loader_report(args.report, runs, len(dataset))


if __name__ == "__main__":
    main()
