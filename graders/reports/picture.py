"""Whether a picture shows something: not whether it is beautiful."""

from __future__ import annotations

import numpy as np

from graders.reports import handed_in
from lockstep.check import Check
from lockstep.compare import elements, integer
from lockstep.text import safe_line
from lockstep.wire import Array

NAMES = ("loader.png", "loader.jpg", "loader.jpeg")
LEAST_SIDE = 100
LEAST_DRAWN = 0.0005
"""Share of the pixels within the axes: three small markers on a large page."""
# Matplotlib puts the axes at 0.125 to 0.9 and 0.11 to 0.88; what is drawn keeps 5 % off their edges.
INSIDE = (0.14, 0.87)


def problem(check: Check) -> str:
    """What is wrong with the picture, or nothing."""
    path = next((found for name in NAMES if (found := handed_in.find(name, check.submission))), None)
    if path is None:
        return f"there is no {handed_in.FOLDER}/loader.png."
    seen = check.run("picture", values={"path": path}).ranks[0]
    if isinstance(why := seen.values.get("problem"), str):
        return f"it is no picture that can be opened ({safe_line(why, 120)})."
    size, pixels = seen.values.get("size"), seen.arrays.get("pixels")
    sides = [integer(side) or 0 for side in elements(size)]
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim != 3 or len(sides) != 2:
        return "what it shows could not be read."
    if min(sides) < LEAST_SIDE:
        return f"it has {sides[0]} x {sides[1]} pixels, too few to read anything off."
    if np.ptp(pixels) == 0:
        return "it is empty: every pixel has the same colour."
    if drawn(pixels) < LEAST_DRAWN:
        return "nothing is drawn within the axes."
    return ""


def drawn(pixels: Array) -> float:
    """The share of the pixels inside that differ from the ground, the most frequent colour there."""
    height, width = pixels.shape[:2]
    rows, columns = (slice(int(INSIDE[0] * side), int(INSIDE[1] * side) + 1) for side in (height, width))
    inside = pixels[rows, columns].astype(np.int64)
    codes = inside[..., 0] << 16 | inside[..., 1] << 8 | inside[..., 2]
    _, counts = np.unique(codes, return_counts=True)
    return 1.0 - float(counts.max()) / codes.size
