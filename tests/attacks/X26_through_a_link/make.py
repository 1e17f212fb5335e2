import io
import tarfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("lab")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        archive.addfile(link)
        for name in ("lab/lfw_dataset.py", "lfw_dataset.py"):
            content = b"x = 1\n"
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
