"""The grader of exercise 1: rules about figures, folders and random numbers, which say nothing when in doubt."""

from __future__ import annotations

import fnmatch
import json
import mimetypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets.folder import IMG_EXTENSIONS

from fixtures import build
from graders.lfw_dataset.faces import make_quilts
from graders.lfw_dataset.notebooks import may_be_a_notebook
from graders.lfw_dataset.robustness import trials
from graders.lfw_dataset.script_runs import recoloured_complaint
from lockstep.sandbox.box import Box
from lockstep.submission import Submission
from tests.samples import graded
from tests.sandboxed import ROOT

EXERCISE = "lfw_dataset"
SOURCE = (build.ROOT / "reference" / "lfw_dataset.py").read_text()

# What a script may do with its figure, and whether that may bring it before somebody's eyes.
OUTLETS = {
    "nothing": ("", False),
    "drawn and closed": ("figure.canvas.draw(); plt.close(figure)", False),
    "read again": ("open(os.__file__).read()", False),
    "its own module": ("import colorsys", False),
    "show": ("plt.show()", True),
    "show by its name": ("from matplotlib.pyplot import show; show(block=False)", True),
    "figure.show": ("figure.show()", True),
    "manager.show": ("figure.canvas.manager.show()", True),
    "pause": ("plt.pause(0.001)", True),
    "interactive": ("plt.ion()", True),
    "savefig": ("figure.savefig('batch.svg')", True),
    "savefig into memory": ("import io; plt.savefig(io.BytesIO())", True),
    "print_png": ("figure.canvas.print_figure('batch.png')", True),
    "imsave": ("plt.imsave('batch.png', [[0.1, 0.2]])", True),
    "PIL": ("from PIL import Image; Image.new('L', (2, 2)).show()", True),
    "another folder": ("import tempfile; figure.savefig(tempfile.mkstemp()[1])", True),
    "unheard": ("ctypes.CDLL(None).creat(b'batch.png', 0o600)", True),
    "another program": ("import subprocess; subprocess.run(['true'])", True),
    "at exit": ("import atexit; atexit.register(plt.show)", True),
}
ONE_BY_ONE = """
import ctypes, json, os, sys
import matplotlib
matplotlib.use("agg")
from matplotlib import pyplot as plt
from graders.lfw_dataset.probe.figures import Figures
for source in json.load(sys.stdin):
    if os.fork() == 0:
        outlets = Figures().outlets
        figure, axis = plt.subplots()
        axis.plot([1, 2])
        exec(source)
        os._exit(outlets.were_used())
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Which of the outlets were used, as the probe sees it."""
    sources = json.dumps([source for source, _ in OUTLETS.values()])
    done = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE],
        input=sources,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("work"),
        env={
            "PYTHONPATH": str(ROOT),
            "MPLCONFIGDIR": str(tmp_path_factory.mktemp("matplotlib")),
            "TMPDIR": str(tmp_path_factory.mktemp("tmp")),
        },
    )
    return dict(zip(OUTLETS, done.stdout.split(), strict=True))


@pytest.mark.parametrize("name", OUTLETS)
def test_a_figure_that_may_have_been_seen_is_told_from_one_that_was_not(
    name: str, used: dict[str, str]
) -> None:
    assert used[name] == str(int(OUTLETS[name][1]))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SOURCE, False),
        (f"# In[1]:\n{SOURCE}", True),
        (f"# %%\n{SOURCE}", True),
        (f"get_ipython().run_line_magic('matplotlib', 'inline')\n{SOURCE}", True),
        (f"# {EXERCISE}.ipynb\n{SOURCE}", True),
    ],
)
def test_a_script_that_may_be_a_notebook_is_known(source: str, expected: bool) -> None:
    files = {"lfw_dataset.py": source.encode()}
    assert may_be_a_notebook(Submission("someone", files, frozenset(), "0", (), {}, {})) is expected


COLOURS = {
    "red for blue": (lambda picture: picture[..., ::-1], "colours mixed up"),
    "green first": (lambda picture: picture[..., [1, 0, 2]], "colours mixed up"),
    "half as bright": (lambda picture: picture // 2, "much darker"),
    "half as much": (lambda picture: 128 + picture // 2, "much paler"),
    "one channel": (lambda picture: picture[..., [1, 1, 1]], "all of it in grey"),
    "rows and channels mixed": (
        lambda picture: picture.reshape(3, *picture.shape[:2]).transpose(1, 2, 0),
        None,
    ),
    "nothing at all": (lambda picture: picture[:0], "all of it in grey"),
}


@pytest.mark.parametrize("name", COLOURS)
@pytest.mark.parametrize("seed", range(5))
def test_images_in_other_colours_are_told_so(name: str, seed: int) -> None:
    change, words = COLOURS[name]
    tree, hidden = make_quilts(np.random.default_rng(seed), 8, 16)
    images = np.stack(list(tree.pixels.values())).reshape(4, 4, 250, 250, 3)
    picture = images.transpose(0, 2, 1, 3, 4).reshape(1000, 1000, 3)
    told = recoloured_complaint("drew", [change(picture)], hidden)
    assert words in told.message if words and told else told is words


# How file names are sorted out; all but the last two are let pass.
KEEPS = {
    "the ending": lambda path: path.name.lower().endswith((".jpg", ".jpeg")),
    "its last letters": lambda path: path.name[-3:].lower() == "jpg",
    "behind the last dot": lambda path: path.name.split(".")[-1] in ("jpg", "JPG"),
    "behind the last dot but for none": lambda path: path.name.rsplit(".", 1)[1].lower() == "jpg",
    "suffix": lambda path: path.suffix.lower() == ".jpg",
    "splitext": lambda path: os.path.splitext(path)[1].lower() == ".jpg",
    "fnmatch": lambda path: fnmatch.fnmatch(path.name, "*.jpg"),
    "a pattern": lambda path: re.search(r"_[0-9]{4}\.jpe?g$", path.name) is not None,
    "torchvision": lambda path: path.name.lower().endswith(IMG_EXTENSIONS),
    "mimetypes": lambda path: str(mimetypes.guess_type(path)[0]).startswith("image/"),
    "anywhere in the name": lambda path: ".jpg" in path.name,
    "letters alone": lambda path: "jpg" in path.name.lower(),
    "by opening": lambda path: is_opened(path),
    "names left out": lambda path: path.name not in (".DS_Store", "README.txt", "Thumbs.db", "desktop.ini"),
    "no texts": lambda path: path.suffix not in ("", ".txt", ".md", ".html"),
}
WRONG = ("names left out", "no texts")


def is_opened(path: Path) -> bool:
    """Whether Pillow takes a file for an image."""
    try:
        with Image.open(path) as image:
            image.verify()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_stray_files_are_known_by_every_right_way_and_by_no_other(seed: int, tmp_path: Path) -> None:
    trial = trials(np.random.default_rng(seed))["clutter"]
    for name, data in trial.files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    images = {tmp_path / name for name in trial.pixels}
    right = {name for name, keeps in KEEPS.items() if set(filter(keeps, files)) == images}
    assert right == KEEPS.keys() - set(WRONG)


GETITEM = "        return self.transform(image)\n"
TRANSFORM = "transforms.ToTensor()]\n"
PICTURE = 'BATCH_PICTURE = "reports/batch.png"\n'
NOT_THERE = "        parser.error(str(error))\n"
# What is right, however odd, with the check that looks at it.
RIGHT = {
    "flips at random": ("script", TRANSFORM, f"transforms.RandomVerticalFlip(), {TRANSFORM}"),
    "says so and ends well": ("script", NOT_THERE, '        print(f"{error}: download LFW first")\n        return\n'),
    "writes it down": ("script", NOT_THERE, '        Path("log.txt").write_text(str(error))\n        return\n'),
    "draws at home": ("script", PICTURE, 'BATCH_PICTURE = Path.home() / "lfw" / "batch.png"\n'),
    "draws where all is temporary": ("script", PICTURE, 'BATCH_PICTURE = "/tmp/lfw/batch.png"\n'),
    "draws numbers": ("transform_applied", GETITEM, f"        torch.rand(3)\n{GETITEM}"),
    "numbers of its own": (
        "transform_applied", GETITEM, f"        torch.rand(3, generator=torch.Generator().manual_seed(index))\n{GETITEM}",
    ),
    "seeds, and puts back": (
        "transform_applied", GETITEM,
        f"        state = torch.get_rng_state()\n        torch.manual_seed(index)\n        torch.set_rng_state(state)\n{GETITEM}",
    ),
    "looks into one folder": ("lazy", "        path = self.paths[index]\n",
        "        path = self.paths[index]\n        assert path.name in [one.name for one in path.parent.iterdir()]\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_odd_and_right_costs_nothing(name: str, tmp_path: Path, box: Box) -> None:
    check, find, replace = RIGHT[name]
    assert SOURCE.count(find) == 1
    (tmp_path / "lfw_dataset.py").write_text(SOURCE.replace(find, replace))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=[check]).exercises
    (one,) = (one for one in exercise.checks if one.id == check)
    assert (one.points, one.message) == (one.max_points, "")
