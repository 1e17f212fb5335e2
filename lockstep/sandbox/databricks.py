"""What Databricks gives a notebook's code without an import: `dbutils`, and `displayHTML`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Widgets:
    """Fields above the notebook, which have the values that they were made with."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def text(self, name: str, defaultValue: str = "", *_: object, **__: object) -> None:
        """A field."""
        self._values.setdefault(name, str(defaultValue))

    dropdown = combobox = multiselect = text

    def get(self, name: str) -> str:
        """What stands in it."""
        return self._values.get(name, "")

    getArgument = get

    def remove(self, name: str) -> None:
        """Take it away."""
        self._values.pop(name, None)

    def removeAll(self) -> None:
        """Take all away."""
        self._values.clear()


class _Idle:
    """`dbutils.fs`, `dbutils.library` and the like: whatever is asked of them, nothing is done."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: ""


class Dbutils:
    """Stands in for Databricks' own."""

    def __init__(self) -> None:
        self.widgets = _Widgets()
        self.fs = self.library = self.secrets = self.notebook = self.jobs = _Idle()


def displayHTML(*_: object) -> None:
    """Show nothing."""
