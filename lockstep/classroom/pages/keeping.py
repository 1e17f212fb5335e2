"""Reads the performance reports of hand-ins once, and keeps what their plots show beside the students' pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path, PurePosixPath

from lockstep.classroom.handin import HandIn
from lockstep.classroom.pages.plots import FILE
from lockstep.classroom.record import Record
from lockstep.jsonfile import write_json
from lockstep.reports import format as report_format
from lockstep.reports.columns import Column, columns
from lockstep.reports.document import document
from lockstep.reports.rule import Facts
from lockstep.submission import SubmissionError, open_submission
from lockstep.text import safe_line

MOST_REPORTS = 12
"""Plots on one page; who hands in more has handed in something else."""


def refresh_plots(
    handins: Iterable[HandIn], records: Iterable[Record], slugs: Mapping[str, str], out: Path
) -> None:
    """Keep the plots of every hand-in that was graded since they were kept last. Raises OSError."""
    digests = {record.student.id: record.attempt.digest for record in records if record.attempt}
    for handin in handins:
        digest = digests.get(handin.student.id)
        folder = out / "students" / slugs.get(handin.student.id, "")
        if digest is None or handin.path is None or _kept_of(folder) == digest:
            continue
        try:
            files = open_submission(handin.path).files
        except SubmissionError:
            files = {}
        keep_plots(files, digest, folder)


def keep_plots(files: Mapping[str, bytes], digest: str, folder: Path) -> None:
    """Keep what the plots of the reports among these files show, and of which hand-in they are. Raises OSError.

    Whatever is no report of the right form is passed over.
    """
    kept = [
        {
            "name": safe_line(PurePosixPath(path).stem, 60),
            "kind": kind,
            "columns": [asdict(column) for column in drawn],
        }
        for path, kind, drawn in islice(_reports(files), MOST_REPORTS)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, {"digest": digest, "plots": kept})


def _kept_of(folder: Path) -> str | None:
    """The digest of the hand-in whose plots are kept; None where there are none."""
    try:
        digest = json.loads((folder / FILE).read_bytes())["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if isinstance(digest, str) else None


def _reports(files: Mapping[str, bytes]) -> Iterator[tuple[str, str, Sequence[Column]]]:
    """Path, kind and columns of every report of the right form."""
    for path, content in sorted(files.items()):
        # A cheap look first: a hand-in may hold thousands of files.
        if not path.lower().endswith(".json") or b"perf-report/1" not in content[: report_format.MAX_BYTES]:
            continue
        raw = report_format.read(content)
        if isinstance(raw, dict) and not report_format.schema_problems(raw):
            report = document(raw)
            if drawn := columns(report, Facts()):
                yield path, report.kind, drawn
