"""What a launch file tells the training script that keeps it from training, though the script takes it.

Only what is written down there counts, and only where it means what the exercise says that it means: `ddp_train.py` as
the course has it, or as it was handed in and can be seen to use the option likewise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from graders.launch.commands import meets_itself
from graders.launch.fault import TRAINING, Fault, Stage
from graders.launch.manifests import like
from graders.launch.refusals import OPTIONS, ask, file_name, filled_in, refusal
from graders.launch.scripts import launch_text
from lockstep.check import Check
from lockstep.text import safe_line

HELP = ("--help", "-h")
_SAYS_HELP = re.compile(r"usage:|show this (?:help )?message", re.IGNORECASE)
# A file that asks for help only where its caller says nothing more, as it is called here.
_BY_ITS_CALLER = re.compile(
    r"""\$\{?#|\$\{?1\b|\$\{[@*]:?[-+=]|\$\{\w{1,40}:?[-+=][^}]{0,80}-h|(?:-[zn]|case)\s{1,8}["']?\$|sys\.argv"""
)
# A script for which 0, or less, may mean something: all, or its default.
_MINDS_ZERO = r"\b%s\b\s*(?:or\b|if\b|[=!<>]=?\s*-?[01]\b)|\b(?:if|or|and|not)\s+(?:\w+\.)*%s\b"
# Those of torch and of other makers, most of which are called so.
BACKENDS = ("nccl", "gloo", "mpi", "ucc", "xccl", "hccl", "cncl", "xla", "smddp", "flagcx", "bkcl", "fake")
_OF_A_MAKER = re.compile(r"\w*ccl")


def option_fault(
    check: Check, where: str, script: str, nodes: Sequence[Sequence[str]], source: str = ""
) -> Fault | None:
    """What keeps a script from training that is given these arguments, on each of one node or several.

    `source` is the text of the file that starts it, where whoever calls that hands arguments on.
    """
    arguments = nodes[0]
    return (
        _help_fault(check, where, script, arguments)
        or zero_fault(where, script, arguments, check.submission.files)
        or (meeting_fault(where, script, nodes, check.submission.files) if len(nodes) > 1 else None)
        or backend_fault(where, script, arguments, check.submission.files)
        or refusal(check, where, script, arguments, source)
    )


def _help_fault(check: Check, where: str, script: str, arguments: Sequence[str]) -> Fault | None:
    """A script that is asked for its help, and says it."""
    word = next((word for word in takewhile("--".__ne__, arguments) if word in HELP), None)
    if word is None or _BY_ITS_CALLER.search(launch_text(check)):
        return None
    name = file_name(script)
    paths = [path for path in check.submission.files if path.rpartition("/")[2] == name]
    if paths:
        if len(paths) > 1 or paths[0] in check.submission.notebooks:
            return None
        status, said = ask(check, paths[0], filled_in(arguments))
        if status != 0 or not _SAYS_HELP.search(said):
            return None
    elif name != TRAINING:
        return None
    return Fault(
        Stage.SCRIPT,
        f"{where} gives {name} {word}: it prints its help and ends, so that nothing trains.",
        f"Take {word} out. To read the help, run `python {name} --help` by hand.",
    )


def zero_fault(where: str, script: str, arguments: Sequence[str], files: Mapping[str, bytes]) -> Fault | None:
    """No epochs, or batches of nothing; not where there is an option of the script's own, which may say more.

    Less than nothing may stand for something, which only the script can tell.
    """
    named = (word[2:].partition("=")[0] for word in arguments if re.match("--[A-Za-z]", word))
    if any(name.replace("_", "-") not in OPTIONS for name in named):
        return None
    for option, follows in (
        ("epochs", "it goes through the training data not once, and trains nothing"),
        (
            "batch-size",
            "no DataLoader takes batches of less than one image, and the script ends with an error",
        ),
    ):
        variable = option.replace("-", "_")
        value = value_of(arguments, option) or ""
        is_used = uses(script, files, rf"[-_.]{re.sub('_', '[-_]', variable)}\b")
        theirs = own_texts(script, files)
        if not is_used or not re.fullmatch(r"[+-]?0+|-\d+" if theirs else r"[+-]?0+", value):
            continue
        if theirs and uses(script, files, _MINDS_ZERO % (variable, variable)):
            continue
        return Fault(
            Stage.SCRIPT,
            f"{where} gives {file_name(script)} --{option} {value}: {follows}.",
            f"Write a number from 1 on, as in `--{option} {3 if option == 'epochs' else 32}`, or leave the option out.",
        )
    return None


def meeting_fault(
    where: str, script: str, nodes: Sequence[Sequence[str]], files: Mapping[str, bytes]
) -> Fault | None:
    """An --init-method by which each of several nodes waits for itself; one node's may be right, the first's."""
    urls = [value_of(arguments, "init-method") or "" for arguments in nodes]
    is_used = uses(script, files, r"\binit_method\b") and uses(script, files, r"\binit_process_group\(")
    if not is_used or not all(
        url.startswith("tcp://") and meets_itself(re.split("[/?]", url[6:])[0]) for url in urls
    ):
        return None
    return Fault(
        Stage.MEETING,
        f"{where} gives {file_name(script)} --init-method {safe_line(urls[-1], 60)}, which every node takes for "
        "itself: the processes of the others never reach the first one's.",
        "Leave --init-method out: with env://, the default, they meet where torchrun says. Or name the first node.",
    )


def backend_fault(
    where: str, script: str, arguments: Sequence[str], files: Mapping[str, bytes]
) -> Fault | None:
    """A backend that torch does not know, and no script of the submission either."""
    value = value_of(arguments, "backend") or ""
    if (
        "$" in value
        or not own_texts(script, files)
        or not uses(script, files, r"""\.backend\b|\[["']backend\b""")
    ):
        return None
    python = b"\n".join(data for path, data in files.items() if path.endswith((".py", ".ipynb"))).lower()
    for part in value.lower().split(","):
        # One for each kind of device: cpu:gloo,cuda:nccl.
        name = part.rpartition(":")[2].strip()
        if not name or name in BACKENDS or _OF_A_MAKER.fullmatch(name):
            continue
        if re.search(rb"(?<!\w)%b(?!\w)" % re.escape(name).encode(), python):
            continue
        return Fault(
            Stage.SCRIPT,
            f"{where} gives {file_name(script)} --backend {safe_line(value, 40)}: torch.distributed knows no backend "
            f"{safe_line(name, 40)}, and ends with an error.",
            like(name, BACKENDS) or "nccl is for GPUs, gloo for CPUs; without --backend the script chooses.",
        )
    return None


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """The value that an option has in the end: the last one; None where it is not given any."""
    found = None
    for word, after in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") == option:
            found = value if equals else after
    return found


def uses(script: str, files: Mapping[str, bytes], pattern: str) -> bool:
    """Whether this is the exercise's script, and has this in it as far as it was handed in."""
    own = own_texts(script, files)
    return file_name(script) == TRAINING and len(own) < 2 and all(re.search(pattern, text) for text in own)


def own_texts(script: str, files: Mapping[str, bytes]) -> list[str]:
    """The texts of the script as it was handed in."""
    name = file_name(script)
    return [
        data.decode("utf-8", "replace") for path, data in files.items() if path.rpartition("/")[2] == name
    ]
