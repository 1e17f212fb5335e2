import warnings
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("lfw_dataset.py", "raise SystemExit(0)")
        archive.writestr("lfw_dataset.py", "x = 1")
    return path
