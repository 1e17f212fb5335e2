"""`make bench`: compares in one run, prints medians and ratios, and writes docs/benchmarks.md.

`python -m benchmarks batch pages` measures these parts alone and leaves the page's other rows as they are.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import apart, batch, engine, pages, reports
from benchmarks.figure import Figure

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
REPETITIONS = 5
PARTS: Mapping[str, Callable[[int], Iterator[Figure]]] = {
    "engine": engine.figures,
    "apart": apart.figures,
    "reports": reports.figures,
    "batch": batch.figures,
    "pages": pages.figures,
}


def page(rows: Mapping[str, list[str]]) -> str:
    """docs/benchmarks.md, from the rows of each part."""
    table = "\n".join(row for part in PARTS for row in rows.get(part, ()))
    return f"""# Benchmarks

Measured by the command below, which writes this page anew: every comparison is made in one run on one machine,
alternating, and every figure is the median of {REPETITIONS}. `PARTS="batch pages"` behind it measures
these parts alone.

```console
$ make bench
```

| part | what | measured | bound | when, and at what load |
|---|---|---|---|---|
{table}

{os.cpu_count()} cores, {platform.system()} {platform.machine()}. The load is that of the last minute when the row was
measured, the benchmark's own included. Shared machines are noisy: compare the ratios, not the seconds.
"""


def read(text: str) -> dict[str, list[str]]:
    """The rows that the page has, by part."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        part = line.removeprefix("| ").partition(" | ")[0]
        if part in PARTS:
            rows.setdefault(part, []).append(line)
    return rows


def main() -> int:
    """Measure, print, write the page; the exit status says whether every bound holds."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)} (default: all)")
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := set(chosen) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    all_hold = True
    for part in chosen:
        rows = []
        for what, figure, bound, holds in PARTS[part](REPETITIONS):
            print(f"{'ok  ' if holds else 'MISS'} {what}: {figure} ({bound})", flush=True)
            when = f"{time.strftime('%Y-%m-%d')}, {os.getloadavg()[0]:.1f}"
            rows.append(f"| {part} | {what} | {figure} | {bound} | {when} |")
            all_hold = all_hold and holds
        PAGE.write_text(page(read(PAGE.read_text("utf-8")) | {part: rows}), encoding="utf-8")
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
