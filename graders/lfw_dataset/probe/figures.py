"""The pictures that a script makes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import PurePath
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from .outlets import Outlets, files_below

PICTURES = 6  # at most so many figures and picture files of one script are looked at
# What is temporary in a run is its home as well.
PLACES = (".", tempfile.gettempdir())
PICTURE_SIDE = 2000  # pixels; a larger picture is scaled down
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


class Figures:
    """Every figure the script shows, saves, closes or leaves behind, and every picture file it writes."""

    def __init__(self) -> None:
        self.pictures: list[np.ndarray] = []
        self.started, self.outlets = picture_files(), Outlets()
        save, close = Figure.savefig, plt.close

        # Arguments have the names that matplotlib gives them.
        def saving(figure: Figure, fname: Any, *args: Any, **kwargs: Any) -> Any:
            self.outlets.use()
            result = save(figure, fname, *args, **kwargs)
            if is_picture_file(fname):
                figure.stale = False  # the file is read at the end; drawing it as well would take time
            else:
                self.draw(figure)
            return result

        def showing(*args: Any, **kwargs: Any) -> None:
            self.outlets.use()
            self.draw_open()

        def closing(*args: Any, **kwargs: Any) -> None:
            self.draw_open()
            close(*args, **kwargs)

        def showing_image(image: Image.Image, *args: Any, **kwargs: Any) -> None:
            self.outlets.use()
            self.add(image)

        Figure.savefig = saving  # type: ignore[method-assign, assignment]
        plt.show, plt.close = showing, closing
        Figure.show = FigureManagerBase.show = showing  # type: ignore[method-assign]
        Image.Image.show = showing_image  # type: ignore[method-assign, assignment]

    def draw_open(self) -> None:
        """Draw the figures that changed since they were last drawn or saved."""
        for number in plt.get_fignums():
            figure = plt.figure(number)
            if figure.stale and figure.axes:
                self.draw(figure)

    def draw(self, figure: Figure) -> None:
        """Keep what a figure shows."""
        if len(self.pictures) >= PICTURES:
            return
        figure.set_dpi(min(150, PICTURE_SIDE / max(figure.get_size_inches())))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.pictures.append(np.array(canvas.buffer_rgba())[..., :3].copy())

    def add(self, image: Image.Image) -> None:
        """Keep what a picture shows."""
        if len(self.pictures) < PICTURES:
            image = image.convert("RGB")
            image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
            self.pictures.append(np.array(image))

    def finish(self) -> list[np.ndarray]:
        """All of them."""
        self.draw_open()
        for path, _ in sorted(picture_files() - self.started):
            with contextlib.suppress(Exception), Image.open(path) as image:
                self.add(image)
        return self.pictures


def is_picture_file(target: object) -> bool:
    """Whether `savefig` writes a file that can be read back as pixels."""
    if not isinstance(target, (str, PurePath)):
        return False
    return PurePath(target).suffix.lower() in ("", *PICTURE_SUFFIXES)


def picture_files() -> set[tuple[str, int]]:
    """The pictures in the student's folder, at home and among what is temporary.

    Each with when it was written: one of an earlier run may be handed in.
    """
    found = {
        file for root in PLACES for file in files_below(root) if file[0].lower().endswith(PICTURE_SUFFIXES)
    }
    return {(os.path.realpath(path), written) for path, written in found}
