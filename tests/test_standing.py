"""Where a rank stood at its deadline, read from a stack that its process wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lockstep.sandbox import standing
from lockstep.wire import Json

STUDENT = (
    '  File "/work/ddp_train.py", line 31 in train_one_epoch\n  File "/opt/probes/p.py", line 3 in train\n'
)
TORCH = "/opt/packages/torch"


def stack(*frames: str) -> str:
    lines = [f'  File "{TORCH}/{frame}\n' for frame in frames]
    return "Current thread 0x0001 (most recent call first):\n" + "".join(lines) + STUDENT


ENTERED: Mapping[str, Json] = {"kind": "collective", "op": "all_gather", "number": 4, "where": "x.py:3"}
RETURNED: Mapping[str, Json] = {"kind": "returned", "op": "all_gather", "number": 4}


@pytest.mark.parametrize(
    ("text", "events", "words"),
    [
        (stack('distributed/distributed_c10d.py", line 5 in barrier'), [ENTERED], "all_gather"),
        (
            stack('autograd/graph.py", line 825 in _engine_run_backward'),
            [ENTERED, RETURNED],
            "inside backward()",
        ),
        (stack('nn/parallel/distributed.py", line 9 in __init__'), [], "first weights"),
        (stack('nn/parallel/distributed.py", line 9 in forward'), [], "before forward"),
        (
            stack('distributed/rendezvous.py", line 9 in _env_rendezvous_handler'),
            [],
            "until all ranks have joined",
        ),
        (stack('utils/data/dataloader.py", line 1 in _try_get_data'), [], "DataLoader worker"),
        (stack('nn/modules/linear.py", line 1 in forward'), [], ""),
        ("", [], ""),
    ],
)
def test_the_wait_is_named(text: str, events: Sequence[Mapping[str, Json]], words: str) -> None:
    found = standing.read(text, "/work", "S", events)
    assert words in found.waits_in if words else found.waits_in == ""
    if text:
        assert found.frame is not None
        assert str(found.frame) == "ddp_train.py, line 31"


def test_what_calls_their_code_does_not_wait_meanwhile() -> None:
    theirs = '  File "/work/ddp_train.py", line 12 in forward\n'
    wrapper = f'  File "{TORCH}/nn/parallel/distributed.py", line 9 in forward\n'
    found = standing.read(f"{theirs}{wrapper}{STUDENT}", "/work", "R", [])
    assert (found.waits_in, str(found.frame)) == ("", "ddp_train.py, line 12")
    found = standing.read(f"{wrapper}{theirs}{STUDENT}", "/work", "S", [])
    assert "before forward" in found.waits_in


def test_a_stopped_process_is_no_wait() -> None:
    assert standing.read("", "/work", "T", []).state == "stopped"


def test_the_ranks_that_a_command_started_come_behind_it() -> None:
    script = '  File "ddp_train.py", line 116 in evaluate\n  File "<frozen runpy>", line 88 in _run_code\n'
    waits = f'  File "{TORCH}/distributed/distributed_c10d.py", line 5 in all_reduce\n'
    command = '  File "/usr/lib/python3/subprocess.py", line 1 in communicate\n'
    found = standing.read(
        f"{command}\nStarted as rank 0\n{waits}{script}\nStarted as rank 1\n{script}", "/work", "S", []
    )
    assert found.waits_in == "a command that has not ended"
    assert found.frame is None
    assert [(rank, one.waits_in, str(one.frame)) for rank, one in found.started] == [
        (0, "all_reduce", "ddp_train.py, line 116"),
        (1, "", "ddp_train.py, line 116"),
    ]


def test_forged_stacks_are_only_text() -> None:
    text = '  File "/work/../../etc/passwd\x1b[2J", line 99999999999 in x\n' * 1000
    assert standing.read(text, "/work", "R", [{"kind": "collective", "op": 7, "number": 1}]).waits_in == ""


@pytest.mark.parametrize("kind", ["returned", "collective"])
def test_a_forged_number_is_none(kind: str) -> None:
    forged: Mapping[str, Json] = {"kind": kind, "op": "barrier", "number": [1]}
    assert standing.read("", "/work", "S", [ENTERED, forged]).waits_in in ("all_gather", "barrier")


def test_before_the_files_are_laid_out_no_line_is_the_students() -> None:
    assert standing.read(stack(), "", "S", []).frame is None
