"""Fills the templates in: one text for each page, complete in itself and with nothing to load.

Style and script stand inside the page, and its Content-Security-Policy names them by their hashes: whatever else a
page might be made to hold, a browser neither runs it nor loads it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages import text
from lockstep.classroom.pages.histogram import histogram
from lockstep.classroom.pages.overview import Status, overview, shown_exercises
from lockstep.classroom.pages.plots import Plot
from lockstep.classroom.pages.rows import class_data
from lockstep.classroom.pages.student import check_titles, student_view
from lockstep.classroom.pages.symbols import BY_VERDICT, MEANINGS, SYMBOLS
from lockstep.classroom.record import Record, in_class
from lockstep.text import safe_line

HERE = Path(__file__).parent
SCRIPTS = ("paging.js", "heatmap.js", "class.js")


class Pages:
    """The pages of one class. `title` is a word for it that only its own page shows, and may be empty."""

    def __init__(self, catalogue: Sequence[ExerciseTitle], title: str = "") -> None:
        self._catalogue = catalogue
        self._titles = check_titles(catalogue)
        self._environment = _environment(safe_line(title))
        self._student = self._environment.get_template("student.html")

    def of_student(self, record: Record, plots: Sequence[Plot] = (), stamp: str = "") -> str:
        """The page of one student. `stamp` is put where it begins."""
        return self._student.render(student=student_view(record, self._titles, plots), stamp=stamp)

    def of_class(
        self, records: Sequence[Record], unmatched: Sequence[Unmatched], slugs: Mapping[str, str]
    ) -> str:
        """The page of the class; `slugs` are the folders of students by id."""
        exercises = shown_exercises(in_class(records), self._catalogue)
        return self._environment.get_template("class.html").render(
            figures=overview(records, exercises),
            data=Markup(class_data(records, exercises, unmatched, slugs)),
            nobodys=sum(not item.set_aside for item in unmatched),
            set_aside=sum(item.set_aside for item in unmatched),
            stamp="",
        )


def sources() -> Iterator[bytes]:
    """Everything that decides how a page looks: a newer lockstep makes its pages anew."""
    for path in sorted((*HERE.glob("*.*"), *HERE.glob("templates/*"))):
        if path.is_file():
            yield path.read_bytes()


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
        histogram=histogram,
        Status=Status,
        symbols=SYMBOLS,
        verdict={symbol.name: symbol.markup() for symbol in SYMBOLS},
        meanings=tuple((BY_VERDICT[verdict], meaning) for verdict, meaning in MEANINGS.items()),
    )
    return environment


def _hash(content: str) -> str:
    """The source by which a Content-Security-Policy knows an inline element (www.w3.org/TR/CSP3, 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
