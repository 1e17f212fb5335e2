"""Notebooks of any form: taken or refused, and every line of a cell is where the cell says it is."""

from __future__ import annotations

import json

import nbformat
from hypothesis import given

from lockstep.magics import plain_python
from lockstep.members import SubmissionError
from lockstep.notebook import read_notebook
from lockstep.sandbox.cells import read_cells
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held, presentable

FRAGMENTS = (
    "x = 1\n", "def f(\n", ")\n", "    return 1\n", '"""', "'''", "'", '"', "# %% cell 1 (1 line)\n", "# %% cell 2 (9 lines) [parameters]\n", "\\\n", "\\",
    "%%time\n", "%%timeit -n1\n", "%%bash\n", "%%writefile a.py\n", "%%writefile -a a.py\n", "%%writefile ../a.py\n", "%%file /content/b/c.py\n",
    "%%writefile $x\n", "%%\n", "%%" + "x" * 99 + "\n", "%%capture\n%%bash\n", "%matplotlib inline\n", "!pip install x\n", "!ls \\\n", "x = !ls\n",
    "x = %time f()\n", "%time f()\n", "x?\n", "??x\n", "?\n", "%%time?\n", "pip install torch\n", "await f()\n", "x = await f(\n", "async with a:\n",
    "from __future__ import annotations\n", "from __future__ import (\n", "if x:\n    !ls\n", "\t%ls\n", "\r\n", "\r", "\f", "\v", "\0", "\u2028", "\u0085",
    "\ud800", "\u202e", "ä", "\n", "\n\n", "[", "{", "}", "#", "?", "!", "%", " ",
)  # fmt: skip


def source_of(dice: Dice) -> str:
    return "".join(
        dice.choice(FRAGMENTS) * dice.choice([1, 1, 1, 1, 40]) for _ in range(dice.randint(0, 2 * dice.size))
    )


def cell_of(dice: Dice) -> object:
    if dice.rarely(20):
        return dice.json()
    text = source_of(dice)
    source: object = text if dice.rarely(2) else text.splitlines(keepends=True)
    cell: dict[str, object] = {
        "cell_type": dice.choice(["code", "code", "code", "markdown", "raw", "heading", 1, None]),
        "source": dice.json() if dice.rarely(20) else source,
        "metadata": {"tags": dice.choice([["parameters"], [], "parameters", [1]])} if dice.rarely(4) else {},
        "outputs": [],
        "execution_count": None,
        "id": "a",
    }
    if dice.rarely(3):
        cell |= {"input": source, "language": "python", "collapsed": False}
    if dice.rarely():
        cell[dice.choice(sorted(cell))] = dice.json()
    return cell


def notebook_of(dice: Dice) -> bytes:
    cells = [cell_of(dice) for _ in dice.few(5)]
    language = dice.choice(["python", "python", "Python 3", "R", "", 3])
    notebook: dict[str, object] = {
        "nbformat": dice.choice([3, 5, 2, "4", 4.0, True, 10**30, None]) if dice.rarely(3) else 4,
        "nbformat_minor": dice.choice([0, 4, 5, 99, -1, "x"]),
        "metadata": {"kernelspec": {"name": "x", "display_name": "x", "language": language}}
        if dice.rarely()
        else {},
        "cells": cells,
    }
    if dice.rarely(3):
        notebook["worksheets"] = [{"cells": cells, "metadata": {}}] * dice.choice([1, 1, 2, 0])
    if dice.rarely():
        notebook[dice.choice(sorted(notebook))] = dice.json()
    data = written(notebook)
    return dice.bent(data, 3) if dice.rarely(4) else data


@given(thrown(notebook_of))
def test_any_notebook_is_read_or_refused(data: bytes) -> None:
    read = held(lambda: read_notebook(data, "n.ipynb"), SubmissionError)
    if read is None:
        return
    presentable(*read.notes)
    for path in read.files:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
    lines = read.text.split("\n")
    assert len(read.cell_of_line) == len(lines) - 1
    # The sandbox finds the cells again, whatever stands in them, and each where it was.
    cells = read_cells(read.text)
    assert cells is not None
    for cell in cells:
        at = read.cell_of_line[cell.first_line - 1 : cell.first_line - 1 + cell.lines]
        assert list(at) == [(cell.number, line) for line in range(1, cell.lines + 1)]
    sources = read_by_jupyter(data)
    if sources is not None:
        assert [cell.lines for cell in cells] == [source.count("\n") + 1 for source in sources]
        for cell, source in zip(cells, sources, strict=True):
            kept = [
                line.removeprefix("# ").strip()
                for line in lines[cell.first_line - 1 : cell.first_line - 1 + cell.lines]
            ]
            if not set(source) & set("%!?\\") and not any(
                word in source for word in ("await", "async", "pip", "__future__", '"', "'", "(", "[", "{")
            ):
                assert kept == [line.removeprefix("# ").strip() for line in source.split("\n")]


def read_by_jupyter(data: bytes) -> list[str] | None:
    """The code cells as Jupyter's own reader sees them; None for what it takes no notice of or does not take."""
    try:
        tree = json.loads(data.decode("utf-8-sig"))
        if tree["nbformat"] != 4:
            return None
        nbformat.validate(tree)
        cells = nbformat.from_dict(tree).cells
    except Exception:  # whatever it makes of a version in words or of cells that are none
        return None
    sources = [
        "".join(cell.source).replace("\r\n", "\n").replace("\r", "\n")
        for cell in cells
        if cell.cell_type == "code"
    ]
    return [source for source in sources if source.strip()]


@given(thrown(source_of))
def test_any_cell_becomes_as_many_lines_of_python(text: str) -> None:
    given_lines = text.split("\n")
    cell = held(lambda: plain_python(given_lines))
    assert cell is not None
    assert len(cell.lines) == len(given_lines)
    assert not any("\n" in line for line in cell.lines)
    presentable(*filter(None, [cell.left_out]))
