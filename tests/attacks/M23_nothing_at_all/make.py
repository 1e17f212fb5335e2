from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in"
    path.mkdir()
    return path
