"""The pictures and labels in the IDX files of a hidden data set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer.probe import PIXELS
from lockstep.wire import Array


def pictures(tree: Mapping[str, bytes], part: str) -> Array:
    """The pictures of an IDX file: 16 bytes of head, then 784 bytes each."""
    content = tree[f"{fashion_mnist.FOLDER}/{part}-images-idx3-ubyte"]
    return np.frombuffer(content, dtype=np.uint8, offset=16).reshape(-1, PIXELS)


def labels(tree: Mapping[str, bytes], part: str) -> Array:
    """The labels of an IDX file: 8 bytes of head, then one byte each."""
    content = tree[f"{fashion_mnist.FOLDER}/{part}-labels-idx1-ubyte"]
    return np.frombuffer(content, dtype=np.uint8, offset=8).astype(np.int64)
