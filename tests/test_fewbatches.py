"""Scripts that divide by a part of the number of batches, which is 0 of the few batches of a check."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

from lockstep.sandbox import awaiting
from lockstep.sandbox.box import Box
from lockstep.sandbox.fewbatches import spared
from tests.samples import edited, messages_of_losses
from tests.sandboxed import seen

FEW = list(range(3))
SPARED = [
    "[i for i in FEW if i % (len(FEW) // 10) == 0]",
    "n = len(FEW)\n[i for i in FEW if i % (n // 10) == 0]",
    "every = len(FEW) // 10\n[i for i in FEW if (i + 1) % every == 0]",
    "n_batches = len(FEW)\nevery: int = n_batches // 5\n1 % every\n7.0 / every",
    "every = int(len(FEW) / 10)\n1 % every",
    "every = int(len(FEW) * 0.1)\n1 % every",
    "1 % round(len(FEW) / 10)",
    "every = math.floor(len(FEW) / 10)\n1 % every",
    "class A: pass\nself = A()\nself.n = len(FEW)\nself.every = self.n // 10\n1 % self.every",
    "every = (len(FEW) + 1) // 10\nlast = every\n1 // last",
    "if every := len(FEW) // 10:\n    pass\n1 % every",
    "total = 3 * len(FEW)\n1 % (total // 10)",
    "FEW[:: len(FEW) // 10]",
    "num_epochs = 3\n[i for i in FEW if i % (num_epochs // 10) == 0]",
    "class A: epochs = 3\nargs = A()\n1 % (args.epochs // 10)",
    "config = {'epochs': 3}\n1 % (config['epochs'] // 10)",
    "def f(n_steps):\n    every = n_steps // 10\n    return 1 % every\nf(3)",
    "EPOCHS = 3\n1 % int(EPOCHS * 0.1)",
    "n = len(FEW)\n[FEW[i] for i in range(0, n, n // 10)]",
]
AS_EVER = [
    "1 % 0",
    "zero = 0\n1 % zero",
    "n = 3\n1 % (n // 10)",
    "epochs = 0\n1 % epochs",
    "steps_done = 3\n1 % (steps_done // 10)",
    "def f(every): return 1 % every\nevery = len(FEW) // 10\nf(0)",
    "for every in [0]:\n    1 % every\nevery = len(FEW) // 10",
    "every = len(FEW) // 10\nevery += 0\n1 % every",
    "every = len(FEW) // 10\nevery = 0\n1 % every",
    "1 % (len(FEW) - 3)",
]


@pytest.mark.parametrize("lines", SPARED)
def test_a_part_of_a_small_number_is_one_at_least(lines: str) -> None:
    with pytest.raises((ZeroDivisionError, ValueError)):
        exec(compile(lines, "x", "exec"), {"FEW": FEW, "math": math})
    exec(compile(spared(ast.parse(lines)), "x", "exec"), {"FEW": FEW, "math": math})


@pytest.mark.parametrize("lines", AS_EVER)
def test_what_is_no_part_of_a_length_fails(lines: str) -> None:
    with pytest.raises(ZeroDivisionError):
        exec(compile(spared(ast.parse(lines)), "x", "exec"), {"FEW": FEW})


@pytest.mark.parametrize(
    "lines",
    [
        "x = len(FEW) // 10\ny = [1, 2, 3][len(FEW) // 2]",
        "x = 7 % (len(FEW) // 2)\ny = len(FEW) // 3 / 2",
        "x = '%d' % (len(FEW) // 10,)\ny = len(FEW) // 10",
        "x, y = 20 // len(FEW), 20 % len(FEW)",
    ],
)
def test_what_divides_by_something_is_as_ever(lines: str) -> None:
    plain: dict[str, object] = {"FEW": FEW}
    other = dict(plain)
    exec(compile(lines, "x", "exec"), plain)
    exec(compile(spared(ast.parse(lines)), "x", "exec"), other)
    assert (plain["x"], plain["y"]) == (other["x"], other["y"])


def test_long_files_are_through_at_once() -> None:
    lines = [f"n{i} = n{i - 1} + len(FEW) // 9" for i in range(1, 400)]
    text = " + ".join(900 * ["'a'"])
    source = "\n".join(["n0 = len(FEW) // 2", *lines, f"x = {text}", "y = 1 % (len(FEW) // 9)"])
    names: dict[str, object] = {"FEW": FEW}
    exec(compile(spared(ast.parse(source)), "x", "exec"), names)
    assert (names["x"], names["y"]) == (900 * "a", 0)


def test_errors_are_where_they_were(box: Box) -> None:
    source = "def main():\n    every = len([]) // 3\n    1 % every\n    return 1 / 0"
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        seen(box, source)


def test_cells_are_spared_as_well() -> None:
    assert awaiting.evaluate(ast.Expression(ast.parse("7 % (len([]) // 3)", mode="eval").body), "x", {}) == 0


COUNTED = "n_items += len(labels)\n"


@pytest.mark.parametrize(
    ("exercise", "check", "indent", "follows"),
    [
        ("fashion_trainer", "returns_mean_loss", 12 * " ", "        losses.append"),
        ("ddp_train", "weights_in_sync", 8 * " ", "    totals = torch.tensor([loss_sum"),
    ],
)
def test_progress_that_is_told_ten_times_an_epoch_costs_nothing(
    exercise: str, check: str, indent: str, follows: str, tmp_path: Path, box: Box
) -> None:
    tells = (
        f"{indent}every = len(loader) // 100\n{indent}if n_items % every == 0:\n{indent}    print(n_items)\n"
    )
    folder = edited(exercise, tmp_path, (f"{COUNTED}{follows}", f"{COUNTED}{tells}{follows}"))
    assert messages_of_losses(folder, exercise, box, [check]) == []
