import io
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    content = b"x = 1"
    for depth in range(20):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("inner.zip" if depth else "lfw_dataset.py", content)
        content = buffer.getvalue()
    path = folder / "hand-in.zip"
    path.write_bytes(content)
    return path
