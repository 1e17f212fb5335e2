"""The five reports of a submission: where they lie, whether they have the right form, what else is known of them."""

from __future__ import annotations

import hashlib
import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from lockstep.reports import format as report_format
from lockstep.reports.document import Report, document
from lockstep.reports.known import known_tables
from lockstep.reports.rule import Facts
from lockstep.submission import Submission, misnamed
from lockstep.text import safe_line

REFERENCE = Path(__file__).resolve().parents[2] / "reference"
FOLDER = "reports"
SOURCES = (".py", ".ipynb", ".sh")


@dataclass(frozen=True)
class Wanted:
    """A report that is asked for: its file, its kind, the script that writes it, readings of a configuration."""

    name: str
    kind: str
    script: str
    least_runs: int = 3


WANTED = (
    Wanted("loader.json", "dataloader", "lfw_dataset.py", least_runs=5),
    Wanted("data_parallel.json", "dp_inference", "data_parallel.py"),
    Wanted("ddp.json", "ddp_scaling", "ddp_train.py"),
    Wanted("amp.json", "amp", "amp_train.py"),
    Wanted("lightning.json", "lightning", "lightning_train.py"),
)


@dataclass(frozen=True)
class HandedIn:
    """What there is of a report that is asked for. `problem` is a sentence on why there is no `report`."""

    wanted: Wanted
    path: str
    report: Report | None
    problem: str

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.wanted.name


def read(submission: Submission) -> tuple[HandedIn, ...]:
    """Every report that is asked for, in order."""
    return tuple(_read(wanted, submission) for wanted in WANTED)


def find(name: str, submission: Submission) -> str | None:
    """Where a file of `reports/` lies: there, or where there is only one of that name, in whatever case."""
    right = f"{FOLDER}/{name}"
    if right in submission.files:
        return right
    alike = [path for path in submission.files if posixpath.basename(path).lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _read(wanted: Wanted, submission: Submission) -> HandedIn:
    path = find(wanted.name, submission)
    if path is None:
        near = misnamed(submission, f"{FOLDER}/{wanted.name}")
        more = f" {near}; all runs of a report go into one file." if near else ""
        return HandedIn(wanted, "", None, f"there is no {FOLDER}/{wanted.name}.{more}")
    report = parsed(submission.files[path], wanted.kind)
    if isinstance(report, str):
        return HandedIn(wanted, path, None, report)
    return HandedIn(wanted, path, report, "")


def facts(handed_in: HandedIn, submission: Submission) -> Facts:
    """What is known of a report without running anything. No nonce was issued for it."""
    wanted = handed_in.wanted
    reference = _reference(wanted.name)
    # The reference itself is no copy of its readings.
    foreign = reference is not None and not _is_the_reference(wanted.script, submission)
    readings = [tuple(run.wall.text for run in reference.runs)] if reference and foreign else []
    return Facts(
        code_sha256=_hashes(wanted.script, submission),
        files=Beside(submission.files, posixpath.dirname(handed_in.path)),
        now=time.time(),
        least_runs=wanted.least_runs,
        reference=reference,
        others=_beside(handed_in, submission),
        known_tables=(*known_tables(), *readings),
    )


def _beside(handed_in: HandedIn, submission: Submission) -> tuple[Report, ...]:
    """The other reports of the submission: one student's, under whatever names they were measured."""
    own = handed_in.report
    found = [item.report for item in read(submission) if item.wanted != handed_in.wanted]
    return tuple(
        replace(report, student=own.student) for report in found if report is not None and own is not None
    )


def _hashes(script: str, submission: Submission) -> frozenset[str] | None:
    """The hashes of all scripts; None where the report's own is not there as it was when it measured.

    It may not be handed in at all, which is another exercise's business, or as a notebook: saving that after the
    run, with what it printed, has changed its bytes.
    """
    if script not in submission.files or script in submission.notebooks:
        return None
    return frozenset(
        digest
        for path, content in submission.files.items()
        if path.endswith(SOURCES)
        for digest in digests(content)
    )


def digests(content: bytes) -> set[str]:
    """SHA-256 of a file as it is, and as it was before git or an archive gave its lines other ends."""
    unix = content.replace(b"\r\n", b"\n")
    return {hashlib.sha256(data).hexdigest() for data in (content, unix, unix.replace(b"\n", b"\r\n"))}


def measured_by(report: Report, submission: Submission, wanted: str) -> str | None:
    """The handed-in file whose hash the report names, if there is one: the `wanted` one before others like it."""
    files = sorted(submission.files.items(), key=lambda file: file[0] != wanted)
    return next((path for path, content in files if report.code_sha256 in digests(content)), None)


def _reference(name: str) -> Report | None:
    path = REFERENCE / FOLDER / name
    report = parsed(path.read_bytes()) if path.is_file() else None
    return report if isinstance(report, Report) else None


def _is_the_reference(script: str, submission: Submission) -> bool:
    """Whether this is the reference's own script: its readings are in the reference's report because they are its."""
    path = REFERENCE / script
    return path.is_file() and submission.files.get(script) == path.read_bytes()


@dataclass(frozen=True)
class Beside:
    """The files of a submission as seen from one of its folders."""

    files: Mapping[str, bytes]
    folder: str

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none or where the path leads out."""
        return self.files.get(self._whole(path))

    def below(self, path: str) -> tuple[str, ...]:
        """The files below a folder, or the file itself, as paths from here."""
        whole = self._whole(path)
        if whole in self.files:
            return (path,)
        inside = sorted(name for name in self.files if name.startswith(f"{whole}/"))
        return tuple(posixpath.relpath(name, self.folder or ".") for name in inside)

    def _whole(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, path))


# Every check reads all of them, and the reference's: to hold one against its schema takes longer than to judge it.
@lru_cache(maxsize=4 * len(WANTED))
def parsed(data: bytes, wanted: str | None = None) -> Report | str:
    """A report, of the kind that is wanted where one is, or a sentence on what is wrong with its form."""
    values = report_format.read(data)
    if isinstance(values, str):
        return values
    kind = values.get("report")
    if wanted is not None and isinstance(kind, str) and kind != wanted:
        return f'a report of the kind "{safe_line(kind, 40)}", expected "{wanted}".'
    if problems := report_format.schema_problems(values):
        return " ".join(problems[:2])
    return document(values)
