"""The curves in a log that a report names: TensorBoard event files, W&B runs, Lightning's metrics.csv."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockstep.eventfile import read_scalars
from lockstep.jsontext import Json
from lockstep.reports.document import Log
from lockstep.reports.rule import Files
from lockstep.wandbfile import read_history

METRICS = ("loss", "acc1", "acc5", "lr")
MAX_FILES = 20
MAX_ROWS = 50_000
_KINDS = {"tensorboard": "tfevents", "wandb": ".wandb", "lightning_csv": ".csv"}
"""What the names of the files of a log have in them."""


@dataclass(frozen=True)
class Point:
    """One value of a curve. `time` in seconds since 1970, None where the log keeps none."""

    step: int
    value: float
    time: float | None


@dataclass(frozen=True)
class Curve:
    """The values under one tag in one file, in the order of the file. Never empty."""

    tag: str
    file: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Curves:
    """What a log holds. `damage` are sentences on what could not be read; `files` were read."""

    files: tuple[str, ...]
    curves: tuple[Curve, ...]
    damage: tuple[str, ...]

    def of(self, metric: str, tags: Mapping[str, str]) -> tuple[Curve, ...]:
        """The curves of loss, acc1, acc5 or lr: under the tag the report names, else under the metric's own name."""
        named = tags.get(metric)
        if named is not None:
            return tuple(curve for curve in self.curves if curve.tag == named)
        return tuple(curve for curve in self.curves if curve.tag.lower().rsplit("/", 1)[-1] == metric)


def read_curves(log: Log, files: Files) -> Curves:
    """Read every file of a log; never raises."""
    names = [path for path in files.below(log.path) if _KINDS[log.kind] in path.rsplit("/", 1)[-1]]
    curves: list[Curve] = []
    damage: list[str] = []
    read: list[str] = []
    for name in names[:MAX_FILES]:
        data = files.read(name)
        if data is None:
            continue
        read.append(name)
        found, problems = _READERS[log.kind](data)
        curves += [Curve(tag, name, tuple(points)) for tag, points in found.items() if points]
        damage += [f"{name}: {problem}" for problem in problems]
    return Curves(tuple(read), tuple(curves), tuple(damage))


_Read = tuple[dict[str, list[Point]], tuple[str, ...]]


def _tensorboard(data: bytes) -> _Read:
    file = read_scalars(data)
    return {
        tag: [Point(point.step, point.value, point.wall_time) for point in points]
        for tag, points in file.series.items()
    }, file.problems


def _wandb(data: bytes) -> _Read:
    file = read_history(data)
    return _columns(file.rows, "_step", "_timestamp"), file.problems


def _lightning_csv(data: bytes) -> _Read:
    try:
        table = csv.DictReader(io.StringIO(data.decode("utf-8-sig", "replace")))
        rows = [row for row, _ in zip(table, range(MAX_ROWS), strict=False)]
    except csv.Error as error:
        return {}, (f"no table of values with commas between them: {error}",)
    return _columns(
        ({key: _value(text) for key, text in row.items() if isinstance(key, str)} for row in rows),
        "step",
        None,
    ), ()


def _value(text: object) -> Json:
    try:
        return float(text) if isinstance(text, str) and text.strip() else None
    except ValueError:
        return None


def _columns(rows: Iterable[Mapping[str, Json]], step: str, time: str | None) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for index, row in enumerate(rows):
        at = _number(row.get(step))
        moment = _number(row.get(time)) if time is not None else None
        for tag, entry in _flat(row):
            value = _number(entry)
            if value is not None and tag not in (step, time):
                found.setdefault(tag, []).append(
                    Point(int(at) if at is not None and math.isfinite(at) else index, value, moment)
                )
    return found


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _flat(row: Mapping[str, Json]) -> Iterable[tuple[str, Json]]:
    """W&B keeps nested dicts; their keys are joined with slashes."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{key}/{inner}", deeper) for inner, deeper in value.items())
        else:
            yield key, value


_READERS = {"tensorboard": _tensorboard, "wandb": _wandb, "lightning_csv": _lightning_csv}


def finite(curve: Curve) -> tuple[Point, ...]:
    """The points whose value and time are numbers."""
    return tuple(
        point
        for point in curve.points
        if math.isfinite(point.value) and (point.time is None or math.isfinite(point.time))
    )
