"""The grader of exercise 5, scripts that end before their time: whether the reason is theirs or the machine's."""

from __future__ import annotations

import pytest

from graders.lightning_train.left import is_a_slip
from graders.lightning_train.unsaid import stumbled_over
from lockstep.sandbox.outcome import CodeFrame, RankOutcome, StudentError

HERE = (CodeFrame("lightning_train.py", 196, "main"),)


def error(kind: str, message: str, frames: tuple[CodeFrame, ...] = HERE) -> StudentError:
    return StudentError(kind, message, frames, "running lightning_train.py")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("AttributeError", "'FashionData' object has no attribute 'train_data'"),
        ("NameError", "name 'clock' is not defined"),
        ("TypeError", "Object of type Namespace is not JSON serializable"),
    ],
)
def test_a_name_that_is_wrong_everywhere_is_a_slip(kind: str, message: str) -> None:
    assert is_a_slip(error(kind, message))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'reports/of_this_run.json'"),
        ("KeyError", "'STUDENT_ID'"),
        ("ModuleNotFoundError", "No module named 'cpuinfo'"),
        ("RuntimeError", "Found no NVIDIA driver on your system"),
        ("AttributeError", "'NoneType' object has no attribute 'group'"),
        ("AttributeError", "module 'torch' has no attribute 'accelerator'"),
        ("IndexError", "list index out of range"),
    ],
)
def test_what_may_go_well_elsewhere_is_no_slip(kind: str, message: str) -> None:
    assert not is_a_slip(error(kind, message))


def test_what_was_raised_in_nobodys_line_is_no_slip() -> None:
    assert not is_a_slip(error("TypeError", "a lie", frames=()))


def test_a_value_that_is_no_number_is_told() -> None:
    seen = RankOutcome(False, error=error("ValueError", "invalid literal for int() with base 10: 'auto'"))
    assert "'auto' (lightning_train.py, line 196)" in stumbled_over(seen)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("KeyError", "None"),
        (
            "UnboundLocalError",
            "cannot access local variable 'logger' where it is not associated with a value",
        ),
    ],
)
def test_what_a_logger_that_nobody_named_comes_to_is_told(kind: str, message: str) -> None:
    seen = RankOutcome(False, error=error(kind, message))
    assert f"{kind}: {message} (lightning_train.py, line 196)" in stumbled_over(seen)


def test_an_option_that_must_be_said_is_told() -> None:
    seen = RankOutcome(True, {"status": 2}, output="error: the following arguments are required: --devices\n")
    assert "required: --devices" in stumbled_over(seen)


@pytest.mark.parametrize(
    "seen",
    [
        RankOutcome(True, {"status": None}),  # stopped where it calls fit
        RankOutcome(True, {"status": 0}),
        RankOutcome(False),
        # All GPUs, of which there are none here.
        RankOutcome(False, error=error("TypeError", "`devices` selected with `CPUAccelerator` should be an int > 0.")),
        RankOutcome(False, error=error("MisconfigurationException", "`Trainer(devices=0)` value is not a valid input")),
        RankOutcome(False, error=error("RuntimeError", "the server socket has failed to listen")),
        RankOutcome(False, error=error("ValueError", "a lie", frames=())),
        RankOutcome(False, error=error("KeyError", "'COMET_API_KEY'")),
    ],
)  # fmt: skip
def test_what_is_no_matter_of_devices_is_not_told(seen: RankOutcome) -> None:
    assert stumbled_over(seen) == ""
