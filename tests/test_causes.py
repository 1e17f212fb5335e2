"""What a student is advised to do about an exception, by its type, its words and what was handed in."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lockstep.causes import advice
from lockstep.notebook import NotebookSource
from lockstep.sandbox.outcome import CodeFrame, StudentError
from lockstep.submission import Submission

BARE = b"import cli_of_mine\nmain()\n"
READS = b"import argparse\nparser = argparse.ArgumentParser()\n"
WITH_OPTIONS = "running `python x.py --epochs 1`"


def _entered(manager: Any) -> None:
    with manager:
        pass


def advised(
    kind: str, message: str, phase: str, files: dict[str, bytes], *, is_notebook: bool = False
) -> str:
    notebooks = {"x.py": NotebookSource("", (), {}, ())} if is_notebook else {}
    submission = Submission("someone", files, frozenset(), "0", (), {}, notebooks)
    return advice(StudentError(kind, message, (), phase), submission)


@pytest.mark.parametrize(
    ("files", "is_notebook", "told"),
    [
        ({"x.py": BARE}, False, "with argparse, and parser.parse_args()."),
        ({"x.py": BARE}, True, "and parser.parse_known_args()[0], which also works in Jupyter."),
        ({"x.py": BARE, "amp_train.py": b"import sys\nsys.argv"}, False, "Nothing in x.py reads options"),
        ({"x.py": BARE, "cli_of_mine.py": b"import typer"}, False, "Run the same call by hand"),
        ({"x.py": READS}, False, "Run the same call by hand"),
        (
            {"x.py": READS + b"args = parser.parse_args([])"},
            True,
            "x.py has parse_args() read a list of its own",
        ),
        (
            {"x.py": READS + b"args = parser.parse_args(args=[])"},
            False,
            "Read those with parser.parse_args().",
        ),
        (
            {"x.py": b"sys.argv = ['']\n" + READS + b"parser.parse_args()"},
            True,
            "x.py sets sys.argv, so it never",
        ),
        (
            {"x.py": b"if a:\n    sys.argv = ['']\n" + READS + b"parser.parse_args()"},
            True,
            "Run the same call by hand",
        ),
        (
            {"x.py": READS + b"a = parser.parse_args([]) if b else parser.parse_args()"},
            True,
            "Run the same call by hand",
        ),
        ({"x.py": b"def place(): fire = 1"}, False, "Nothing in x.py reads options"),
        ({}, False, "Run the same call by hand"),
    ],
)
def test_a_script_that_reads_no_options_is_told_so(
    files: dict[str, bytes], is_notebook: bool, told: str
) -> None:
    assert told in advised("RuntimeError", "boom", WITH_OPTIONS, files, is_notebook=is_notebook)


@pytest.mark.parametrize(
    ("kind", "message", "phase", "told"),
    [
        ("TypeError", "got (str, int), but expected one of", WITH_OPTIONS, "type=int"),
        ("TypeError", "can't multiply sequence by non-int of type 'str'", WITH_OPTIONS, "type=int"),
        ("TypeError", "got (str, int), but expected one of", "calling f()", "by hand"),
        ("TypeError", "strange", WITH_OPTIONS, "by hand"),
        (
            "ValueError",
            "Invalid rank 2, rank should be in the interval [0, 1]",
            "calling f()",
            "leave both out",
        ),
        (
            "DistNetworkError",
            "name: EADDRINUSE, message: address already in use",
            "calling f()",
            "LOCAL_RANK",
        ),
        ("URLError", "<urlopen error [Errno -2] Name or service not known>", "calling f()", "no network"),
        ("SyntaxError", "'(' was never closed (x.py, line 3)", "importing x.py", "could not read the file"),
        ("SystemExit", "no data", "importing x.py", "below `if __name__"),
        ("SystemExit", "no data", "calling f()", "raise an exception"),
        (
            "AttributeError",
            "'DataLoader' object has no attribute 'set_epoch'",
            "calling f()",
            "loader.sampler",
        ),
        ("TypeError", "unsupported format string passed to NoneType.__format__", "calling f()", "return"),
        ("EOFError", "EOF when reading a line", "calling f()", "argparse"),
        (
            "RuntimeError",
            "Found no NVIDIA driver on your system.",
            "calling f()",
            "torch.cuda.is_available()",
        ),
        ("RuntimeError", "grad can be implicitly created only for scalar outputs", "calling f()", "mean"),
        (
            "UnpicklingError",
            "Weights only load failed. In PyTorch 2.6, we changed",
            "calling f()",
            "pickle_protocol",
        ),
        ("TypeError", "f() missing 1 required positional argument: 'lr'", "calling f()", "a default"),
        ("TypeError", "A.f() takes 2 positional arguments but 3 were given", "calling f()", "the order"),
        (
            "TypeError",
            "f() takes from 1 to 2 positional arguments but 3 were given",
            "calling f()",
            "the order",
        ),
        (
            "ValueError",
            "Expected `device_type` of type `str`, got: ",
            "calling f()",
            "torch.autocast(device.type",
        ),
        (
            "ValueError",
            "outputs must be a Tensor or an iterable of Tensors",
            "calling f()",
            "scaler.scale(loss).backward()",
        ),
        ("AttributeError", "'float' object has no attribute 'backward'", "calling f()", "plain number"),
        ("AttributeError", "'tuple' object has no attribute 'to'", "calling f()", "images, labels = batch"),
        ("RuntimeError", "selected index k out of range", "calling f()", "topk(k, dim=1)"),
        (
            "TypeError",
            "expected str, bytes or os.PathLike object, not NoneType",
            "calling f()",
            "if args.report",
        ),
        ("PermissionError", "[Errno 1] Operation not permitted", "calling f()", "by hand"),
        ("PermissionError", "[Errno 13] Permission denied: '/data/x'", "calling f()", "folder you are in"),
        ("RuntimeError", "recv error", "calling f()", "Another rank ended"),
        ("NotImplementedError", "x.py is not written yet", "calling f()", "look for the TODO"),
        (
            "NotImplementedError",
            'Module [Net] is missing the required "forward" function',
            "calling f()",
            "no method forward",
        ),
        ("NotImplementedError", "Could not run 'aten::nonzero'", "calling f()", "by hand"),
        ("ImportError", "cannot import name 'v2' from 'torchvision'", "importing x.py", "spelled just so"),
        ("NameError", "name 'np' is not defined", "calling f()", "Nothing has defined np"),
        ("NameError", "name 'null' is not defined", "importing x.py", "ends in .ipynb"),
        ("TypeError", "f() got an unexpected keyword argument 'lr'", "calling f()", "has it called"),
        ("TypeError", "f() got an unexpected keyword argument 'lr'", "", "in the place of"),
        ("AttributeError", "'NoneType' object has no attribute 'to'", "calling f()", "without `return`"),
        ("TypeError", "'NoneType' object is not iterable", "calling f()", "without `return`"),
        ("TypeError", "'int' object is not iterable", "calling f()", "range(n)"),
        ("TypeError", "'Net' object is not iterable", "calling f()", "model.parameters()"),
        (
            "TypeError",
            "default_collate: batch must contain tensors; found <class 'PIL.Image.Image'>",
            "calling f()",
            "ToTensor()",
        ),
        ("TypeError", "'list' object is not callable", "calling f()", "transforms.Compose"),
        ("ValueError", "too many values to unpack (expected 2)", "calling f()", ".items()"),
        (
            "ValueError",
            "You set `devices=1` and `num_nodes=1` in Lightning, but the product (1 * 1) does not match the world size (2).",
            WITH_OPTIONS,
            "devices=args.devices",
        ),
        ("FileNotFoundError", "no .jpg images in '/data/faces'", "calling f()", "what lies there"),
        (
            "AttributeError",
            "'Net' object has no attribute 'module'",
            "calling f()",
            "Only the wrapper has .module",
        ),
        (
            "AttributeError",
            "Can't pickle local object 'Recorder.__init__.<locals>.<lambda>'",
            "calling save_checkpoint(...)",
            "model.state_dict()",
        ),
        (
            "ValueError",
            "Expected more than 1 value per channel when training, got input size torch.Size([1, 512, 1, 1])",
            "calling f()",
            "model.eval()",
        ),
        ("AssertionError", "", "in dataset[0]", "a file that is closed already"),
        ("AssertionError", "Unknown backend type nccl_", "calling setup()", "'gloo'"),
        ("RuntimeError", "`rank` must be an integer. 0", "calling setup()", "is text"),
        (
            "ValueError",
            "Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set",
            "calling setup()",
            "HashStore()",
        ),
        (
            "ValueError",
            "Number of columns must be a positive integer, not np.float64(4.0)",
            WITH_OPTIONS,
            "`//`",
        ),
        ("TypeError", "Invalid shape (3, 250, 250) for image data", WITH_OPTIONS, "permute(1, 2, 0)"),
        ("AttributeError", "'str' object has no attribute 'finalize'", WITH_OPTIONS, "CSVLogger(...)"),
        (
            "AttributeError",
            "'JudgesData' object has no attribute 'classes'",
            "calling f()",
            "a data module of their own",
        ),
        (
            "MisconfigurationException",
            "`train_dataloader` must be implemented to be used with the Lightning Trainer",
            WITH_OPTIONS,
            "datamodule=data",
        ),
        (
            "MisconfigurationException",
            "Unknown configuration for model optimizers. Output from `model.configure_optimizers()` should be",
            "calling f()",
            "returns an optimizer",
        ),
        (
            "RuntimeError",
            "ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length 2, got 0)",
            "calling evaluate()",
            "torch.zeros_like(x)",
        ),
        (
            "OSError",
            "[Errno 18] Invalid cross-device link: '/tmp/tmphoc4h1ra' -> 'checkpoint.pt'",
            "calling f()",
            "within one file system",
        ),
        ("KeyError", "'model_state_dict'", "calling load_checkpoint()", "just as where it was put in"),
        ("ValueError", "TCPStore world size cannot be 0", "calling setup()", "are the two swapped?"),
        (
            "TypeError",
            "Expected timeout argument to be of type datetime.timedelta, got 2",
            "calling setup()",
            "gets its name",
        ),
        (
            "AttributeError",
            "'RandomSampler' object has no attribute 'set_epoch'",
            "calling f()",
            "The third place is shuffle",
        ),
        (
            "AttributeError",
            "'CIFAR10' object has no attribute 'set_epoch'",
            "calling f()",
            "loader.sampler.set_epoch(epoch)",
        ),
        (
            "ValueError",
            "Expected a torch.device with a specified index or an integer, but got:cuda",
            "calling f()",
            "local_rank",
        ),
    ],
)
def test_the_usual_cause_is_named(kind: str, message: str, phase: str, told: str) -> None:
    assert told in advised(kind, message, phase, {"x.py": READS})


@pytest.mark.parametrize(
    ("kind", "message", "line", "told"),
    [
        ("SyntaxError", "invalid syntax (x.py, line 2)", "def f(:", "a bracket, a quote or a colon"),
        ("SyntaxError", "invalid syntax (x.py, line 2)", "type Rows = list[int]", "runs with Python 3.11"),
        ("SyntaxError", "invalid syntax (x.py, line 2)", "!pip install tqdm", "Jupyter's"),
        ("SyntaxError", "invalid syntax (x.py, line 2)", "<<<<<<< HEAD", "git has left this mark"),
        ("SyntaxError", "invalid syntax (x.ipynb, cell 2, line 2)", "!pip", "a bracket, a quote or a colon"),
        ("SyntaxError", "invalid syntax (x.py, line 9)", "!pip", "a bracket, a quote or a colon"),
        ("TabError", "inconsistent use of tabs (x.py, line 2)", "\treturn 1", "with spaces alone"),
        ("IndentationError", "expected an indented block after 'if' statement on line 1 (x.py, line 2)", "y", "`pass`"),
    ],
)  # fmt: skip
def test_a_file_that_python_cannot_read_is_not_to_be_called_by_hand(
    kind: str, message: str, line: str, told: str
) -> None:
    assert told in advised(kind, message, "importing x.py", {"x.py": f"import os\n{line}\n".encode()})


def test_how_to_save_a_file_that_python_cannot_read() -> None:
    message = "the file holds NUL bytes: it is not a text file (saved as UTF-16?)"
    assert "with the encoding UTF-8" in advised("SourceError", message, "importing x.py", {"x.py": b""})
    message = "the file is larger than 256 KiB"
    assert "Keep the code in it" in advised("SourceError", message, "importing x.py", {"x.py": b""})


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: F.linear(torch.zeros(4, 3).half(), torch.zeros(3, 3)), "different types"),
        (lambda: F.conv2d(torch.zeros(1, 3, 8, 8).double(), torch.zeros(4, 3, 3, 3)), "different types"),
        (lambda: F.cross_entropy(torch.zeros(4, 10), torch.zeros(4)), "class numbers"),
        (
            lambda: F.cross_entropy(torch.zeros(4, 10), torch.zeros(4, 1).long()),
            "one class number for each item",
        ),
        (lambda: F.cross_entropy(torch.zeros(4, 10), torch.zeros(3).long()), "another number of rows"),
        (lambda: F.cross_entropy(torch.zeros(4, 10), torch.full((4,), 10)), "count from 0"),
        (lambda: F.cross_entropy(torch.zeros(4), torch.zeros(4).long()), "no argmax"),
        (lambda: F.cross_entropy(torch.zeros(4, 3), torch.zeros(4, 3).long()), "no one_hot"),
        (lambda: (1, 2).sampler, "`return a, b`"),
        (lambda: torch.utils.data.DataLoader([1], 1).sampler.rank, "The third place is shuffle"),
        (lambda: F.conv2d(torch.zeros(1, 1, 8, 8), torch.zeros(4, 3, 3, 3)), "another number of channels"),
        (lambda: torch.zeros(4) == torch.zeros(5), "print both shapes"),
        (lambda: torch.zeros(3).item(), "one number"),
        (lambda: bool(torch.zeros(3)), "torch.equal"),
        (lambda: torch.zeros(2).long().mean(), ".float().mean()"),
        (lambda: torch.device("gpu"), "'cuda:1'"),
        (lambda: torch.device("cuda:x"), "'cuda:1'"),
        (lambda: "cpu".type, "torch.device(name)"),
        (lambda: torch.device("cuda", "1"), "text"),
        (
            lambda: F.cross_entropy(torch.zeros(4).long(), torch.zeros(4, 10)),
            "F.cross_entropy(logits, labels)",
        ),
        (lambda: F.cross_entropy(torch.zeros(4, 1, 28, 28), torch.zeros(4).long()), "the pictures"),
        (lambda: torch.zeros(4).topk(1, dim=1), "Print its shape"),
        (lambda: torch.zeros(4 / 2), "`//`"),
        (lambda: torch.arange(4).split(2.0), "`//`"),
        (lambda: Path("/nowhere/x.jpg").read_bytes(), "paths of your own machine"),
        (lambda: Path("nowhere/x.jpg").touch(), "parents=True"),
        (lambda: os.replace("nowhere.pt", "nowhere.pt.part"), "are the two swapped"),
        (lambda: torch.save("nowhere.pt", {}), "torch.save(checkpoint, path)"),
        (lambda: iter(Path()), "rglob"),
        (lambda: torch.zeros(1).item * 2, "loss.item()"),
        (lambda: _entered(torch.no_grad), "with torch.no_grad()"),
        (lambda: {{}: 1}, "**settings"),
        (lambda: range(4 / 2), "`//`"),
        (lambda: [0][1], "numbered from 0"),
        (lambda: next(iter([])), "gone through once"),
        (lambda: filter(None, [])[0], "sorted(...)"),
        (lambda: len(map(str, [])), "sorted(...)"),
    ],
)
def test_what_torch_says_of_types_and_shapes_has_a_cause(mistake: Callable[[], object], told: str) -> None:
    with pytest.raises(Exception) as raised:
        mistake()
    assert told in advised(type(raised.value).__name__, str(raised.value), "calling f()", {})


@pytest.mark.parametrize(
    ("file", "phase", "told"),
    [
        ("helpers.py", "importing x.py", "x.py and helpers.py import each other"),
        ("helpers.py", "importing y.py", "spelled just so"),
        ("x.py", "importing x.py", "spelled just so"),
    ],
)
def test_two_files_that_import_each_other_are_named(file: str, phase: str, told: str) -> None:
    message, frame = "cannot import name 'f' from 'x' (/work/x.py)", CodeFrame(file, 1, "<module>")
    error = StudentError("ImportError", message, (CodeFrame("x.py", 1, "<module>"), frame), phase)
    assert told in advice(error, Submission("someone", {"x.py": b""}, frozenset(), "0", (), {}, {}))


def test_a_call_of_their_own_is_not_taken_for_the_one_that_the_exercise_asks_for() -> None:
    submission = Submission("someone", {"x.py": READS}, frozenset(), "0", (), {}, {})
    frame = CodeFrame("x.py", 3, "main")
    error = StudentError(
        "TypeError", "f() missing 1 required positional argument: 'lr'", (frame,), "calling f()"
    )
    assert "That line calls something with other arguments" in advice(error, submission)
    assert "the line above" not in advice(replace(error, frames=(), message="odd"), submission)
