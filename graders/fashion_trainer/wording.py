"""Words for messages of several checks."""

from __future__ import annotations

from lockstep.compare import shown
from lockstep.text import safe_line
from lockstep.wire import Json


def worded(kind: Json) -> str:
    """The probe's words for what a value is, such as `a tuple`."""
    return safe_line(kind, 80) if isinstance(kind, str) else shown(kind)


def told_device(device: Json, kind: Json) -> str:
    """What get_device() returned, for a message."""
    return device[:40] if isinstance(device, str) else worded(kind)


def within(message: str) -> str:
    """A message as the second half of a sentence: behind a colon it begins small, unless with a name."""
    first = message.partition(" ")[0]
    return message[:1].lower() + message[1:] if first in ("Your", "The", "No", "Rank") else message
