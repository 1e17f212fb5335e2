"""Bringing a student's file in: what is executed, and what is left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lockstep.sandbox import loading


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    argv, modules = list(sys.argv), set(sys.modules)
    yield
    sys.argv = argv
    for name in set(sys.modules) - modules:
        if name.startswith("handed_in"):
            del sys.modules[name]


def load(folder: Path, source: str | bytes) -> tuple[ModuleType, list[int]]:
    path = folder / "handed_in.py"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    return loading.load("handed_in", str(path))


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
            "f",
            [2, 3],
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
            "get",
            [3, 5, 6],
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
    with pytest.raises(loading.SourceError, match=words):
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
