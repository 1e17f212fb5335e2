"""Whether the script takes --grad-clip, hands it on, and clips what is unscaled."""

from __future__ import annotations

import re

from graders.amp import own_step
from graders.amp.record import named, run_events
from graders.amp.script_runs import begin_script, run_script
from lockstep.check import Check
from lockstep.compare import integer, shown
from lockstep.refusedoptions import UNKNOWN_OPTION
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import last_lines
from lockstep.verdict import CheckEnded, Verdict
from lockstep.wire import Json

# Far below what any gradient of the script's first batches is.
TINY = "1e-6"
# A norm that many clip to, in digits that every parser reads: 1e-6 is a word to some.
USUAL = "0.5"
UNKNOWN = re.compile(rf"{UNKNOWN_OPTION}[^\n]{{0,200}}--grad-clip", re.I)


def clips(check: Check) -> None:
    """End the check where the script takes --grad-clip and trains as if it had not been given, or breaks over it."""
    # Enough to go past the steps of a copy that some warm up with.
    told: dict[str, Json] = {"clip": TINY, "losses": 8}
    try:
        seen = run_script(check, "until_the_loss", values=told, train=24).ranks[0]
    except CheckEnded as ended:
        if ended.verdict is Verdict.CRASHED:
            _takes_a_usual_norm(check)
        return
    if refuses(seen):
        _takes_a_usual_norm(check)
        return
    sizes = own_step.gradients(seen)
    least = min(sizes, default=0.0)
    check.expect(
        not sizes or least < 1000 * float(TINY),
        f"amp_train.py --grad-clip {TINY}: the gradients that its first {len(sizes)} steps used held values up to "
        f"{least:.2g} and more. Expected none above that limit. train_step does clip where it is given one.",
        "Hand --grad-clip on: train_step(model, batch, criterion, optimizer, scaler, device, args.amp, "
        "args.grad_clip).",
        points=check.points / 2,
    )
    own_step.clips_what_is_unscaled(check, seen, TINY)
    if own_step.clips_before_unscale(seen):
        # A scaler may be for GPUs alone.
        on_gpu = run_script(check, "until_the_loss", values={**told, "gpu": True}, train=24, expect=False)
        own_step.clips_what_is_unscaled(check, on_gpu.ranks[0], TINY)


def refuses(seen: RankOutcome) -> bool:
    """Whether a script that is told to clip ended with another status than 0 and trained on nothing.

    What has no such option at all is let pass: the option's name may stand in a comment.
    """
    status = integer(seen.values.get("status"))
    return (
        status not in (None, 0)
        and not named(run_events(seen), "backward")
        and UNKNOWN.search(seen.output) is None
    )


def _takes_a_usual_norm(check: Check) -> None:
    """End the check where the script does not train with a usual norm either, and does without any."""
    problem = ""
    try:
        told: dict[str, Json] = {"clip": USUAL, "losses": 4}
        seen = run_script(check, "until_the_loss", values=told, train=24).ranks[0]
        if refuses(seen):
            status = shown(seen.values.get("status"))
            problem = f"ended with status {status}. Its last lines: {last_lines(seen.output)}"
    except CheckEnded as ended:
        if ended.verdict is Verdict.CRASHED:
            problem = f"did not train: {ended.feedback.message}"
    # That the script does not run at all is for the checks that run it to its end.
    if problem and named(run_events(begin_script(check, expect=False)), "backward"):
        check.fail(
            f"amp_train.py trains without --grad-clip. With --grad-clip {USUAL} it {problem}",
            'A norm need not be a whole number: parser.add_argument("--grad-clip", type=float). Without a type it is a '
            "str, and type=int refuses 0.5.",
            points=check.points / 2,
        )
