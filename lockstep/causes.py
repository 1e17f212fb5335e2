"""What usually is behind an exception of a student's code, and what to do about it: by its type and its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lockstep.sandbox.outcome import StudentError
from lockstep.submission import Submission

# By type, and by words of the message: an exception's first row counts.
_CAUSES: Sequence[tuple[str, str, str]] = (
    ("NotImplementedError", "", "This part of the template is not filled in yet."),
    ("KeyError", "RANK", "RANK, LOCAL_RANK and WORLD_SIZE are only set by torchrun. Use os.environ.get('RANK', 0) and the like, so that the file also works without it."),
    ("KeyError", "WORLD_SIZE", "WORLD_SIZE is only set by torchrun: use os.environ.get('WORLD_SIZE', 1)."),
    ("StudentMistake", "", "Hand the file in under the name that the exercise asks for."),
    ("MemoryError", "", "Python ran out of room for reading the file: an expression in it is nested thousands deep."),
    ("RecursionError", "during compilation", "An expression in the file is nested or chained thousands deep."),
    ("ModuleNotFoundError", "", "Either the package is not part of this course's environment, or a helper file of yours is not in the folder you handed in."),
    ("FileNotFoundError", "", "Use the path you are given; paths of your own machine do not exist where this is graded."),
    ("StopIteration", "", "Something was asked for its next item and had none: is the data set empty?"),
    ("RuntimeError", "marked as ready twice", "A parameter was used twice in one forward of DistributedDataParallel: wrap the model once, and call the wrapped model once per step."),
    ("RuntimeError", "Default process group has not been initialized", "A collective was called before init_process_group: check that this code also works without torchrun."),
    ("ValueError", "Default process group has not been initialized", "A collective was called before init_process_group: check that this code also works without torchrun."),
    ("RuntimeError", "is invalid for input of size", "The last batch may hold fewer items than the others: take sizes from the tensor, as in x.view(x.size(0), -1)."),
    ("RuntimeError", "rank < size", "That rank is not in the group: its size and the ranks in it come from WORLD_SIZE and RANK, neither is written out."),
    ("ValueError", "rendezvous: ", "file:// and tcp:// read neither RANK nor WORLD_SIZE: init_process_group(..., rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE'])) works with any init_method."),
    ("ValueError", "batch_size should be a positive integer", "A DataLoader takes a whole number: hand on the batch size that is given. It is that of one rank, and the sampler shares the data out; `/` would make a float of it."),
    ("ValueError", "mutually exclusive with shuffle", "A sampler shuffles by itself: hand shuffle to DistributedSampler, and leave it out of the DataLoader."),
    ("ValueError", "Invalid rank", "DistributedSampler takes num_replicas and rank from the process group: leave both out."),
    ("ValueError", "optimizer got an empty parameter list", "The module has no parameters: layers in a plain list or dict are not found. Use nn.ModuleList, nn.ModuleDict or nn.Sequential, or assign each layer to self."),
    ("OutOfMemoryError", "CUDA out of memory", "Catch torch.OutOfMemoryError around each step of the search, and go on with a smaller batch. What it comes to, and what is trained with afterwards, has to be a batch that fitted."),
    ("DistNetworkError", "EADDRINUSE", "Rank 0 listens at MASTER_PORT, and somebody does already. Does more than one process take itself for rank 0, as with LOCAL_RANK on two nodes? Is the port written into the file, where another job uses it, too?"),
    ("TypeError", "inject a (distributed) sampler", "Derive the batch sampler from torch.utils.data.BatchSampler, or say Trainer(use_distributed_sampler=False) and share the items out in it, by rank."),
    ("UsageError", "API key", "W&B asks for no login where it is offline: hand the flag on, wandb.init(..., mode=args.wandb)."),
)  # fmt: skip
_PEER_LOST = (
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "Socket closed",
    "recv error",
)

# A script that was given options, and any word by which a source may read them.
_WITH_OPTIONS = re.compile(r"running `python ([\w./]+\.py) -")
_READS_OPTIONS = re.compile(
    rb"argv|ArgumentParser|parse_\w{0,30}args|CLI\b|"
    rb"^[^\S\n]*(?:import|from)\s+(?:absl|click|docopt|fire|getopt|hydra|optparse|plac|simple_parsing|typer|tyro)\b",
    re.MULTILINE,
)
# How Python words it where an option's text meets something that wants a number.
_TEXT_FOR_NUMBER = re.compile(r"\bstr\b")


def advice(error: StudentError, submission: Submission) -> str:
    """What the author of the code should look at or do next."""
    if unread := _unread_options(error.phase, submission):
        return unread
    for kind, words, hint in _CAUSES:
        if error.type == kind and words in error.message:
            return hint
    if is_peer_lost(error):
        return "Another rank ended while this one still waited for it: every rank must make the same collectives."
    if (
        error.type == "TypeError"
        and _WITH_OPTIONS.match(error.phase)
        and _TEXT_FOR_NUMBER.search(error.message)
    ):
        return "Is that an option? What argparse hands over is text, unless the option has type=int or type=float."
    return "Run the same call by hand with small data; the line above is where it stopped."


def is_peer_lost(error: StudentError) -> bool:
    """Whether the error says no more than that another rank was gone."""
    return any(words in error.message for words in _PEER_LOST)


def _unread_options(phase: str, submission: Submission) -> str:
    """What to do where a script was given options and nothing that was handed in could read them; else empty."""
    match = _WITH_OPTIONS.match(phase)
    if match is None or match[1] not in submission.files:
        return ""
    script = submission.files[match[1]]
    # Its helpers may read them; who hands in everything has other scripts besides.
    named = (data for path, data in submission.files.items() if Path(path).stem.encode() in script)
    if any(_READS_OPTIONS.search(data) for data in (script, *named)):
        return ""
    notebook = match[1] in submission.notebooks
    how = "parser.parse_known_args()[0], which also works in Jupyter" if notebook else "parser.parse_args()"
    return (
        f"Nothing in {match[1]} reads options, so it ran as it does without any. Read those that the exercise lists "
        f"with argparse, and {how}."
    )
