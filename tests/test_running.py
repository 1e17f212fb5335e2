"""What the shell of a notebook gives its code: other files' names, lines of commands, timings; folders of elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.explain import problem
from lockstep.remarks import remarks
from lockstep.sandbox.box import Box
from lockstep.submission import open_submission
from tests.sandboxed import GENEROUS, run
from tests.test_cells import Lab
from tests.test_notebook import code, notebook

HELPERS = "_two = 2\ndef two(): return _two\nif __name__ == '__main__':\n    ran = 'ran'\n"
ENDS = "def three(): return 3\nif __name__ == '__main__':\n    raise SystemExit(0)\n"


@pytest.fixture
def lab(tmp_path: Path, box: Box) -> Lab:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "ends.py").write_text(ENDS)
    (tmp_path / "nets.ipynb").write_bytes(notebook(code("%matplotlib inline\ndef net(): return [two]")))
    return Lab(tmp_path, box)


GIVEN = {
    "a file": "%run helpers.py\nassert two() == _two == 2 and ran == 'ran'",
    "a file without its ending, with words": "%run ./helpers --epochs 3\nassert two() == 2",
    "a file that ends its program": "import sys\n%run ends.py\nassert three() == 3 and sys.modules['__main__'].three is three",
    "a file where Colab had it": "%run /content/drive/MyDrive/hw2/helpers.py\nassert two() == 2",
    "a notebook": "%run nets.ipynb\nassert callable(net)",
    "a file that is not there": "%run no_such.py",
    "the lines of a command": "cpus = !nproc\nassert int(cpus[0]) > 0 and cpus.n == cpus.s == cpus[0] and cpus.l == cpus",
    "two lines": "a, b = !echo 1\nassert (a, b) == ('1', '')\na, b = !echo 1; echo 2; echo 3\nassert (a, b) == ('1', '2')",
    "of what is not done here": "got = !pip install torch\nassert got == got[:3] == got[:10**9] == [] and got[0] == got.s == ''",
    "a timing": "def f(x): return sum(range(x))\nt = %timeit -n 2 -r 3 -o f(99)\nassert len(t.timings) == 3 and t.loops == 2 and t.worst >= t.average >= t.best > 0",
    "a timing with digits": "t = %timeit -p 3 -n0 -r2 -qo f(99)\nassert (len(t.timings), t.loops) == (2, 1)",
    "a timing in a function": "def g(n):\n    t = %timeit -o -q -r 2 sum(range(n))\n    return t.average\nassert g(3) > 0",
    "what a cell prints": "%%capture out\nprint(1)",
    "and shows": "out.show()\nassert out.stdout == ''",
    "a timed cell as nbconvert has it": "get_ipython().run_cell_magic('memit', '', 'four = 4')\nassert four == 4",
    "where it is": "here = %pwd\nimport os\nassert here == os.getcwd()",
    "Databricks": "dbutils.widgets.text('n', '3')\nassert int(dbutils.widgets.get('n')) == 3\ndbutils.library.restartPython()\ndisplayHTML('x')",
    "packages that are not here": "from dotenv import load_dotenv, find_dotenv\nload_dotenv(find_dotenv())\nimport nest_asyncio; nest_asyncio.apply()",
    "of a function": "def f():\n    load_dotenv()\n    return 1\nassert f() == 1",
    "the picture of a model": "from torchinfo import summary\nsummary(object(), (1, 2))",
    "folders of Colab": "import os\nbefore = os.getcwd()\nos.makedirs('/content/drive/MyDrive/hw', exist_ok=True)\nos.chdir('/content/drive/MyDrive/hw')\nassert os.getcwd() == before",
    "by a function, in a program that prints what fails": "import torch\ndef enter():\n    os.chdir('/content/drive/MyDrive/hw')\ntry:\n    with torch.no_grad():\n        enter()\nexcept Exception:\n    raise ValueError",
    "where nothing is asked any more": "try:\n    raise OSError\nexcept OSError:\n    os.chdir('/home/me/hw')",
    "which are not there, by a function": "try:\n    enter()\nexcept (FileNotFoundError, ValueError):\n    pass\nelse:\n    raise RuntimeError",
    "nor wanted": "from contextlib import suppress\nwith suppress(OSError):\n    enter()\n    raise RuntimeError",
    "which are not there": "try:\n    os.chdir('/content')\nexcept OSError:\n    pass\nelse:\n    raise ValueError",
}  # fmt: skip


def test_a_notebook_runs_with_what_only_its_shell_has(lab: Lab) -> None:
    seen = lab.seen(*map(code, GIVEN.values()), code("seen = 'end'"))
    run_ = seen["run"]
    assert isinstance(run_, dict)
    assert seen["seen"] == "end", (list(GIVEN)[int(str(run_["failed"])) - 1], run_)


def test_what_is_imported_takes_the_definitions_that_it_runs(lab: Lab) -> None:
    outcome = lab.run(
        code("%run helpers.py\n%run nets.ipynb"),
        code("def main():\n    return net()[0]() + ('ran' in globals())"),
        code("t = %timeit -o main(1)\nmain()"),
        call="call",
    )
    (rank,) = outcome.ranks
    assert (rank.error, rank.values) == (None, {"seen": 2})


def test_what_was_not_found_or_entered_is_told(lab: Lab) -> None:
    outcome = lab.run(
        code("import os\nos.chdir('/content/drive/MyDrive')\n%run no_such.py"),
        code("def main(): return helps()"),
        call="call",
    )
    told = problem(outcome, GENEROUS, lab.submission)
    assert told is not None
    assert "all names of no_such (cell 1, line 3 of student.ipynb)?" in told.feedback.message
    said = remarks(outcome, lab.submission)
    assert any(one.endswith("was to enter or make one: cell 1, line 2 of student.ipynb.") for one in said), (
        said
    )


EXPORTED = """
get_ipython().system('pip install torch')
get_ipython().run_cell_magic('time', '', "%matplotlib inline\\ndef two():\\n    return 2\\n")
get_ipython().run_cell_magic('capture', 'out', 'x = two()')
get_ipython().run_line_magic('time', 'y = x + 1')
out.show()
def main():
    return y
get_ipython().run_cell_magic('time', '', 'main(1)')
"""


def test_a_script_of_nbconvert_has_what_its_timed_cells_define(box: Box) -> None:
    (rank,) = run(box, EXPORTED.replace("main(1)", "print(main())"), call="script").ranks
    assert (rank.error, rank.output) == (None, "3\n")
    (rank,) = run(box, EXPORTED.replace("y\n", "two()\n")).ranks
    assert (rank.error, rank.values) == (None, {"seen": 2})


COLAB = """
from __future__ import annotations
!pip install -q \\
  torch
files = !ls
def main(x: Later = 5):
    return x
if __name__ == '__main__':
    print(main())
"""


def test_a_script_of_colab_runs_without_its_shell_commands(box: Box, tmp_path: Path) -> None:
    (tmp_path / "student.py").write_text(COLAB)
    outcome = run(box, COLAB)
    assert (outcome.ranks[0].error, outcome.ranks[0].values) == (None, {"seen": 5})
    assert any(
        one.startswith("Python cannot read line 3 of student.py: only IPython")
        for one in remarks(outcome, open_submission(tmp_path))
    )
    (rank,) = run(box, COLAB, call="command", values=[{"command": ["python", "student.py"]}]).ranks
    assert rank.values == {"status": 0, "said": "5\n"}


@pytest.mark.parametrize(
    "source", ["x = 1 1\n!ls", "def f(:\n    pass", "!ls (\nx = (", "%%writefile a.py\ndef main(): return 5"]
)
def test_what_python_cannot_read_without_it_either_is_told(box: Box, source: str) -> None:
    (rank,) = run(box, source).ranks
    assert rank.error is not None
    assert rank.error.type == "SyntaxError"


def test_a_name_is_looked_for_beside_shell_commands(box: Box) -> None:
    (rank,) = run(box, "!pip install torch\ndef Main():\n    return 5").ranks
    assert rank.error is not None
    assert rank.error.message == "student.py does not define main, but Main"


def test_work_that_is_missing_is_not_passed_over(box: Box) -> None:
    (rank,) = run(box, "from no_such import main\nmain()", call="script").ranks
    assert rank.error is not None
    assert rank.error.type == "ModuleNotFoundError"
