"""Text of a student's making is harmless on a terminal, and tables are readable at any width."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace

import pytest
from rich.console import Console

from lockstep import terminal
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.text import last_lines, listed, more_places, safe
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


def test_more_places_are_counted_in_words() -> None:
    assert [more_places(count) for count in (1, 2)] == ["one more place", "2 more places"]


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    assert safe("x" * 11, limit=10) == "x" * 10 + " ... (1 more character)"
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
        (
            "[W1124 socket.cpp:767] The server socket has timed out.\nException raised from listen at socket.cpp:9 (most "
            "recent call first):\nframe #0: c10::Error::Error() + 0x80 (0x7f in libc10.so)\n  frame #1: <unknown> + 0x1\n\n",
            "[W1124 socket.cpp:767] The server socket has timed out.",
        ),
        (
            'Traceback (most recent call last):\n  File "/w/ddp_train.py", line 94, in train\n    dist.all_reduce(x)\n'
            '  File "/opt/packages/torch/c10d.py", line 19, in all_reduce\n    raise TypeError(\n        ^^^\n'
            "TypeError: no tensor\nbut a float.\n",
            "ddp_train.py, line 94, in train | TypeError: no tensor | but a float.",
        ),
        (
            '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/x.py", line 3, in f\n[rank0]:     g()\n'
            '[rank0]:   File "/usr/lib/python3.11/os.py", line 9, in g\n[rank0]:     h()\n[rank0]: ValueError: no',
            "x.py, line 3, in f | [rank0]: ValueError: no",
        ),
        (
            '  File "/opt/a.py", line 3, in f\n    g()\nValueError: no',
            'File "/opt/a.py", line 3, in f | g() | ValueError: no',
        ),
        (
            'Traceback (most recent call last):\n  File "/w/x.py", line 3, in f\n    g()\nTypeError: None\nepoch 1\n'
            'Traceback (most recent call last):\n  File "/w/x.py", line 9, in h\n    g()\nRuntimeError: Connection '
            "closed by peer\n",
            "x.py, line 3, in f | TypeError: None | epoch 1",
        ),
        (
            'Traceback (most recent call last):\n  File "/w/x.py", line 3, in f\n    g()\nTypeError: None\n'
            "going on\nepoch 1\nepoch 2\ncould not write\n",
            "going on | epoch 1 | epoch 2 | could not write",
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


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("shape '[8, 5]' is invalid for input of size 15 (x.py, line 8, in f)", "shape '[8, 9]' is invalid for input of size 3 (x.py, line 8, in f)", True),
        ("no (x.py, line 8, in f)", "no (x.py, line 9, in f)", False),
        ("no (x.py, line 8, in f)", "yes (x.py, line 8, in f)", False),
    ],
)  # fmt: skip
def test_one_error_has_other_numbers_in_its_words_and_its_line_alone(
    one: str, other: str, together: bool
) -> None:
    checks = [
        replace(FAILED, id=id, verdict=Verdict.CRASHED, message=f"Your code raised ValueError: {said}, while {id}.")
        for id, said in (("length", one), ("lazy", other))
    ]  # fmt: skip
    assert ("lfw_dataset / length, lazy: crashed" in terminal.table(a_result(*checks))) is together


def test_what_is_not_written_yet_is_told_once() -> None:
    checks = [
        replace(FAILED, id=id, verdict=Verdict.CRASHED, message=f"{who} raised NotImplementedError: x.py is not written yet (x.py, line {line}, in {id}), in {id}().")
        for id, who, line in (("length", "Your code", 8), ("lazy", "Rank 0 of 2", 12), ("workers", "Rank 1 of 4", 30))
    ]  # fmt: skip
    shown = terminal.table(a_result(*checks))
    assert "lfw_dataset / length, lazy, workers: crashed" in shown
    assert shown.count("line ") == 1


def test_checks_that_hung_at_one_place_are_told_together() -> None:
    hung = [replace(FAILED, id=id, verdict=Verdict.HUNG) for id in ("length", "lazy")]
    assert "lfw_dataset / length, lazy: hung" in terminal.table(a_result(*hung))


def test_checks_that_hung_at_one_line_are_told_together_whatever_was_called() -> None:
    busy = "it is busy at x.py, line 70."
    hung = [
        replace(
            FAILED,
            id=id,
            verdict=Verdict.HUNG,
            message=f"No answer within {seconds} s while {called}: {where}",
        )
        for id, seconds, called, where in (
            ("length", 10, "calling f(x: int)", busy),
            ("lazy", 30, "running `python x.py`", busy),
            ("script", 30, "running `python x.py`", busy.replace("70", "7")),
            ("workers", 10, "calling f()", "it is busy outside your files."),
            ("robust", 10, "calling g()", "it is busy outside your files."),
        )
    ]
    shown = terminal.table(a_result(*hung))
    assert "lfw_dataset / length, lazy: hung" in shown
    assert all(f"lfw_dataset / {id}: hung" in shown for id in ("script", "workers", "robust"))


def test_a_message_that_swells_takes_no_time_to_be_told_apart() -> None:
    swollen = f"No answer within 10 s while calling f(): {' at line 1' * 1_000}:"
    began = time.process_time()
    terminal.table(a_result(replace(FAILED, verdict=Verdict.HUNG, message=swollen)))
    assert time.process_time() - began < 1.0


def test_one_error_is_one_whichever_process_raised_it_and_whether_or_not_it_says_where() -> None:
    calls = {
        "length": "Your code raised RuntimeError: no scalar, while training.",
        "lazy": "Your code raised RuntimeError: no scalar (lfw_dataset.py, line 8, in main), while running `python x`.",
        "robust": "Rank 0 of 2 raised RuntimeError: no scalar (lfw_dataset.py, line 8, in main), while running `x`.",
        "script": "Your code raised RuntimeError: no tensor, while training.",
        "items": "Your code raised RuntimeError: no scalar (x.py, line 9, in main), while training.",
        "workers": "The process of your code was ended by an abort (SIGABRT), while training.",
    }
    checks = [
        replace(FAILED, id=id, verdict=Verdict.CRASHED, message=message, points=0.0)
        for id, message in calls.items()
    ]
    checks[1] = replace(checks[1], hint="Is that an option?")
    known = [replace(check, id=check.id[0], verdict=Verdict.FAILED) for check in checks[:3]]
    known[1] = replace(known[1], hint=FAILED.hint)
    shown = terminal.table(a_result(*checks, *known))
    assert "lfw_dataset / length, lazy, robust: crashed" in shown
    assert "lfw_dataset / l, l, r: failed" in shown
    assert "lfw_dataset / items: crashed" in shown
    assert "lfw_dataset / script: crashed" in shown
    assert "lfw_dataset / workers: crashed" in shown


def test_one_error_is_one_where_a_judge_says_first_where_it_was_run() -> None:
    raised = "your code raised RuntimeError: no driver (x.py, line 8, in train), while"
    calls = {
        "length": f"Without a GPU: {raised} calling train().",
        "lazy": f"Without a GPU: {raised} running `python x`.",
        "robust": f"On a GPU: {raised} calling train().",
    }
    checks = [
        replace(FAILED, id=id, verdict=Verdict.CRASHED, message=said, points=0.0)
        for id, said in calls.items()
    ]
    shown = terminal.table(a_result(*checks))
    assert "lfw_dataset / length, lazy: crashed" in shown
    assert "lfw_dataset / robust: crashed" in shown


def test_checks_that_failed_with_the_same_words_are_told_together() -> None:
    alike = [replace(FAILED, id=id, points=1.0) for id in ("length", "lazy")]
    other = replace(FAILED, id="script", hint="Try something else.")
    shown = terminal.table(a_result(*alike, other))
    assert re.search(r"lfw_dataset / length, lazy: failed, 2 of 6 points", shown)
    assert re.search(r"lfw_dataset / script: failed", shown)


def test_checks_that_met_one_limit_are_told_together() -> None:
    used = "Your code used more than the 8 MiB of printed output of this check while"
    checks = [
        replace(FAILED, id=id, verdict=Verdict.LIMIT, message=f"{used} {phase}, and was stopped.")
        for id, phase in (("length", "calling a"), ("lazy", "calling b"))
    ]
    other = replace(checks[0], id="script", message=checks[0].message.replace("printed output", "disk space"))
    shown = terminal.table(a_result(*checks, other))
    assert "lfw_dataset / length, lazy: exceeded a limit" in shown
    assert "lfw_dataset / script: exceeded a limit" in shown


def test_checks_whose_script_ended_with_the_same_words_are_told_together() -> None:
    ended = "ended with status 2: x.py: error: unrecognized arguments: --devices"
    checks = [
        replace(FAILED, id=id, message=f"x.py {given} {ended} {given}")
        for id, given in (("length", "1"), ("lazy", "1"), ("script", "2"))
    ]
    checks[1] = replace(checks[1], message=f"x.py, one epoch {ended} 1")
    shown = terminal.table(a_result(*checks))
    assert "lfw_dataset / length, lazy: failed" in shown
    assert "lfw_dataset / script: failed" in shown


def test_a_remark_on_a_passed_check_is_shown() -> None:
    remark = CheckResult("length", Verdict.PASSED, 2.0, 2.0, "labels are not asked for")
    assert "│ labels are not asked for" in terminal.table(a_result(remark))


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ((PASSED,), "The one check passed: 2 of 2 points."),
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
        "The one check passed: 2 of 2 points.",
        said.replace("1 waits", "none waits"),
    ]
    assert "Not counted" not in terminal.table(a_result(PASSED))


def test_a_check_may_be_worth_no_points() -> None:
    failed = replace(ANSWERED, verdict=Verdict.FAILED, message="nothing there", reviews=())
    shown = terminal.table(a_result(failed, exercise="answers"))
    assert "answers / present: failed, worth no points" in shown
    assert re.search(r"✗ +present +failed +- +0\.0 s", shown)
    assert re.search(r"total +- ", shown)
    assert shown.splitlines()[-1] == "0 of 1 check passed."
    assert terminal.table(a_result(replace(ANSWERED, reviews=()))).splitlines()[-1] == "The one check passed."


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
