"""The judge of a lab whose only file is read, never run."""

from lockstep.check import Check
from lockstep.result import Review


def test_there(check: Check) -> None:
    """There is an answer."""
    answer = check.submission.files.get("essay.md", b"").decode()
    look_for = "" if check.self_check else "reasons"
    check.review(
        Review("Q1", "Why?", 3, answer, len(answer.split()), look_for, ("speedup 1.4\x1b[31m",), "x\x1b[2J")
    )
    check.expect(answer != "", "There is no answer.", "Write one.")
