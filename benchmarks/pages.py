"""How long the pages of a class take: to write, to write again, and in a browser to open and to filter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.figure import Figure
from benchmarks.reports import PYTHON_STARTS
from fixtures.browser import open_browser
from fixtures.records import make_records, titles
from lockstep.classroom.pages.render import Pages
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.slug import slugs

CLASS, LARGE = 300, 5_000
# Two frames: what was asked for in one is on the screen in the next.
SHOWN = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
)
FILTER = f"""async (typed) => {{
    const began = performance.now();
    const search = document.getElementById('search');
    search.value = typed;
    search.dispatchEvent(new Event('input', {{ bubbles: true }}));
    return await {SHOWN} - began;
}}"""


def figures(repetitions: int) -> Iterator[Figure]:
    """Every row."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _written(Path(folder))
        yield from _shown(Path(folder), repetitions)


def _written(folder: Path) -> Iterator[Figure]:
    records = make_records(CLASS)
    names = slugs(records)

    def write() -> float:
        began = time.perf_counter()
        write_pages(records, titles(), (), names, folder)
        return time.perf_counter() - began

    first, again = write(), write()
    yield Figure(
        f"pages of a class of {CLASS}, 84 checks a student: written, and written again with nothing changed",
        f"{first:.1f} s ({first / CLASS * 1000:.0f} ms a student), {again:.2f} s",
        "",
        True,
    )


def _shown(folder: Path, repetitions: int) -> Iterator[Figure]:
    records = make_records(LARGE)
    page = folder / "index.html"
    page.write_text(Pages(titles()).of_class(records, (), slugs(records)), encoding="utf-8")
    with open_browser() as browser:
        opened, filtered = [], []
        for _ in range(repetitions):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.goto(page.as_uri())
            opened.append(tab.evaluate(SHOWN) / 1000)
            filtered += [_filtered(tab, typed) for typed in ("a", "ad", "ada", "")]
            context.close()
    slower = max(1.0, statistics.median(_python_starts() for _ in range(repetitions)) / PYTHON_STARTS)
    open_s, filter_s = statistics.median(opened), statistics.median(filtered)
    yield Figure(
        f"the class page of {LARGE:,} students in Chromium: from its address to its rows and heat map on the screen",
        f"{open_s:.2f} s ({page.stat().st_size / 1e6:.1f} MB)",
        f"1 s where Python starts in {PYTHON_STARTS} s",
        open_s < slower,
    )
    yield Figure(
        "filtering it, from a letter typed to the rows and the heat map on the screen",
        f"{filter_s * 1000:.0f} ms",
        f"1 s where Python starts in {PYTHON_STARTS} s",
        filter_s < slower,
    )


def _filtered(tab: Page, typed: str) -> float:
    return float(tab.evaluate(FILTER, typed)) / 1000


def _python_starts() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], timeout=60, check=False)
    return time.perf_counter() - began
