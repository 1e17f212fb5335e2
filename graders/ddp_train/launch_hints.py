"""What is usually wrong with a launch script that ends with an error, by what it printed last."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graders.ddp_train.script_runs import raised_in
from lockstep.causes import usual_cause
from lockstep.submission import Submission

LINE = 'torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py'
_CONTINUES = (
    "A command that goes on in the next line needs a backslash at the end of the first. Nothing may stand behind a "
    "backslash there, not even a blank."
)
# What is printed, and what it usually means; {0} is the word in brackets. The first row counts.
_HINTS: Sequence[tuple[re.Pattern[str], str]] = (
    (
        re.compile(r"can't open file '(?:[^']*/)?torchrun'"),
        f"torchrun is a program of its own, no file for python: {LINE}, without python in front.",
    ),
    (
        re.compile(r"can't open file '(?:[^']*/)?python3?'"),
        f"torchrun starts Python itself: {LINE}, without python in front of the file.",
    ),
    (
        re.compile(r"can't open file"),
        f"What was to be started is not there: name ddp_train.py. {_CONTINUES}",
    ),
    (
        re.compile(
            r"unrecognized arguments: .{0,200}--?(?:nproc|nnodes|standalone|rdzv|node[-_]rank|master)"
        ),
        "Those are options of torchrun's: they stand in front of ddp_train.py, and behind it those of the script, "
        f"{LINE}.",
    ),
    (
        re.compile(r"unrecognized arguments: (?:.{0,200} )?\$[@*]"),
        'Between single quotes the shell puts nothing in for $@: write "$@".',
    ),
    (
        re.compile(r"did not receive grad for rank"),
        "DistributedDataParallel waits for a gradient of every parameter that the network had when it was wrapped, and "
        "some had no part in the loss. A last layer is exchanged before wrap_model, not after it.",
    ),
    (
        re.compile(r"(?<!\w)train_noddp\.py: error: "),
        f"train_noddp.py was started, the training in one process, which takes fewer options: {LINE}.",
    ),
    (
        re.compile(r"Unsupported nproc_per_node value: *(\S*)"),
        f"`{{0}}` is no number of processes. The variable stands in braces, and they between double quotes: {LINE}.",
    ),
    (
        re.compile(r"Cuda is not available"),
        "torchrun was asked for one process for each GPU, and there may be none. Let NPROC say how many there are: "
        f"{LINE}.",
    ),
    (
        re.compile(r"Error while finding module specification for '\S+\.py'"),
        f"With -m or --module torchrun takes the name of a module. A file is started without that: {LINE}.",
    ),
    (
        re.compile(r"arguments are required: training_script"),
        f"torchrun was not told what to start: {LINE}. {_CONTINUES}",
    ),
    (
        re.compile(r"(?<!\w)(?:run\.py|torchrun): error: "),
        "That is torchrun's own command line. In front of ddp_train.py stand its options, each with its value, and "
        f"behind it those of the script: {LINE}.",
    ),
    (
        re.compile(r"(?<!\S)(-[\w-]\S*|ddp_train\.py): command not found"),
        f"bash took {{0}} for a command of its own. {_CONTINUES}",
    ),
    (
        re.compile(r"(?<!\S)(\S+): command not found"),
        "bash takes the first word of a command for a program, and there is none called {0} where this is graded. Who "
        "sets a variable leaves no blanks around the `=`, as in NPROC=2; what only a cluster or your own machine has "
        "must not be needed here.",
    ),
    (
        re.compile(r"(?<!\w)(\w+): unbound variable"),
        'Nothing sets {0} where this is graded: give it a default, as "${NPROC:-2}" has one.',
    ),
    (
        re.compile(r"\.sh: (?:line )?\d+: cd: "),
        'That folder is only on your own machine: cd "$(dirname "$0")" goes to that of the script.',
    ),
    (
        re.compile(r"\.sh: \d+: "),
        "That is how sh words it, which knows less than bash: let the first line of the file be `#!/usr/bin/env bash`.",
    ),
    (
        re.compile(r"\.sh: line \d+: "),
        "bash ended at that line of the script: mend it, and run the same in a terminal.",
    ),
)
# All of its arguments as one, in quotes.
_AS_ONE = re.compile(rb"\"\$(?:\*|\{\*\})\"")
_RESUMES = re.compile(rb"^[^#\n]*[ \t]--resume\b", re.MULTILINE)
_BLANK_BEFORE_EQUALS = re.compile(rb"[ \t]--[\w-]+(?:[ \t]+=|=[ \t])")


def launch_hint(submission: Submission, printed: str) -> str:
    """What to do about a script that ended with an error, of which these are the last lines."""
    script = submission.files.get("ddp_train.sh", b"")
    if b"\r\n" in script:
        return (
            "The file has the line ends of Windows: save it with LF, for example with "
            "`sed -i 's/\\r$//' ddp_train.sh`."
        )
    if "FileNotFoundError: " in printed and _RESUMES.search(script):
        return (
            "ddp_train.sh asks for --resume by itself, and the first run has nothing to go on from: leave that to "
            'whoever starts it, `./ddp_train.sh --resume`, which "$@" hands on.'
        )
    if (raised := raised_in(printed)) and (usual := usual_cause(raised, submission)):
        return usual
    if re.search(r"\w\.py, line \d+, in ", printed):
        return (
            "torchrun did start the script, which raised that: mend the line that is named, and run the same in a "
            "terminal."
        )
    for pattern, hint in _HINTS:
        if found := pattern.search(printed):
            return hint.replace("{0}", found[1]) if found.groups() else hint
    if "unrecognized arguments: " in printed and _AS_ONE.search(script):
        return '"$*" is all that the script was given as one argument: "$@" hands on each of them by itself.'
    if "unrecognized arguments: " in printed and _BLANK_BEFORE_EQUALS.search(script):
        return "Between an option, the `=` and its value stands no blank: `--checkpoint=FILE` or `--checkpoint FILE`."
    if re.search(r"\.py: error: ", printed):
        return (
            "torchrun did start the script, which ends so where argparse does not know an option or cannot read its "
            "value: it has to take those that the exercise lists."
        )
    return (
        'Run the same line in a terminal. The script should hand its arguments on to ddp_train.py with "$@".'
    )
