"""The student's script as it is started: how it was called, what was seen of it, and what it failed of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graders.fashion_trainer.runs import REPORT
from graders.fashion_trainer.wording import within
from lockstep.check import Check
from lockstep.compare import integer, shown
from lockstep.ownfolder import lacks_a_file
from lockstep.refusedoptions import refused
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import last_lines
from lockstep.verdict import CheckEnded, Crashed, Failed

# What no_cuda_needed asks to work, so that nobody who fails it has to fail otherwise.
FULLY_TOLD = ("--device", "auto", "--report", REPORT)


@dataclass(frozen=True)
class Script:
    """One run of the script; `call` is for messages, `seen` None where it did not come to its end."""

    call: str
    seen: RankOutcome | None
    fault: CheckEnded | None

    @property
    def failed(self) -> bool:
        """Whether it raised or ended with another status than 0: not for want of time or memory."""
        return isinstance(self.fault, Crashed | Failed)

    def blame(self, check: Check, beside: str, usual: str) -> None:
        """End the check at half of its points where this run came to nothing, though `beside` says what runs.

        `usual` is the hint unless the script refused an option. Want of a file that its author has is nobody's fault.
        """
        if self.fault is None or lacks_a_file(self.fault.feedback.message):
            return
        told = self.fault.feedback
        raise type(self.fault)(
            f"{beside}; {within(told.message)}",
            told.hint if isinstance(self.fault, Failed) and told.hint else usual,
            points=check.points / 2,
        )


def start(check: Check, tree: Mapping[str, bytes], *options: str) -> Script:
    """Run the script on the data of `tree`, with these options more, on a machine without a GPU."""
    arguments = ["--data", "/data/fashion", *options]
    call = " ".join(["fashion_trainer.py", *arguments])
    try:
        seen = check.run(
            "script",
            values={"arguments": [*arguments], "report": REPORT, "gpus": 0},
            data={"fashion": tree},
        ).ranks[0]
    except CheckEnded as ended:
        return Script(call, None, ended)
    status = seen.values.get("status")
    if integer(status) == 0:
        return Script(call, seen, None)
    said = last_lines(seen.output)
    message = f"`{call}` ended with status {shown(status)}. Its last lines: {said}"
    return Script(call, seen, Failed(message, refused(said)))


def on_cpu(check: Check, tree: Mapping[str, bytes], *options: str, report: bool = False) -> Script:
    """Run the script with --device cpu; where that fails, with the options of no_cuda_needed.

    That it fails is for no_cuda_needed to judge. What it does where it does not is to be seen nevertheless.
    """
    first = start(check, tree, *options, "--device", "cpu", *(("--report", REPORT) if report else ()))
    return start(check, tree, *options, *FULLY_TOLD) if first.failed else first
