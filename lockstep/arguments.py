"""What several commands ask in the same words."""

from __future__ import annotations

import argparse
from pathlib import Path


def path(text: str) -> Path:
    """A file or folder; an empty text would mean the folder that one stands in."""
    return Path(place(text))


def place(text: str) -> str:
    """A file or folder, or the URL of something else."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a file or folder, not an empty text")
    return text


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def seed(text: str) -> int:
    """A number that data is drawn from."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"a whole number from 0 on, not {text!r}")
    return number


def world_sizes(text: str) -> tuple[int, ...]:
    """Numbers of processes, in order."""
    try:
        sizes = tuple(sorted({int(size) for size in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or not all(2 <= size <= 8 for size in sizes):
        raise argparse.ArgumentTypeError(f"numbers from 2 to 8 with commas between them, not {text!r}")
    return sizes


def add_exercise(command: argparse.ArgumentParser, verb: str) -> None:
    """Add `--exercise`."""
    command.add_argument(
        "--exercise",
        action="extend",
        type=names,
        default=[],
        metavar="NAME",
        help=f"{verb} this exercise only; may be given more than once, or with commas",
    )


def add_how_to_grade(command: argparse.ArgumentParser) -> None:
    """Add `--sandbox`, `--device`, `--world-sizes` and `--graders`."""
    command.add_argument(
        "--sandbox",
        choices=("auto", "bubblewrap", "none"),
        default="auto",
        help="'none' runs the code unprotected, for your own code on your own machine (default: %(default)s)",
    )
    command.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="'cuda' gives checks that ask for a GPU this machine's instead of an emulated one (default: %(default)s)",
    )
    command.add_argument(
        "--world-sizes",
        type=world_sizes,
        default=(2, 3, 4),
        metavar="N,N",
        help="numbers of processes that distributed checks run with (default: 2,3,4)",
    )
    command.add_argument(
        "--graders",
        type=path,
        metavar="DIR",
        help="folder of the graders (default: those of this checkout)",
    )
