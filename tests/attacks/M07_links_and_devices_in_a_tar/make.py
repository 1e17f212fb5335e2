import io
import tarfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        source = tarfile.TarInfo("lfw_dataset.py")
        source.size = 5
        archive.addfile(source, io.BytesIO(b"x = 1"))
        link = tarfile.TarInfo("notes.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        device = tarfile.TarInfo("disk")
        device.type, device.devmajor, device.devminor = tarfile.BLKTYPE, 8, 0
        archive.addfile(device)
    return path
