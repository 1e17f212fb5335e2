"""Writes RESULTS/index.html and one page for each student: files that need no network, no server and no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages import histogram, text
from lockstep.classroom.pages.overview import Status, overview, shown_exercises
from lockstep.classroom.pages.plots import FILE as PLOTS
from lockstep.classroom.pages.plots import kept_plots
from lockstep.classroom.pages.rows import class_data
from lockstep.classroom.pages.student import check_titles, student_view
from lockstep.classroom.pages.symbols import BY_VERDICT, MEANINGS, SYMBOLS
from lockstep.classroom.record import Record
from lockstep.text import safe_line
from lockstep.wholefile import write_whole

HERE = Path(__file__).parent
STAMPED_BYTES = 512
"""A page begins with the hash of what it was made of."""
SCRIPTS = ("paging.js", "heatmap.js", "class.js")


def write_pages(
    records: Sequence[Record],
    catalogue: Sequence[ExerciseTitle],
    unmatched: Sequence[Unmatched],
    slugs: Mapping[str, str],
    out: Path,
    title: str = "",
) -> int:
    """Write the class page and a page for every record below `out`; returns how many were new or other than before.

    `slugs` are the folders of students by id. Pages that would not change are not touched. Raises OSError.
    """
    environment = _environment(safe_line(title))
    student_page = environment.get_template("student.html")
    titles = check_titles(catalogue)
    common = _digest(*_sources(), repr((title, catalogue)).encode())
    written = 0
    for record in records:
        folder = out / "students" / slugs[record.student.id]
        stamp = _stamp(common, record, folder)
        if not _bears(folder / "index.html", stamp):
            view = student_view(record, titles, kept_plots(folder))
            _write(folder / "index.html", student_page.render(student=view, stamp=stamp))
            written += 1
    # Last, so that every link of it leads somewhere.
    exercises = shown_exercises(records, catalogue)
    class_page = environment.get_template("class.html").render(
        figures=overview(records, exercises),
        data=Markup(class_data(records, exercises, unmatched, slugs)),
        unmatched=len(unmatched),
        stamp="",
    )
    return written + _write(out / "index.html", class_page)


def _stamp(common: bytes, record: Record, folder: Path) -> str:
    """What a student's page is made of, as a hash: rendering thousands only to compare them takes a minute.

    The seed and the flags are no part of it, as they are no part of the page.
    """
    graded = record.attempt.ended_at if record.attempt else ""
    shown = repr((graded, replace(record, attempt=None, flags=())))
    try:
        plots = (folder / PLOTS).read_bytes()
    except OSError:
        plots = b""
    return _digest(common, shown.encode("utf-8", "surrogatepass"), plots).hex()


def _bears(path: Path, stamp: str) -> bool:
    """Whether a page is there and was made of the same."""
    try:
        with path.open("rb") as page:
            return stamp.encode() in page.read(STAMPED_BYTES)
    except OSError:
        return False


def _write(path: Path, page: str) -> bool:
    content = page.encode("utf-8")
    try:
        if path.read_bytes() == content:
            return False
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return True


def _sources() -> Iterator[bytes]:
    """Everything that decides how a page looks: a newer lockstep makes its pages anew."""
    for path in sorted((*HERE.glob("*.*"), *HERE.glob("templates/*"))):
        if path.is_file():
            yield path.read_bytes()


def _digest(*parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.digest()


def _environment(title: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        prose=text.prose,
        breakable=text.breakable,
        points=text.points,
        seconds=text.seconds,
        day=text.day,
        address=quote,
    )
    style = (HERE / "style.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    environment.globals.update(
        class_title=title,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        plural=text.plural,
        of_points=text.of_points,
        histogram=histogram.histogram,
        Status=Status,
        symbols=SYMBOLS,
        verdict={symbol.name: symbol.markup() for symbol in SYMBOLS},
        meanings=tuple((BY_VERDICT[verdict], meaning) for verdict, meaning in MEANINGS.items()),
    )
    return environment


def _hash(content: str) -> str:
    """The source by which a Content-Security-Policy knows an inline element (www.w3.org/TR/CSP3, 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
