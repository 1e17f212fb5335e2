"""Which messages tell of a file that only its author has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockstep.ownfolder import lacks_a_file


@pytest.mark.parametrize(
    ("path", "is_lacking"), [("no_such/report.json", True), ("..no_such/report.json", True), ("", False)]
)
def test_a_file_that_is_not_here_has_a_name(path: str, is_lacking: bool, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Errno") as raised:
        os.stat(tmp_path / path if path else "")
    assert lacks_a_file(f"your code raised {type(raised.value).__name__}: {raised.value}.") is is_lacking


def test_a_path_without_a_name_is_the_folder_itself() -> None:
    with pytest.raises(OSError, match="Errno") as raised:
        Path("").write_text("")
    assert not lacks_a_file(str(raised.value))


def test_an_option_that_was_not_given_is_no_file() -> None:
    with pytest.raises(TypeError) as raised:
        Path(None)  # type: ignore[arg-type]
    assert not lacks_a_file(str(raised.value))
