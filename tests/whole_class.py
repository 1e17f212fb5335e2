"""What the tests of whole classes share: run `lockstep grade` as an instructor does, and hold all that it wrote
against the labels."""

from __future__ import annotations

import contextlib
import csv
import html
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fixtures import lms
from fixtures.classroom import Classroom, surprises
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs
from tests.sandboxed import ROOT

# Whatever the command leaves running becomes a child of this process, and is named on its last line.
_REAPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
status = subprocess.run(sys.argv[1:]).returncode
while True:
    try:
        if os.waitpid(-1, os.WNOHANG) == (0, 0):
            sys.exit("left running: " + open(f"/proc/self/task/{os.getpid()}/children").read())
    except ChildProcessError:
        sys.exit(status)
"""


@dataclass(frozen=True)
class Graded:
    """How `lockstep grade` ended, what it said, and how much memory it held, second by second, in MiB."""

    status: int
    out: str
    err: str
    memory: tuple[float, ...]


def grade(*arguments: object, temporary: Path, timeout: float = 280) -> Graded:
    """Run `lockstep grade` with a folder for temporary files of its own, where it leaves nothing."""
    temporary.mkdir(exist_ok=True)
    command = [str(Path(sys.executable).with_name("lockstep")), "grade", *map(str, arguments)]
    memory: list[float] = []
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        running = subprocess.Popen(
            [sys.executable, "-c", _REAPER, *command],
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            memory += _memory(running, time.monotonic() + timeout)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        out.seek(0)
        err.seek(0)
        graded = Graded(running.returncode, out.read(), err.read(), tuple(memory))
    assert list(temporary.iterdir()) == [], "temporary files are left"
    assert "left running" not in graded.err, graded.err
    assert "Traceback" not in graded.err, graded.err
    return graded


def _memory(running: subprocess.Popen[bytes], deadline: float) -> Iterator[float]:
    """What the coordinator, the only child of `running`, holds each second until that ends."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while time.monotonic() < deadline:
        try:
            running.wait(1)
            return
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError, LookupError):  # it has just ended
                pages = Path(f"/proc/{children.read_text().split()[0]}/statm").read_text().split()[1]
                yield int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20
    raise AssertionError("it takes too long")


def tables(results: Path) -> dict[str, bytes]:
    """Everything that was made of the gradebook, by path."""
    return {
        path.relative_to(results).as_posix(): path.read_bytes()
        for path in results.rglob("*")
        if path.is_file() and not path.name.startswith("gradebook.db")
    }


def wrong(class_: Classroom, results: Path, exercises: Sequence[str]) -> list[str]:
    """Everything in the results that is not as the labels say, a sentence each."""
    with open_gradebook(results / "gradebook.db") as book:
        records, unmatched = book.records(), book.unmatched()
    known = {record.student.id: record for record in records}
    enrolled = [label for label in class_.labels if label.student.enrolled]
    found = [text for label in enrolled for text in surprises(label, known.get(label.student.id), exercises)]
    if strangers := known.keys() - {label.student.id for label in enrolled}:
        found.append(f"in the gradebook are {sorted(strangers)}, whom no roster names")
    nobodys = [item.label for item in unmatched]
    wanted = [label.student for label in class_.labels if not label.student.enrolled]
    for student in wanted:
        if not any(part in label for label in nobodys for part in (student.id, student.id[1:], student.name)):
            found.append(f"the work of {student.id}, who is on no roster, is not listed: {nobodys}")
    if (results / ".work").exists():
        found.append(f"left in .work: {sorted(path.name for path in (results / '.work').iterdir())}")
    if class_.submissions.is_dir() and not set(nobodys) >= set(lms.STRAYS):
        found.append(f"only {nobodys} belong to nobody")
    return [*found, *_absences(records, nobodys, results)]


def _absences(records: Sequence[Record], nobodys: Sequence[str], results: Path) -> Iterator[str]:
    """Whoever or whatever some output lacks, or has otherwise than the gradebook."""
    names = slugs(records)
    page = (results / "index.html").read_text()
    with (results / "exports" / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    whole = json.loads((results / "exports" / "gradebook.json").read_text())
    if [student["id"] for student in whole["students"]] != [record.student.id for record in records]:
        yield "gradebook.json has other students"
    if rows.keys() != names.keys():
        yield f"grades.csv has {sorted(rows.keys() ^ names.keys())} too many or too few"
    shown = html.unescape(page).replace("&", "&amp;")
    for label in nobodys:
        # In the table's data, letters beyond ASCII have numbers.
        if (
            html.escape(label, quote=False) not in shown
            and label not in page
            and json.dumps(label)[1:-1] not in page
        ):
            yield f"index.html does not list {label}"
    for record in records:
        yield from (
            f"{record.student.id}: {text}"
            for text in _differences(record, names[record.student.id], rows, page, results)
        )


def _differences(
    record: Record, slug: str, rows: dict[str, dict[str, str]], page: str, results: Path
) -> Iterator[str]:
    row = rows[record.student.id]
    if float(row["final"] or 0) != record.final_points or bool(row["final"]) != bool(record.exercises):
        yield f"final points are {row['final']!r} in grades.csv"
    if bool(row["problem"]) == bool(record.exercises):
        yield f"the problem in grades.csv is {row['problem']!r}"
    exports = results / "exports"
    if record.handed_in:
        ElementTree.parse(exports / "junit" / f"{slug}.xml")
        for path in (exports / "json" / f"{slug}.json", exports / "gradescope" / slug / "results.json"):
            json.loads(path.read_text())
    own = (results / "students" / slug / "index.html").read_text()
    if f'"{slug}"' not in page:
        yield "not on index.html"
    secrets = [str(ROOT), str(results.parent), "what the rubric looks for"]
    if record.attempt is not None:
        secrets.append(str(record.attempt.seed))
    for secret in secrets:
        if secret in own:
            yield f"the student's page holds {secret}"
