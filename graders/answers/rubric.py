"""The questions, what a person gives for them, and which reports belong to them: rubric.toml as plain values."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Question:
    """One question. `reports` are kinds of reports whose numbers an answer may quote."""

    number: int
    title: str
    prompt: str
    points: float
    look_for: str
    reports: tuple[str, ...]

    @property
    def name(self) -> str:
        """As its heading begins."""
        return f"Q{self.number}"

    @property
    def text(self) -> str:
        """What the template says of it; none of this is an answer."""
        return f"{self.title}\n{self.prompt}"


@cache
def questions() -> tuple[Question, ...]:
    """All questions in the order of their numbers."""
    data = tomllib.loads(Path(__file__).with_name("rubric.toml").read_text(encoding="utf-8"))
    return tuple(
        Question(
            number=entry["number"],
            title=entry["title"],
            prompt=entry["prompt"],
            points=float(entry["points"]),
            look_for=entry["look_for"].strip(),
            reports=tuple(entry.get("reports", ())),
        )
        for entry in data["question"]
    )
