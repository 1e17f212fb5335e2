"""A notebook in the sandbox: cells in order, parameters from the judge, limits for each cell, places in messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from lockstep import explain
from lockstep.notebook import read_notebook
from lockstep.remarks import remarks
from lockstep.sandbox.box import Box
from lockstep.sandbox.cells import read_cells
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.submission import Submission, open_submission
from lockstep.verdict import CheckEnded, Crashed, Hung, LimitExceeded
from lockstep.wire import Json
from tests.sandboxed import GENEROUS, run
from tests.test_notebook import code, notebook, text


def tagged(source: str) -> dict[str, object]:
    return code(source, metadata={"tags": ["parameters"]})


class Lab:
    """Hands `student.ipynb` in and runs it in the box."""

    def __init__(self, folder: Path, box: Box) -> None:
        self._folder = folder
        self._box = box
        self.submission: Submission

    def run(
        self, *cells: object, limits: Limits = GENEROUS, call: str = "notebook", **values: Json
    ) -> Outcome:
        (self._folder / "student.ipynb").write_bytes(notebook(*cells))
        self.submission = open_submission(self._folder)
        sources = {path: data.decode() for path, data in self.submission.files.items()}
        return run(
            self._box, sources.pop("student.py"), call=call, files=sources, values=[values], limits=limits
        )

    def seen(self, *cells: object, **values: Json) -> Mapping[str, Json]:
        """What the probe sent about a run that went to its end or was caught."""
        (rank,) = self.run(*cells, **values).ranks
        assert rank.error is None, rank.error
        return rank.values

    def verdict(
        self, *cells: object, limits: Limits = GENEROUS, call: str = "notebook", **values: Json
    ) -> CheckEnded:
        """What a check would end with."""
        outcome = self.run(*cells, limits=limits, call=call, **values)
        problem = explain.problem(outcome, limits, self.submission)
        assert problem is not None, outcome
        return problem


@pytest.fixture
def lab(tmp_path: Path, box: Box) -> Lab:
    return Lab(tmp_path, box)


def ran(seen: Mapping[str, Json]) -> dict[str, Json]:
    return cast(dict[str, Json], seen["run"])


def test_cells_run_in_order_in_one_main(lab: Lab) -> None:
    seen = lab.seen(
        text("# Title"),
        code("seen = [__name__]"),
        code("%matplotlib inline\nimport sys\nseen.append(sys.argv[0])\nseen = str(seen)"),
        code("class Net:\n    pass\nassert sys.modules['__main__'].Net is Net"),
    )
    assert seen["seen"] == "['__main__', 'student.ipynb']"
    run = ran(seen)
    assert (run["total"], run["failed"], run["error"]) == (3, None, None)
    assert [cell[0] for cell in cast(list[list[Json]], run["ran"])] == [1, 2, 3]


def test_a_notebook_finds_its_own_file(lab: Lab) -> None:
    seen = lab.seen(
        code("import json\nfrom pathlib import Path\nbook = json.loads(Path('student.ipynb').read_text())"),
        tagged("seen = ''"),
        code("kept = [cell['metadata'].get('tags') for cell in book['cells']]"),
        code('seen = f\'{kept} {book["cells"][1]["source"]}\''),
    )
    assert seen["seen"] == "[None, ['parameters'], None, None] seen = ''"


def test_cells_may_await(lab: Lab) -> None:
    seen = lab.seen(
        code("import asyncio\nasync def two():\n    await asyncio.sleep(0)\n    return 2"),
        code("first = await two()\nfirst += await two()"),
        code("seen = first\nawait two()"),
    )
    assert (seen["seen"], ran(seen)["failed"]) == (4, None)


def test_the_judge_overrides_the_tagged_cell(lab: Lab) -> None:
    cells = (code("import os"), tagged("epochs = 90\nlr = 0.1"), code("seen = f'{epochs} {lr} {more}'"))
    seen = lab.seen(*cells, parameters={"epochs": 1, "more": "x"})
    assert seen["seen"] == "1 0.1 x"
    assert (ran(seen)["parameters_cell"], ran(seen)["unknown"]) == (2, ["more"])


def test_what_the_tagged_cell_makes_of_its_constants_is_made_of_the_given_ones(lab: Lab) -> None:
    cells = (
        code("from __future__ import annotations"),
        tagged("epochs = 90\nlr: float = 0.1\nargs = dict(epochs=epochs, lr=lr)"),
        code("seen = f'{args} {__annotations__}'"),
    )
    seen = lab.seen(*cells, parameters={"epochs": 1})
    assert seen["seen"] == "{'epochs': 1, 'lr': 0.1} {'lr': 'float'}"


def test_without_the_tag_nothing_is_overridden(lab: Lab) -> None:
    seen = lab.seen(code("epochs = 90"), code("seen = epochs"), parameters={"epochs": 1})
    assert seen["seen"] == 90
    assert (ran(seen)["parameters_cell"], ran(seen)["unknown"]) == (None, ["epochs"])


def test_seconds_and_output_are_told_by_cell(lab: Lab) -> None:
    run = ran(lab.seen(code("import time; time.sleep(0.3)"), code("print('x' * 99)\n'shown'"), code("None")))
    cells = cast(list[list[float]], run["ran"])
    assert 0.3 <= cells[0][1] < 10
    assert [cell[2] for cell in cells] == [0, 100 + len("'shown'\n"), 0]


def test_what_jupyter_shows_is_printed(lab: Lab) -> None:
    (rank,) = lab.run(code("import torch\ntorch.ones(2)"), code("x = 5\nx;"), code("display({'a': 1})")).ranks
    assert rank.output == "tensor([1., 1.])\n5\n{'a': 1}\n"


STAND_INS = {
    "display": "display(1, 2)",
    "get_ipython": "get_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().system('ls')",
    "magics": "%matplotlib inline\n%load_ext tensorboard\n!pip install torch\n%pip install x\nfiles = !ls",
    "timed": "%%time\nx = 1\n%time y = x\nassert y == 1",
    "imported display": "from IPython.display import HTML, clear_output, display\ndisplay(HTML('<b>'))\nclear_output(wait=True)",
    "old display": "from IPython.core.display import display, HTML\ndisplay(HTML())",
    "imported shell": "from IPython import get_ipython\nget_ipython().run_line_magic('cd', '.')",
    "whole module": "import IPython\nIPython.display.display(3)",
    "a module's module": "from IPython import display\ndisplay.clear_output(wait=True)\ndisplay.display(3)\nfrom IPython.display import display",
    "shown again": "shown = display(1, display_id=True)\nshown.update(2)",
    "every expression": "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = 'all'",
    "magics of one's own": "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef two(line):\n    return 2\nassert two('') == 2",
    "what cells held and showed": "1 + 1\n_, __, ___\n_.shape, Out[3], In[-1], len(Out)\nfor _ in range(3): pass\nassert _ == 2",
    "folders in a function": "import os\ndef f():\n    if not os.path.isdir('c'):\n        !mkdir c\n    return os.path.isdir('c')\nassert f()",
    "folders and variables": "!mkdir -p a/b\n%env PLACE=a/b\nimport os\nassert os.path.isdir(os.environ['PLACE'])",
    "which front end": "assert 'google.colab' not in str(get_ipython())\nassert get_ipython().__class__.__name__ != 'ZMQInteractiveShell'",
    "bars": "from tqdm.notebook import tqdm, trange\nassert list(tqdm(range(3))) == list(trange(3))",
    "bars by themselves": "from tqdm.auto import tqdm\nassert list(tqdm([1])) == [1]",
    "in Colab only": "try:\n    import google.colab\nexcept ImportError:\n    pass\nelse:\n    raise ValueError",
    "awaiting": "import asyncio\nawait asyncio.sleep(0)",
    "figures": "import matplotlib.pyplot as plt\nimport IPython.display\nplt.plot([1, 2])\nplt.show()",
    "annotations": "from __future__ import annotations\ndef f(x: Later) -> Never: ...\nassert f.__annotations__ == {'x': 'Later', 'return': 'Never'}",
    "main guard": "if __name__ == '__main__':\n    done = 1\nassert done",
}  # fmt: skip


def test_what_only_jupyter_has_does_no_harm(lab: Lab) -> None:
    seen = lab.seen(*map(code, STAND_INS.values()), code("seen = 'end'"))
    assert seen["seen"] == "end", list(STAND_INS)[cast(int, ran(seen)["failed"]) - 1]


PLATFORMS = {
    "colab": "from google.colab import drive, files\ndrive.mount('/content/drive')\nfor name in files.upload().keys():\n    pass",
    "keys": "import os\nfrom google.colab import userdata\nos.environ['WANDB_API_KEY'] = userdata.get('WANDB')",
    "patches": "from google.colab.patches import cv2_imshow\ncv2_imshow(None)",
    "a module": "import google.colab.output\ngoogle.colab.output.clear()",
    "kaggle": "from kaggle_secrets import UserSecretsClient\nassert UserSecretsClient().get_secret('wandb') == ''",
    "widgets": "import ipywidgets as widgets\nslider = widgets.IntSlider(min=1)\nslider.observe(print)\nwith widgets.Output():\n    display(slider)",
    "interaction": "from ipywidgets import interact\n@interact(x=3)\ndef f(x):\n    return x\nassert f(1) == 1",
}  # fmt: skip


def test_what_a_platform_has_does_no_harm(lab: Lab) -> None:
    seen = lab.seen(*map(code, PLATFORMS.values()), code("seen = 'end'"))
    assert seen["seen"] == "end", list(PLATFORMS)[cast(int, ran(seen)["failed"]) - 1]


def test_a_python_file_that_was_saved_from_colab_finds_its_modules(box: Box) -> None:
    source = """
        from IPython.display import clear_output
        from google.colab import drive

        def main():
            clear_output()
            drive.mount("/content/drive")
            return 5
    """
    (rank,) = run(box, source, call="call").ranks
    assert rank.error is None


def test_wandb_takes_the_notebook_for_plain_python(lab: Lab) -> None:
    source = (
        "import IPython.display, wandb\nfrom wandb.sdk.lib.ipython import in_notebook\nseen = in_notebook()"
    )
    assert lab.seen(code(source))["seen"] is False


def test_a_script_written_by_nbconvert_finds_the_shell(box: Box) -> None:
    source = """
        get_ipython().run_line_magic('matplotlib', 'inline')
        get_ipython().run_cell_magic('time', '', 'def main():\\n    return 5\\n')
        display(main())
    """
    (rank,) = run(box, source, call="script").ranks
    assert (rank.error, rank.output) == (None, "5\n")


CONVERTED = {
    "jupyter nbconvert --to script student.ipynb": "student.py",
    "jupyter-nbconvert --to=python student --output made --log-level WARN": "made.py",
    "jupyter nbconvert --no-prompt --output-dir below --to script ./student.ipynb": "below/student.py",
    "jupytext --to py:percent -o made.py student.ipynb": "made.py",
    "python -m jupyter nbconvert --to script student.ipynb --output=made.py": "made.py",
    "python3 -m nbconvert --to script --stdout student.ipynb": "printed.py",
}


@pytest.mark.parametrize("line", CONVERTED)
def test_a_shell_makes_a_program_of_the_notebook(lab: Lab, line: str) -> None:
    target = CONVERTED[line]
    redirected = f"{line} > printed.py" if target == "printed.py" else line
    shell = f"mkdir below && rm student.py && {redirected} && python {target} word"
    cells = (
        code("from __future__ import annotations\n%matplotlib inline\nimport sys"),
        code("n = 2", metadata={"tags": ["parameters"]}),
        code("def twice(x: Later) -> Later:\n    return 2 * x"),
        code("%%time\nprint(twice(n), sys.argv[1], __name__)"),
    )
    (rank,) = lab.run(*cells, call="command", command=["bash", "-c", shell]).ranks
    assert (rank.values["status"], str(rank.values["said"]).splitlines()[-1]) == (0, "4 word __main__"), (
        rank.output
    )


@pytest.mark.parametrize(
    "line",
    [
        "jupyter nbconvert --to script --output /opt/made student.ipynb",
        "echo [] > odd.ipynb && jupyter nbconvert --to script odd.ipynb",
        "echo '{' > odd.ipynb && jupytext --to py odd.ipynb",
    ],
)
def test_what_cannot_be_converted_is_told_without_a_stack(lab: Lab, line: str) -> None:
    (rank,) = lab.run(code("x = 1"), call="command", command=["bash", "-c", line]).ranks
    assert rank.values["status"] == 1
    assert "cannot be made" in str(rank.values["said"])
    assert "Traceback" not in str(rank.values["said"])


@pytest.mark.parametrize(
    "line", ["jupyter lab", "jupyter nbconvert student.ipynb", "jupytext --to md student.ipynb"]
)
def test_what_else_jupyter_does_ends_at_once_and_says_so(lab: Lab, line: str) -> None:
    (rank,) = lab.run(code("x = 1"), call="command", command=["bash", "-c", line]).ranks
    assert rank.values["status"] == 1
    assert "here only `jupyter nbconvert --to script NAME.ipynb` works" in str(rank.values["said"])


@pytest.mark.parametrize(
    "asks",
    [
        "if get_ipython() is None:",
        "if not get_ipython():",
        "if __name__ == '__main__' and None == get_ipython():",
        "if not (__name__ == '__main__' and get_ipython()):",
        "if get_ipython():\n            pass\n        else:",
    ],
)
def test_a_script_that_asks_whether_it_is_in_jupyter_is_not(box: Box, asks: str) -> None:
    source = f"""
        from IPython import get_ipython
        {asks}
            print('plain')
    """
    (rank,) = run(box, source, call="script").ranks
    assert (rank.error, rank.output) == (None, "plain\n")


def test_functions_of_a_notebook_find_display(lab: Lab) -> None:
    outcome = lab.run(
        code("from IPython.display import HTML"),
        code("def main():\n    display(HTML(''))\n    return 5"),
        call="call",
    )
    assert outcome.ranks[0].values["seen"] == 5


def test_an_error_is_a_crash_that_names_cell_and_line(lab: Lab) -> None:
    ended = lab.verdict(
        code("x = 1"), text("text"), code("\n\ndef f():\n    return 1 / 0\n\nf()"), code("x = 2")
    )
    assert isinstance(ended, Crashed)
    assert ended.feedback.message == (
        "Your code raised ZeroDivisionError: division by zero (student.ipynb, cell 2, line 4, in f), "
        "while running student.ipynb, cell 2."
    )


def test_an_error_ends_the_run_and_can_be_looked_at(lab: Lab) -> None:
    seen = lab.seen(code("seen = 1"), code("import sys; sys.exit(3)"), code("seen = 2"), raises=False)
    assert seen["seen"] == 1
    assert (ran(seen)["failed"], ran(seen)["error"]) == (2, "SystemExit")
    assert len(cast(list[Json], ran(seen)["ran"])) == 2


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("y = (1,\n  2", "the cell ends inside a bracket or a string (student.ipynb, cell 2, line 1)"),
        ("if True:\nx = 1", "expected an indented block after 'if' statement in cell 2, line 1 (student.ipynb, cell 2, line 2)"),
        ("x = 1 1", "(student.ipynb, cell 2, line 1), while running student.ipynb, cell 2."),
    ],
)  # fmt: skip
def test_a_cell_that_python_cannot_read(lab: Lab, cell: str, words: str) -> None:
    message = lab.verdict(code("x = 1"), code(cell)).feedback.message
    assert "Your code raised " in message
    assert words in message
    assert "(line" not in message


def test_importing_it_names_the_cell_too(lab: Lab) -> None:
    message = lab.verdict(code("def f():\n    pass"), code("\ndef main() 1 1"), call="call").feedback.message
    assert "(student.ipynb, cell 2, line 2), while looking for main in student.py." in message
    assert "(line" not in message


def test_a_cell_that_takes_too_long_is_stopped(lab: Lab) -> None:
    loop = "try:\n    while True:\n        pass\nexcept Exception:\n    pass"
    ended = lab.verdict(code("x = 1"), code(loop), seconds=0.5)
    assert isinstance(ended, Hung)
    assert ended.feedback.message in [
        f"Cell 2 did not end within 0.5 s, at student.ipynb, cell 2, line {line}." for line in (2, 3)
    ]


def test_the_limit_holds_for_each_cell_and_not_for_all(lab: Lab) -> None:
    wait = code("import time; time.sleep(0.4)")
    assert ran(lab.seen(wait, wait, wait, seconds=1))["failed"] is None


def test_a_cell_gets_its_time_where_others_work(lab: Lab) -> None:
    busy = (
        "import sys, time\n"
        "starvation = sys.modules['lockstep.sandbox.starvation']\n"
        "starvation._seconds_of_others = lambda own: 1000 * time.monotonic()\n"
    )
    assert ran(lab.seen(code(busy), code("time.sleep(1.5)"), seconds=1))["failed"] is None


def test_a_cell_that_ignores_its_limit_meets_the_runs_own(lab: Lab) -> None:
    stubborn = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n    pass"
    ended = lab.verdict(code("x = 1"), code(stubborn), seconds=0.5, limits=Limits(seconds=2))
    assert isinstance(ended, Hung)
    assert (
        "No answer within 2 s while running student.ipynb, cell 2: it is busy at student.ipynb, cell 2, line "
        in ended.feedback.message
    )


def test_a_cell_that_prints_too_much_is_stopped(lab: Lab) -> None:
    ended = lab.verdict(
        code("print('x' * 900)"), code("for i in range(10**9):\n    print('step', i)"), output=1000
    )
    assert isinstance(ended, LimitExceeded)
    assert (
        ended.feedback.message
        == "Cell 2 printed more than 1000 characters, at student.ipynb, cell 2, line 2."
    )


def test_a_file_that_is_no_notebook_is_told(box: Box) -> None:
    (rank,) = run(box, "x = 1\n", call="notebook").ranks
    assert rank.error is not None
    assert rank.error.message == "there is no student.ipynb in the submission"


def test_cells_that_hold_headers_stay_whole() -> None:
    cells = (
        code("x = '''\n# %% cell 2 (1 line)\n'''"),
        tagged("y = 1\n# %% cell 3 (1 line)"),
        code("z = (1,"),
    )
    source = read_notebook(notebook(*cells), "n.ipynb").text
    found = read_cells(source)
    assert found is not None
    assert [(cell.number, cell.lines, cell.is_parameters, cell.is_unfinished) for cell in found] == [
        (1, 3, False, False),
        (2, 2, True, False),
        (3, 1, False, True),
    ]


@pytest.mark.parametrize(
    "source",
    ["", "x = 1\n", "# %% cell 1\nx = 1\n", "# %% cell 2 (1 line)\nx = 1\n", "# %% cell 1 (9 lines)\nx = 1\n",
     "# %% cell 1 (1 line)\nx = 1\ny = 2\n", "from __future__ import annotations\n"],
)  # fmt: skip
def test_other_files_are_no_notebooks(source: str) -> None:
    assert read_cells(source) is None


def test_what_a_notebook_runs_is_left_out_and_told(lab: Lab) -> None:
    cells = (
        code("def main():\n    return 1"),
        code("\nfor i in range(3):\n    main()"),
        code("print(main())"),
    )
    outcome = lab.run(*cells, call="call")
    assert outcome.ranks[0].values["seen"] == 1
    (told,) = remarks(outcome, lab.submission)
    assert told == (
        "This check takes the imports, definitions and constants of student.ipynb, and does not run what its cells run "
        "(from cell 2, line 2 on): nothing about that need be changed."
    )
