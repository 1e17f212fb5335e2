"""Exercise 4, ddp_train.sh: what is advised where it ends with an error."""

from __future__ import annotations

import pytest

from graders.ddp_train.launch_hints import launch_hint
from lockstep.submission import Submission

UNRECOGNIZED = "ddp_train.py: error: unrecognized arguments:"


def advised(printed: str, script: str = "") -> str:
    """The advice to whoever handed in such a script, of which these are the last lines."""
    files = {"ddp_train.sh": script.encode()}
    return launch_hint(Submission("someone", files, frozenset(), "0", (), {}, {}), printed)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("python: can't open file '/work/torchrun': [Errno 2] No such file", "torchrun is a program"),
        ("python: can't open file '/work/python': [Errno 2] No such file", "torchrun starts Python itself"),
        ("python: can't open file '/work/train.py': [Errno 2] No such file", "name ddp_train.py"),
        (f"{UNRECOGNIZED} --standalone --nproc-per-node 2", "options of torchrun's"),
        (f"{UNRECOGNIZED} $@", "single quotes"),
        (f"{UNRECOGNIZED} --epochs 2", "those that the exercise lists"),
        ("train_noddp.py: error: unrecognized arguments: --report x", "train_noddp.py was started"),
        ("ValueError: Unsupported nproc_per_node value: 2:-2", "`2:-2` is no number"),
        ("Parameter indices which did not receive grad for rank 1: 60 61 | In addition", "before wrap_model"),
        ("ValueError: Cuda is not available.", "one process for each GPU"),
        ("ImportError: Error while finding module specification for 'ddp_train.py' (Mod", "With -m"),
        ("run.py: error: the following arguments are required: training_script", "needs a backslash"),
        ("run.py: error: argument --nnodes: expected one argument", "torchrun's own command line"),
        ("./ddp_train.sh: line 3: ddp_train.py: command not found", "needs a backslash"),
        ("./ddp_train.sh: line 3: --report: command not found", "bash took --report for"),
        ("./ddp_train.sh: line 3: NPROC: command not found", "no blanks around the `=`"),
        ("./ddp_train.sh: line 3: SLURM_NNODES: unbound variable", "Nothing sets SLURM_NNODES"),
        ("./ddp_train.sh: line 3: cd: /home/me: No such file or directory", "your own machine"),
        ("./ddp_train.sh: 4: set: Illegal option -o pipefail", "#!/usr/bin/env bash"),
        ("./ddp_train.sh: line 3: unexpected EOF while looking for matching `\"'", "bash ended at that line"),
        ("ddp_train.py, line 4, in main | AttributeError: 'NoneType' object has no x", "without `return`"),
        ("ddp_train.py, line 4, in main | OddError: odd", "mend the line that is named"),
        ("odd", "Run the same line in a terminal"),
    ],
)
def test_what_is_usually_wrong_with_a_launch_script(printed: str, told: str) -> None:
    assert told in advised(printed)


@pytest.mark.parametrize(
    ("script", "printed", "told"),
    [
        ("torchrun\r\n", "odd", "line ends of Windows"),
        ('torchrun x.py "$*"', f"{UNRECOGNIZED} --epochs 2", "each of them by itself"),
        ("torchrun x.py --checkpoint = a.pt", f"{UNRECOGNIZED} a.pt", "stands no blank"),
        ("torchrun x.py --resume", "x.py, line 1, in f | FileNotFoundError: x", "the first run has nothing"),
        ("# --resume goes on\ntorchrun x.py", "x.py, line 1, in f | FileNotFoundError: x", "list(Path(path)"),
    ],
)
def test_what_the_script_itself_tells(script: str, printed: str, told: str) -> None:
    assert told in advised(printed, script)
