"""Tables of numbers that students may have seen: `known_tables.toml`, to which a course adds its slides."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

TABLES = Path(__file__).parent / "known_tables.toml"


@cache
def known_tables() -> tuple[tuple[str, ...], ...]:
    """The numbers of each table, as printed."""
    found = tomllib.loads(TABLES.read_text(encoding="utf-8"))
    return tuple(tuple(str(number) for number in table["numbers"]) for table in found["table"])
