"""A notebook becomes one Python source with its lines traceable, or a sentence says why not."""

from __future__ import annotations

import json
import textwrap
import tokenize
import tracemalloc
from pathlib import Path

import pytest

from lockstep.check import Check, Setting
from lockstep.exercise import load_exercise
from lockstep.leftovers import NOTEBOOK_BYTES
from lockstep.magics import plain_python
from lockstep.notebook import CELLS, PARTS, read_notebook
from lockstep.submission import Submission, SubmissionError, open_submission
from lockstep.verdict import Failed
from tests.effort import costs_at_most

ROOT = Path(__file__).parents[1]


def code(source: object, **more: object) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": f"cell-{abs(hash(str(source))) % 10**8}",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source,
        **more,
    }


def text(source: str) -> dict[str, object]:
    return {"cell_type": "markdown", "id": "text", "metadata": {}, "source": source}


def notebook(*cells: object, **more: object) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **more}).encode()


def open_notebook(folder: Path, data: bytes, name: str = "lfw_dataset.ipynb") -> Submission:
    (folder / name).write_bytes(data)
    return open_submission(folder / name)


def test_code_cells_are_joined_below_their_numbers(tmp_path: Path) -> None:
    read = open_notebook(
        tmp_path,
        notebook(
            text("# Exercise 1"),
            code(["import torch\n", "\n", "x = 1"]),
            code(" \n"),
            code("batch_size = 8", metadata={"tags": ["parameters"]}),
            {"cell_type": "raw", "id": "raw", "metadata": {}, "source": "not code"},
            code("y = x\r\nz = y\n"),
        ),
    )
    assert read.name == "lfw_dataset"
    assert dict(read.files) == {
        "lfw_dataset.py": b"# %% cell 1 (3 lines)\nimport torch\n\nx = 1\n"
        b"# %% cell 2 (1 line) [parameters]\nbatch_size = 8\n# %% cell 3 (3 lines)\ny = x\nz = y\n\n"
    }
    assert read.notes == ("`lfw_dataset.ipynb` was read as `lfw_dataset.py`",)
    source = read.notebooks["lfw_dataset.py"]
    places = [source.place(line) for line in range(13)]
    assert places[2:5] == ["cell 1, line 1", "cell 1, line 2", "cell 1, line 3"]
    assert places[8:10] == ["cell 3, line 1", "cell 3, line 2"]
    assert [places[line] for line in (0, 1, 5, 12)] == ["line 0", "line 1", "line 5", "line 12"]


CELLS_AS_PYTHON = {
    "magics at the margin are comments": (
        "%matplotlib inline\nimport torch\n!nvidia-smi\n%load_ext autoreload",
        "# %matplotlib inline\nimport torch\n# !nvidia-smi\n# %load_ext autoreload",
    ),
    "magics in a block leave the block a body": (
        "if colab:\n    !pip install x\nelse:\n\t%cd here",
        "if colab:\n    pass  # !pip install x\nelse:\n\tpass  # %cd here",
    ),
    "a shell command goes on after a backslash": (
        "!pip install \\\n  torch \\\n  numpy\nx = 1",
        "# !pip install \\\n#   torch \\\n#   numpy\nx = 1",
    ),
    "quotes of a shell command do not count": ("!echo it's (\nx = 1", "# !echo it's (\nx = 1"),
    "what a command prints or a magic gives is what the shell gives": (
        "files = !ls\nenv = %env\nt = %time f(\n2)\nself.x[0] = !ls\nd['a'] = %pwd\nx = y % z\nx['a'] = !a == 1\n"
        "a, b = !ls\nr = %timeit -o f('x')",
        "files = get_ipython().getoutput('ls')  # !ls\nenv = get_ipython().run_line_magic('env', '')  # %env\n"
        "t = f(\n2)\nself.x[0] = get_ipython().getoutput('ls')  # !ls\n"
        "d['a'] = get_ipython().run_line_magic('pwd', '')  # %pwd\nx = y % z\n"
        "x['a'] = get_ipython().getoutput('a == 1')  # !a == 1\n"
        "a, b = get_ipython().getoutput('ls').of(2)  # !ls\n"
        "r = get_ipython().run_line_magic('timeit', \"-o f('x')\")  # %timeit -o f('x')",
    ),
    "other files are run": (
        "%run a.py\nif x:\n    %run -i ./b.ipynb --n 3\nrun c\n%run {x}.py\n%run $x\n%run -m torch.utils.collect_env\n%run  ",
        "get_ipython().run_line_magic('run', 'a.py')  # %run a.py\nif x:\n"
        "    get_ipython().run_line_magic('run', '-i ./b.ipynb --n 3')  # %run -i ./b.ipynb --n 3\n"
        "get_ipython().run_line_magic('run', 'c')  # %run c\n# %run {x}.py\n# %run $x\n"
        "# %run -m torch.utils.collect_env\n# %run  ",
    ),
    "but not over several lines": (
        "%run a.py \\\n  --n 3\nif x:\n    %run a.py \\\n      --n 3\ny = 1",
        "# %run a.py \\\n#   --n 3\nif x:\n    pass  # %run a.py \\\n#       --n 3\ny = 1",
    ),
    "what a cell prints is kept": (
        "%%capture --no-stderr out\nx = 1",
        'out = get_ipython().run_cell_magic("capture", "", "")  # %%capture --no-stderr out\nx = 1',
    ),
    "whatever stands beside its name": (
        "%%capture out --no-stderr --no-display\nx = 1",
        'out = get_ipython().run_cell_magic("capture", "", "")  # %%capture out --no-stderr --no-display\nx = 1',
    ),
    "timed statements run": (
        "%time x = f(1,\n  2)\n%time\n%timeit f()",
        "x = f(1,\n  2)\n# %time\n# %timeit f()",
    ),
    "help is a comment": (
        "torch.nn.Linear?\n?print\nprint??\n  x?\ny = 1  # why?",
        "# torch.nn.Linear?\n# ?print\n# print??\n  pass  # x?\ny = 1  # why?",
    ),
    "shells and magics without a sign": (
        "ls -la\ncd data\nif x:\n    mkdir -p {x}\nmatplotlib inline\ntime f(1,\n  2)\n"
        "cd /content\nrm -rf x\ncd ..\ncd /\ncd - \nls / \nls --all\ncp /a /b",
        "# %ls -la\n# %cd data\nif x:\n    pass  # %mkdir -p {x}\n# %matplotlib inline\nf(1,\n  2)\n"
        "# %cd /content\n# %rm -rf x\n# %cd ..\n# %cd /\n# %cd - \n# %ls / \n# %ls --all\n# %cp /a /b",
    ),
    "names that are a magic's stay": (
        "time - start\nenv in x\nrun .5\nrun = 1\ntime.time()\ncd\nls [0]\nls if x else y\n"
        "for x in y:\n    ll -= x\nll /= n\nrm -= lr\ncat //=  2\nll - x\ncd /  2",
        "time - start\nenv in x\nrun .5\nrun = 1\ntime.time()\ncd\nls [0]\nls if x else y\n"
        "for x in y:\n    ll -= x\nll /= n\nrm -= lr\ncat //=  2\nll - x\ncd /  2",
    ),
    "folders are made": (
        "!mkdir -p reports logs/x\nif x:\n    %mkdir a\n!mkdir /content/x\n!mkdir a && cd a\n!mkdir ../a",
        '_ = __import__("os").makedirs("reports", exist_ok=True); _ = __import__("os").makedirs("logs/x", exist_ok=True)'
        '  # !mkdir -p reports logs/x\nif x:\n    _ = __import__("os").makedirs("a", exist_ok=True)  # %mkdir a\n'
        "# !mkdir /content/x\n# !mkdir a && cd a\n# !mkdir ../a",
    ),
    "folders are made quietly": (
        "!mkdir -pv ./runs 2>/dev/null || true\n!mkdir --parents a;  # for plots\n!mkdir -p .",
        '_ = __import__("os").makedirs("./runs", exist_ok=True)  # !mkdir -pv ./runs 2>/dev/null || true\n'
        '_ = __import__("os").makedirs("a", exist_ok=True)  # !mkdir --parents a;  # for plots\n# !mkdir -p .',
    ),
    "folders are made by bash": (
        "%%bash\n# for plots\nmkdir -p reports\n\nif true; then\n  mkdir x\nfi\nls -la",
        '# %%bash\n# # for plots\n_ = __import__("os").makedirs("reports", exist_ok=True)  # mkdir -p reports\n\n'
        "# if true; then\n#   mkdir x\n# fi\n# ls -la",
    ),
    "variables are set": (
        "%env DATA=./data\n%set_env A b\n%env\n%env DATA\n%env A={x}\n%env A=$x\n%env A='\"'",
        '__import__("os").environ["DATA"] = "./data"  # %env DATA=./data\n'
        '__import__("os").environ["A"] = "b"  # %set_env A b\n'
        "# %env\n# %env DATA\n# %env A={x}\n# %env A=$x\n# %env A='\"'",
    ),
    "but not torchrun's": (
        "%env RANK=0\n%env LOCAL_RANK=0\n%env WORLD_SIZE=1\n%env MASTER_ADDR=localhost",
        "# %env RANK=0\n# %env LOCAL_RANK=0\n# %env WORLD_SIZE=1\n# %env MASTER_ADDR=localhost",
    ),
    "installers without a sign": (
        "pip install torch\nconda install y",
        "# pip install torch\n# conda install y",
    ),
    "a modulo on its own line stays": ("x = (a\n  % b)\ny = a \\\n  % b", "x = (a\n  % b)\ny = a \\\n  % b"),
    "text in strings stays": (
        'x = """\n%magic\n!ls\nwhat?\n"""\ny = \'\'\'a"""\n!b\'\'\'\n%c',
        'x = """\n%magic\n!ls\nwhat?\n"""\ny = \'\'\'a"""\n!b\'\'\'\n# %c',
    ),
    "escaped quotes and hashes": (
        "x = 'it\\'s ('  # not [ open\ny = r'\\' + \"#(\"\n%z",
        "x = 'it\\'s ('  # not [ open\ny = r'\\' + \"#(\"\n# %z",
    ),
    "a string over two lines by a backslash": ("x = 'a \\\n%b'\n%c", "x = 'a \\\n%b'\n# %c"),
    "a string that nobody closed ends with its line": ("x = 'a\n%c", "x = 'a\n# %c"),
    "awaiting in a function stays": ("async def f():\n    await g()", "async def f():\n    await g()"),
    "awaiting stays": ("await f(1,\n  2)\nx = await g()", "await f(1,\n  2)\nx = await g()"),
    "pasted with its indentation": ("    x = 1\n    if x:\n        y = 2", "x = 1\nif x:\n    y = 2"),
    "a timed cell is its code": ("%%time\nx = 1\n%magic", "# %%time\nx = 1\n# %magic"),
    "magics on magics": (
        "\n%%capture out\n%%time\nx = 1",
        '\nout = get_ipython().run_cell_magic("capture", "", "")  # %%capture out\n# %%time\nx = 1',
    ),
    "a shell cell is a comment": ("%%bash\nls 'x\n\nfor", "# %%bash\n# ls 'x\n\n# for"),
    "an unknown cell magic too": ("%%nobody_knows\nx = 1", "# %%nobody_knows\n# x = 1"),
    "magics below a form's title": (
        "#@title Install\n%%capture\n!ls\nx = 1",
        "#@title Install\n# %%capture\n# !ls\nx = 1",
    ),
    "profilers run the cell": ("%%pyinstrument\nx = 1", "# %%pyinstrument\nx = 1"),
    "what is not Python on Databricks": ("%sh\nls 'x", "# %sh\n# ls 'x"),
    "an unfinished cell is a comment": ("x = foo(\ny = 1", "# x = foo(\n# y = 1"),
    "an unfinished text is a comment": ('x = """\ny = 1', '# x = """\n# y = 1'),
    "asynchronous blocks stay": ("async with a:\n    x()", "async with a:\n    x()"),
}


@pytest.mark.parametrize("case", CELLS_AS_PYTHON)
def test_ipython_becomes_python_line_by_line(case: str) -> None:
    cell, expected = CELLS_AS_PYTHON[case]
    assert "\n".join(plain_python(cell.split("\n")).lines) == expected


LIBRARY = Path(textwrap.__file__).parent


@pytest.mark.parametrize(
    "path",
    [
        *sorted((ROOT / "lockstep").glob("*.py")),
        *sorted((ROOT / "reference").glob("*.py")),
        *(
            LIBRARY / name
            for name in ("argparse.py", "typing.py", "tarfile.py", "pydoc.py", "turtle.py", "locale.py")
        ),
        *(
            LIBRARY / "test" / name
            for name in ("test_fstring.py", "test_grammar.py", "test_string_literals.py")
        ),
    ],
    ids=lambda path: path.name,
)
def test_plain_python_is_left_as_it_is(path: Path) -> None:
    if not path.exists():
        pytest.skip("this Python came without its tests")
    with tokenize.open(path) as file:
        lines = file.read().replace("\f", "").split("\n")
    cell = plain_python(lines)
    changed = [
        (before, after)
        for before, after in zip(lines, cell.lines, strict=True)
        if before != after and "from __future__" not in before
    ]
    assert changed == []
    assert cell.left_out == ""


def test_a_failed_check_names_the_cell(tmp_path: Path) -> None:
    read = open_notebook(tmp_path, notebook(code("x = 1"), code("y")))
    exercise = load_exercise(ROOT / "graders" / "lfw_dataset")
    setting = Setting(None, read, 0, (2,), False)  # type: ignore[arg-type]
    with pytest.raises(Failed) as caught:
        Check(setting, exercise, exercise.check("script")).fail(
            "NameError (lfw_dataset.py, line 4); lfw_dataset.py:4, perf_report.py, line 7"
        )
    told = "NameError (lfw_dataset.ipynb, cell 2, line 1); lfw_dataset.ipynb, cell 2, line 1, perf_report.py, line 7"
    assert caught.value.feedback.message == told


def test_future_imports_move_to_the_top(tmp_path: Path) -> None:
    cells = (code("%matplotlib inline\nx = 1"), code("from __future__ import annotations\ny: Later = 2"))
    read = open_notebook(tmp_path, notebook(*cells))
    python = read.files["lfw_dataset.py"].decode()
    assert python.startswith("from __future__ import annotations\n# %% cell 1 (")
    compile(python, "lfw_dataset.py", "exec")
    assert read.notebooks["lfw_dataset.py"].place(7) == "cell 2, line 2"


def test_cells_that_are_left_out_are_named(tmp_path: Path) -> None:
    read = open_notebook(tmp_path, notebook(code("x = 1"), code("%%bash\nexport KEY=s3cret"), code("f(")))
    assert "`lfw_dataset.ipynb`: cell 2 is a %%bash cell and was left out" in read.notes
    assert "`lfw_dataset.ipynb`: cell 3 ends inside a bracket or a string and was left out" in read.notes
    read = open_notebook(
        tmp_path, notebook(code("x = 1"), code("%%s3cret!\x1b[31m key\n"), code("%%a" + "b" * 99))
    )
    assert sum("a cell of some magic" in note for note in read.notes) == 2
    assert "s3cret" not in str(read.notes)


WRITING = {
    "a file beside the notebook": ("%%writefile ddp_train.py\nx = 1", {"ddp_train.py": b"x = 1\n"}),
    "a file in a folder": ("%%writefile launch/run.sh\n#!/bin/sh", {"launch/run.sh": b"#!/bin/sh\n"}),
    "by its other name, quoted": ("%%file 'a.py'\n!x", {"a.py": b"!x\n"}),
    "where hosted notebooks start": ("%%writefile /content/a.py\nx", {"a.py": b"x\n"}),
    "below a form's title": ("#@title Script\n%%writefile a.py\nx", {"a.py": b"x\n"}),
    "in one's Drive": ("%%writefile /content/drive/MyDrive/hw/a.py\nx", {"a.py": b"x\n"}),
    "at home": ("%%writefile /home/jovyan/work/a.py\nx", {"a.py": b"x\n"}),
    "in a folder that a variable names": ("%%writefile {WORK}/launch/a.py\nx", {"launch/a.py": b"x\n"}),
    "its own module": ("%%writefile nb.py\nx = 2", {"nb.py": b"x = 2\n"}),
    "outside the submission": ("%%writefile ../a.py\nx", {}),
    "somewhere on the machine": ("%%writefile /etc/passwd\nx", {}),
    "a name that is filled in": ("%%writefile {name}.py\nx", {}),
    "no name": ("%%writefile\nx", {}),
    "two names": ("%%writefile a.py b.py\nx", {}),
    "inside a file": ("%%writefile nb.py/a.py\nx", {}),
    "a device": ("%%writefile CON\nx", {}),
}


@pytest.mark.parametrize("case", WRITING)
def test_cells_that_write_files(case: str, tmp_path: Path) -> None:
    cell, expected = WRITING[case]
    read = open_notebook(tmp_path, notebook(code("y = 1"), code(cell)), "nb.ipynb")
    assert {path: read.files[path] for path in expected} == expected
    assert set(read.files) <= {*expected, "nb.py"}


def test_the_folder_that_all_written_files_share_is_the_notebooks(tmp_path: Path) -> None:
    drive = "/content/drive/MyDrive/course/hw4"
    names = (f"{drive}/a.py", f"{drive}/launch/b.sh", "/content/c.py", "d.py")
    read = open_notebook(tmp_path, notebook(*(code(f"%%writefile {name}\nx") for name in names)), "nb.ipynb")
    assert set(read.files) == {"nb.py", "a.py", "launch/b.sh", "c.py", "d.py"}


def test_a_shell_script_that_a_cell_writes_can_be_started(tmp_path: Path) -> None:
    names = ("run.sh", "RUN2.SH", "a.py")
    read = open_notebook(tmp_path, notebook(*(code(f"%%writefile {name}\nls") for name in names)))
    assert read.executable == {"run.sh", "RUN2.SH"}


def test_a_cell_appends_to_a_file_and_a_handed_in_file_wins(tmp_path: Path) -> None:
    cells = (
        code("%%writefile a.py\nx = 1"),
        code("%%writefile -a a.py\ny = 2"),
        code("%%writefile B.py\nz = 3"),
    )
    (tmp_path / "nb.ipynb").write_bytes(notebook(*cells))
    (tmp_path / "b.py").write_bytes(b"mine\n")
    read = open_submission(tmp_path)
    assert read.files["a.py"] == b"x = 1\ny = 2\n"
    assert read.files["b.py"] == b"mine\n"
    assert "B.py" not in read.files
    assert any("`B.py`, which a cell of `nb.ipynb` writes, was left out" in note for note in read.notes)


def test_the_python_file_wins_over_the_notebook_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "lfw_dataset.py").write_bytes(b"mine\n")
    (tmp_path / "lfw_dataset.ipynb").write_bytes(b"not even a notebook")
    read = open_submission(tmp_path)
    assert dict(read.files) == {"lfw_dataset.py": b"mine\n"}
    assert read.notes == ("`lfw_dataset.ipynb` was not read, because `lfw_dataset.py` is there as well",)
    assert dict(read.problems) == {}


def test_a_broken_notebook_costs_nothing_but_itself(tmp_path: Path) -> None:
    (tmp_path / "ddp_train.py").write_bytes(b"x = 1\n")
    (tmp_path / "lfw_dataset.ipynb").write_bytes(b"{")
    read = open_submission(tmp_path)
    assert set(read.files) == {"ddp_train.py"}
    assert "not valid JSON" in read.problems["lfw_dataset.py"]
    assert read.notes == (read.problems["lfw_dataset.py"],)


OLD = {
    "nbformat": 3,
    "nbformat_minor": 0,
    "metadata": {"name": ""},
    "worksheets": [
        {
            "metadata": {},
            "cells": [
                {"cell_type": "heading", "level": 1, "metadata": {}, "source": "Title"},
                {"cell_type": "code", "input": "x = 1\ny = 2", "language": "python", "outputs": []},
                {"cell_type": "code", "input": ["z = 3"], "language": "python", "outputs": []},
            ],
        }
    ],
}  # fmt: skip


def test_a_notebook_of_version_3_is_converted(tmp_path: Path) -> None:
    read = open_notebook(tmp_path, json.dumps(OLD).encode())
    assert (
        read.files["lfw_dataset.py"] == b"# %% cell 1 (2 lines)\nx = 1\ny = 2\n# %% cell 2 (1 line)\nz = 3\n"
    )


ODD_BUT_READABLE = {
    "no ids": notebook(
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": "x"}
    ),
    "two cells of one id": notebook(code("x", id="a"), code("y", id="a")),
    "no metadata at all": b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x"}]}',
    "an unknown kind of cell": notebook(code("x"), {"cell_type": "chart", "source": 5}),
    "outputs that are no list": notebook(code("x", outputs={"text": "s3cret"})),
    "a newer minor version": notebook(code("x"), nbformat_minor=99),
    "fields of another tool": notebook(code("x", colab={"height": 3})),
    "NaN in the metadata": notebook(code("x"), metadata={"score": float("nan")}),
}


@pytest.mark.parametrize("case", ODD_BUT_READABLE)
def test_what_jupyter_would_only_grumble_about_is_read(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    read = open_notebook(tmp_path, ODD_BUT_READABLE[case])
    assert b"x" in read.files["lfw_dataset.py"]
    assert "s3cret" not in str(read.notes)
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in recwarn] == []


REFUSED = {
    "empty file": (b"", "not valid JSON"),
    "half a notebook": (notebook(code("x"))[:-9], "not valid JSON"),
    "python": (b"import torch\n", "not valid JSON"),
    "deep": (b"[" * 200_000, "not valid JSON"),
    "deep and closed": (b'{"nbformat": 4, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON"),
    "a number without end": (b'{"nbformat": ' + b"4" * 5000 + b"}", "not valid JSON"),
    "another encoding": (notebook(code("x")).replace(b'"x"', b'"\xfc"'), "not valid UTF-8"),
    "utf-16": (notebook(code("x")).decode().encode("utf-16"), "not valid UTF-8"),
    "a list": (b"[]", "not a notebook"),
    "another JSON": (b'{"cells": []}', "not a notebook"),
    "version true": (b'{"nbformat": true, "cells": []}', "not a notebook"),
    "version 4 in words": (b'{"nbformat": "4", "cells": []}', "not a notebook"),
    "version 5": (notebook(code("x"), nbformat=5), "another version"),
    "version 2": (notebook(code("x"), nbformat=2), "another version"),
    "version 3 without sheets": (notebook(code("x"), nbformat=3), "no list of worksheets"),
    "cells that are no list": (notebook(cells={"a": 1}), "no list of cells"),
    "cells that are no cells": (notebook(code("x"), 5), "no list of cells"),
    "a source that is a number": (notebook(code(5)), "source is not text"),
    "a source of numbers": (notebook(code([5])), "source is not text"),
    "no source": (notebook({"cell_type": "code"}), "source is not text"),
    "half a character": (notebook(code("x = '\ud800'")), "half a character"),
    "no code": (notebook(text("# only text"), code(" \n")), "holds no code"),
    "too many cells": (notebook(*[code("x")] * (CELLS + 1)), "more than 2000 cells"),
    "too much code": (notebook(code("x = 1\n" * 50_000)), "more than 256 KiB of code"),
    "too many parts": (b"[" * (PARTS + 1), "a million parts"),
    "too big": (b" " * (NOTEBOOK_BYTES + 1), "larger than"),
    "another language": (
        notebook(code("x"), metadata={"kernelspec": {"language": "R"}}),
        "in `R`, not in Python",
    ),
    "another kernel": (notebook(code("x"), metadata={"language_info": {"name": "julia"}}), "`julia`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_readable_notebook_is_refused(case: str, tmp_path: Path) -> None:
    data, sentence = REFUSED[case]
    with pytest.raises(SubmissionError, match=sentence) as caught:
        open_notebook(tmp_path, data)
    assert "lfw_dataset.ipynb" in str(caught.value)


def test_pictures_in_the_outputs_cost_little(tmp_path: Path) -> None:
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * (1 << 20)}}
    data = notebook(*(code(f"x = {number}", outputs=[picture]) for number in range(9)))
    with costs_at_most(100):
        tracemalloc.start()
        try:
            read_notebook(data, "n.ipynb")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 6 * len(data)
