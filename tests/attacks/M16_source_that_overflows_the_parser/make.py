from pathlib import Path


def make(folder: Path) -> None:
    (folder / "lfw_dataset.py").write_text(f"NUMBER = {'-' * 100_000}1\n")
