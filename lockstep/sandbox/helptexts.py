"""Notes it where a script that takes its options could not answer --help: no run of its own is needed for that."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

Note = Callable[..., None]


def note_broken_help(note: Note) -> None:
    """From now on, note it where the first parser that reads the command line could not answer --help.

    The text is made as --help makes it. A parser with a text of its own, or without that option, is not asked.
    """
    read: Any = argparse.ArgumentParser.parse_known_args
    asked: list[bool] = []

    @functools.wraps(read)
    def parse_known_args(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        is_plain = type(self).format_help is argparse.ArgumentParser.format_help and self.add_help
        if is_plain and not asked:
            asked.append(True)
            try:
                self.format_help()
            # What `"50 % of it" % {...}` and its like raise.
            except (TypeError, ValueError, KeyError) as error:
                note("no_help", raised=f"{type(error).__name__}: {error}"[:200])
        return read(self, *args, **kwargs)

    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign]
