from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in"
    path.mkdir()
    (path / "lfw_dataset.py").write_text("x = 1\n" * 600_000)
    return path
