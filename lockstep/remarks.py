"""What a student is told about a run although it costs nothing: what stood in for something, what was left out.

The events come from the student's process and may be forged; a remark never counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.sandbox.lightning_spellings import EXPLAINED
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.submission import Submission
from lockstep.text import safe_line
from lockstep.wire import Json

MAX_REMARKS = 16
# How Python words it where a function asks for what was left out.
_MISSING_NAME = re.compile(r"\bname '(\w+)' is not defined")
_NCCL = (
    "There is no GPU here, so gloo stood in for nccl: choose the backend by torch.cuda.is_available(), and the "
    "same file runs on any machine."
)


def remarks(outcome: Outcome, submission: Submission) -> tuple[str, ...]:
    """One sentence for each thing worth telling about a run, at most MAX_REMARKS."""
    told: dict[str, None] = {}
    for rank in outcome.ranks:
        for event in rank.events:
            if event.get("kind") == "shim":
                told[_stood_in(event)] = None
            elif event.get("kind") == "definitions_only":
                told[_left_out(event, submission)] = None
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
    return ""


def _stood_in(event: Mapping[str, Json]) -> str:
    if event.get("name") == "nccl":
        # Where a probe has emulated a GPU, nccl is what should be asked for.
        return "" if event.get("gpu") is True else _NCCL
    spelling = event.get("spelling")
    return EXPLAINED.get(spelling, "") if isinstance(spelling, str) else ""


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
            file if notebook is None else f"{file.removesuffix('.py')}.ipynb", place, raised, len(lines)
        )
    if notebook is not None:
        name = f"{file.removesuffix('.py')}.ipynb"
        return (
            f"Of {name} only the imports, definitions and constants were taken; what its cells run ({where}) "
            "was left out."
        )
    return (
        f"Importing {file} would run it as a script ({where}), so only its imports, definitions and constants "
        'were taken: put the rest below `if __name__ == "__main__":`.'
    )


def _failed(file: str, place: str, raised: str, count: int) -> str:
    others = "one more" if count == 2 else f"{count - 1} more"
    more = f", with {others} that failed" if count > 1 else ""
    return (
        f"When {file} was imported, {place} raised {safe_line(raised).rstrip('.')}, and was left out{more}: put what "
        'needs data or options below `if __name__ == "__main__":`, and hand it to your functions as an argument.'
    )
