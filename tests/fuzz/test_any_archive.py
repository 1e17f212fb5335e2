"""Archives and folders that nobody's file manager made: taken or refused in a sentence, and nothing is written."""

from __future__ import annotations

import gzip
import io
import os
import socket
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.archive import list_archive
from lockstep.members import Kind
from lockstep.submission import Submission, SubmissionError, open_submission
from tests.fuzz.bent import Dice, thrown
from tests.fuzz.promise import held, presentable
from tests.intake import zipped

SOURCE = b"import torch\n\n\ndef main():\n    return 1\n"
NOTEBOOK = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": null, "source": "x = 1"}]}'
ZEROS = bytes(3 << 20)
CONTENTS = (
    SOURCE, SOURCE, b"", NOTEBOOK, b"# coding: utf-7\n", b"\xff\xfea\0", b"\0", b'{"nbformat": 4}', bytes(600),
    zipped(("a.py", SOURCE)), "x = '\u202e'\n".encode(), "x = 'ä'\n".encode("latin-1"),
)  # fmt: skip
MODES = (0o100644, 0o100644, 0o100755, 0, 0o40755, 0o120777, 0o10644, 0o20644, 0o60644, 0o140755, 0o177777)


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


ZEROS = bytes(3 << 20)
DEFLATED_ZEROS = deflated(ZEROS)


def content_of(dice: Dice) -> bytes:
    return dice.noise(40) if dice.rarely() else dice.choice(CONTENTS)


@dataclass(frozen=True)
class Entry:
    """One entry of a zip, as its two headers state it."""

    name: bytes
    packed: bytes
    method: int
    flags: int
    crc: int
    size: int
    packed_size: int
    mode: int
    extra: bytes

    def local(self) -> bytes:
        late = self.flags & 8
        sizes = (0, 0, 0) if late else (self.crc, self.packed_size, self.size)
        head = struct.pack(
            "<4s5H3L2H",
            b"PK\3\4",
            20,
            self.flags,
            self.method,
            0,
            33,
            *sizes,
            len(self.name),
            len(self.extra),
        )
        descriptor = struct.pack("<4s3L", b"PK\7\x08", self.crc, len(self.packed), self.size)
        return head + self.name + self.extra + self.packed + (descriptor if late else b"")

    def central(self, offset: int) -> bytes:
        head = struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 0x0314, 20, self.flags, self.method, 0, 33, self.crc, self.packed_size,
            self.size, len(self.name), len(self.extra), 0, 0, 0, self.mode << 16, offset,
        )  # fmt: skip
        return head + self.name + self.extra


def zip_entry(dice: Dice) -> Entry:
    content = content_of(dice)
    method = dice.choice([8, 0]) if not dice.rarely() else dice.choice([9, 12, 14, 99])
    packed = deflated(content) if method else content
    if dice.rarely(20):
        content, method, packed = ZEROS, 8, DEFLATED_ZEROS
    entry = Entry(
        name=dice.name().encode("utf-8", "surrogatepass")[:60_000],
        packed=packed,
        method=method,
        flags=dice.choice([0, 0x800, 0x800, 0, 8, 0x808])
        if not dice.rarely()
        else dice.choice([1, 0x41, 0x2000, 0xFFFF]),
        crc=zlib.crc32(content),
        size=len(content),
        packed_size=len(packed),
        mode=dice.choice(MODES),
        extra=extra(dice) if dice.rarely() else b"",
    )
    lies = {dice.choice(["crc", "size", "packed_size"]): dice.extreme(32)} if dice.rarely() else {}
    return replace(entry, **lies)


def extra(dice: Dice) -> bytes:
    """An extra field: zip64's with any sizes, another's, or none at all."""
    sizes = b"".join(struct.pack("<Q", dice.extreme()) for _ in dice.few(4))
    kind = dice.choice([1, 1, 0x7075, 0x5455, 0x9901, 0xCAFE])
    stated = dice.choice([len(sizes), len(sizes), dice.randrange(300)])
    return dice.choice([struct.pack("<2H", kind, stated) + sizes, dice.noise(9)])


def zip_of(dice: Dice) -> bytes:
    """A zip that is right in all but a few places."""
    body = dice.choice([b"#!/bin/sh\n", b"PK\3\4"]) if dice.rarely() else b""
    directory = b""
    offsets = [0]
    for _ in dice.few(5):
        entry = zip_entry(dice)
        # Now and then another entry's bytes, or the middle of them.
        offset = dice.choice(offsets) + dice.choice([0, 1, 30]) if dice.rarely() else len(body)
        directory += entry.central(offset) * (1 + dice.rarely())
        offsets.append(len(body))
        body += entry.local()
    count = dice.choice([0, 1, 0xFFFF]) if dice.rarely() else len(offsets) - 1
    size = dice.extreme(32) if dice.rarely(16) else len(directory)
    start = dice.extreme(32) if dice.rarely(16) else len(body)
    comment = dice.noise(30) if dice.rarely() else b""
    wide = b""
    if dice.rarely():
        sizes = [dice.extreme() if dice.rarely() else right for right in (count, count, size, start)]
        end = dice.extreme() if dice.rarely() else len(body) + len(directory)
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, *sizes)
        wide += struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
        count, size, start = dice.choice([(0xFFFF, 2**32 - 1, 2**32 - 1), (count, size, start)])
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, start, len(comment)) + comment
    data = body + directory + wide + last
    return dice.bent(data) if dice.rarely(3) else data


def octal(number: int, width: int) -> bytes:
    """A number as tar writes it; one that is too large in base 256."""
    text = b"%0*o" % (width - 1, number)
    if len(text) < width:
        return text + b"\0"
    return b"\x80" + (number & (1 << 8 * (width - 1)) - 1).to_bytes(width - 1, "big")


def header(
    name: bytes, kind: bytes, size: bytes, mode: bytes, link: bytes, magic: bytes, prefix: bytes
) -> bytes:
    parts = (name, 100), (mode, 8), (b"0000000\0" * 2, 16), (size, 12), (b"00000000000\0", 12), (b" " * 8, 8)
    parts += (kind, 1), (link, 100), (magic, 8), (b"", 80), (prefix, 155)
    block = b"".join(part[:width].ljust(width, b"\0") for part, width in parts).ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def record(key: bytes, value: bytes) -> bytes:
    """A pax record, which begins with its own length."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while length != len(b"%d" % length) + len(rest):
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


SIZES = (b"0", b"40", b"-1", b"1_0", b" 4", b"99999999999", b"9" * 5000, b"x")
KEYS = (b"linkpath", b"GNU.sparse.map", b"GNU.sparse.major", b"GNU.sparse.realsize", b"hdrcharset", b"mtime")
BAD_RECORDS = (b"5 a=\n", b"99 path=x\n", b"3 =\n", b"16 path=../a.py\n", b"0 a=b\n", b"\n", b"9" * 30)


def pax(dice: Dice) -> bytes:
    records = []
    for _ in dice.few(3):
        kind = dice.randrange(5)
        if kind < 2:
            records.append(record(b"path", dice.name().encode("utf-8", "surrogatepass")))
        elif kind == 2:
            records.append(record(b"size", dice.choice(SIZES)))
        elif kind == 3:
            records.append(record(dice.choice(KEYS), dice.noise(12)))
        else:
            records.append(dice.choice(BAD_RECORDS))
    return b"".join(records)


def tar_of(dice: Dice) -> bytes:
    """A tar under right checksums: what is damaged otherwise never gets past those."""
    data = b""
    for _ in dice.few(5):
        content = content_of(dice)
        kind = b"0" if dice.rarely(2) else bytes([dice.choice(b"05123467xxgLLKSXVM\0")])
        if kind in b"xX":
            content = pax(dice)
        elif kind == b"g":
            # At one that is none Python takes the archive for finished.
            content = record(b"comment", dice.noise(12))
        elif kind in b"LK":
            content = dice.name().encode("utf-8", "surrogatepass") + b"\0"
        # Of a name that is longer than its size says, Python reads on to the end of the block.
        lie = dice.extreme() | (4096 if kind in b"LK" else 0)
        size = octal(lie if dice.rarely(16) else len(content), 12)
        prefix = dice.name() if dice.rarely() else ""
        data += header(
            dice.name().encode("utf-8", "surrogatepass"),
            kind,
            dice.noise(12) if dice.rarely(40) else size,
            octal(dice.choice([0o644, 0o755, 0, 0o7777, 2**40]), 8),
            dice.name().encode("utf-8", "surrogatepass"),
            dice.choice([b"ustar\x0000", b"ustar  \0", bytes(8)]),
            prefix.encode("utf-8", "surrogatepass"),
        )
        data += content + bytes(-len(content) % 512)
    data += bytes(dice.choice([1024, 1024, 512, 0]))
    return dice.bent(data, 2) if dice.rarely() else data


def gzip_of(dice: Dice) -> bytes:
    """One or several members, with the optional fields that no tool writes."""
    data = tar_of(dice)
    cut = dice.randint(0, len(data))
    packed = b""
    for piece in [data[:cut], data[cut:]] if dice.rarely() else [data]:
        flags = dice.choice([8, 16, 4, 2, 0xE0]) if dice.rarely() else 0
        fields = b"\1\0x" * bool(flags & 4) + b"name\0" * bool(flags & 8) + b"comment\0" * bool(flags & 16)
        fields += b"\0\0" * bool(flags & 2)
        end = struct.pack("<2L", zlib.crc32(piece), dice.extreme(32) if dice.rarely() else len(piece))
        packed += b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + fields + deflated(piece) + end
    packed += dice.choice([b"\0" * 9, b"x", gzip.compress(b"")]) if dice.rarely(4) else b""
    return dice.bent(packed) if dice.rarely(3) else packed


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder some way down, with things around it that must stay as they are."""
    top = tmp_path_factory.mktemp("top")
    folder = top / "a" / "b" / "place"
    folder.mkdir(parents=True)
    (top / "a" / "canary.py").write_bytes(SOURCE)
    return folder


@contextmanager
def nothing_changes(folder: Path) -> Iterator[None]:
    """Around and in `folder`: no file, folder or link comes, goes or is written to."""
    before = tree(folder.parents[1])
    yield
    assert tree(folder.parents[1]) == before


def tree(folder: Path) -> list[tuple[str, int, int, str]]:
    found = []
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(above, name)
            status = os.lstat(path)
            points_to = os.readlink(path) if os.path.islink(path) else ""
            found.append((path, status.st_mode, status.st_mtime_ns * (not os.path.isdir(path)), points_to))
    return sorted(found)


def opened(path: Path) -> Submission | None:
    """The submission at `path`, once everything that it says was looked at."""
    with nothing_changes(path.parent):
        read = held(lambda: open_submission(path), SubmissionError)
    if read is None:
        return None
    presentable(read.name, *read.notes, *read.problems.values())
    for name in read.files:
        name.encode("utf-8")
        assert name == unicodedata.normalize("NFC", name)
        assert not name.startswith("/")
        assert ".." not in name.split("/")
    assert len({name.casefold() for name in read.files}) == len(read.files)
    assert read.executable <= set(read.files)
    return read


def handed_in(folder: Path, name: str, data: bytes) -> Submission | None:
    path = folder / name
    path.write_bytes(data)
    try:
        return opened(path)
    finally:
        path.unlink()


@given(thrown(zip_of), st.sampled_from(["x.zip", "x.ZIP", "x.tar.gz"]))
def test_any_zip_is_taken_or_refused(place: Path, data: bytes, name: str) -> None:
    read = handed_in(place, name, data)
    if read is None:
        return
    # What Python's own reader gets out of it is all there is.
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        there = {archive.open(info).read() for info in archive.infolist() if is_readable(archive, info)}
    made = {name for path in read.notebooks for name in (path, *read.notebooks[path].files)}
    assert {
        content
        for path, content in read.files.items()
        if path.rpartition("/")[2] not in made and path not in made
    } <= there


def is_readable(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    try:
        return bool(archive.open(info).read()) or True
    except Exception:  # whatever it makes of another method, of a password, of damage
        return False


@given(thrown(tar_of) | thrown(gzip_of), st.sampled_from(["x.tar", "x.tar.gz", "x.zip"]))
def test_any_tar_is_taken_or_refused(place: Path, data: bytes, name: str) -> None:
    handed_in(place, name, data)
    listed = held(lambda: list_archive(data, name), SubmissionError)
    if listed is None:
        return
    for member in listed:
        content = held(member.read, SubmissionError)
        assert content is None or len(content) == member.size
    if {member.kind for member in listed} & {Kind.SPARSE, Kind.OTHER}:
        # Refused once somebody asks what they are; Python's reader puts some of them together.
        return
    ours = [(member.path, member.read()) for member in listed if member.kind is Kind.FILE]
    theirs = listed_by_tarfile(data)
    # `hw/` is a folder to old readers, whatever its type says; Python's takes the stroke away.
    folders = {member.path for member in listed if member.kind is Kind.FOLDER}
    assert (
        theirs is None
        or ours == [entry for entry in theirs if entry[0] not in folders]
        or folders & dict(ours).keys()
    )


def listed_by_tarfile(data: bytes) -> list[tuple[str, bytes]] | None:
    """The plain files as Python's own reader sees them; None where the two are meant to differ."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            infos = archive.getmembers()
            if archive.pax_headers or any(info.name.endswith("/") for info in infos):
                return None
            found = []
            for info in infos:
                file = archive.extractfile(info) if info.isreg() else None
                if file is not None:
                    found.append((unicodedata.normalize("NFC", plain(info.name)), file.read()))
            return [entry for entry in found if entry[0]]
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError, KeyError):
        return None


def plain(name: str) -> str:
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))


KINDS = ("file", "file", "file", "file", "folder", "link", "pipe", "socket", "hard link")


def tree_of(dice: Dice) -> list[tuple[str, str, bytes]]:
    """What may lie in a folder: where, of which kind, and what it holds."""
    return [(dice.name(), dice.choice(KINDS), content_of(dice)) for _ in dice.few(5)]


@given(thrown(tree_of), st.sampled_from(["../canary.py", "/etc/passwd", "nowhere", ".", "a.py"]))
def test_any_folder_is_taken_or_refused(place: Path, made: list[tuple[str, str, bytes]], target: str) -> None:
    root = place / "handed in"
    root.mkdir()
    try:
        for name, kind, content in made:
            lay(root, name, kind, content, target)
        read = opened(root)
        if read is not None and not read.notebooks:
            on_disk = {
                path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()
            }
            assert set(read.files.values()) <= on_disk
    finally:
        remove(root)


def lay(root: Path, name: str, kind: str, content: bytes, target: str) -> None:
    """Put something into the folder, if a file system can hold it under that name."""
    path = os.path.join(
        os.fsencode(root),
        *(
            part
            for part in name.encode("utf-8", "surrogatepass").split(b"/")
            if part not in (b"", b".", b"..")
        ),
    )
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if kind == "file":
            with open(path, "xb") as file:
                file.write(content)
        elif kind == "folder":
            os.mkdir(path)
        elif kind == "link":
            os.symlink(target, path)
        elif kind == "hard link":
            os.link(root.parents[1] / "canary.py", path)
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(path)
    except (OSError, ValueError):
        return


def remove(folder: Path) -> None:
    for above, folders, files in os.walk(os.fsencode(folder), topdown=False):
        for name in files:
            os.unlink(os.path.join(above, name))
        for name in folders:
            path = os.path.join(above, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    folder.rmdir()
