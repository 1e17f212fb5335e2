"""What scripts ask for that have a screen, a terminal and a machine of their own: none of it ends a run."""

from __future__ import annotations

import pytest

from lockstep.sandbox.box import Box
from tests.sandboxed import run, seen

LINES = {
    "numbers of threads": "torch.set_num_threads(4); torch.set_num_interop_threads(2)",
    "a backend with windows": "import matplotlib; matplotlib.use('TkAgg'); from matplotlib import pyplot; pyplot.figure()",
    "a backend that is switched to": "from matplotlib import pyplot; pyplot.switch_backend('QtAgg'); pyplot.figure()",
    "a backend among the settings": "from matplotlib import pyplot; pyplot.rcParams['backend'] = 'TkAgg'; pyplot.figure()",
    "more open files": "resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
    "more than there may be": "resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
    "the width of a terminal": "assert int(os.popen('stty size', 'r').read().split()[1]) == os.get_terminal_size().columns",
    "who sits there": "assert os.getlogin()",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_what_works_at_a_desk_ends_no_script(line: str, box: Box) -> None:
    assert seen(box, f"import os, resource, torch\n{line}\ndef main(): return 1") == 1


def test_a_screen_that_is_missing_is_told(box: Box) -> None:
    outcome = run(box, f"{LINES['a backend with windows']}\ndef main(): return 1")
    told = [event.get("spelling") for event in outcome.ranks[0].events if event.get("kind") == "shim"]
    assert told == ["backend"]


def test_threads_are_told_as_they_were_set_and_one_computes(box: Box) -> None:
    source = """
        import torch
        torch.set_num_threads(4)

        def main():
            return [torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info()]
    """
    threads, interop, info = seen(box, source)  # type: ignore[misc]
    assert (threads, interop) == (4, 1)
    assert "at::get_num_threads() : 1" in info


@pytest.mark.parametrize(
    "line",
    [
        "torch.set_num_threads(0)",
        "torch.set_num_threads('4')",
        "resource.setrlimit(resource.RLIMIT_CPU, (-5, 1))",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 10))",
    ],
)
def test_what_fails_at_a_desk_fails(line: str, box: Box) -> None:
    outcome = run(box, f"import resource, torch\ndef main(): {line}")
    assert outcome.ranks[0].error is not None
    assert outcome.ranks[0].error.type in ("RuntimeError", "TypeError", "ValueError")
