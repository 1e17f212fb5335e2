from pathlib import Path


def make(folder: Path) -> None:
    (folder / "lfw_dataset.py").write_bytes("import torch".encode("utf-16"))
