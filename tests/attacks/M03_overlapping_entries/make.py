import io
import struct
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lfw_dataset.py", b"#" * 1000)
    data = buffer.getvalue()
    start = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    entry = data[start:end]
    # The same entry a hundred times over, every one pointing at the same bytes.
    copies = b"".join(entry.replace(b"lfw_dataset.py", b"lfw_datas%03d.p" % n + b"y"[:0]) for n in range(100))
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100, 100, len(copies), start, 0)
    path = folder / "hand-in.zip"
    path.write_bytes(data[:start] + copies + tail)
    return path
