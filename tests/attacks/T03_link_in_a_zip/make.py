import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lfw_dataset.py", "x = 1")
        link = zipfile.ZipInfo("notes.txt")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return path
