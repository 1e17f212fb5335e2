"""Error bars that somebody may have seen are told from those that nobody can have seen, which alone cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import build
from graders.reports.spot import NOTEBOOK
from tests.sandboxed import ROOT

SOURCE = (build.ROOT / "reference" / "lfw_dataset.py").read_bytes()
BARS = "axis.errorbar([0, 1], [2.0, 3.0], yerr=[0.1, 0.2]); "
# What a script may do, and whether there were error bars that nobody can have seen.
WAYS = {
    "nothing": ("", False),
    "no bars": ("axis.plot([1, 2])", False),
    "bars": (BARS, True),
    "bars of pyplot": ("plt.errorbar([0], [1.0], [0.1])", True),
    "bars under columns": ("axis.bar([0], [1.0], yerr=[0.1])", True),
    "closed": (BARS + "plt.close(figure)", True),
    "laid out": (BARS + "figure.tight_layout()", True),
    "a report": (BARS + "open('loader.json', 'w').write('{}')", True),
    "read again": (BARS + "open(os.__file__).read()", True),
    "workers": (BARS + "list(DataLoader(list(range(4)), num_workers=2))", True),
    "show": (BARS + "plt.show()", False),
    "show by its name": (BARS + "from matplotlib.pyplot import show; show(block=False)", False),
    "figure.show": (BARS + "figure.show()", False),
    "manager.show": (BARS + "figure.canvas.manager.show()", False),
    "pause": (BARS + "plt.pause(0.001)", False),
    "interactive": ("plt.ion(); " + BARS, False),
    "savefig": (BARS + "figure.savefig('loader.svg')", False),
    "savefig before": ("figure.savefig('loader.png'); " + BARS, False),
    "savefig of pyplot": (BARS + "plt.savefig('/tmp/any/where.pdf')", False),
    "savefig into memory": (BARS + "import io; plt.savefig(io.BytesIO(), format='pdf')", False),
    "print_png": (BARS + "figure.canvas.print_figure('loader.png')", False),
    "pixels": (BARS + "figure.canvas.draw(); plt.imsave('x.png', figure.canvas.buffer_rgba())", False),
    "a page": (BARS + "open('loader.html', 'w').write('<svg/>')", False),
    "by a path": (BARS + "Path('loader.tex').write_text('tikz')", False),
    "in bytes": (BARS + "open(b'loader.eps', 'wb').close()", False),
    "another program": (BARS + "subprocess.run(['true'])", False),
    "at exit": (BARS + "atexit.register(figure.savefig, 'loader.png')", False),
    "in a process of its own": ("p = Process(target=lambda: axis.errorbar([0], [1.0], [0.1])); p.start(); p.join()", False),
}  # fmt: skip
ONE_BY_ONE = """
import atexit, json, os, subprocess, sys
from multiprocessing import Process
from pathlib import Path
import matplotlib
matplotlib.use("agg")
from matplotlib import pyplot as plt
from torch.utils.data import DataLoader
from graders.reports.probe.drawing import Bars
for source in json.load(sys.stdin):
    if os.fork() == 0:
        bars = Bars()
        figure, axis = plt.subplots()
        try:
            exec(source)
        except FileNotFoundError:
            pass
        os._exit(bars.are_unseen())
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In which ways there were error bars that nobody can have seen, as the probe sees it."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE],
        input=json.dumps([source for source, _ in WAYS.values()]),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("work"),
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "MPLCONFIGDIR": str(tmp_path_factory.mktemp("matplotlib")),
            "TMPDIR": str(tmp_path_factory.mktemp("tmp")),
        },
    )
    return dict(zip(WAYS, done.stdout.split(), strict=True))


@pytest.mark.parametrize("name", WAYS)
def test_bars_that_may_have_been_seen_are_told_from_those_that_were_not(
    name: str, unseen: dict[str, str]
) -> None:
    assert unseen[name] == str(int(WAYS[name][1]))


@pytest.mark.parametrize("mark", ["# In[1]:", "# %%", "get_ipython().run_line_magic('matplotlib', 'inline')"])
def test_marks_of_a_notebook_are_known(mark: str) -> None:
    assert NOTEBOOK.search(mark.encode() + b"\n" + SOURCE)
    assert not NOTEBOOK.search(SOURCE)


def test_odd_paths_are_left_to_those_who_open_them(tmp_path: Path) -> None:
    source = """
from graders.reports.probe.drawing import Bars
Bars()
for path in (None, [], 3.5):
    try:
        open(path, "w")
    except TypeError:
        print("right")
"""
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)},
    )
    assert done.stdout.split() == ["right"] * 3
