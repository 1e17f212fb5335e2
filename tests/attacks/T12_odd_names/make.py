import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lfw_dataset.py", "x = 1")
        archive.writestr("-rf \n --help\u202e.py", "x = 1")
    return path
