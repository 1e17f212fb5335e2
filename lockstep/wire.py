"""The one place where bytes from the sandbox become values: a JSON head and a safetensors body.

A frame is `LKS1`, the head's length (uint32), the body's length (uint64), the head, the body. Nothing in
it is ever unpickled or evaluated; every size is capped before it is parsed. Both sides import this file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from lockstep.jsontext import Json as Json
from lockstep.jsontext import JsonError, parse_json

# Of any type: NumPy's stubs know no arithmetic for np.generic, and a frame says itself what it holds.
Array: TypeAlias = npt.NDArray[Any]

MAGIC = b"LKS1"
PREFIX = struct.Struct("<4sIQ")
MAX_HEAD = 4 << 20
MAX_BODY = 64 << 20
MAX_FRAME = PREFIX.size + MAX_HEAD + MAX_BODY
BROKEN = 70
"""Exit status of a rank that has no frame to send, by a fault of what runs beside the student's code (EX_SOFTWARE)."""
# safetensors accepts 300,000 empty tensors and takes seconds over them; 256 KiB of names is ample.
MAX_TENSOR_INDEX = 256 << 10


class WireError(Exception):
    """Bytes that are not one well-formed frame; the message says what is wrong with them."""


@dataclass(frozen=True)
class Frame:
    """What one frame says: JSON values by name and dense arrays by name."""

    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


def pack(values: Mapping[str, Json], arrays: Mapping[str, Array] | None = None) -> bytes:
    """Write one frame. Raises WireError when it would be larger than a reader takes."""
    head = json.dumps(values, allow_nan=False, separators=(",", ":")).encode()
    # np.ascontiguousarray alone would turn a scalar array into one of shape (1,).
    contiguous = {n: np.ascontiguousarray(a).reshape(a.shape) for n, a in (arrays or {}).items()}
    body = safetensors.numpy.save(contiguous) if contiguous else b""
    if len(head) > MAX_HEAD or len(body) > MAX_BODY:
        raise WireError(f"a frame of {len(head)} + {len(body)} bytes is too large")
    return PREFIX.pack(MAGIC, len(head), len(body)) + head + body


def is_complete(data: bytes | bytearray) -> bool:
    """Whether the bytes of a pipe hold a whole frame, or something that will never be one."""
    if len(data) < PREFIX.size:
        return False
    magic, head_size, body_size = PREFIX.unpack_from(data)
    return bool(magic != MAGIC or len(data) >= PREFIX.size + head_size + body_size)


def unpack(frame: bytes) -> Frame:
    """Read exactly one frame from untrusted bytes. Raises WireError and nothing else."""
    if len(frame) < PREFIX.size:
        raise WireError("the frame ends before its prefix does")
    magic, head_size, body_size = PREFIX.unpack_from(frame)
    if magic != MAGIC:
        raise WireError("these bytes are not a frame")
    if head_size > MAX_HEAD or body_size > MAX_BODY:
        raise WireError("the frame announces more than the cap")
    if len(frame) != PREFIX.size + head_size + body_size:
        raise WireError("the frame is cut short or has trailing bytes")
    try:
        values = parse_json(frame[PREFIX.size : PREFIX.size + head_size])
    except JsonError as error:
        raise WireError(f"the head is not plain JSON: {error}") from None
    if not isinstance(values, dict):
        raise WireError("the head is not a JSON object")
    return Frame(values, _parse_arrays(frame[PREFIX.size + head_size :]))


def _parse_arrays(body: bytes) -> dict[str, Array]:
    if not body:
        return {}
    if len(body) < 8 or int.from_bytes(body[:8], "little") > MAX_TENSOR_INDEX:
        raise WireError("the index of the arrays is cut short or too large")
    try:
        # In an order of their own: the library's changes from one process to the next, and with it what is told first.
        return dict(sorted(safetensors.numpy.load(body).items()))
    except Exception as error:  # safetensors raises its own errors, KeyError for bfloat16, ValueError ...
        raise WireError(f"the arrays are malformed ({type(error).__name__})") from None
