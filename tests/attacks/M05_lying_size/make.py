import io
import struct
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lfw_dataset.py", b"#" * 5000)
    data = bytearray(buffer.getvalue())
    for place in (data.index(b"PK\3\4") + 22, data.index(b"PK\1\2") + 24):
        data[place : place + 4] = struct.pack("<L", 10)
    path = folder / "hand-in.zip"
    path.write_bytes(bytes(data))
    return path
