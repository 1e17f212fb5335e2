"""Archives are read in memory or refused with a sentence: bombs, tricks, damage, names that lead away."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.archive import ENTRIES, UPLOAD_BYTES, list_archive
from lockstep.leftovers import READ_BYTES
from lockstep.submission import Submission, SubmissionError, open_submission
from tests.effort import costs_at_most
from tests.intake import zipped

SOURCE = b"x = 1\n"


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def tarred(
    *entries: tuple[str, bytes],
    type: bytes = tarfile.REGTYPE,
    format: int = tarfile.PAX_FORMAT,
    mode: int = 0o644,
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = mode
            info.type = type
            info.linkname = "/etc/passwd" if type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def extension(content: bytes, type: bytes = tarfile.XHDTYPE) -> bytes:
    """A tar extension header, for the member that follows it."""
    return tarred(("extension", content), type=type)[: 512 + -(-len(content) // 512) * 512]


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def directory_field(data: bytes, offset: int, value: bytes) -> bytes:
    """`data` with a field of its first central directory entry overwritten."""
    return patched(data, data.index(b"PK\1\2") + offset, value)


def end_field(data: bytes, offset: int, value: bytes) -> bytes:
    return patched(data, data.rindex(b"PK\5\6") + offset, value)


def checksummed(header: bytes) -> bytes:
    """A tar header with its checksum put right."""
    blank = header[:148] + b" " * 8 + header[156:512]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:] + header[512:]


def overlapping() -> bytes:
    """Two entries over the same packed bytes, as in Fifield's bombs."""
    data = zipped(("a.py", SOURCE * 50))
    start, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    directory = data[start:end]
    twice = directory + directory.replace(b"a.py", b"b.py")
    record = data[end : end + 8] + struct.pack("<HHLL", 2, 2, len(twice), start) + data[end + 20 :]
    return data[:start] + twice + record


def zip64(entries: int, size: int | None = None) -> bytes:
    """An archive of one entry whose ZIP64 records claim `entries` of them."""
    data = zipped(("a.py", SOURCE))
    start, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    size = end - start if size is None else size
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, entries, entries, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    return data[:end] + record + locator + data[end:]


@pytest.fixture
def open_bytes(tmp_path: Path) -> Callable[..., Submission]:
    def open_bytes(data: bytes, name: str = "hw.zip") -> Submission:
        path = tmp_path / name
        path.write_bytes(data)
        return open_submission(path)

    return open_bytes


def test_a_zip_that_knows_no_executable_files_has_shell_scripts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "hw.zip", "w") as archive:
        for name, mode in {"a.sh": 0, "a.py": 0, "b.sh": 0o644, "c.sh": 0o755}.items():
            info = entry(name, mode)
            info.external_attr |= 0x20  # "archive", as Windows marks every file
            archive.writestr(info, SOURCE)
    assert open_submission(tmp_path / "hw.zip").executable == {"a.sh", "c.sh"}


def test_an_archive_reads_as_the_folder_it_was_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "hw"
    for name, content in {"a.py": SOURCE, "sub/über uns.txt": b"t", "-rf": b"", ".git/config": b"c"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    with tarfile.open(tmp_path / "hw.tar.gz", "w:gz") as archive:
        archive.add(folder, "hw")
    with tarfile.open(tmp_path / "hw.tar", "w") as archive:
        archive.add(folder, ".")
    with zipfile.ZipFile(tmp_path / "hw.zip", "w") as zip_file:
        for path in sorted(folder.rglob("*")):
            zip_file.write(path, path.relative_to(tmp_path))
    read = open_submission(folder)
    assert set(read.files) == {"a.py", "sub/über uns.txt", "-rf", "run.sh"}
    assert read.executable == {"run.sh"}
    for name in ("hw.tar.gz", "hw.tar", "hw.zip"):
        same = open_submission(tmp_path / name)
        assert (same.name, same.files, same.executable, same.digest) == (
            "hw",
            read.files,
            read.executable,
            read.digest,
        )


@pytest.mark.parametrize(
    ("data", "name", "files"),
    [
        (
            zipped(("hw/a.py", SOURCE), ("__MACOSX/hw/._a.py", b"junk"), ("hw/.DS_Store", b"")),
            "m.zip",
            {"a.py"},
        ),
        (zipped(("hw\\sub\\a.py", SOURCE), ("hw\\b.py", SOURCE)), "windows.zip", {"sub/a.py", "b.py"}),
        (zipped(("outer/inner/a.py", SOURCE), ("outer/inner/b/c.py", b"")), "nested.zip", {"a.py", "b/c.py"}),
        (zipped(("hw/", b""), ("hw/empty/", b""), ("hw/a.py", SOURCE)), "folders.zip", {"a.py"}),
        (zipped(("launch/run.sh", SOURCE)), "only_launch.zip", {"launch/run.sh"}),
        (zipped(("hw/launch/run.sh", SOURCE)), "only_launch_inside.zip", {"launch/run.sh"}),
        (zipped(("a.py", SOURCE), ("u\u0308ben.txt", b"")), "mac.zip", {"a.py", "\u00fcben.txt"}),
        (zipped(("a.py", SOURCE), method=zipfile.ZIP_STORED), "stored.zip", {"a.py"}),
        (
            tarred(("hw/" + "d" * 120 + "/a.py", SOURCE), ("hw/b.py", SOURCE)),
            "pax.tar",
            {"d" * 120 + "/a.py", "b.py"},
        ),
        (
            tarred(("hw/" + "d" * 120 + "/a.py", SOURCE), ("hw/b.py", b""), format=tarfile.GNU_FORMAT),
            "gnu.tar",
            {"d" * 120 + "/a.py", "b.py"},
        ),
        (
            tarred(
                ("hw/" + "d" * 80 + "/" + "e" * 80 + ".py", b""), ("b.py", b""), format=tarfile.USTAR_FORMAT
            ),
            "u.tar",
            {"hw/" + "d" * 80 + "/" + "e" * 80 + ".py", "b.py"},
        ),
        (gzip.compress(tarred(("a.py", SOURCE))), "t.tgz", {"a.py"}),
        (tarred(("a.py", SOURCE)), "really_a_tar.zip", {"a.py"}),
        (tarred(("a.py", SOURCE))[:1024], "no_end_blocks.tar", {"a.py"}),
        (zip64(1), "zip64.zip", {"a.py"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_honest_archives_are_read(
    data: bytes, name: str, files: set[str], open_bytes: Callable[..., Submission]
) -> None:
    assert set(open_bytes(data, name).files) == files


def test_utf8_names_without_their_flag_are_read_as_macos_means_them(
    open_bytes: Callable[..., Submission],
) -> None:
    data = zipped(("a.py", SOURCE), ("f\u00fcr.txt", b""))
    # Bit 11 says "UTF-8"; macOS leaves it out of both headers.
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.rindex(signature) + offset
        data = patched(data, at, struct.pack("<H", 0))
    assert "f\u00fcr.txt" in open_bytes(data).files


NAMES = [
    ("../../evil.py", "leads out"),
    ("sub/../../evil.py", "leads out"),
    ("/etc/passwd", "leads out"),
    ("\\\\server\\share\\a.py", "leads out"),
    ("C:\\a.py", "leads out"),
    ("c:a.py", "leads out"),
    ("..\\a.py", "leads out"),
    (".git/../../a.py", "leads out"),
    ("a\x1b[31m.py", "control characters"),
    ("a\nb.py", "control characters"),
    ("a\u202eyp.py", "control characters"),
    ("sub/CON.py", "Windows keeps"),
    ("nul", "Windows keeps"),
    ("x" * 256, "longer than 255"),
    ("d/" * 499 + "a/b/c", "longer than 1000"),
    ("d/" * 20 + "a.py", "folders deep"),
    ("sub/.../a.py", "nothing but dots"),
]


@pytest.mark.parametrize(("name", "sentence"), NAMES)
def test_names_that_are_refused(name: str, sentence: str, open_bytes: Callable[..., Submission]) -> None:
    for data in (zipped(("a.py", SOURCE), (name, SOURCE)), tarred(("a.py", SOURCE), (name, SOURCE))):
        with pytest.raises(SubmissionError, match=sentence) as caught:
            open_bytes(data)
        assert str(caught.value).isprintable()


def test_a_name_is_not_cut_off_at_a_nul(open_bytes: Callable[..., Submission]) -> None:
    with pytest.raises(SubmissionError, match="control characters"):
        open_bytes(zipped(("a.py0.txt", SOURCE)).replace(b"a.py0", b"a.py\0"))


def two_of(first: str, second: str) -> bytes:
    # zipfile warns of a second entry of one name, so it gets its name afterwards.
    stand_in = "?" * len(second.encode())
    return zipped(("x.py", SOURCE), (first, SOURCE), (stand_in, SOURCE)).replace(
        stand_in.encode(), second.encode()
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (two_of("a.py", "a.py"), "twice"),
        (two_of("a.py", "A.py"), "upper and lower case"),
        (two_of("a.py", "a.py."), "trailing"),
        (two_of("stra\u00dfe", "STRASSE"), "upper and lower case"),
        (zipped(("x.py", b""), ("u\u0308.py", b""), ("\u00fc.py", b"")), "twice"),
        (zipped(("x.py", b""), ("a", b""), ("a/b", b"")), "a file and a folder"),
        (zipped(("x.py", b""), ("a", b""), ("a/", b"")), "a file and a folder"),
        (zipped(("x.py", b""), ("a/b", b""), ("A", b"")), "a file and a folder"),
    ],
)
def test_names_that_collide_are_refused(
    data: bytes, sentence: str, open_bytes: Callable[..., Submission]
) -> None:
    with pytest.raises(SubmissionError, match=sentence):
        open_bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (zipped(("a.py", b""), (entry("link", 0o120777), b"/etc/passwd")), "`link` is a symbolic link"),
        (zipped(("a.py", b""), (entry("pipe", 0o010644), b"")), "`pipe` is a named pipe"),
        (zipped(("a.py", b""), (entry("null", 0o020644), b"")), "`null` is a device"),
        (zipped(("a.py", b""), (entry("sock", 0o140755), b"")), "`sock` is a socket"),
        (tarred(("link", b""), type=tarfile.SYMTYPE), "`link` is a symbolic link"),
        (tarred(("link", b""), type=tarfile.LNKTYPE), "`link` is a hard link"),
        (tarred(("pipe", b""), type=tarfile.FIFOTYPE), "`pipe` is a named pipe"),
        (tarred(("null", b""), type=tarfile.CHRTYPE), "`null` is a device"),
        (tarred(("disk", b""), type=tarfile.BLKTYPE), "`disk` is a device"),
        (tarred(("holes", b"x"), type=tarfile.GNUTYPE_SPARSE), "`holes` is a sparse file"),
        (tarred(("odd", b"x"), type=b"Z"), "`odd` is neither"),
    ],
)
def test_only_plain_files_are_taken(
    data: bytes, sentence: str, open_bytes: Callable[..., Submission]
) -> None:
    with pytest.raises(SubmissionError, match=sentence):
        open_bytes(data)


def test_links_inside_an_environment_are_left_out_with_it(open_bytes: Callable[..., Submission]) -> None:
    data = zipped(
        ("hw/a.py", SOURCE),
        ("hw/env/pyvenv.cfg", b""),
        (entry("hw/env/bin/python", 0o120777), b"/usr/bin/python3"),
    )
    read = open_bytes(data)
    assert set(read.files) == {"a.py"}
    assert any("skipped `hw/env`" in note for note in read.notes)


GOOD = zipped(("a.py", SOURCE * 50), ("b.py", SOURCE))
GOOD_TAR = tarred(("a.py", SOURCE * 200), ("b.py", SOURCE))

BACK_ONE_BLOCK = (-512).to_bytes(12, "big", signed=True)

DAMAGED = {
    "empty file": (b"", "an empty file"),
    "text": (b"print('hello')\n" * 100, "not an archive"),
    "a zip behind a script": (b"#!/bin/sh\n" + GOOD, "not an archive"),
    "rar": (b"Rar!\x1a\x07\1\0" + bytes(100), "RAR"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(100), "7-Zip"),
    "web page": (b"<!DOCTYPE html><title>Log in", "web page"),
    "no entries": (zipped(), "is empty"),
    "cut in the directory": (GOOD[:-30], "incomplete"),
    "cut in the middle": (GOOD[: len(GOOD) // 2], "incomplete"),
    "something behind the end": (GOOD + b"x", "bends the format"),
    "wrong checksum": (directory_field(GOOD, 16, b"\1\2\3\4"), "`a.py` is damaged"),
    "wrong content": (patched(GOOD, 36, b"\xff\xff"), "`a.py` is damaged"),
    "claims less than there is": (directory_field(GOOD, 24, struct.pack("<L", 10)), "`a.py` is damaged"),
    "claims more than there is": (directory_field(GOOD, 24, struct.pack("<L", 3000)), "`a.py` is damaged"),
    "encrypted": (directory_field(GOOD, 8, struct.pack("<H", 1)), "`a.py` is encrypted"),
    "bzip2": (zipped(("a.py", SOURCE), method=zipfile.ZIP_BZIP2), "`a.py` is packed by an unusual method"),
    "lzma": (zipped(("a.py", SOURCE), method=zipfile.ZIP_LZMA), "`a.py` is packed by an unusual method"),
    "method 99": (directory_field(GOOD, 10, struct.pack("<H", 99)), "`a.py` is packed by an unusual method"),
    "needs a newer unzip": (directory_field(GOOD, 6, struct.pack("<H", 99)), "bends the format"),
    "names differ": (GOOD.replace(b"a.py", b"c.py", 1), "`a.py` is damaged"),
    "fewer entries than announced": (end_field(GOOD, 8, struct.pack("<HH", 3, 3)), "bends the format"),
    "more entries than announced": (end_field(GOOD, 8, struct.pack("<HH", 1, 1)), "bends the format"),
    "directory larger than the file": (end_field(GOOD, 12, struct.pack("<L", 1 << 20)), "bends the format"),
    "directory elsewhere": (end_field(GOOD, 16, struct.pack("<L", 1 << 31)), "bends the format"),
    "several disks": (end_field(GOOD, 4, struct.pack("<H", 1)), "bends the format"),
    "overlapping entries": (overlapping(), "bends the format"),
    "ZIP64 claims two entries": (zip64(2), "bends the format"),
    "ZIP64 claims 2**63 entries": (zip64(1 << 63), "more than 5000 entries"),
    "ZIP64 claims an endless directory": (zip64(1, 1 << 60), "more than 5000 entries"),
    "announces too many": (end_field(GOOD, 8, struct.pack("<HH", 60000, 60000)), "more than 5000 entries"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "gzip of text": (gzip.compress(b"hello" * 200), "bends the format"),
    "gzip cut short": (gzip.compress(GOOD_TAR)[:-20], "incomplete gzip"),
    "gzip with a wrong checksum": (gzip.compress(GOOD_TAR)[:-8] + bytes(8), "damaged or incomplete gzip"),
    "tar cut short": (GOOD_TAR[:1000], "bends the format"),
    "tar of zeros": (bytes(10240), "is empty"),
    "tar with a wrong checksum": (patched(GOOD_TAR, 2048, b"z"), "bends the format"),
    "tar with a negative size": (checksummed(patched(GOOD_TAR, 124, b"\xff" * 12)), "bends the format"),
    "tar with an endless size": (checksummed(patched(GOOD_TAR, 124, b"77777777777\0")), "bends the format"),
    "tar that runs in circles": (checksummed(patched(GOOD_TAR, 124, BACK_ONE_BLOCK)), "bends the format"),
    "tar with a huge binary size": (checksummed(patched(GOOD_TAR, 124, b"\x80" + b"\xff" * 11)), "bends the format"),
    "pax header without end": (extension(b"9" * 600) + GOOD_TAR, "bends the format"),
    "pax header of 1.1 MiB": (extension(b"30 path=aaaaaaaaaaaaaaaaaaaaa\n" * 40_000), "bends the format"),
    "pax size that is no number": (extension(b"12 size=abc\n") + GOOD_TAR, "bends the format"),
    "pax path that leads out": (extension(b"16 path=../a.py\n") + GOOD_TAR, "leads out"),
    "two GNU names": (extension(b"c.py\0", tarfile.GNUTYPE_LONGNAME) * 2 + GOOD_TAR, "bends the format"),
    "two pax headers": (extension(b"13 path=c.py\n") * 2 + GOOD_TAR, "bends the format"),
    "a GNU name and a pax path": (
        extension(b"c.py\0", tarfile.GNUTYPE_LONGNAME) + extension(b"13 path=c.py\n") + GOOD_TAR,
        "bends the format",
    ),
    "GNU name that leads out": (extension(b"../a.py\0", tarfile.GNUTYPE_LONGNAME) + GOOD_TAR, "leads out"),
    "latin-1 name": (tarred(("f\udcfcr", b""), ("a.py", b""), format=tarfile.GNU_FORMAT), "not valid UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_and_deceitful_archives_are_refused(case: str, open_bytes: Callable[..., Submission]) -> None:
    data, sentence = DAMAGED[case]
    with pytest.raises(SubmissionError, match=sentence):
        open_bytes(data)


def bomb_zip() -> bytes:
    return zipped(("hw/a.py", SOURCE), ("hw/zeros.txt", bytes(1 << 27)))


def many_small() -> bytes:
    return zipped(("a.py", SOURCE), *((f"{number}.txt", bytes(1 << 20)) for number in range(100)))


def many_entries() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number in range(60_000):
            archive.writestr(f"{number}", b"")
    return buffer.getvalue()


def tar_bomb() -> bytes:
    return gzip.compress(tarred(("a.py", SOURCE), ("zeros.txt", bytes(200 << 20))), 6)


def many_headers() -> bytes:
    header = tarred(("a.py", b""))[:512]
    return header * (ENTRIES + 1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (bomb_zip, "expands to more"),
        (many_small, "expands to more"),
        (many_entries, "more than 5000 entries"),
        (tar_bomb, "expands to more"),
        (many_headers, "more than 5000 entries"),
    ],
)
def test_bombs_are_refused_at_once_and_in_little_memory(
    make: Callable[[], bytes], sentence: str, open_bytes: Callable[..., Submission]
) -> None:
    data = make()
    with costs_at_most(20), pytest.raises(SubmissionError, match=sentence):
        open_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(SubmissionError):
            open_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * READ_BYTES


def test_an_archive_inside_an_archive_is_not_opened(open_bytes: Callable[..., Submission]) -> None:
    inner = zipped(("a.py", SOURCE))
    assert open_bytes(zipped(("b.py", SOURCE), ("inner.zip", inner))).files["inner.zip"] == inner
    with pytest.raises(SubmissionError, match=r"another archive, `inner.zip`"):
        open_bytes(zipped(("inner.zip", inner)))


def test_an_upload_over_the_limit_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "hw.zip"
    with path.open("wb") as file:
        file.truncate(UPLOAD_BYTES + 1)
    with pytest.raises(SubmissionError, match="more than 20 MiB"):
        open_submission(path)


def test_a_forgotten_model_costs_nothing_but_a_note(open_bytes: Callable[..., Submission]) -> None:
    noise = bytes(range(256)) * 17 * 1024  # packs 250 to 1, like a model of zeros next to real weights
    read = open_bytes(zipped(("a.py", SOURCE), ("model.pt", noise[: 5 << 20]), method=zipfile.ZIP_STORED))
    assert set(read.files) == {"a.py"}
    assert any("`model.pt`" in note for note in read.notes)


def test_an_entry_that_is_given_an_empty_name_is_none() -> None:
    unnamed = extension(b"\0", tarfile.GNUTYPE_LONGNAME) + tarred(("a.py", SOURCE))
    assert list_archive(unnamed, "x.tar") == []
