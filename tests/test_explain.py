"""What a student reads when a run went wrong, and whose fault it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.explain import problem
from lockstep.notebook import NotebookSource
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, Standing, StudentError
from lockstep.submission import Submission
from lockstep.verdict import Crashed, Failed, GraderFault, Hung, LimitExceeded
from lockstep.wire import BROKEN

LIMITS = Limits(seconds=5)
SUBMISSION = Submission(
    "someone",
    {
        "deep/x.py": b"",
        "scaling": b"",
        "scaling_final.py": b"",
        "Scaling.py": b"",
        "scalings.py": b"",
        "amp.py.txt": b"",
    },
    frozenset(),
    "0",
    (),
    {"bad.py": "bad.py is not text."},
)
LINE = CodeFrame("ddp_train.py", 12, "setup")
PHASE = ({"kind": "phase", "name": "calling setup()"},)


def error(kind: str, message: str = "", phase: str = "calling setup()", **more: object) -> RankOutcome:
    fields = {"frames": (LINE,), **more}
    return RankOutcome(complete=True, error=StudentError(kind, message, phase=phase, **fields))  # type: ignore[arg-type]


FINE = RankOutcome(complete=True)
WAITS = RankOutcome(complete=False, events=PHASE, standing=Standing("barrier", LINE))
ELSEWHERE = RankOutcome(
    complete=False, events=({"kind": "phase", "name": "waiting for all ranks"},), standing=Standing("", None)
)
STARTED = replace(
    WAITS,
    standing=Standing(
        "a command that has not ended",
        None,
        started=((0, Standing("all_reduce", LINE)), (1, Standing("", CodeFrame("b.py", 3, "f")))),
    ),
)
RESET = error("RuntimeError", "Read error [127.0.0.1]:1: Connection reset by peer. This is typically")


def outcome(*ranks: RankOutcome, timed_out: bool = False, limit: str | None = None) -> Outcome:
    return Outcome(ranks=ranks, elapsed=1.0, timed_out=timed_out, limit=limit)


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (outcome(error("KeyError", "'RANK'")), Crashed, "Your code raised KeyError: 'RANK' (ddp_train.py, line 12, in setup)"),
        (outcome(RESET, error("ValueError", "no")), Crashed, "Rank 1 of 2 raised ValueError: no"),
        (outcome(RESET, RankOutcome(complete=False, status=-11, events=PHASE)), Crashed, "rank 1 of 2 was ended by a segmentation"),
        (outcome(RankOutcome(complete=False, status=0, events=PHASE)), Crashed, "ended by itself (exit status 0)"),
        (outcome(RankOutcome(complete=False, status=1, events=PHASE, output="Traceback\nKeyError: 'x'\n")), Crashed, ". Its last lines: Traceback | KeyError: 'x'"),
        (outcome(error("MemoryError")), LimitExceeded, "more memory than the 4 GiB"),
        (outcome(error("RuntimeError", "DefaultCPUAllocator: can't allocate")), LimitExceeded, "more memory"),
        (outcome(error("OSError", "No space", errno=28)), LimitExceeded, "64 MiB of disk"),
        (outcome(error("BlockingIOError", "", errno=11)), LimitExceeded, "processes and threads"),
        (outcome(error("RuntimeError", "can't start new thread")), LimitExceeded, "processes and threads"),
        (outcome(error("MemoryError", "", "importing x.py")), LimitExceeded, "more memory than the 4 GiB"),
        (outcome(error("MemoryError", "", "importing x.py", frames=())), Crashed, "raised MemoryError, while importing x.py"),
        (outcome(FINE, limit="output"), LimitExceeded, "printed output"),
        (outcome(FINE, limit="machine"), LimitExceeded, "nearly all the memory of the machine"),
        (outcome(WAITS, FINE, timed_out=True), Hung, "rank 0 waits in barrier at ddp_train.py, line 12; rank 1 has finished"),
        (outcome(ELSEWHERE, WAITS, timed_out=True), Hung, "while calling setup(): rank 0 is not in it, but waiting for all ranks; rank 1 waits in"),
        (outcome(WAITS, ELSEWHERE, timed_out=True), Hung, "line 12; rank 1 is not in it, but waiting for all ranks."),
        (outcome(STARTED, timed_out=True), Hung, "has not ended; its rank 0 waits in all_reduce at ddp_train.py, line 12; its rank 1 is busy at b.py, line 3."),
        (outcome(error("StudentMistake", "x.py does not define f", "looking for f in x.py")), Failed, "x.py does not define f."),
        (outcome(error("StudentMistake", "there is no x.py", "importing x.py")), Failed, "but there is deep/x.py"),
        (outcome(error("StudentMistake", "there is no scaling.py", "importing scaling.py")), Failed, "no scaling.py in the submission; `Scaling.py`, `scaling_final.py` were not read: rename one if that is what you mean"),
        (outcome(error("StudentMistake", "there is no amp.py", "importing amp.py")), Failed, "`amp.py.txt` was not read: rename it"),
        (outcome(error("StudentMistake", "there is no bad.py", "importing bad.py")), Failed, "bad.py is not text."),
        (outcome(error("SyntaxError", "invalid syntax", "importing x.py", frames=(), line=7)), Crashed, "(line 7)"),
        (outcome(error("SourceError", "the file holds NUL bytes", "importing x.py", frames=())), Crashed, "x.py cannot be read: the file holds NUL bytes."),
        (outcome(error("Evil", "\x1b[31mred\u202e")), Crashed, "Evil: red"),
        (outcome(error("Evil", phase=" \u202e")), Crashed, "before any of your functions was called"),
        (outcome(RankOutcome(complete=False, protocol="the frame is cut short")), Crashed, "one whole piece"),
    ],
)  # fmt: skip
def test_message(seen: Outcome, verdict: type[Exception], words: str) -> None:
    found = problem(seen, LIMITS, SUBMISSION)
    assert type(found) is verdict
    assert words in found.feedback.message
    assert found.feedback.hint


@pytest.mark.parametrize(
    ("message", "phase", "hint"),
    [
        ("there is no ddp_train.sh in the submission", "", "under the name that the exercise asks for"),
        (
            "build_model returned None instead of a model",
            "calling build_model",
            "without `return` gives None",
        ),
        ("the loader gives a list", "iterating", "Compare with what the exercise asks for"),
        ("there is no bad.py", "importing bad.py", "Open it where you wrote it"),
    ],
)
def test_what_is_not_there_or_not_right_has_a_next_step(message: str, phase: str, hint: str) -> None:
    found = problem(outcome(error("StudentMistake", message, phase)), LIMITS, SUBMISSION)
    assert found is not None
    assert hint in found.feedback.hint


def test_a_file_that_is_known_to_be_unreadable_is_told_of_in_the_words_of_the_note() -> None:
    unread = error("SourceError", "the file holds NUL bytes", "importing bad.py", frames=())
    found = problem(outcome(unread), LIMITS, SUBMISSION)
    assert found is not None
    assert found.feedback.message == "bad.py is not text."


@pytest.mark.parametrize(
    ("standing", "hint"),
    [
        (Standing("", LINE), "Does the loop that this line is in"),
        (Standing("", None), "Look for an endless loop"),
        (Standing("barrier", LINE), "ranks that never come"),
        (Standing("the gradient all_reduce inside backward()", LINE), "Does the loop that this line is in"),
    ],
)
def test_what_to_look_for_is_told_by_where_one_process_stands(standing: Standing, hint: str) -> None:
    found = problem(outcome(replace(WAITS, standing=standing), timed_out=True), LIMITS, SUBMISSION)
    assert found is not None
    assert hint in found.feedback.hint


def test_nothing_to_say() -> None:
    assert problem(outcome(FINE, FINE), LIMITS, SUBMISSION) is None


def test_a_broken_probe_is_the_graders_fault() -> None:
    with pytest.raises(GraderFault):
        problem(outcome(error("AttributeError", "x", "", frames=())), LIMITS, SUBMISSION)
    with pytest.raises(GraderFault):
        problem(outcome(RankOutcome(complete=False, status=BROKEN)), LIMITS, SUBMISSION)


def test_a_probe_that_breaks_after_their_code_ran_may_have_been_broken_by_it() -> None:
    broken = replace(error("KeyError", "'steps'", "", frames=()), events=PHASE)
    found = problem(outcome(broken), LIMITS, SUBMISSION)
    assert type(found) is Crashed
    assert found.feedback.message == (
        "What this check did after your functions had come back ended with KeyError: 'steps'."
    )
    assert "in the place of a function" in found.feedback.hint
    found = problem(outcome(RankOutcome(complete=False, status=BROKEN, events=PHASE)), LIMITS, SUBMISSION)
    assert type(found) is Crashed


def test_an_import_that_fails_spoils_the_exercise() -> None:
    found = problem(outcome(error("NameError", "x", "importing x.py")), LIMITS, SUBMISSION)
    assert found is not None
    assert found.spoils


@pytest.mark.parametrize(
    ("phase", "status", "spoils"),
    [("importing x.py", 0, True), ("importing x.py", -9, False), ("f(2)", 0, False)],
)
def test_a_process_that_ends_while_importing_spoils_the_exercise(
    phase: str, status: int, spoils: bool
) -> None:
    gone = RankOutcome(complete=False, status=status, events=({"kind": "phase", "name": phase},))
    found = problem(outcome(gone), LIMITS, SUBMISSION)
    assert found is not None
    assert found.spoils is spoils
    assert ("below `if __name__" in found.feedback.hint) is spoils


def test_lines_of_a_notebook_are_cells() -> None:
    notebook = NotebookSource("a\n" * 12, (None, *[(3, line) for line in range(1, 12)]), {}, ())
    submission = Submission("someone", {}, frozenset(), "0", (), {}, {"ddp_train.py": notebook})
    found = problem(outcome(error("ValueError")), LIMITS, submission)
    assert found is not None
    assert "ddp_train.ipynb, cell 3, line 11" in found.feedback.message
