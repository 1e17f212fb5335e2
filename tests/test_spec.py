"""Files of a submission and of a judge in one folder."""

from __future__ import annotations

import pytest

from lockstep.sandbox.spec import laid_over


@pytest.mark.parametrize(
    ("below", "above", "left"),
    [
        ({"a.py": b"1"}, {}, {"a.py": b"1"}),
        ({"a.py": b"1"}, {"a.py": b"2"}, {"a.py": b"2"}),
        ({"data": b"../datasets", "a.py": b"1"}, {"data/x": b"2"}, {"a.py": b"1", "data/x": b"2"}),
        ({"a/b/c.txt": b"1", "a/d": b"1"}, {"a/b": b"2"}, {"a/d": b"1", "a/b": b"2"}),
        (
            {"data/y": b"1", "database": b"1"},
            {"data/x": b"2"},
            {"data/y": b"1", "database": b"1", "data/x": b"2"},
        ),
    ],
)
def test_what_cannot_lie_beside_a_judges_file_is_left_out(
    below: dict[str, bytes], above: dict[str, bytes], left: dict[str, bytes]
) -> None:
    assert laid_over(below, above) == left
