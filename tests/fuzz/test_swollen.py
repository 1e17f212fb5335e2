"""What is four times as large costs about four times as much, whatever there is more of, and not sixteen times.

Small inputs show no work that grows with the square of a size; these are made of one thing, many times over.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable

import pytest

from lockstep import wire
from lockstep.archive import list_archive
from lockstep.classroom.exports.worksheet import read_worksheet
from lockstep.classroom.gradescope import read_metadata
from lockstep.classroom.roster import roster_of
from lockstep.classroom.sheet import parse_sheet
from lockstep.eventfile import masked_crc32c, read_scalars
from lockstep.jsontext import JsonError, parse_json
from lockstep.members import SubmissionError
from lockstep.notebook import read_notebook
from lockstep.reports.format import problems
from lockstep.sandbox import answers, standing
from lockstep.text import safe
from lockstep.wandbfile import read_history
from lockstep.yamlfile import YamlError, read_yaml
from tests.fuzz.protobuf import field, numbered, single
from tests.fuzz.test_any_archive import header, octal, record
from tests.fuzz.test_any_wandb_file import HEADER

MOST = 8.0
"""Between 4, what is in proportion, and 16, the square. A busy machine's caches make 5 of 4."""
NOISE = 0.02
"""Seconds that a measurement may be off; what takes less is no danger."""
TRIES = 4


def zip_entries(n: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(n):
            archive.writestr(f"hw/{number}/a.py", b"")
    return file.getvalue()


def tar_entries(n: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(n):
            archive.addfile(tarfile.TarInfo(f"ä{number}.py"))
    return file.getvalue()


def tar_of_records(n: int) -> bytes:
    content = record(b"comment", b"x") * n
    content += bytes(-len(content) % 512)
    head = header(b"p", b"x", octal(len(content), 12), b"644", b"", b"ustar\x0000", b"")
    return (
        head + content + header(b"a.py", b"0", octal(0, 12), b"644", b"", b"ustar\x0000", b"") + bytes(1024)
    )


def notebook(*sources: str) -> bytes:
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}).encode()


def events(*messages: bytes) -> bytes:
    out = []
    for message in (field(3, b"brain.Event:2"), *messages):
        size = struct.pack("<Q", len(message))
        out += [
            size,
            struct.pack("<I", masked_crc32c(size)),
            message,
            struct.pack("<I", masked_crc32c(message)),
        ]
    return b"".join(out)


def scalar(tag: bytes) -> bytes:
    return field(1, field(1, tag) + single(2, 0.5))


def wandb(*parts: tuple[int, bytes]) -> bytes:
    data = bytearray(HEADER)
    for kind, part in parts:
        room = 32768 - len(data) % 32768
        if room < 7 + len(part):
            data += bytes(room) if room < 7 else piece(3, bytes(room - 7))
        data += piece(kind, part)
    return bytes(data)


def piece(kind: int, part: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part


def rows(n: int) -> str:
    return "id,name\n" + "".join(f"m{number},Jane {number}\n" for number in range(n))


def archive(data: bytes) -> object:
    return list_archive(data, "x")


def event_lines(data: bytes) -> object:
    return answers.read(b"", data, b"", 0)


SHAPES: dict[str, tuple[Callable[[bytes], object], Callable[[int], bytes], int]] = {
    "entries of a zip": (archive, zip_entries, 1000),
    "entries of a tar": (archive, tar_entries, 200),
    "pax records": (archive, tar_of_records, 8000),
    "gzip members": (archive, lambda n: gzip.compress(b"") * n, 2000),
    "a gzip member's name": (archive, lambda n: b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * n, 50_000),
    "brackets of JSON": (parse_json, lambda n: b"[" + b"[]," * n + b"[]]", 10_000),
    "keys of JSON": (parse_json, lambda n: json.dumps(dict.fromkeys(map(str, range(n)))).encode(), 10_000),
    "a text in JSON": (parse_json, lambda n: b'"' + b"\\u00e4" * n + b'"', 100_000),
    "brackets that stay open": (parse_json, lambda n: b"[" * n, 100_000),
    "cells of a notebook": (lambda data: read_notebook(data, "n"), lambda n: notebook(*["x = 1"] * n), 200),
    "lines of a cell": (lambda data: read_notebook(data, "n"), lambda n: notebook("%time x\n" * n), 5000),
    "quotes in a line": (lambda data: read_notebook(data, "n"), lambda n: notebook("'\"" * n), 20_000),
    "backslashes": (lambda data: read_notebook(data, "n"), lambda n: notebook("'" + "\\" * n), 40_000),
    "blanks before a question": (lambda data: read_notebook(data, "n"), lambda n: notebook("x" * n + " " * n + "."), 20_000),
    "a file that cells write": (lambda data: read_notebook(data, "n"), lambda n: notebook(*["%%writefile -a a.py\nx\n"] * n), 200),
    "items of YAML": (read_yaml, lambda n: b"[" + b"a, " * n + b"a]", 500),
    "lines of YAML": (read_yaml, lambda n: b"".join(b"a%d: b\n" % number for number in range(n)), 150),
    "a text in YAML": (read_yaml, lambda n: b"a: >\n" + b"  b c\n" * n, 500),
    "merged YAML": (read_yaml, lambda n: b"a: &a {b: c}\nd:\n" + b"  <<: *a\n" * n, 100),
    "aliases": (read_yaml, lambda n: b"a: &a [b]\nd:\n" + b"  - *a\n" * n, 300),
    "anchors": (read_yaml, lambda n: b"".join(b"- &a%d b\n" % number for number in range(n)), 300),
    "comments of YAML": (read_yaml, lambda n: b"# x\n" * n, 5000),
    "values of a report": (problems, lambda n: json.dumps({"runs": [{"a": 1}] * n}).encode(), 200),
    "events": (read_scalars, lambda n: events(*[field(5, scalar(b"a"))] * n), 1000),
    "values of an event": (read_scalars, lambda n: events(field(5, scalar(b"a") * n)), 1000),
    "events that are none": (read_scalars, lambda n: events(*[b"\xff"] * n), 1000),
    "bytes of an event": (read_scalars, lambda n: events(field(6, bytes(n))), 100_000),
    "rows of a run": (read_history, lambda n: wandb(*[(1, field(2, field(2, numbered(1, 1))))] * n), 2000),
    "pieces of a row": (read_history, lambda n: wandb(*[(2, bytes(20_000))] * (n // 200), *[(3, b"x")] * n), 8000),
    "values of a row": (read_history, lambda n: wandb(*[(1, field(2, field(1, field(1, b"k%d" % k) + field(16, b"1")))) for k in range(n)]), 2000),
    "keys of a value": (read_history, lambda n: wandb((1, field(2, field(1, field(2, b"k") * n)))), 2000),
    "lines that are events": (event_lines, lambda n: b'{"kind":"phase"}\n' * n, 2000),
    "lines that are none": (event_lines, lambda n: b"\n" * n, 100_000),
    "frames of a stack": (lambda data: standing.read(data.decode(), "/w", "", ()), lambda n: b'  File "/x", line 1 in f\n' * n, 5000),
    "half a stack": (lambda data: standing.read(data.decode(), "/w", "", ()), lambda n: b'  File "' * n, 20_000),
    "arrays": (wire.unpack, lambda n: tensors(n), 500),
    "escapes": (lambda data: safe(data.decode(), len(data)), lambda n: b"\x1b[0;" * n, 10_000),
    "strings that stay open": (lambda data: safe(data.decode(), len(data)), lambda n: b"\x1b]0;" * n, 10_000),
    "accents": (lambda data: safe(data.decode(), len(data)), lambda n: ("e" + "\u0301" * n).encode(), 20_000),
    "rows of a table": (lambda data: roster_of(parse_sheet(data.decode(), "r")), lambda n: rows(n).encode(), 500),
    "columns of a table": (lambda data: parse_sheet(data.decode(), "r"), lambda n: ",".join(f"c{k}" for k in range(n)).encode(), 5000),
    "quotes of a table": (lambda data: read_worksheet(data, "w", ("id",)), lambda n: b'id\n"' + b'""' * n + b'"\n', 20_000),
    "rows of a worksheet": (lambda data: read_worksheet(data, "w", ("id",)), lambda n: rows(n).encode(), 1000),
    "groups of Gradescope's": (read_metadata, lambda n: b"".join(b"submission_%d:\n  :submitters:\n  - :sid: m\n" % k for k in range(n)), 50),
}  # fmt: skip


def tensors(n: int) -> bytes:
    index = {f"a{k}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for k in range(n)}
    head = json.dumps(index).encode()
    body = struct.pack("<Q", len(head)) + head
    return wire.PREFIX.pack(wire.MAGIC, 2, len(body)) + b"{}" + body


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_as_much_is_no_sixteen_times_the_work(shape: str) -> None:
    read, build, n = SHAPES[shape]
    small, large = build(n), build(4 * n)
    seconds(read, small)  # imports, caches
    ratios = []
    for _ in range(TRIES):
        ratios.append((seconds(read, large) - NOISE) / max(seconds(read, small), NOISE / MOST))
        if ratios[-1] < MOST:
            return
    pytest.fail(f"{', '.join(f'{ratio:.0f}' for ratio in ratios)} times")


def seconds(read: Callable[[bytes], object], data: bytes) -> float:
    """CPU time of this process."""
    start = time.process_time()
    with contextlib.suppress(SubmissionError, YamlError, JsonError):
        read(data)
    return time.process_time() - start


def test_of_very_many_events_the_first_and_the_last_are_read() -> None:
    most = answers.FIRST_LINES + answers.LAST_LINES
    data = b'{"kind":"first"}\n' + b"{}\n" * 2 * most + b'{"kind":"last"}\n'
    seen = answers.read(b"", data, b"", 0).events
    assert len(seen) < most
    assert (seen[0], seen[-1]) == ({"kind": "first"}, {"kind": "last"})
