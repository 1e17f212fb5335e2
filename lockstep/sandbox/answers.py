"""From the bytes that came out of a rank to values: its frame, its events, the exception it described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lockstep import wire
from lockstep.jsontext import JsonError, parse_json
from lockstep.sandbox.outcome import CodeFrame, RankOutcome, StudentError
from lockstep.wire import Json

FIRST_LINES, LAST_LINES = 1_000, 9_000
"""Event lines that are read: the first, which say that student code began, and the last, where it stood. Honest runs
have hundreds; of `{}`, which is a line as well, four megabytes would take us minutes."""


def read(result: bytes, events: bytes, output: bytes, status: int | None) -> RankOutcome:
    """One rank's side of a run, from what came through its pipes; `status` when its process has ended."""
    bare = RankOutcome(
        complete=False, events=_events(events), output=output.decode("utf-8", "replace"), status=status
    )
    if not result:
        return bare
    try:
        frame = wire.unpack(result)
    except wire.WireError as error:
        return replace(bare, protocol=str(error))
    values, error_fields = frame.values.get("values"), frame.values.get("error")
    return replace(
        bare,
        complete=True,
        values=values if isinstance(values, dict) else {},
        arrays=frame.arrays,
        error=_student_error(error_fields) if isinstance(error_fields, dict) else None,
    )


def _events(data: bytes) -> tuple[Mapping[str, Json], ...]:
    events: list[Mapping[str, Json]] = []
    lines = data.split(b"\n")
    if len(lines) > FIRST_LINES + LAST_LINES:
        del lines[FIRST_LINES:-LAST_LINES]
    for line in lines:
        try:
            event = parse_json(line) if line.startswith(b"{") else None
        except JsonError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return tuple(events)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _student_error(fields: dict[str, Json]) -> StudentError:
    frames: list[CodeFrame] = []
    listed = fields.get("frames")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[1], int):
            frames.append(CodeFrame(_text(entry[0]), entry[1], _text(entry[2])))
    number, line = fields.get("errno"), fields.get("line")
    return StudentError(
        type=_text(fields.get("type")),
        message=_text(fields.get("message")),
        frames=tuple(frames),
        phase=_text(fields.get("phase")),
        errno=number if isinstance(number, int) else None,
        line=line if isinstance(line, int) else None,
    )
