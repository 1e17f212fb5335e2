"""Traces of a hand-in as bytes and back: a gradebook keeps them, so that what comes later is compared with them, too.

They hold no line of a source, only its fingerprints; of a report what rule F11 needs.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from lockstep.classroom.noise import Series
from lockstep.classroom.readings import Readings
from lockstep.classroom.traces import Traces
from lockstep.classroom.winnowing import Prints


def packed(traces: Traces) -> bytes:
    """Traces as bytes; equal ones are equal bytes."""
    values = {
        "digest": traces.digest,
        "own": traces.own,
        "prints": [
            [
                each.path,
                _text(each.digest),
                _text(each.hashes),
                _text(each.first),
                _text(each.last),
                each.cells,
            ]
            for each in traces.prints
        ],
        "readings": [
            [each.path, each.kind, _text(each.keys), _series(each.series), _text(each.packed)]
            for each in traces.readings
        ],
        "made": [[path, _text(value)] for path, value in traces.made],
        "turned": traces.turned,
    }
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode())


def unpacked(content: bytes) -> Traces:
    """The traces that `packed` made bytes of."""
    values = json.loads(zlib.decompress(content))
    return Traces(
        values["digest"],
        values["own"],
        tuple(
            Prints(
                path,
                b64decode(digest),
                _array(hashes, np.uint32),
                _array(first, np.uint16),
                _array(last, np.uint16),
                tuple(cells),
            )
            for path, digest, hashes, first, last, cells in values["prints"]
        ),
        tuple(
            Readings(path, kind, _array(keys, np.float64), _series_again(series), b64decode(content))
            for path, kind, keys, series, content in values["readings"]
        ),
        tuple((path, b64decode(value)) for path, value in values["made"]),
        tuple(values["turned"]),
    )


def _text(content: bytes | np.ndarray[Any, Any]) -> str:
    raw = content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes()
    return b64encode(raw).decode()


def _array(text: str, kind: type[np.generic]) -> Any:
    return np.frombuffer(b64decode(text), dtype=kind)


def _series(series: Series | None) -> list[str] | None:
    return None if series is None else [_text(each) for each in (series.names, series.lengths, series.logs)]


def _series_again(texts: list[str] | None) -> Series | None:
    if texts is None:
        return None
    names, lengths, logs = texts
    return Series(_array(names, np.int64), _array(lengths, np.int64), _array(logs, np.float64))
