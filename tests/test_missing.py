"""Imports that find nothing here: what a file does without them, and what is said where it needs them."""

from __future__ import annotations

import pytest

from lockstep.explain import problem
from lockstep.notebook import read_notebook
from lockstep.remarks import remarks
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome
from lockstep.submission import Submission
from tests.sandboxed import GENEROUS, message, run, seen
from tests.test_notebook import code, notebook

HAND_IN = Submission("someone", {"student.py": b"", "helper.py": b""}, frozenset(), "0", ())
TOLD = "Not found here, so that whatever uses it would fail:"

# What `main` returns where nothing that it does needs what is missing.
UNUSED = {
    "a package": "import no_such as ns\ndef plot(): ns.plot()",
    "a name of one": "from no_such.metrics import matrix, score as s\ndef plot(): s(matrix)",
    "a module of one": "import no_such.b.c as d, no_such.e\nfrom no_such import b\ndef plot(): d(b, no_such.e.f)",
    "all names of one": "from no_such import *\ndef plot(): heatmap()",
    "a base class": "import no_such\nclass M(no_such.Base):\n    def f(self): pass",
    "a base class by name": "from no_such import Base\nclass M(Base): pass",
    "a decorator": "import no_such\n@no_such.timed(3)\ndef plot(): pass",
    "a decorator without arguments": "from no_such import timed\n@timed\ndef plot(): pass",
    "an annotation": "from no_such import Float\nimport no_such as ns\ndef f(x: Float['3 4'] | None, y: ns.A) -> ns.B[int]: pass",
    "the bound of a variable for types": "from typing import *\nfrom no_such import Float\nT = TypeVar('T', bound=Float)\ndef f(x: T) -> T: pass\nassert f",
    "an annotation of typing's": "from typing import *\nfrom no_such import Float\ndef f(x: Optional[Float], y: Union[int, Float, None], *z: List[Float]) -> Dict[str, Callable[[Float], Any]]: pass\nassert f",
    "what tells of itself": "from no_such import logger, summary\ndef plot(): summary(logger), logger.info('{}', {})\nplot()",
    "a constant": "import no_such\nPALETTE = no_such.palette(3)\nno_such.set_theme()",
    "of a file with work in it": "import no_such\nclass M(no_such.Base): pass\nno_such.set_theme()\nfor _ in range(2): print()",
    "within an if": "if True:\n    import no_such",
    "a helper that needs a package": "import helper\nassert helper.two() == 2",
    "a try": "try:\n    import no_such\nexcept ImportError:\n    no_such = None\nassert no_such is None",
    "a try of something else": "try:\n    from no_such import x\nexcept Exception:\n    x = 2\nassert x == 2",
    "a with": "import contextlib\nx = 2\nwith contextlib.suppress(ImportError):\n    from no_such import x\nassert x == 2",
    "a helper in a try": "try:\n    import helper\nexcept ImportError:\n    helper = None\nassert helper is None",
    "being asked for": "import importlib.util, no_such\nassert importlib.util.find_spec('no_such') is None",
    "being asked for later": "import no_such as first\ntry:\n    import no_such\nexcept ImportError:\n    no_such = None\nassert no_such is None",
}  # fmt: skip
HELPER = "import no_such_too\ndef two(): return 2\ndef plot(): no_such_too.plot()\n"


@pytest.mark.parametrize("source", UNUSED.values(), ids=UNUSED)
def test_what_does_not_use_it_works(box: Box, source: str) -> None:
    # At the top level an assertion that fails would only be left out.
    source, _, wanted = source.partition("\nassert ")
    source += f"\ndef main():\n    assert {wanted or True}\n    return 5"
    assert seen(box, source, files={"helper.py": HELPER}) == 5


USED = {
    "a function of it": ("import no_such as ns\ndef main(): return ns.plot()", 1),
    "a name of it": ("\nfrom no_such.a import plot\ndef main(): return plot(3)", 2),
    "a loop": ("import no_such.a as a\ndef main(): return [x for x in a.b]", 1),
    "a sum": ("import no_such as a\ndef main(): return 1 + a.b", 1),
    "a comparison": ("import no_such as a\ndef main(): return 'x' == a.b", 1),
    "a comparison of types": ("import no_such as a\ndef main(): return type(3) != a.B", 1),
    "a question": ("import no_such as a\ndef main(): return isinstance(3, a.B)", 1),
    "what was asked for": ("from no_such import main", 1),
    "a class of what was asked for": ("import no_such\nclass main(no_such.Base): pass", 1),
}  # fmt: skip


@pytest.mark.parametrize(("source", "line"), USED.values(), ids=USED)
def test_what_uses_it_is_told_where_it_is_imported(box: Box, source: str, line: int) -> None:
    said = message(run(box, source))
    assert "ModuleNotFoundError: " in said
    assert f"No module named 'no_such', which line {line} of student.py imports" in said


def _problem(outcome: Outcome, hand_in: Submission = HAND_IN) -> tuple[str, str]:
    found = problem(outcome, GENEROUS, hand_in)
    assert found is not None
    return found.feedback.message, found.feedback.hint


def test_a_class_that_could_not_be_made_is_told_where_it_is_missed(box: Box) -> None:
    said, _ = _problem(run(box, "import no_such\nclass M(no_such.Base): pass\ndef main(): return M()"))
    assert "name 'M' is not defined" in said
    assert "line 2 raised ModuleNotFoundError: No module named 'no_such', which line 1 of student.py" in said


def test_a_name_that_may_be_among_all_of_a_module_is_told(box: Box) -> None:
    said, _ = _problem(run(box, "from no_such import *\ndef main(): return heatmap()"))
    assert "Was it to come with all names of no_such (line 1 of student.py)? That was not found." in said


def test_what_to_do_is_told(box: Box) -> None:
    _, hint = _problem(run(box, USED["a name of it"][0]))
    assert hint.startswith("Either the package is not part of this course's environment, or a helper file")


def test_a_notebook_is_told_its_cell(box: Box) -> None:
    book = read_notebook(notebook(code("x = 1"), code("\nimport no_such")), "student.ipynb")
    hand_in = Submission("x", {"student.py": b""}, frozenset(), "0", (), notebooks={"student.py": book})
    outcome = run(box, book.text + "def main(): no_such.plot()\n")
    assert (
        "No module named 'no_such', which cell 2, line 2 of student.ipynb imports"
        in _problem(outcome, hand_in)[0]
    )
    assert remarks(outcome, hand_in) == (f"{TOLD} no_such (cell 2, line 2 of student.ipynb).",)


def _with_prose(*cells: str) -> tuple[str, Submission]:
    sources = ("def two(): return 2", "Here I train\nthe net", *cells)
    book = read_notebook(notebook(*map(code, sources)), "student.ipynb")
    return book.text, Submission(
        "x", {"student.py": b""}, frozenset(), "0", (), notebooks={"student.py": book}
    )


def test_a_cell_that_is_no_python_costs_what_it_defines(box: Box) -> None:
    source, hand_in = _with_prose("def main(): return two()")
    outcome = run(box, source)
    assert (outcome.ranks[0].error, outcome.ranks[0].values) == (None, {"seen": 2})
    (told,) = remarks(outcome, hand_in)
    assert told.startswith(
        "Python cannot read cell 2, line 1 of student.ipynb (invalid syntax): that cell was left"
    )


def test_a_notebook_with_such_a_cell_runs_as_a_script(box: Box) -> None:
    source, _ = _with_prose("print(two())")
    (rank,) = run(box, source, call="command", values=[{"command": ["python", "student.py"]}]).ranks
    assert rank.values == {"status": 0, "said": "2\n"}


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("x = 1", "SyntaxError: invalid syntax (student.ipynb, cell 2, line 1), while looking for main"),
        ("def main(): return three()", "Python cannot read cell 2, line 1 of student.ipynb"),
    ],
)
def test_what_such_a_cell_may_define_is_told(box: Box, last: str, words: str) -> None:
    source, hand_in = _with_prose(last)
    assert words in _problem(run(box, source), hand_in)[0]


def test_it_is_told_once_where_nothing_uses_it(box: Box) -> None:
    outcome = run(box, "import no_such, helper\ndef main(): return 5", files={"helper.py": HELPER})
    where = "no_such (line 1 of student.py), no_such_too (line 1 of helper.py)"
    assert remarks(outcome, HAND_IN) == (f"{TOLD} {where}.",)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch.no_such", "No module named 'torch.no_such'"),
        ("from torch import no_such", "cannot import name"),
        ("from .helper import two", "relative import"),
        ("import elsewhere", "No module named 'elsewhere'"),
    ],
)
def test_what_would_fail_anywhere_ends_the_import(box: Box, source: str, words: str) -> None:
    said = message(run(box, f"{source}\ndef main(): return 5", files={"folder/elsewhere.py": ""}))
    assert words in said
    assert "which line" not in said


SCRIPT = "import no_such as ns\nns.set_theme()\nfrom helper import two\ndef plot(): ns.plot()\nif __name__ == '__main__':\n    print(two())\n"


def test_a_script_that_does_not_use_it_runs(box: Box) -> None:
    (rank,) = run(box, SCRIPT, call="script", files={"helper.py": HELPER}).ranks
    assert (rank.error, rank.values["status"]) == (None, 0)


def test_a_command_runs_it_as_well(box: Box) -> None:
    values = {"command": ["python", "student.py"]}
    (rank,) = run(box, SCRIPT, call="command", values=[values], files={"helper.py": HELPER}).ranks
    assert (rank.values["status"], rank.values["said"]) == (0, "2\n")


def test_the_processes_that_a_script_starts_have_it_too(box: Box) -> None:
    source = (
        "import no_such\nimport torch.multiprocessing as mp\ndef work(rank): print('rank', rank)\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=1)\n"
    )
    (rank,) = run(box, source, call="command", values=[{"command": ["python", "student.py"]}]).ranks
    assert (rank.values["status"], rank.values["said"]) == (0, "rank 0\n")


def test_a_script_that_uses_it_says_which_import_is_missing(box: Box) -> None:
    values = {"command": ["python", "student.py"]}
    (rank,) = run(
        box, f"{SCRIPT}    plot()\n", call="command", values=[values], files={"helper.py": HELPER}
    ).ranks
    assert "No module named 'no_such', which line 1 of student.py imports" in str(rank.values["said"])
