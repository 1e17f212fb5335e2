"""The judge of an exercise whose only file a person reads."""

from lockstep.check import Check
from lockstep.result import Review


def test_there(check: Check) -> None:
    """There is an essay."""
    essay = check.submission.files.get("essay.md", b"").decode(errors="replace")
    look_for = "" if check.self_check else "what the rubric looks for"
    check.review(Review("Q1", "Why?", 3, essay, len(essay.split()), look_for))
    check.expect(essay != "", "There is no `essay.md`.", "Write one.")
