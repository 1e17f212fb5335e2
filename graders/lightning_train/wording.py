"""Words for messages of several checks."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.text import safe


def few_names(names: Sequence[str]) -> str:
    """Some names, the first few of them."""
    few = ", ".join(safe(name, 60) for name in names[:3])
    return few + (f" and {len(names) - 3} more" if len(names) > 3 else "")
