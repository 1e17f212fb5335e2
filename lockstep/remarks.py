"""What a student is told about a run although it costs nothing: what stood in for something, what was left out.

The events come from the student's process and may be forged; a remark never counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.causes import NOT_HERE
from lockstep.sandbox import library_spellings, lightning_spellings, wandb_spellings
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.submission import Submission
from lockstep.text import safe_line
from lockstep.wire import Json

MAX_REMARKS = 16
_EXPLAINED = {**lightning_spellings.EXPLAINED, **wandb_spellings.EXPLAINED, **library_spellings.EXPLAINED}
# How lockstep.sandbox.missing says where an import stands.
_IMPORTED_BY = re.compile(r"\bline (\d{1,6}) of ([^\s,]{1,200}\.py)\b")
# How Python words it where a function asks for what was left out.
_MISSING_NAME = re.compile(r"\bname '(\w+)' is not defined")
_STAYED = (
    "Here is no folder of your own machine, of Colab or of Kaggle; the program stayed beside its file where it was to "
    "enter or make one:"
)
_NCCL = (
    "There is no GPU here, so gloo stood in for nccl: choose the backend by torch.cuda.is_available(), and the "
    "same file runs on any machine."
)

_CUDA = (
    "There is no GPU here, so .cuda() did nothing; on a machine without one it raises. Write .to(device), and the same "
    "file runs on any machine."
)
_COMPILE = (
    "What torch.compile or torch.jit makes was run as it was written: to compile it would take long, and change no "
    "result. Nothing about that need be changed."
)


def remarks(outcome: Outcome, submission: Submission) -> tuple[str, ...]:
    """One sentence for each thing worth telling about a run, at most MAX_REMARKS."""
    told: dict[str, None] = {}
    imports: dict[str, None] = {}
    folders: dict[str, None] = {}
    for rank in outcome.ranks:
        for event in rank.events:
            if event.get("kind") == "shim":
                told[_stood_in(event)] = None
            elif event.get("kind") == "definitions_only":
                told[_left_out(event, submission)] = None
            elif event.get("kind") == "elsewhere":
                folders[_place(event, submission)] = None
            elif event.get("kind") == "unread_cell":
                told[_unread(event, submission)] = None
            elif event.get("kind") == "ipython_line":
                told[_for_ipython(event, submission)] = None
            elif event.get("kind") == "missing_import":
                imports[_import(event, submission)] = None
    if not_here := list(filter(None, imports))[:MAX_REMARKS]:
        told[f"Not found here, so that whatever uses it would fail: {', '.join(not_here)}."] = None
    if not_ours := list(filter(None, folders))[:MAX_REMARKS]:
        told[f"{_STAYED} {', '.join(not_ours)}."] = None
    return tuple(filter(None, told))[:MAX_REMARKS]


def on_missing_name(rank: RankOutcome, submission: Submission) -> str:
    """Why a name is not defined of which a rank's error says so, where importing left it out; else empty."""
    if rank.error is None or rank.error.type != "NameError":
        return ""
    missing = _MISSING_NAME.search(rank.error.message)
    if missing is None:
        return ""
    for event in rank.events:
        names = event.get("names")
        if event.get("kind") == "definitions_only" and isinstance(names, list) and missing[1] in names:
            return _left_out(event, submission)
        # What such a cell, or `import *`, would have brought nobody knows.
        if event.get("kind") == "unread_cell":
            return _unread(event, submission)
        if event.get("kind") == "missing_import" and event.get("all") is True:
            whence = _import(event, submission)
            return whence and f"Was it to come with all names of {whence}? That was not found. {NOT_HERE}"
    return ""


def imports_placed(text: str, submission: Submission) -> str:
    """What is said of a missing import, with the line of a notebook named by cell."""

    def placed(said: re.Match[str]) -> str:
        notebook = submission.notebooks.get(said[2])
        return f"{notebook.place(int(said[1]))} of {said[2][:-3]}.ipynb" if notebook else said[0]

    return _IMPORTED_BY.sub(placed, text)


def _import(event: Mapping[str, Json], submission: Submission) -> str:
    """What an import did not find, and where it stands, as `seaborn (line 3 of a.py)`; empty where that is no event."""
    file, line, module = event.get("file"), event.get("line"), event.get("module")
    if not isinstance(file, str) or file not in submission.files or not isinstance(line, int):
        return ""
    if not isinstance(module, str) or not module.isidentifier():
        return ""
    return f"{safe_line(module, 60)} ({imports_placed(f'line {line} of {file}', submission)})"


def _place(event: Mapping[str, Json], submission: Submission) -> str:
    """Where an event happened, as `line 3 of a.py`; empty where that is no event."""
    file, line = event.get("file"), event.get("line")
    if not isinstance(file, str) or file not in submission.files or not isinstance(line, int):
        return ""
    return imports_placed(f"line {line} of {file}", submission)


def _unread(event: Mapping[str, Json], submission: Submission) -> str:
    file, line, why = event.get("file"), event.get("line"), event.get("why")
    notebook = submission.notebooks.get(file) if isinstance(file, str) else None
    if notebook is None or not isinstance(file, str) or not isinstance(line, int) or not isinstance(why, str):
        return ""
    return (
        f"Python cannot read {notebook.place(line)} of {file[:-3]}.ipynb ({safe_line(why, 80)}): that cell was left "
        "out, with all that it defines. Make text a Markdown cell."
    )


def _for_ipython(event: Mapping[str, Json], submission: Submission) -> str:
    place = _place(event, submission)
    return place and (
        f"Python cannot read {place}: only IPython understands such lines. They were left out, and the rest was run; "
        "`python` itself would stop there. Delete them, or hand in the notebook."
    )


def _stood_in(event: Mapping[str, Json]) -> str:
    if event.get("name") == "nccl":
        # Where a probe has emulated a GPU, nccl is what should be asked for.
        return "" if event.get("gpu") is True else _NCCL
    if event.get("name") == "cuda":
        return _CUDA
    if event.get("name") == "compile":
        return _COMPILE
    spelling = event.get("spelling")
    return _EXPLAINED.get(spelling, "") if isinstance(spelling, str) else ""


def _left_out(event: Mapping[str, Json], submission: Submission) -> str:
    file, lines = event.get("file"), event.get("lines")
    if not isinstance(file, str) or file not in submission.files or not isinstance(lines, list):
        return ""
    first = next((line for line in lines if isinstance(line, int)), 0)
    notebook = submission.notebooks.get(file)
    place = notebook.place(first) if notebook else f"line {first}"
    where = f"from {place} on" if len(lines) > 1 else place
    raised = event.get("raised")
    if isinstance(raised, str) and raised:
        return _failed(
            file if notebook is None else f"{file.removesuffix('.py')}.ipynb",
            place,
            imports_placed(raised, submission),
            len(lines),
        )
    if notebook is not None:
        name = f"{file.removesuffix('.py')}.ipynb"
        return (
            f"This check takes the imports, definitions and constants of {name}, and does not run what its cells run "
            f"({where}): nothing about that need be changed."
        )
    return (
        f"Importing {file} would run it as a script ({where}), so only its imports, definitions and constants "
        'were taken: put the rest below `if __name__ == "__main__":`.'
    )


def _failed(file: str, place: str, raised: str, count: int) -> str:
    others = "one more" if count == 2 else f"{count - 1} more"
    more = f", with {others} that failed" if count > 1 else ""
    if raised.startswith("ModuleNotFoundError"):
        return f"When {file} was imported, {place} raised {safe_line(raised).rstrip('.')}, and was left out{more}."
    return (
        f"When {file} was imported, {place} raised {safe_line(raised).rstrip('.')}, and was left out{more}: put what "
        'needs data or options below `if __name__ == "__main__":`, and hand it to your functions as an argument.'
    )
