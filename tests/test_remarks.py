"""What is told about a run once and at no cost: what stood in for something, and what was left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.explain import problem
from lockstep.grading import Options, Silent, grade
from lockstep.notebook import read_notebook
from lockstep.remarks import MAX_REMARKS, remarks
from lockstep.sandbox import library_spellings, lightning_spellings, wandb_spellings
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from lockstep.submission import Submission
from lockstep.verdict import Failed, Verdict
from lockstep.wire import Json
from tests.sandboxed import run, verdict
from tests.test_notebook import code, notebook

LAB = Path(__file__).parent / "labs" / "graders"
PHASE: dict[str, Json] = {"kind": "phase", "name": "calling f()"}
BOOK = read_notebook(notebook(code("x = 1"), code("\nx.run()")), "b.ipynb")
SUBMISSION = Submission("someone", {"a.py": b"", "b.py": b""}, frozenset(), "0", (), notebooks={"b.py": BOOK})
SCRIPT = """
import torch.distributed as dist
def double(x):
    return 2 * x
def add_up(x):
    dist.all_reduce(x)
    return x
for number in range(3):
    print(double(number))
print("done")
"""


def told(*events: dict[str, Json], ranks: int = 1) -> tuple[str, ...]:
    rank = RankOutcome(complete=True, events=tuple(events))
    return remarks(Outcome(ranks=(rank,) * ranks, elapsed=1.0), SUBMISSION)


def test_a_run_without_events_has_none() -> None:
    assert told({"kind": "phase", "name": "calling f"}) == ()


def test_the_stand_in_for_nccl_is_told_once() -> None:
    event: dict[str, Json] = {"kind": "shim", "name": "nccl", "gpu": False}
    (sentence,) = told(event, event, ranks=3)
    assert sentence.startswith("There is no GPU here, so gloo stood in for nccl: ")


def test_a_call_of_cuda_without_a_gpu_is_told() -> None:
    (sentence,) = told({"kind": "shim", "name": "cuda"})
    assert sentence.endswith("Write .to(device), and the same file runs on any machine.")


def test_nccl_on_an_emulated_gpu_is_right() -> None:
    assert told({"kind": "shim", "name": "nccl", "gpu": True}) == ()


def test_old_spellings_are_told() -> None:
    for name, explained in (
        ("lightning", lightning_spellings.EXPLAINED),
        ("wandb", wandb_spellings.EXPLAINED),
        ("library", library_spellings.EXPLAINED),
    ):
        for spelling, sentence in explained.items():
            assert told({"kind": "shim", "name": name, "spelling": spelling}) == (sentence,)


@pytest.mark.parametrize(
    ("file", "lines", "words"),
    [
        ("a.py", [3], "Importing a.py would run it as a script (line 3), so only its imports, definitions and constants"),
        ("a.py", [3, 9], "(from line 3 on)"),
        ("b.py", [5], "imports, definitions and constants of b.ipynb, and does not run what its cells run (cell 2, line 2): nothing"),
    ],
)  # fmt: skip
def test_what_was_left_out_is_told(file: str, lines: list[Json], words: str) -> None:
    (sentence,) = told({"kind": "definitions_only", "file": file, "lines": lines})
    assert words in sentence


@pytest.mark.parametrize(
    ("file", "lines", "words"),
    [
        (
            "a.py",
            [3],
            "When a.py was imported, line 3 raised OSError: no, and was left out: put what needs data",
        ),
        ("a.py", [3, 9, 12], "line 3 raised OSError: no, and was left out, with 2 more that failed: put"),
        ("a.py", [3, 9], "and was left out, with one more that failed: put"),
        ("b.py", [5], "When b.ipynb was imported, cell 2, line 2 raised OSError: no, and was left out: put"),
    ],
)
def test_what_failed_is_told(file: str, lines: list[Json], words: str) -> None:
    (sentence,) = told(
        {"kind": "definitions_only", "file": file, "lines": lines, "raised": "\x1b[2JOSError:\nno."}
    )
    assert words in sentence


@pytest.mark.parametrize(("name", "told"), [("data", True), ("dada", False)])
def test_a_name_that_was_left_out_is_told_where_it_is_missed(name: str, told: bool) -> None:
    event: dict[str, Json] = {"kind": "definitions_only", "file": "a.py", "lines": [3], "names": ["data"]}
    failed = {**event, "raised": "OSError: no"}
    error = StudentError("NameError", f"name '{name}' is not defined", (), "calling f()")
    found = problem(
        Outcome(ranks=(RankOutcome(complete=True, events=(PHASE, failed), error=error),), elapsed=1.0),
        Limits(),
        SUBMISSION,
    )
    assert found is not None
    assert f"raised NameError: name '{name}' is not defined" in found.feedback.message
    assert ("When a.py was imported, line 3 raised OSError: no, " in found.feedback.message) == told


def test_a_function_that_failed_to_be_made_is_told(box: Box) -> None:
    found = verdict(run(box, "main = {}['main']\n"))
    assert isinstance(found, Failed)
    assert "student.py defines main only in line 1, which is left out because it raised KeyError: 'main'" in (
        found.feedback.message
    )


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "shim", "name": "you passed everything"},
        {"kind": "shim", "spelling": ["gpus"]},
        {"kind": "shim", "name": 5, "spelling": None},
        {"kind": "definitions_only"},
        {"kind": "definitions_only", "file": "\x1b[2J.py", "lines": [1]},
        {"kind": "definitions_only", "file": ["a.py"], "lines": [1]},
        {"kind": "definitions_only", "file": "a.py", "lines": "abc"},
        {"kind": "unread_cell", "file": "a.py", "line": 1, "why": "x"},
        {"kind": "unread_cell", "file": ["b.py"], "line": 1, "why": "x"},
        {"kind": "unread_cell", "file": "b.py", "line": "1", "why": []},
        {"kind": "ipython_line", "file": "\x1b[2J.py", "line": 1},
        {"kind": "ipython_line", "file": "a.py", "line": "1"},
        {"kind": "elsewhere"},
        {"kind": "elsewhere", "file": ["a.py"], "line": 1},
        {"kind": "missing_import"},
        {"kind": "missing_import", "file": "a.py", "line": [1], "module": "x"},
        {"kind": "missing_import", "file": "\x1b[2J.py", "line": 1, "module": "x"},
        {"kind": "missing_import", "file": "a.py", "line": 1, "module": "you passed everything"},
        {"kind": "definitions_only", "file": "a.py", "lines": "abc", "raised": "x", "names": 5},
    ],
)
def test_forged_events_say_nothing(event: dict[str, Json]) -> None:
    assert told(event) == ()


def test_forged_lines_do_no_harm() -> None:
    events: list[dict[str, Json]] = [
        {"kind": "definitions_only", "file": "b.py", "lines": [number, "x"]} for number in range(-9, 99)
    ]
    assert len(told(*events, {"kind": "definitions_only", "file": "a.py", "lines": [{}]})) == MAX_REMARKS


def test_a_run_tells_that_gloo_stood_in(box: Box) -> None:
    source = """
        import torch.distributed as dist
        def main():
            dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29501", rank=0, world_size=1)
            return dist.get_backend()
    """
    outcome = run(box, source)
    assert outcome.ranks[0].values["seen"] == "gloo"
    assert len(remarks(outcome, SUBMISSION)) == 1


def test_a_line_that_failed_is_told_in_every_check_that_misses_it(tmp_path: Path) -> None:
    source = (
        "import torch.distributed as dist\nfactor = open('/no/such')\ndef double(x):\n    return factor * x\n"
    )
    (tmp_path / "tiny.py").write_text(f"{source}def add_up(x):\n    dist.all_reduce(x)\n    return x\n")
    result = grade(Options(submission=tmp_path, graders=LAB), Silent(), None)
    checks = [check for exercise in result.exercises for check in exercise.checks]
    words = "When tiny.py was imported, line 2 raised FileNotFoundError: "
    assert {check.message.count(words) for check in checks if "NameError" in check.message} == {1}


def test_it_is_said_once_in_an_exercise_and_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(SCRIPT)
    result = grade(Options(submission=tmp_path, graders=LAB), Silent(), None)
    checks = [check for exercise in result.exercises for check in exercise.checks]
    assert {check.verdict for check in checks} == {Verdict.PASSED}
    remarked = [check.id for check in checks if "(from line 8 on)" in check.message]
    assert len(remarked) == 1
