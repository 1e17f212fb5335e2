"""`lockstep verify-report`: what can be said of report files, for a person or for a program.

Exit status: 0 nothing costs points, 1 something does, 2 a file could not be read (the others are told all the same).
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from lockstep import output
from lockstep.jsontext import Json
from lockstep.reports import between, format
from lockstep.reports.devices import DeviceTable, DeviceTableError
from lockstep.reports.document import Report, document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.folder import Folder
from lockstep.reports.known import known_tables
from lockstep.reports.model import ModelFacts, model_of, needs_model
from lockstep.reports.provenance import wrong_form
from lockstep.reports.rule import Facts
from lockstep.reports.verify import Verification, gravest_first, verify
from lockstep.text import safe_line

NOTHING_COSTS, SOMETHING_COSTS, UNREADABLE = 0, 1, 2


class CouldNotVerify(Exception):
    """What was asked for cannot be done at all; the message is one sentence for the person at the terminal."""


@dataclass(frozen=True)
class Wanted:
    """The files, and what is known about them from elsewhere."""

    files: tuple[Path, ...]
    nonce: str | None = None
    code_sha256: frozenset[str] | None = None
    devices: Path | None = None
    """A table of GPUs that is added to the published one."""
    reference: Path | None = None
    """The reference's own report, for the reports of its kind."""
    pictures: Path | None = None
    """A folder to draw a plot of every report into."""


@dataclass(frozen=True)
class Told:
    """What there is to say of one file. `report` is None where it is none."""

    file: str
    verification: Verification
    report: Report | None = None
    facts: Facts = field(default_factory=Facts)
    readable: bool = True

    @property
    def judgement(self) -> Judgement:
        """The word for the file."""
        return self.verification.judgement if self.readable else Judgement.NOT_VERIFIED

    def to_json(self) -> dict[str, Json]:
        """As `--json` prints it."""
        return {
            "file": self.file,
            "verdict": str(self.judgement),
            "findings": [_plain(finding.to_json()) for finding in self.verification.findings],
        }


def tell(wanted: Wanted, notice: Callable[[str], None] = lambda text: None) -> list[Told]:
    """Read the files and put all rules to them, to each by itself and between students.

    `notice` hears of what takes seconds, before it is done.
    Raises CouldNotVerify where the device table or the reference cannot be used.
    """
    facts = Facts(
        nonce=wanted.nonce,
        code_sha256=wanted.code_sha256,
        now=time.time(),
        devices=_devices(wanted.devices),
        reference=_reference(wanted.reference),
        known_tables=known_tables(),
    )
    told = [_of_file(path, facts, notice) for path in wanted.files]
    places = [place for place, each in enumerate(told) if each.report is not None]
    shared = between.compared([each.report for each in told if each.report is not None])
    for place, findings in zip(places, shared, strict=True):
        own = told[place].verification.findings
        more = [replace(finding, rule=between.F11.id) for finding in findings]
        told[place] = replace(told[place], verification=Verification(gravest_first([*own, *more])))
    return told


def exit_status(told: Sequence[Told]) -> int:
    """0, 1 or 2, as above."""
    if not all(each.readable for each in told):
        return UNREADABLE
    return SOMETHING_COSTS if any(each.judgement.costs for each in told) else NOTHING_COSTS


def run(wanted: Wanted, *, as_json: bool) -> int:
    """Tell, on stdout, and return the exit status."""
    told = tell(wanted)
    if wanted.pictures is not None:
        _draw(told, wanted.pictures)
    if as_json:
        # ASCII only, so that no text of a student's can upset whatever reads it next.
        output.say(json.dumps([each.to_json() for each in told], indent=2, allow_nan=False))
    else:
        from lockstep.reports.display import page
        from lockstep.terminal import console_for

        console_for(sys.stdout).print(page(told))
    return exit_status(told)


def _draw(told: Sequence[Told], folder: Path) -> None:
    # matplotlib takes longer to import than all the rest takes to run.
    from lockstep.reports.pictures import draw

    taken: set[str] = set()
    for each in told:
        if each.report is None:
            continue
        stem = Path(each.file).stem
        name = next(name for n in count(1) if (name := stem if n == 1 else f"{stem}-{n}") not in taken)
        taken.add(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.png").write_bytes(draw(each.report, each.facts))
        except OSError as error:
            raise CouldNotVerify(f"cannot write into {folder}: {error.strerror}") from error


def _of_file(path: Path, facts: Facts, notice: Callable[[str], None]) -> Told:
    name = os.fsencode(path).decode("utf-8", "replace")
    raw = format.read_file(path)
    if isinstance(raw, str):
        finding = Finding(Judgement.NOT_VERIFIED, raw, rule="S01")
        return Told(name, Verification((finding,)), readable=False)
    problems = format.schema_problems(raw)
    if problems:
        return Told(name, Verification(tuple(wrong_form(problems))))
    report = document(raw)
    known = replace(
        facts,
        files=Folder(path.parent),
        model=_model(report, notice),
        reference=facts.reference
        if facts.reference is not None and facts.reference.kind == report.kind
        else None,
        least_runs=5 if report.kind == "dataloader" else 3,
    )
    return Told(name, verify(report, known), report, known)


def _model(report: Report, notice: Callable[[str], None]) -> ModelFacts | None:
    if not needs_model(report):
        return None
    name = safe_line(str(report.workload.get("model")), 40)
    notice(f"counting what one pass of {name} takes, on this machine's CPU")
    return model_of(report)


def _devices(path: Path | None) -> DeviceTable:
    published = DeviceTable.published()
    if path is None:
        return published
    try:
        return published.extended(path)
    except (DeviceTableError, OSError) as error:
        raise CouldNotVerify(f"the device table {path} cannot be used: {error}") from error


def _reference(path: Path | None) -> Report | None:
    if path is None:
        return None
    raw = format.read_file(path)
    if isinstance(raw, str):
        raise CouldNotVerify(f"the reference report {path} cannot be read: {safe_line(raw)}")
    problems = format.schema_problems(raw)
    if problems:
        raise CouldNotVerify(f"the reference report {path} is none: {safe_line(problems[0])}")
    return document(raw)


def _plain(value: Json) -> Json:
    """Without infinities and NaN, which are not JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
