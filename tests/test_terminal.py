"""Text of a student's making is harmless on a terminal, and tables are readable at any width."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from lockstep import terminal
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.text import last_lines, listed, safe
from lockstep.verdict import Verdict
from tests.results import ANSWERED, FAILED, FAULT, NOT_CHECKED, PASSED, a_result

ESCAPE = "\x1b"
TORCHRUN_FAILED = """\
step 1
Traceback (most recent call last):
ValueError: boom
W1123 03:35:13.060000 23116 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 24533 closing signal
E1123 03:35:13.062000 23116 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
====
ddp_train.py FAILED
  rank      : 1
====
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        (f"{ESCAPE}[31mred{ESCAPE}[0m", "red"),
        ("\x9b31mred", "red"),
        (f"{ESCAPE}]0;new window title\x07after", "after"),
        (f"{ESCAPE}]8;;http://example.org{ESCAPE}\\link{ESCAPE}]8;;{ESCAPE}\\", "link"),
        (f"{ESCAPE}c{ESCAPE}(0cleared", "cleared"),
        (f"unfinished {ESCAPE}", "unfinished "),
        ("failed\rpassed", "failed\npassed"),
        ("one\r\ntwo\u2028three", "one\ntwo\nthree"),
        ("a\tb", "a   b"),
        ("bell\x07 back\x08space nul\x00 del\x7f", "bell backspace nul del"),
        ("txt\u202egnp.exe\u2066\u200b", "txtgnp.exe"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("e\u0301\u0302\u0303\u0304\u0305", "e\u0301\u0302"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("##[error]forged", "## [error]forged"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_safe_removes_what_a_terminal_would_obey(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_words_in_a_sentence() -> None:
    assert [listed("abc"[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    assert safe("x" * 1_000_000, limit=10) == "x" * 10 + " ... (999990 more characters)"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("one\n\n  two  \nthree\r\n 4\nfive\n \n", "two | three | 4 | five"),
        ("10 %\r100 %\n" + "x" * 200, "10 % | 100 % | " + "x" * 160 + " ... (40 more characters)"),
        (" \n\n", "(nothing was printed)"),
        (
            "usage: x.py [-h]\n  [--lr LR]\nx.py: error: unrecognized arguments: -y\n",
            "x.py: error: unrecognized arguments: -y",
        ),
        ("begin\nsame\nsame\n\nsame\n", "begin | same"),
        (TORCHRUN_FAILED, "step 1 | Traceback (most recent call last): | ValueError: boom"),
        (
            'step 1\nFatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n'
            '  File "a.py", line 9 in <module>\n\nExtension modules: numpy (total: 1)\n',
            'Fatal Python error: Aborted | File "a.py", line 3 in f | File "a.py", line 9 in <module>',
        ),
        (TORCHRUN_FAILED[TORCHRUN_FAILED.index("E1123") :], "==== | ddp_train.py FAILED | rank : 1 | ===="),
    ],
)
def test_the_last_lines_that_something_printed_stand_in_one(output: str, shown: str) -> None:
    assert last_lines(output) == shown


def test_the_table_names_every_check_with_its_verdict_and_points() -> None:
    shown = terminal.table(a_result(PASSED, FAILED, NOT_CHECKED))
    assert re.search(r"lfw_dataset +2\.5 of 6 +1\.8 s", shown)
    assert re.search(r"✓ +length +passed +2 of 2 +0\.2 s", shown)
    assert re.search(r"✗ +items_are_images +failed +0\.5 of 3", shown)
    assert re.search(r"– +workers +not checked +0 of 1", shown)
    assert re.search(r"total +2\.5 of 6", shown)


def test_what_did_not_pass_is_explained_below_the_table() -> None:
    shown = terminal.table(
        a_result(PASSED, FAILED), titles={("lfw_dataset", "items_are_images"): "Each file is one item."}
    )
    paragraph = shown[shown.index("lfw_dataset / items_are_images: failed, 0.5 of 3 points") :]
    assert [line.strip() for line in paragraph.splitlines()[1:4]] == [
        "│ Each file is one item.",
        "│ saw 12 of 40 images",
        "│ Try: walk into every folder",
    ]
    assert "lfw_dataset / length" not in shown


def test_checks_left_out_for_one_reason_share_a_paragraph() -> None:
    other = replace(NOT_CHECKED, id="lazy", max_points=2.0)
    another = replace(NOT_CHECKED, id="script", message="needs `length`")
    shown = terminal.table(a_result(NOT_CHECKED, PASSED, other, another))
    assert "lfw_dataset / workers, lazy: not checked, 0 of 3 points\n  │ needs `items_are_images`" in shown
    assert "lfw_dataset / script: not checked, 0 of 1 points\n  │ needs `length`" in shown


def test_checks_that_one_error_stopped_are_explained_together() -> None:
    error = "Your code raised ValueError: no (lfw_dataset.py, line 8, in load), while calling"
    checks = [
        replace(FAILED, id=id, verdict=Verdict.CRASHED, message=f"{error} {call}.", points=0.0)
        for id, call in (("length", "len"), ("lazy", "LFWDataset"), ("robust", "LFWDataset"))
    ]
    other = replace(checks[0], id="script", message=checks[0].message.replace("line 8", "line 9"))
    shown = terminal.table(a_result(*checks, other))
    assert re.search(r"lfw_dataset / length, lazy, robust: crashed, 0 of 9 points", shown)
    assert shown.count("line 8") == 1
    assert re.search(r"lfw_dataset / script: crashed, 0 of 3 points", shown)


def test_checks_that_failed_with_the_same_words_are_told_together() -> None:
    alike = [replace(FAILED, id=id, points=1.0) for id in ("length", "lazy")]
    other = replace(FAILED, id="script", hint="Try something else.")
    shown = terminal.table(a_result(*alike, other))
    assert re.search(r"lfw_dataset / length, lazy: failed, 2 of 6 points", shown)
    assert re.search(r"lfw_dataset / script: failed", shown)


def test_a_remark_on_a_passed_check_is_shown() -> None:
    remark = CheckResult("length", Verdict.PASSED, 2.0, 2.0, "labels are not asked for")
    assert "│ labels are not asked for" in terminal.table(a_result(remark))


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ((PASSED,), "All 1 checks passed: 2 of 2 points."),
        ((PASSED, FAILED), "1 of 2 checks passed: 2.5 of 5 points."),
        ((PASSED, FAULT), "1 of 2 checks passed: 2 of 4 points. A grader fault is"),
    ],
)
def test_the_last_line_sums_up(checks: tuple[CheckResult, ...], line: str) -> None:
    assert terminal.table(a_result(*checks)).splitlines()[-1 if "fault" not in line else -2].startswith(line)


def test_answers_for_a_person_are_one_line_and_never_shown() -> None:
    shown = terminal.table(a_result(PASSED, ANSWERED))
    assert shown.splitlines()[-2:] == [
        "All 2 checks passed: 2 of 2 points.",
        "Not counted: up to 4.5 points that a person gives for answers; 2 wait.",
    ]
    assert "Because" not in shown


def test_what_a_person_gives_is_in_no_total_whoever_has_answered() -> None:
    marked = replace(ANSWERED, reviews=(replace(ANSWERED.reviews[0], points=1.0), *ANSWERED.reviews[1:]))
    said = "Not counted: up to 4.5 points that a person gives for answers; 1 waits."
    assert terminal.table(a_result(marked)).splitlines()[-1] == said
    nothing = replace(a_result(PASSED).exercises[0], by_person=4.5)
    shown = terminal.table(replace(a_result(PASSED), exercises=(nothing,)))
    assert shown.splitlines()[-2:] == [
        "All 1 checks passed: 2 of 2 points.",
        said.replace("1 waits", "none waits"),
    ]
    assert "Not counted" not in terminal.table(a_result(PASSED))


def test_a_check_may_be_worth_no_points() -> None:
    failed = replace(ANSWERED, verdict=Verdict.FAILED, message="nothing there", reviews=())
    shown = terminal.table(a_result(failed, exercise="answers"))
    assert "answers / present: failed, worth no points" in shown
    assert re.search(r"✗ +present +failed +- +0\.0 s", shown)
    assert re.search(r"total +- ", shown)
    assert shown.splitlines()[-1] == "0 of 1 checks passed."
    assert terminal.table(a_result(replace(ANSWERED, reviews=()))).splitlines()[-1] == "All 1 checks passed."


@pytest.mark.parametrize("width", [40, 80, 99, 120, 200])
def test_no_line_is_wider_than_asked_and_no_check_id_is_cut(width: int) -> None:
    long_id = CheckResult(
        "shuffle_false_for_eval", Verdict.LIMIT, 0.0, 2.0, "word " * 100 + "x" * 300, "h " * 99
    )
    titles = {("ddp_train", "shuffle_false_for_eval"): "The whole set is evaluated once. " * 9}
    shown = terminal.table(a_result(long_id, exercise="ddp_train"), width=width, titles=titles)
    assert max(map(len, shown.splitlines())) <= width
    if width >= 80:
        assert re.search(r"shuffle_false_for_eval +exceeded a limit +0 of 2", shown)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_begins_with_words_of_the_student(width: int) -> None:
    """A CI service takes `::error::` at the start of a line for a command, blanks before it or not."""
    command = "::add-mask::x ::error::y " * 20 + "\n::stop-commands::z\n  ::set-output name=a::b"
    check = CheckResult("length", Verdict.CRASHED, 0.0, 2.0, command, command)
    shown = terminal.table(a_result(check), width=width, titles={("lfw_dataset", "length"): command})
    assert "::add-mask::" in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]


def test_markup_is_shown_as_it_is() -> None:
    check = CheckResult("length", Verdict.CRASHED, 0.0, 2.0, "KeyError: '[link=http://x]a[/link] [/]'")
    assert "[link=http://x]a[/link] [/]" in terminal.table(a_result(check))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_can_show_the_table(encoding: str) -> None:
    check = CheckResult("length", Verdict.CRASHED, 0.0, 2.0, "日本語 ✗ é")
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    Console(file=written, width=80).print(terminal.report(a_result(PASSED, check), {}, wide=False))
    written.flush()
    text = written.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert ("✓" in text) == (encoding == "utf-8")
    assert re.search(r"[+✓] +length +passed", text)


def test_progress_names_the_check_that_runs() -> None:
    output = io.StringIO()
    console = Console(file=output, width=120, force_terminal=True, color_system=None)
    with terminal.ProgressLine(console) as progress:
        progress.started(2, submission=None)  # type: ignore[arg-type]
        progress.check_started("ddp_train", "weights_in_sync", "Every rank\x1b[2J ends equal.")
        progress._bar.refresh()
        progress.check_done("ddp_train", PASSED)
    assert "0/2 ddp_train / weights_in_sync  Every rank ends equal." in output.getvalue()
    assert progress.titles == {("ddp_train", "weights_in_sync"): "Every rank\x1b[2J ends equal."}


def test_progress_is_silent_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    with terminal.ProgressLine(Console(file=output)) as progress:
        progress.check_started("ddp_train", "weights_in_sync", "title")
        progress.finished(Result("somebody", 7, (ExerciseResult("ddp_train", (PASSED,)),)))
    assert output.getvalue() == ""
