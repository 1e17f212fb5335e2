from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in"
    path.mkdir()
    with open(path / "lfw_dataset.ipynb", "wb") as file:
        file.write(b'{"cells": [')
        file.truncate(1 << 30)
    return path
