"""The script on hidden images: does its figure show them, and what does it do without any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np

from graders.lfw_dataset import faces
from graders.lfw_dataset.looks import number, problem_text
from graders.lfw_dataset.notebooks import may_be_a_notebook
from graders.lfw_dataset.printed_times import pairs
from graders.lfw_dataset.raised import ended_by_script, raised_by_script
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import safe_line
from lockstep.wire import Json

# Scripts with a fixed grid of subplots take 9, 16, 25 or 64 images from the batch.
SHOWN_IMAGES, SHOWN_PATTERNS = 64, 8
# Who augments with turns by any angle has few of these on their side by chance, and hardly ever so many.
SIDEWAYS = 6
# Who flips each image top to bottom or not has so many on their heads, and no other, once in a hundred times.
ON_THEIR_HEADS, LEAST_PATTERNS = 7, 4
# What JPEG and blurred edges leave of a colour in a grey picture.
LEAST_COLOUR = 16
_OTHER_ORDERS = [list(order) for order in permutations(range(3)) if order != (0, 1, 2)]
_PLACE = re.compile(r" \([^()]*, line \d+\)$")
IDLE = 'The script did nothing at all: is main() called at its end, below `if __name__ == "__main__":`?'
# What `"50 % of it" % {...}` and its like raise.
FORMAT_ERRORS = ("ValueError", "TypeError", "KeyError")


@dataclass(frozen=True)
class Complaint:
    """What was run and seen and expected, and the usual cause with the next step."""

    message: str
    hint: str
    # How the script ended, where that was not as it should: it is told once where it is the same in all runs.
    ended: str = ""
    # How much it costs of what the part is worth that it is about.
    share: float = 1.0


def told_once(complaints: Sequence[Complaint]) -> str:
    """The messages of complaints, one a line, without how the script ended where the line before says it."""
    lines = []
    for before, complaint in pairwise([None, *complaints]):
        assert complaint is not None
        same = (
            before is not None and complaint.ended != "" and _words(complaint.ended) == _words(before.ended)
        )
        lines.append(
            complaint.message.replace(complaint.ended, "ended likewise") if same else complaint.message
        )
    return "\n".join(lines)


def _words(ended: str) -> str:
    return _PLACE.sub("", ended)


def visualize_complaint(check: Check) -> Complaint | None:
    """Whether `-visualize_batch` draws at least two different images of the folder in one figure."""
    tree, hidden = faces.make_quilts(check.rng, SHOWN_PATTERNS, SHOWN_IMAGES)
    flags = ["-batch_size", str(SHOWN_IMAGES), "-num_workers", "0", "-visualize_batch"]
    arguments = ["-path_to_folder", "/data/batch/", *flags]
    outcome = run_script(check, arguments, {"batch": tree.files})
    rank = outcome.ranks[0]
    if ended := ended_badly(check, outcome, arguments):
        return ended
    pictures = [rank.arrays[name] for name in sorted(rank.arrays) if name.startswith("picture")]
    pictures = [p for p in pictures if p.ndim == 3 and p.shape[2] == 3 and p.dtype == np.uint8]
    shown = [faces.quilts_in(picture, hidden) for picture in pictures]
    most = max(map(len, shown), default=0)
    told = f"`{as_typed(arguments)}`"
    if most >= 2:
        best = max(range(len(shown)), key=lambda number: len(shown[number]))
        drawn = f"{told} drew {_count(pictures)}"
        return _turned_complaint(drawn, pictures[best], shown[best]) or _unseen_complaint(drawn, check, rank)
    if not pictures:
        return Complaint(
            f"{told} drew no figure and wrote no picture.",
            IDLE
            if did_nothing(rank)
            else "Draw the images of one batch with matplotlib: axis.imshow(image.permute(1, 2, 0)), plt.show().",
        )
    if most == 1:
        return Complaint(
            f"{told} drew {_count(pictures)}, but only one image of the batch in each.",
            "Show the batch in one figure: a subplot for each image, or torchvision.utils.make_grid(batch).",
        )
    return recoloured_complaint(f"{told} drew {_count(pictures)}", pictures, hidden) or Complaint(
        f"{told} drew {_count(pictures)}, but no image of the folder could be recognised there.",
        "Draw what the loader gives; imshow wants the channels last: image.permute(1, 2, 0), not reshape.",
    )


def _turned_complaint(drawn: str, picture: np.ndarray, shown: set[tuple[int, ...]]) -> Complaint | None:
    """Whether the images that a picture shows lie on their sides, or stand on their heads, all of them."""
    if len(faces.on_their_side(picture, shown)) >= max(len(shown), SIDEWAYS):
        return Complaint(
            f"{drawn}, in which every image lies on its side: rows and columns are swapped.",
            "imshow wants (height, width, channels): image.permute(1, 2, 0). image.T and permute(2, 1, 0) swap height "
            "and width as well.",
        )
    times = faces.on_their_heads(picture, shown)
    if len(times) < max(len(shown), LEAST_PATTERNS) or sum(times.values()) < ON_THEIR_HEADS:
        return None
    return Complaint(
        f"{drawn}, in which every image stands on its head: the first row is at the bottom.",
        "imshow draws the first row at the top: leave out origin='lower', invert_yaxis() and whatever flips rows.",
    )


def recoloured_complaint(
    drawn: str, pictures: Sequence[np.ndarray], hidden: set[tuple[int, ...]]
) -> Complaint | None:
    """Whether images cannot be recognised because they are drawn in other colours."""
    if any(_show([picture[..., order] for picture in pictures], hidden) for order in _OTHER_ORDERS):
        return Complaint(
            f"{drawn}, in which the images have their colours mixed up: red, green and blue are in another order.",
            "PIL reads red, green, blue, and matplotlib draws them in that order: leave out what turns channels "
            "round, as OpenCV alone needs it. permute(1, 2, 0) moves them last and keeps their order.",
        )
    for word, threshold in (("darker", 255 // 4), ("paler", 255 * 3 // 4)):
        if _show([np.where(picture > threshold, 255, 0) for picture in pictures], hidden):
            return Complaint(
                f"{drawn}, in which the images are there, but much {word} than they are in the folder.",
                "imshow takes numbers from 0 to 1, as ToTensor makes them: draw them as they are, or undo what a "
                "Normalize did, all of it.",
            )
    if all(np.ptp(picture.astype(int), axis=2).max(initial=0) <= LEAST_COLOUR for picture in pictures):
        return Complaint(
            f"{drawn}, all of it in grey, and the images of the folder have colours.",
            "Draw all three channels, imshow(image.permute(1, 2, 0)): image[0] is one of them, and a mean over "
            "channels is none.",
        )
    return None


def _show(pictures: Sequence[np.ndarray], hidden: set[tuple[int, ...]]) -> bool:
    return any(len(faces.quilts_in(picture, hidden)) >= 2 for picture in pictures)


def _unseen_complaint(drawn: str, check: Check, rank: RankOutcome) -> Complaint | None:
    """Whether a figure was neither shown nor saved, by a script in which it does not show itself."""
    if rank.values.get("outlets_used") is not False or may_be_a_notebook(check.submission):
        return None
    return Complaint(
        f"{drawn} of the batch, and neither showed nor saved it: whoever runs this sees nothing.",
        "plt.show() opens a window, plt.savefig('batch.png') leaves a file, which is what remains without a screen. "
        "Only in a notebook does a figure show itself.",
        share=0.5,
    )


def empty_complaint(check: Check) -> Complaint | None:
    """Whether `-get_timing` on a folder that is not there says so instead of nothing, or of printing timings."""
    flags = ["-batch_size", "4", "-num_workers", "0", "-get_timing"]
    arguments = ["-path_to_folder", "/data/no_such_folder/", *flags]
    outcome = run_script(check, arguments, {})
    rank = outcome.ranks[0]
    if rank.values.get("problem") is not None or rank.values.get("status") != 0:
        return None
    if rank.values.get("outlets_used") is False and not rank.output.strip():
        return Complaint(
            f"`{as_typed(arguments)}`: the folder does not exist, and the script ended without a word, with status 0.",
            "Say what is missing and end with another status, or a misspelt path looks like success: "
            "parser.error(str(error)) does both, and so does a FileNotFoundError that is let through.",
        )
    if not any(reading.fits(0.0, outcome.elapsed) for reading in pairs(rank.output, turned=True)):
        return None
    return Complaint(
        f"`{as_typed(arguments)}`: the folder does not exist, yet timings of an empty loop were printed.",
        "Stop with a message when no image was found, for instance `raise FileNotFoundError(folder)`: glob "
        "and os.walk say nothing of a folder that is not there.",
    )


def help_complaint(check: Check) -> Complaint | None:
    """Whether `--help` breaks while argparse formats the texts. Who parses by hand may answer as they like."""
    problem = run_script(check, ["--help"], {}).ranks[0].values.get("problem")
    if not isinstance(problem, dict) or problem.get("type") not in FORMAT_ERRORS:
        return None
    return Complaint(
        f"`{as_typed(['--help'])}` raised {problem_text(problem)}",
        "argparse fills help texts in with %: write %% for a percent sign.",
    )


def run_script(
    check: Check,
    arguments: list[str],
    data: dict[str, dict[str, bytes]],
    delay: float = 0.0,
    batch_delays: Sequence[float] = (),
    expect: bool = True,
) -> Outcome:
    """The script as if started with `arguments`, in `data`, whose images open late by so many seconds.

    Raises:
        CheckEnded: where it did not come to an end, unless `expect` is off.
    """
    delays: dict[str, Json] = {"seconds_per_image": delay, "seconds_per_batch": list(batch_delays)}
    return check.run("script", data=data, values={"arguments": list(arguments), **delays}, expect=expect)


def ended_badly(check: Check, outcome: Outcome, arguments: list[str]) -> Complaint | None:
    """What is said of a run that raised something or ended with another status than 0."""
    rank = outcome.ranks[0]
    problem, status = rank.values.get("problem"), rank.values.get("status")
    if raised := problem_text(problem):
        ended, hint = f"raised {raised}", raised_by_script(problem, check.submission)
    elif status == 0:
        return None
    else:
        lines = [line for line in rank.output.splitlines() if line.strip()]
        said = f": {safe_line(lines[-1])}" if lines else ""
        ended, hint = f"ended with status {number(status) or 0:.0f}{said}", ended_by_script(said)
    return Complaint(f"`{as_typed(arguments)}` {ended}", hint, ended)


def did_nothing(rank: RankOutcome) -> bool:
    """Whether a run that ended well left nothing to be seen: most scripts print something."""
    return not rank.output.strip() and not elements(rank.values.get("loaders"))


def as_typed(arguments: list[str]) -> str:
    """The command that would start the script in this way."""
    return " ".join(["python lfw_dataset.py", *arguments])


def _count(pictures: list[np.ndarray]) -> str:
    return "one figure" if len(pictures) == 1 else f"{len(pictures)} figures"
