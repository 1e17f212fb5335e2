"""Bringing a student's file in: what is executed, and what is left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lockstep.sandbox import loading, reading


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    argv, modules = list(sys.argv), set(sys.modules)
    yield
    sys.argv = argv
    for name in set(sys.modules) - modules:
        if name.startswith("handed_in"):
            del sys.modules[name]


def loaded(folder: Path, source: str | bytes) -> loading.Loaded:
    path = folder / "handed_in.py"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    return loading.load("handed_in", str(path))


def load(folder: Path, source: str | bytes) -> tuple[ModuleType, list[int]]:
    found = loaded(folder, source)
    return found.module, [one.line for one in found.skipped]


@pytest.mark.parametrize(
    ("source", "there", "skipped"),
    [
        ("import os\nX = 3\ndef f(): return X", "X f os", []),
        ("def f(): return 1\nif __name__ == '__main__':\n    raise SystemExit(f())", "f", []),
        (
            "def f(): raise ValueError\n__name__ == '__main__' and f()\nf() if __name__ == '__main__' else 0",
            "f",
            [],
        ),
        ("def get_device(): return 'cpu'\nDEVICE = get_device()\ndef f(): return DEVICE", "DEVICE f", []),
        ("def get_device(): return 'cpu'\nDEVICE = get_device()\nfor i in range(9**9): pass", "DEVICE", [3]),
        ("def main(): raise ValueError\nmain()\nY = 2", "main Y", [2]),
        ("async def f(): await g()\nx = await f()\nasync with f():\n    pass\nY = 2", "f Y", [2, 3]),
        (
            "import argparse\nargs = argparse.ArgumentParser().parse_args()\nN = args.n\ndef f(): pass",
            "args f",
            [3],
        ),
        (
            "import argparse\nparser = argparse.ArgumentParser()\nargs = parser.parse_args([])\n"
            "more, _ = parser.parse_known_args(args='-v'.split())\ndef f(): return args",
            "args more f",
            [],
        ),
        (
            "import argparse, sys\nparser = argparse.ArgumentParser()\nargs = parser.parse_args(sys.argv[1:])\n"
            "def get(argv): return parser.parse_args(argv)\nmore = get(None)\nrest = parser.parse_args(None)",
            "args get more rest",
            [],
        ),
        (
            "import torch.distributed as dist\ndef setup(): dist.init_process_group()\nd = setup()",
            "setup",
            [3],
        ),
        ("def setup(): go()\ndef go(): init_process_group()\nd = setup()", "setup go", [3]),
        ("import torch\ntorch.distributed.init_process_group('gloo')\ndef f(): pass", "f", [2]),
        ("import torch.distributed as dist\ncleanup = dist.destroy_process_group", "cleanup", []),
        (
            "import torch.distributed as dist\nBACKEND = 'nccl' if dist.is_nccl_available() else 'gloo'",
            "BACKEND",
            [],
        ),
        (
            "from functools import partial\nfrom torch.utils.data import DataLoader\nLoader = DataLoader\n"
            "make = partial(DataLoader, batch_size=4)\nmake_too = lambda data: DataLoader(data)\n"
            "known: dict[str, DataLoader] = {}\nkinds = dict(plain=DataLoader)\nloader: DataLoader",
            "Loader make make_too known kinds",
            [],
        ),
        (
            "from torch.utils.data import DataLoader\nmake = lambda data: DataLoader(data)\n"
            "loader = make([])\nn = len(loader)",
            "make",
            [3, 4],
        ),
        (
            "for name in ('f', 'g'):\n    exec(f'def {name}(): return 1')\nif __name__ == '__main__':\n    f()",
            "f g",
            [],
        ),
        (
            "def main(): init_process_group()\nfor _ in range(2):\n    main()\nif __name__ == '__main__':\n    main()",
            "main",
            [2],
        ),
        ("import torch\ntorch.distributed.run.main()\ndef f(): pass", "f", [2]),
        ("import contextlib\nwith contextlib.suppress(ImportError):\n    import no_such\nX = 1", "X", []),
        ("def f(): init_process_group()\nwith open('/dev/null'):\n    f()\nX = 1", "X", [2]),
        ("import os\nX = 3\ndel X\nY = 2", "Y", []),
        ("import torch\ntorch.manual_seed(0)\ndef f(): pass", "f", []),
        (
            "try:\n    import tensorflow\nexcept ImportError:\n    tensorflow = None\ndef f(): pass",
            "f tensorflow",
            [],
        ),
        ("while True:\n    pass\ndef f(): pass", "f", [1]),
        ("\ufeff# -*- coding: latin-1 -*-\nX = 1".replace("\ufeff", ""), "X", []),
    ],
)
def test_what_is_executed(tmp_path: Path, source: str, there: str, skipped: list[int]) -> None:
    module, left_out = load(tmp_path, source)
    assert left_out == skipped
    for name in there.split():
        assert hasattr(module, name)


PARSER = """import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=3)
def parse_args(argv=None):
    return parser.parse_args(argv)
"""


@pytest.mark.parametrize(
    "parsing",
    [
        "args = parser.parse_args()",
        "args, _ = parser.parse_known_args()",
        "args = parse_args()\nargs.lr = 0.1 * args.n",
        "args = parse_args() if __name__ == '__main__' else parse_args([])",
        "try:\n    args = parser.parse_args()\nexcept SystemExit:\n    args = parser.parse_args([])",
        "if 'ipykernel' in sys.modules:\n    args = parser.parse_args([])\nelse:\n    args = parser.parse_args()",
    ],
)
@pytest.mark.parametrize("rest", ["", "for i in range(args.n): f()"])
def test_functions_may_use_what_the_command_line_says(tmp_path: Path, parsing: str, rest: str) -> None:
    sys.argv = ["pytest", "--no-such-option"]
    found = loaded(tmp_path, f"{PARSER}{parsing}\ndef f(): return args.n\n{rest}")
    assert found.module.f() == 3
    assert found.is_script == bool(rest)
    assert len(found.skipped) == bool(rest)


@pytest.mark.parametrize(
    ("parsing", "skipped"),
    [
        ("parser.add_argument('--data', required=True)\nargs = parser.parse_args()\nN = args.n", [7, 8]),
        ("args = parser.parse_args()\nif args.n == 3:\n    sys.exit('which?')", []),
        ("args = parser.parse_args()\nif args.n == 3: args = parser.parse_args(['--m'])", [7]),
    ],
)
def test_options_that_are_not_there_are_no_crash(tmp_path: Path, parsing: str, skipped: list[int]) -> None:
    found = loaded(tmp_path, f"{PARSER}{parsing}\ndef f(): return 1")
    assert found.module.f() == 1
    if skipped:
        assert [one.line for one in found.skipped] == skipped
        assert (found.skipped[0].raised, found.is_script) == ("SystemExit: 2", False)


def test_a_main_function_that_parses_is_work(tmp_path: Path) -> None:
    source = f"{PARSER}def main():\n    args = parse_args()\n    while True:\n        pass\nresult = main()"
    found = loaded(tmp_path, source)
    assert (found.is_script, [one.line for one in found.skipped]) == (True, [10])


@pytest.mark.parametrize(
    ("source", "there", "skipped"),
    [
        (
            "times = []\ndef note(): times.append(1)\nX = note()\ndata = open('/no/such')\nn = len(data)\nclass A: pass",
            "times note X A",
            [(4, "FileNotFoundError: [Errno 2] No such file or directory: '/no/such'"), (5, "NameError: name 'data' is not defined")],
        ),
        ("class Data:\n    def __init__(self): raise OSError\ndata = Data()\ndef f(): pass", "Data f", [(3, "OSError")]),
        ("if True:\n    import os\n    data = {}['a']\n    Y = 1\nX = 1", "os X", [(3, "KeyError: 'a'")]),
        ("class Odd(Exception):\n    def __str__(self): raise self\ndef f(): raise Odd\nX = f()", "f", [(4, "Odd")]),
        ("def f(): raise ValueError('\\ud800')\nX = f()\nY = 1", "Y", [(2, "ValueError")]),
        ("def f(): raise ValueError('x' * 999)\nX = f()", "f", [(2, f"ValueError: {'x' * 200}")]),
        (
            "from __future__ import annotations\nX = {}[1]\ndef f(x: Later): pass",
            "f",
            [(2, "KeyError: 1")],
        ),
    ],
)  # fmt: skip
def test_a_line_that_fails_is_left_out(
    tmp_path: Path, source: str, there: str, skipped: list[tuple[int, str]]
) -> None:
    found = loaded(tmp_path, source)
    assert not found.is_script
    assert [(one.line, one.raised) for one in found.skipped] == skipped
    assert "X" in found.skipped[0].names or "data" in found.skipped[0].names
    for name in there.split():
        assert hasattr(found.module, name)


def test_what_came_before_a_line_that_fails_happens_once(tmp_path: Path) -> None:
    source = f"import os\nA = os.mkdir({str(tmp_path / 'once')!r})\nB = {{}}[1]\nC = 2"
    assert load(tmp_path, source)[1] == [3]


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("def f(): pass\nX = = 1", SyntaxError, "invalid syntax"),
        ("if __name__ == '__main__':\n    pass\nreturn 1", SyntaxError, "outside function"),
        ("import no_such_module", ImportError, "no_such"),
        ("if True:\n    import no_such_module", ImportError, "no_such"),
        ("class A:\n    x = 1 // 0", ZeroDivisionError, "by zero"),
        ("def f(g): raise KeyError(1)\n@f\ndef g(): pass", KeyError, "1"),
        ("def f(g): raise KeyError(1)\nif True:\n    @f\n    class A: pass", KeyError, "1"),
        ("if __name__ == '__main__':\n    pass\nraise ValueError('no')", ValueError, "no"),
        ("if __name__ == '__main__':\n    pass\nif True:\n    raise ValueError('no')", ValueError, "no"),
        ("X = {}['no']\nclass A:\n    x = X", KeyError, "no"),
        ("def f(): raise MemoryError('all')\nX = f()", MemoryError, "all"),
        ("def f(): raise AssertionError('Torch not compiled with CUDA enabled')\nX = f()", AssertionError, "CUDA"),
        ("import sys\nX = sys.exit(3)", SystemExit, "3"),
    ],
)  # fmt: skip
def test_what_no_file_can_do_without_is_fatal(
    tmp_path: Path, source: str, error: type[BaseException], words: str
) -> None:
    with pytest.raises(error, match=words):
        load(tmp_path, source)


def test_annotations_stay_what_they_are(tmp_path: Path) -> None:
    module, _ = load(tmp_path, "def f(x: int): pass")
    assert module.f.__annotations__ == {"x": int}


def test_annotations_that_are_strings_stay_so_where_lines_are_left_out(tmp_path: Path) -> None:
    source = "from __future__ import annotations\nclass Sum:\n    def __add__(self, other: Sum): pass\nmain()"
    module, left_out = load(tmp_path, source)
    assert left_out == [4]
    assert module.Sum.__add__.__annotations__ == {"other": "Sum"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = 1\ny = '\xff'\n", "line 2 is not UTF-8"),
        ("x = 1".encode("utf-16"), "NUL bytes"),
        (b"#" * (300 << 10), "larger than 256 KiB"),
    ],
)
def test_what_is_no_source(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(reading.SourceError, match=words):
        load(tmp_path, data)


def test_a_script_runs_as_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = sys.modules["__main__"]
    path = tmp_path / "script.py"
    path.write_text("import sys\nprint(__name__, __file__ == sys.modules['__main__'].__file__)\nsys.exit(3)")
    try:
        with pytest.raises(SystemExit) as stop:
            loading.run_as_main(str(path))
    finally:
        sys.modules["__main__"] = main
    assert stop.value.code == 3
    assert capsys.readouterr().out == "__main__ True\n"
