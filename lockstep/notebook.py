"""Turns a Jupyter notebook into one Python source, reading it as hostile JSON and without IPython.

The sandbox never sees the notebook itself: it gets `NAME.py` for `NAME.ipynb`, and a message about a line of
it can be led back to the cell. A cell's text never enters a message: it may hold an API key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.cellheader import header
from lockstep.leftovers import NOTEBOOK_BYTES
from lockstep.magics import PlainCell, plain_python
from lockstep.members import Names, SubmissionError, check_name, relative_path, shown, size_text
from lockstep.source import SOURCE_BYTES

PARTS = 1_000_000
"""Objects and lists in the JSON: ten megabytes of nothing else would take a quarter of a gigabyte."""

CELLS = 2000
"""Cells of one notebook, text included. Long course notebooks have a hundred."""

# Where hosted notebooks start, or a folder in a variable: `%%writefile /content/x.py` means a file beside the notebook.
_BESIDE = re.compile(r"/content/|/kaggle/working/|~/|\{\w+\}/|\$\w+/")
# Below these lies the notebook's own folder, of which only the student knows where it is.
_HOMES = re.compile(r"/content/g?drive/My ?Drive/|/home/[^/]+/|/root/|/workspace/")

_Cell = Mapping[str, object]


@dataclass(frozen=True)
class NotebookSource:
    """A notebook as Python.

    `cell_of_line[i]` is (cell, line in that cell) of line i + 1 of `text`, both counted from 1, or None for
    a line that lockstep put in. Only code cells that hold something count: their numbers are the `In [n]`
    of "Restart and run all". `files` are what `%%writefile` cells write, by path.
    """

    text: str
    cell_of_line: tuple[tuple[int, int] | None, ...]
    files: Mapping[str, bytes]
    notes: tuple[str, ...]

    def place(self, line: int) -> str:
        """Where line `line` of `text`, counted from 1, stands in the notebook: "cell 3, line 5"."""
        origin = self.cell_of_line[line - 1] if 0 < line <= len(self.cell_of_line) else None
        return f"cell {origin[0]}, line {origin[1]}" if origin else f"line {line}"


def read_notebook(data: bytes, name: str) -> NotebookSource:
    """The code of the notebook `data`, which messages call `name`.

    Raises `SubmissionError` when it is no notebook, is damaged, too large, not in Python or without code.
    """
    notebook = _parse(data, name)
    cells = _cells(notebook, name)
    sources = [(_text(cell.get("source"), name), _is_parameters(cell)) for cell in cells]
    sources = [(text, is_parameters) for text, is_parameters in sources if text.strip()]
    if not sources:
        raise SubmissionError(f"{shown(name)} holds no code.")
    if sum(len(text) for text, _ in sources) > SOURCE_BYTES:
        raise SubmissionError(
            f"{shown(name)} holds more than {size_text(SOURCE_BYTES)} of code. Move data out of it."
        )
    plain = [plain_python(text.split("\n")) for text, _ in sources]
    headers = [
        header(number, len(cell.lines), is_parameters=is_parameters, is_unfinished=cell.is_unfinished)
        for number, (cell, (_, is_parameters)) in enumerate(zip(plain, sources, strict=True), 1)
    ]
    notes = (
        []
        if _is_orderly(notebook, name)
        else [
            f"{shown(name)} is not quite what Jupyter writes; it was read anyway, and nothing is lost by that"
        ]
    )
    notes += [
        f"{shown(name)}: cell {number} {cell.left_out} and was left out"
        for number, cell in enumerate(plain, 1)
        if cell.left_out
    ]
    text, origins = _joined(headers, plain)
    return NotebookSource(text, origins, _written_files(plain, name, notes), tuple(notes))


def _parse(data: bytes, name: str) -> dict[str, object]:
    if len(data) > NOTEBOOK_BYTES or data.count(b"[") + data.count(b"{") > PARTS:
        raise SubmissionError(
            f"{shown(name)} has {size_text(len(data))}; at most {size_text(NOTEBOOK_BYTES)} and a million "
            "parts are read. Clear the outputs and save it again."
        )
    try:
        notebook = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_without_outputs)
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{shown(name)} is not valid UTF-8. Save it again in Jupyter.") from error
    except (ValueError, RecursionError) as error:
        raise SubmissionError(
            f"{shown(name)} is not valid JSON: it is damaged, incomplete, or no notebook. "
            "Save it again in Jupyter."
        ) from error
    if not isinstance(notebook, dict) or not _is_integer(notebook.get("nbformat")):
        raise SubmissionError(f"{shown(name)} is JSON, but not a notebook. Save it in Jupyter as .ipynb.")
    if notebook["nbformat"] not in (3, 4):
        raise SubmissionError(
            f"{shown(name)} is in another version of the notebook format than 3 or 4. "
            "Open it in a current Jupyter and save it again."
        )
    _check_language(notebook, name)
    return notebook


def _without_outputs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of the JSON. Outputs go at once, or their pictures would fill the memory until the end."""
    return {key: [] if key == "outputs" else value for key, value in pairs if key != "attachments"}


def _check_language(notebook: Mapping[str, object], name: str) -> None:
    metadata = _object(notebook.get("metadata"))
    for language in (
        _object(metadata.get("kernelspec")).get("language"),
        _object(metadata.get("language_info")).get("name"),
    ):
        if isinstance(language, str) and language and "python" not in language.lower():
            raise SubmissionError(f"{shown(name)} is a notebook in {shown(language)}, not in Python.")


def _cells(notebook: Mapping[str, object], name: str) -> list[_Cell]:
    """The code cells, in the form of version 4."""
    is_old = notebook["nbformat"] == 3
    sheets = _objects(notebook, "worksheets", name) if is_old else [notebook]
    cells = [cell for sheet in sheets for cell in _objects(sheet, "cells", name)]
    if len(cells) > CELLS:
        raise SubmissionError(
            f"{shown(name)} has more than {CELLS} cells. Hand in the part that was asked for."
        )
    code = [cell for cell in cells if cell.get("cell_type") == "code"]
    return _upgraded(code, name) if is_old else code


def _upgraded(cells: Sequence[_Cell], name: str) -> list[_Cell]:
    import nbformat  # here, because it takes 0.2 s that only notebooks should cost

    # nbformat logs whatever it finds odd, cell text included, so it gets nothing but what it needs.
    plain = [
        {
            "cell_type": "code",
            "input": _text(cell.get("input"), name),
            "language": "python",
            "collapsed": False,
            "metadata": {},
            "outputs": [],
        }
        for cell in cells
    ]
    sheet = {"cells": plain, "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]}
    return list(nbformat.convert(nbformat.from_dict(old), 4).cells)  # type: ignore[no-untyped-call]


def _is_orderly(notebook: Mapping[str, object], name: str) -> bool:
    """Whether the cells are valid by Jupyter's own schema, whose complaints quote them and stop here."""
    import nbformat
    from nbformat.validator import isvalid

    # nbformat copies several times what it is given: a million objects of metadata would take 1.2 GiB.
    outline = _outline(notebook)
    if notebook["nbformat"] == 4:
        outline["cells"] = [_outline(cell) for cell in _objects(notebook, "cells", name)]
    else:
        outline["worksheets"] = [
            {**_outline(sheet), "cells": [_outline(cell) for cell in _objects(sheet, "cells", name)]}
            for sheet in _objects(notebook, "worksheets", name)
        ]
    try:
        return bool(isvalid(nbformat.from_dict(outline)))  # type: ignore[no-untyped-call]
    except Exception:  # a version in words, a number where it expects text: all it does not expect
        return False


def _outline(item: _Cell) -> dict[str, object]:
    """`item` with its text, and with nothing in the lists and objects inside it."""
    return {
        key: {}
        if isinstance(value, dict)
        else []
        if isinstance(value, list) and not _is_text(value)
        else value
        for key, value in item.items()
    }


def _objects(parent: _Cell, key: str, name: str) -> list[_Cell]:
    found = parent.get(key)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise SubmissionError(f"{shown(name)} has no list of {key}. Save it again in Jupyter.")
    return found


def _text(source: object, name: str) -> str:
    """A cell's source, which is a string or a list of lines with their ends."""
    if isinstance(source, list) and _is_text(source):
        source = "".join(source)
    if not isinstance(source, str):
        raise SubmissionError(
            f"{shown(name)} has a code cell whose source is not text. Save it again in Jupyter."
        )
    try:
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SubmissionError(
            f"{shown(name)} holds half a character (a lone surrogate) in a code cell. Retype that line."
        ) from error
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _is_parameters(cell: _Cell) -> bool:
    # What papermill has injected once, it replaces in the next run.
    tags = _object(cell.get("metadata")).get("tags")
    return isinstance(tags, list) and ("parameters" in tags or "injected-parameters" in tags)


def _joined(
    headers: Sequence[str], cells: Sequence[PlainCell]
) -> tuple[str, tuple[tuple[int, int] | None, ...]]:
    """One source: `from __future__` first, as Python demands, then each cell below its header."""
    lines = list(dict.fromkeys(line for cell in cells for line in cell.future))
    origins: list[tuple[int, int] | None] = [None] * len(lines)
    for number, (above, cell) in enumerate(zip(headers, cells, strict=True), 1):
        lines += [above, *cell.lines]
        origins += [None, *((number, line) for line in range(1, len(cell.lines) + 1))]
    return "\n".join(lines) + "\n", tuple(origins)


def _written_files(cells: Sequence[PlainCell], name: str, notes: list[str]) -> Mapping[str, bytes]:
    files: dict[str, bytes] = {}
    names = Names()
    paths = [cell.written.name for cell in cells if cell.written]
    away = [os.path.dirname(path) for path in paths if _HOMES.match(path)]
    # What all of these share is the folder that was moved into.
    folder = f"{os.path.commonpath(away)}/" if away else ""
    for number, cell in enumerate(cells, 1):
        if cell.written is None:
            continue
        try:
            path = _written_path(cell.written.name, folder)
            if path not in files:
                names.add(path)
        except SubmissionError:
            notes.append(f"{shown(name)}: cell {number} writes a file of an unusable name and was left out")
            continue
        before = files.get(path, b"") if cell.written.append else b""
        files[path] = before + "\n".join(cell.written.lines).encode("utf-8") + b"\n"
        notes.append(f"{shown(name)}: cell {number} was read as the file {shown(path)}")
    return files


def _written_path(raw: str, folder: str) -> str:
    """Where the file lies that a notebook in `folder` calls `raw`."""
    beside = _BESIDE.match(raw)
    is_away = folder and raw.startswith(folder)
    path = relative_path(raw.removeprefix(folder) if is_away else raw[beside.end() if beside else 0 :])
    if not path or "$" in path or "{" in path:  # IPython would fill in variables
        raise SubmissionError(f"{shown(raw)} is no fixed name.")
    check_name(path)
    return path


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _is_text(lines: Sequence[object]) -> bool:
    return all(isinstance(line, str) for line in lines)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
