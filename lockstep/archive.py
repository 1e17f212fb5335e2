"""Lists and reads .zip and .tar(.gz) files in memory; nothing in them is ever written to disk.

A listing costs milliseconds whatever the archive claims: entries, sizes, ratios and overlaps are checked
before a byte is expanded, and expanding stops at the size that was claimed. The stdlib's readers are not
trusted with hostile bytes: Python 3.11.7's `zipfile` neither bounds the entries it lists nor notices
overlapping ones (CVE-2024-0450), its `tarfile` can loop for ever (CVE-2025-8194) and backtracks in pax
headers (CVE-2024-6232). Tar headers are therefore walked here.
"""

from __future__ import annotations

import gzip
import re
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from mmap import mmap
from typing import IO

from lockstep.leftovers import READ_BYTES
from lockstep.members import MODE_KINDS, Kind, Member, SubmissionError, relative_path, shown, size_text

UPLOAD_BYTES = 20 << 20
"""The largest archive taken. Real ones have kilobytes; twenty megabytes leave room for a forgotten model."""

ENTRIES = 5000
"""Entries listed, tools' folders included: 200,000 take a second to list, 5,000 a fortieth of that."""

RATIO = 200
"""Expanded over packed size. Deflate reaches 1032 on zeros; logs, the best packed of honest files, 50."""

RATIO_FREE_BYTES = 1 << 20
"""Below this size any ratio is harmless: a file of blanks is no bomb."""

EXTENSION_BYTES = 1 << 20
"""The largest tar extension header that is read: a long name, or pax records, where macOS puts icons."""

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCAL_HEADER_BYTES = 30
_BLOCK = 512
_PAX_RECORD = re.compile(rb"([0-9]{1,7}) ([^=\n]{1,255})=")

_SIGNATURES = {
    b"Rar!": "a RAR archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"\xfd7zXZ": "an xz archive",
    b"BZh": "a bzip2 archive",
    b"%PDF": "a PDF",
    b"<!DOCTYPE": "a web page, perhaps of a log-in",
    b"<html": "a web page, perhaps of a log-in",
    b"\x89PNG": "a picture",
}
_TAR_KINDS = {
    tarfile.DIRTYPE: Kind.FOLDER,
    tarfile.SYMTYPE: Kind.SYMLINK,
    tarfile.LNKTYPE: Kind.HARD_LINK,
    tarfile.FIFOTYPE: Kind.PIPE,
    tarfile.CHRTYPE: Kind.DEVICE,
    tarfile.BLKTYPE: Kind.DEVICE,
    tarfile.GNUTYPE_SPARSE: Kind.SPARSE,
    **dict.fromkeys((tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE), Kind.FILE),
}


def list_archive(data: bytes, name: str) -> list[Member]:
    """The entries of the archive `data`, which was handed in under `name`; told apart by content.

    Raises `SubmissionError` for whatever is not an orderly archive. Names are relative and lead nowhere
    else, but are not judged further; kinds other than files and folders are listed as such.
    """
    if data.startswith((b"PK\3\4", b"PK\5\6")):
        return list(_list_zip(data, name))
    if data.startswith(b"\x1f\x8b"):
        return list(_list_tar(_gunzip(data, name), name))
    if data[257:262] == b"ustar" or _is_old_tar(data):
        return list(_list_tar(data, name))
    found = next((text for signature, text in _SIGNATURES.items() if data.startswith(signature)), None)
    if not data:
        found = "an empty file"
    raise SubmissionError(
        f"{shown(name)} is {found or 'not an archive, or a damaged one'}. "
        "Hand in a folder, a .zip or a .tar.gz."
    )


def _list_zip(data: bytes, name: str) -> Iterator[Member]:
    archive = open_zip(data, BytesIO(data), name)
    for info in archive.infolist():
        path = relative_path(zip_name(info))
        if path:
            yield zip_member(archive, info, path)


def open_zip(data: bytes | mmap, file: IO[bytes], name: str, limit: int = ENTRIES) -> zipfile.ZipFile:
    """The zip `data`, which `file` reads as well, with its entries listed and none of them in another's place.

    Raises `SubmissionError` for a damaged one, and for one of more than `limit` entries before they are listed.
    """
    entries = _announced_entries(data, name, limit)
    try:
        archive = zipfile.ZipFile(file)
        infos = archive.infolist()
    except Exception as error:  # struct.error, UnicodeDecodeError, NotImplementedError, OverflowError ...
        raise _damaged(name) from error
    if len(infos) != entries:
        raise _damaged(name)
    _refuse_overlaps(infos, archive.start_dir, name)
    return archive


def zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Member:
    """The entry `info` as a member that is called `path`."""
    kind = MODE_KINDS.get(stat.S_IFMT(info.external_attr >> 16), Kind.FILE)
    if info.orig_filename.endswith(("/", "\\")):
        kind = Kind.FOLDER
    read = partial(_read_zipped, archive, info, path)
    mode = info.external_attr >> 16
    # Windows knows no such bit: its zips say nothing of any, and a shell script is meant to be started.
    executable = bool(mode & stat.S_IXUSR) if mode else path.lower().endswith(".sh")
    return Member(path, info.file_size, read, kind, executable)


def _announced_entries(data: bytes | mmap, name: str, limit: int) -> int:
    """The number of entries in the end record, before `ZipFile` would list them all.

    Follows zipfile's own search, or it would check one directory here and read another there. `ZipFile`
    goes by the directory's size and ignores the number, so both are held to the limit.
    """
    start = data.rfind(b"PK\5\6", max(len(data) - (1 << 16) - _END.size, 0))
    if start < 0 or start + _END.size > len(data):
        raise SubmissionError(f"{shown(name)} is a damaged or incomplete zip file. Pack and upload it again.")
    _, disk, first_disk, _, entries, size, _, comment = _END.unpack_from(data, start)
    if start + _END.size + comment != len(data) or disk != first_disk:
        raise _damaged(name)
    before = start - _END64_LOCATOR.size - _END64.size
    if (
        before >= 0
        and data[before : before + 4] == b"PK\6\6"
        and data[before + _END64.size :][:4] == b"PK\6\7"
    ):
        *_, entries, size, _ = _END64.unpack_from(data, before)
    if entries > limit or size > limit * 1024:
        raise _too_many(name, limit)
    return int(entries)


def _refuse_overlaps(infos: list[zipfile.ZipInfo], directory: int, name: str) -> None:
    """Let no entry's packed bytes run into the next one's: that is how a small file expands to petabytes."""
    end = directory
    for info in sorted(infos, key=lambda info: info.header_offset, reverse=True):
        if info.header_offset < 0 or info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size > end:
            raise _damaged(name)
        end = info.header_offset


def zip_name(info: zipfile.ZipInfo) -> str:
    """The name of an entry as the tool that packed it meant it."""
    # `filename` is cut off at a NUL. macOS writes UTF-8 without saying so, which zipfile reads as cp437.
    name = info.orig_filename
    if not info.flag_bits & 0x800 and not name.isascii():
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
    if info.flag_bits & 0x2041:
        raise SubmissionError(f"{shown(path)} is encrypted. Pack your folder again without a password.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile expands bzip2 and LZMA without a bound.
        raise SubmissionError(
            f"{shown(path)} is packed by an unusual method. Pack your folder again with the zip function of "
            "your file manager."
        )
    try:
        with archive.open(info) as file:
            content = file.read(info.file_size)
            # At the end the checksum is compared; a longer content fails it.
            complete = len(content) == info.file_size and not file.read(1)
    except Exception as error:
        raise _broken(path) from error
    if not complete:
        raise _broken(path)
    return content


def _gunzip(data: bytes, name: str) -> bytes:
    # An uncompressed tar adds a header and padding to every entry.
    limit = READ_BYTES + ENTRIES * 2 * _BLOCK
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            expanded = file.read(limit + 1)
    except Exception as error:  # BadGzipFile, EOFError, zlib.error
        raise SubmissionError(
            f"{shown(name)} is a damaged or incomplete gzip file. Pack and upload it again."
        ) from error
    if len(expanded) > limit:
        raise _bomb(name)
    return expanded


def _is_old_tar(data: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(data[:_BLOCK], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return len(data) >= 2 * _BLOCK and not any(data[: 2 * _BLOCK])
    return True


def _list_tar(data: bytes, name: str) -> Iterator[Member]:
    entries = offset = 0
    long_name: str | None = None
    pax: dict[bytes, bytes] = {}
    while offset < len(data) and any(data[offset : offset + _BLOCK]):
        entries += 1
        if entries > ENTRIES:
            raise _too_many(name, ENTRIES)
        try:
            info = tarfile.TarInfo.frombuf(data[offset : offset + _BLOCK], "utf-8", "surrogateescape")
            size = int(pax.get(b"size", b"%d" % info.size))
        except (tarfile.HeaderError, ValueError) as error:
            raise _damaged(name) from error
        kind = _TAR_KINDS.get(info.type, Kind.OTHER)
        # Links and devices may state a size, but no content follows them.
        stored = size if kind in (Kind.FILE, Kind.SPARSE, Kind.OTHER) else 0
        start, end = offset + _BLOCK, offset + _BLOCK + stored
        if size < 0 or end > len(data):
            raise _damaged(name)
        offset = start + -(-stored // _BLOCK) * _BLOCK
        if info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            if stored > EXTENSION_BYTES:
                raise _damaged(name)
            if long_name is not None or pax:
                # Of two such headers for one entry some readers take the first and others the last.
                raise _damaged(name)
            if info.type == tarfile.GNUTYPE_LONGNAME:
                long_name = data[start:end].partition(b"\0")[0].decode("utf-8", "surrogateescape")
            else:
                pax = _pax_records(data[start:end], name)
            continue
        if info.type in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            continue
        if any(key.startswith(b"GNU.sparse") for key in pax):
            kind = Kind.SPARSE
        raw = info.name if long_name is None else long_name
        if b"path" in pax:
            raw = pax[b"path"].decode("utf-8", "surrogateescape")
        if raw.endswith("/") and kind is Kind.FILE:
            kind = Kind.FOLDER
        long_name, pax = None, {}
        if path := relative_path(raw):
            yield Member(
                path, stored, partial(_slice, data, start, end), kind, bool(info.mode & stat.S_IXUSR)
            )


def _slice(data: bytes, start: int, end: int) -> bytes:
    return data[start:end]


def _pax_records(data: bytes, name: str) -> dict[bytes, bytes]:
    """The records `LENGTH KEY=VALUE\\n` of a pax header, where LENGTH counts the whole record."""
    records: dict[bytes, bytes] = {}
    offset = 0
    while offset < len(data) and data[offset]:
        match = _PAX_RECORD.match(data, offset)
        end = offset + int(match[1]) if match else 0
        if not match or end <= match.end() or end > len(data) or data[end - 1] != ord("\n"):
            raise _damaged(name)
        records[match[2]] = data[match.end() : end - 1]
        offset = end
    return records


def refuse_bombs(members: list[Member], packed: int, name: str) -> None:
    """Raise `SubmissionError` when the entries claim to expand to more than any honest archive does.

    `packed` is the size of the archive in bytes. To be asked before anything is read.
    """
    total = sum(member.size for member in members if member.kind is Kind.FILE)
    if total > READ_BYTES or total > max(packed * RATIO, RATIO_FREE_BYTES):
        raise _bomb(name)


def _bomb(name: str) -> SubmissionError:
    return SubmissionError(
        f"{shown(name)} expands to more than {size_text(READ_BYTES)}, or to {RATIO} times its own size. "
        "Leave data sets, model weights and other archives out."
    )


def _too_many(name: str, limit: int) -> SubmissionError:
    return SubmissionError(
        f"{shown(name)} holds more than {limit} entries. Leave data sets, .git and virtual environments out."
    )


def _damaged(name: str) -> SubmissionError:
    return SubmissionError(
        f"{shown(name)} is damaged, or made by a tool that bends the format. "
        "Pack your folder again with the zip function of your file manager."
    )


def _broken(path: str) -> SubmissionError:
    return SubmissionError(f"{shown(path)} is damaged inside the archive. Pack and upload it again.")
