"""Where a name is that a file does not define: what a student is told instead of "it is not there"."""

from __future__ import annotations

import ast

import pytest

from lockstep.sandbox.whereabouts import defined, enclosing, is_without_code, nearest


@pytest.mark.parametrize(
    ("source", "name", "near"),
    [
        ("class LfwDataSet: pass", "LFWDataset", "LfwDataSet"),
        ("class lfw_dataset: pass", "LFWDataset", "lfw_dataset"),
        ("class LFWDatset: pass", "LFWDataset", "LFWDatset"),
        ("def set_up(): pass", "setup", "set_up"),
        ("scale_lr = lambda a: a", "scaled_lr", "scale_lr"),
        ("def load_checkpoint(): pass", "save_checkpoint", ""),
        ("def amdahl_speedup(): pass", "speedup", ""),
        ("def train(): pass", "evaluate", ""),
        ("class A:\n    def set_up(self): pass", "setup", ""),
        (f"{'x' * 100_000} = 1", "setup", ""),
        ("", "setup", ""),
    ],
)
def test_a_name_that_is_nearly_the_one(source: str, name: str, near: str) -> None:
    assert nearest(ast.parse(source), name) == near


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("def main():\n    def f(): pass", "inside the function main"),
        ("def main():\n    if 1:\n        def f(): pass", "inside the function main"),
        ("class Trainer:\n    def f(self): pass", "inside the class Trainer"),
        ("if __name__ == '__main__':\n    def f(): pass", "below `if __name__"),
        ("try:\n    import x\nexcept ImportError:\n    async def f(): pass", "inside an `if`, a `try`"),
        ("def speedup():\n    f = 2\n    return f", ""),
        ("def f(): pass", ""),
        ("x = 1", ""),
    ],
)
def test_a_name_that_is_inside_of_something(source: str, where: str) -> None:
    told = enclosing(ast.parse(source), "f")
    assert told.startswith(where)
    assert bool(told) == bool(where)


@pytest.mark.parametrize("source", ["", "\n# mine\n", '"""mine"""\n# and that is all', "..."])
def test_a_file_without_code(source: str) -> None:
    assert is_without_code(ast.parse(source))


def test_a_file_with_code() -> None:
    assert not is_without_code(ast.parse("x = 1"))


def test_what_there_is_instead() -> None:
    assert defined(ast.parse("import os\nx = 1\nclass A:\n    def b(self): pass\nasync def c(): pass")) == [
        "A",
        "c",
    ]
    assert len(defined(ast.parse("\n".join(f"def f{number}(): pass" for number in range(50))))) == 5
