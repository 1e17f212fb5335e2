"""Beside a student's lfw_dataset.py: build the data set, read items, run the script, and tell what was seen.

Nothing here knows what is right. Items travel as fingerprints, which the judge compares with those of the
images it made for this run; figures travel as pixels.
"""

from __future__ import annotations

from .dataset import constructs, items, length, robust, transform
from .in_workers import workers
from .opens import lazy
from .running import script

__all__ = ["constructs", "items", "lazy", "length", "robust", "script", "transform", "workers"]
