"""Readings that performance reports of different students share: rule F11 across a whole class.

The rule itself (lockstep.reports.between) compares two reports. Here is only who is put before it: those who share
digits, by an index, and those whose noise goes along (lockstep.classroom.noise). What is rare for two reports
happens in a class of hundreds, so chance is counted over all of its pairs.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lockstep.classroom.noise import Series, alike_noise, series
from lockstep.classroom.overlap import Index
from lockstep.classroom.winnowing import Given, digest
from lockstep.jsontext import Json
from lockstep.reports import between
from lockstep.reports import format as report_format
from lockstep.reports.document import DEFAULTS, Report, document
from lockstep.reports.finding import GRAVITY, Finding
from lockstep.reports.resolution import at_least, ticks_in
from lockstep.submission import Submission

CHANCE = 0.01
"""False alarms in a whole class, at most, if all its readings were independent."""
NEAREST = 20
"""Others that one report is put beside, those it shares most with."""
MOST_STEPS = 300
"""Step times of one report that are looked at."""

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?")


@dataclass(frozen=True)
class Readings:
    """What of one report of a `kind` is compared.

    `keys` are readings that say something by their digits, `series` those of whole configurations. `packed` is what
    the rule needs.
    """

    path: str
    kind: str
    keys: NDArray[np.float64]
    series: Series | None
    packed: bytes


@dataclass(frozen=True)
class Shared:
    """Two reports by their places in the sequences compared, and what there is to say of `student`'s."""

    student: int
    path: str
    other: int
    other_path: str
    finding: Finding


def readings(submission: Submission, known: Given) -> tuple[Readings, ...]:
    """Every performance report of a hand-in that was not handed out, also one whose form is not quite right."""
    found = []
    for path, content in submission.files.items():
        if not path.lower().endswith(".json") or digest(content) in known.digests:
            continue
        values = report_format.read(content)
        slim = _slim(values) if isinstance(values, dict) else None
        if slim is not None:
            packed = zlib.compress(json.dumps(slim, separators=(",", ":")).encode())
            ready = between.prepared(document(slim))
            found.append(Readings(path, ready.report.kind, _keys(ready), series(ready.series), packed))
    return tuple(found)


def shared(
    reports: Sequence[Sequence[Readings]],
    names: Sequence[str],
    aliases: Sequence[frozenset[str]],
    excused: Callable[[int, int], bool],
) -> Iterator[Shared]:
    """What rule F11 finds between the reports of different students; both of two are told.

    `names` are for messages, `aliases` what a report may call a student in `student.team`. `excused(a, b)` says that
    two may share work. What students call themselves in their reports plays no part: many leave it out, and a copy
    carries the name of the original.
    """
    files = [(student, each) for student, own in enumerate(reports) for each in own]
    known = {_plain(alias): student for student, own in enumerate(aliases) for alias in own if alias.strip()}
    measured = sum(1 for own in reports if own)
    pairs_of_class = max(1, measured * (measured - 1) // 2)

    @lru_cache(2 * NEAREST * NEAREST)
    def prepared(place: int) -> between.Prepared:
        student, each = files[place]
        report = replace(_unpacked(each), student=names[student])
        team = (known.get(_plain(member)) for member in report.team)
        members = frozenset(str(member) for member in team if member is not None)
        return replace(between.prepared(report), member=str(student), team=members)

    for one, other in sorted(_candidates(files, pairs_of_class, excused)):
        for mine, theirs in ((one, other), (other, one)):
            for finding in between.between(prepared(mine), prepared(theirs)):
                if _told(finding, pairs_of_class):
                    (student, own), (partner, their) = files[mine], files[theirs]
                    yield Shared(student, own.path, partner, their.path, finding)


def gravest_first(found: Sequence[Shared]) -> list[Shared]:
    """The gravest findings first, of those the ones with most readings."""
    return sorted(
        found,
        key=lambda each: (-GRAVITY.index(each.finding.judgement), -_number(each.finding, "shared", 0.0)),
    )


def _candidates(
    files: Sequence[tuple[int, Readings]], pairs: int, excused: Callable[[int, int], bool]
) -> set[tuple[int, int]]:
    """Pairs of reports worth putting to the rule: they share digits, or their noise goes along."""
    owners = [student for student, _ in files]
    # A report is an owner of its own here: which of somebody's reports it is counts.
    index = Index([each.keys for _, each in files], range(len(files)), len({*owners}))
    found: set[tuple[int, int]] = set()
    for overlap in index.overlaps(between.SHARED_TO_FAIL, 0.0):
        others = (
            int(other)
            for other in overlap.owners
            if owners[other] != owners[overlap.place] and not excused(owners[overlap.place], owners[other])
        )
        found |= {_ordered(overlap.place, other) for other, _ in zip(others, range(NEAREST), strict=False)}
    kinds: dict[str, list[tuple[int, Series]]] = {}
    for place, (_, each) in enumerate(files):
        if each.series is not None:
            kinds.setdefault(each.kind, []).append((place, each.series))
    for same in kinds.values():
        for a, b in alike_noise([own for _, own in same], CHANCE / pairs, NEAREST):
            one, other = same[a][0], same[b][0]
            if owners[one] != owners[other] and not excused(owners[one], owners[other]):
                found.add(_ordered(one, other))
    return found


def _told(finding: Finding, pairs: int) -> bool:
    """Whether chance would hardly make such a finding anywhere in the class."""
    expected = _number(finding, "expected", 0.0)
    by_chance = at_least(int(_number(finding, "shared", math.inf)), expected) if expected else 0.0
    return max(by_chance, _number(finding, "chance", 0.0)) * pairs <= CHANCE


def _number(finding: Finding, name: str, otherwise: float) -> float:
    value = finding.numbers.get(name)
    return float(value) if isinstance(value, int | float) else otherwise


def _keys(report: between.Prepared) -> NDArray[np.float64]:
    """The readings that have more digits than the clock repeats by chance, and the moments around them."""
    least = 10.0 ** (between.SHARED_DIGITS - 1)
    kept = {
        value
        for numbers, tick in ((report.walls, report.wall_tick), (report.steps, report.step_tick))
        for value, number in numbers.items()
        if ticks_in(value, max(tick, number.ulp)) >= least
    }
    return np.array(sorted(kept | report.stamps), dtype=np.float64)


def _slim(values: Mapping[str, Json]) -> dict[str, Json] | None:
    """What the rule reads of a report, in the form of one; None for JSON that is none."""
    kind, runs = values.get("report"), values.get("runs")
    if not isinstance(kind, str) or kind not in DEFAULTS or not isinstance(runs, list):
        return None
    student, method = _object(values.get("student")), _object(values.get("method"))
    team = student.get("team")
    left = MOST_STEPS
    kept: list[Json] = []
    for number, run in enumerate(map(_object, runs[: report_format.MAX_ENTRIES])):
        wall = _decimal(run.get("wall_s"))
        if wall is None:
            continue
        steps = run.get("step_s")
        times = [_decimal(step) for step in steps[:left]] if isinstance(steps, list) else []
        left -= len(times)
        config: dict[str, Json] = {
            name[:80]: value
            for name, value in list(_object(run.get("config")).items())[:20]
            if value is None or (isinstance(value, bool | int | float | str) and len(str(value)) < 80)
        }
        series: list[Json] = [step for step in times if step is not None]
        # The rest only has to be there.
        moments = {name: _moment(run.get(name)) for name in ("t_start", "t_end")}
        rest: dict[str, Json] = {**moments, "samples": 0, "steps": 0}
        kept.append({"config": config, "rep": number, "wall_s": wall, "step_s": series, **rest})
    if not kept:
        return None
    return {
        "report": kind, "runs": kept, "claims": [], "workload": {}, "env": {"gpus": []},
        "student": {"id": "", "team": [str(name)[:200] for name in team[:100]] if isinstance(team, list) else []},
        # By both is told what the clock could tell apart.
        "method": {name: str(method.get(name, ""))[:80] for name in ("clock", "sync")},
        "attempt": {"nonce": "", "created_utc": "1970-01-01T00:00:00Z", "code_sha256": ""},
    }  # fmt: skip


def _decimal(value: Json) -> str | None:
    """A reading as text: the format has it so, and some write numbers."""
    text = value if isinstance(value, str) else repr(value) if isinstance(value, float) else ""
    return text if _DECIMAL.fullmatch(text) else None


def _moment(value: Json) -> float:
    """Seconds since 1970; 0, which no run starts at, for what is no moment."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return float(value) if 0 <= value <= report_format.LAST_SECOND else 0.0


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _unpacked(each: Readings) -> Report:
    return document(json.loads(zlib.decompress(each.packed)))


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
