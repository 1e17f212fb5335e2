"""Whether the script that a launch file starts takes the options it is given there.

The script itself is asked, and only where there is a doubt: about an option that neither the exercise nor any Python of
the submission names, or a word where the exercise has a number. A script that was not handed in, that ends in another
way or refuses something else costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.launch.faults import TRAINING, Fault, Stage
from graders.launch.manifests import like
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.starvation import LONGEST
from lockstep.text import last_lines, safe_line
from lockstep.verdict import CheckEnded

# Those of ddp_train.py.
OPTIONS = "training-data epochs batch-size lr scale-lr backend init-method checkpoint resume seed report help".split()
NUMBERS = ("epochs", "batch-size", "lr", "seed")
# A script that refuses its options does so at once, when it has imported torch.
ANSWER_SECONDS = 10.0
USAGE_ERROR = 2
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
# Python's argparse, click and typer.
_REFUSAL = re.compile(
    r"unrecognized arguments: .*|argument \S+: invalid .*|no such option: .*|invalid value for .*",
    re.IGNORECASE,
)


def refusal(check: Check, where: str, script: str, arguments: Sequence[str]) -> Fault | None:
    """What is wrong where a script refuses one of its arguments; None where nobody can tell."""
    name = (script if script.endswith(".py") else f"{script.replace('.', '/')}.py").rpartition("/")[2]
    # Variables that only a cluster fills in: a number is a path as well.
    words = ["1" if "$" in word else word for word in arguments]
    doubts = doubtful(words, check.submission.files)
    if not doubts:
        return None
    paths = [path for path in check.submission.files if path.rpartition("/")[2] == name]
    if not paths and name == TRAINING:
        check.note(
            f"{where} gives {name} {doubts[0]}, and the exercise knows no such option or value; your own {name} was "
            "not handed in, so that nobody asked it."
        )
    if len(paths) != 1 or paths[0] in check.submission.notebooks:
        return None
    said = _answer(check, paths[0], words)
    named = next((doubt for doubt in doubts if re.search(rf"{_spelt(doubt)}(?![\w-])", said)), None)
    if named is None:
        return None
    option = named.removeprefix("--").replace("_", "-")
    meant = "" if option in OPTIONS else like(option, OPTIONS).replace("`", "`--", 1)
    return Fault(
        Stage.SCRIPT,
        f"{where} gives {name} {named}, which it refuses, so that nothing trains: `python {paths[0]} "
        f"{safe_line(' '.join(words), 120)}` ended with status {USAGE_ERROR} and said: {last_lines(said)}",
        f"{meant} Compare with `python {paths[0]} --help`.".strip(),
    )


def doubtful(words: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """The options among some arguments that may be refused, with what is in doubt about each."""
    found = []
    source = b"\n".join(data for path, data in files.items() if path.endswith((".py", ".ipynb")))
    for word, after in zip(words, [*words[1:], ""], strict=False):
        option = _OPTION.fullmatch(word)
        if option is None:
            continue
        name, value = option[1].replace("_", "-"), after if option[2] is None else option[2]
        is_named = name in OPTIONS or re.search(_spelt(option[1]).encode(), source)
        if not is_named or (name in NUMBERS and re.fullmatch(r"[A-Za-z]+", value)):
            found.append(f"--{option[1]}")
    return found


def _spelt(name: str) -> str:
    """A pattern for a name, with `-` or `_` in it."""
    return re.sub("[-_]", "[-_]", name.replace(".", r"\."))


def _answer(check: Check, path: str, arguments: Sequence[str]) -> str:
    """What a script says when it refuses its arguments; nothing when it takes them, or when it breaks otherwise."""
    try:
        seen = check.run(
            "ask_script",
            values={"script": path, "arguments": list(arguments), "seconds": ANSWER_SECONDS},
            seconds=LONGEST * ANSWER_SECONDS + 5.0,
        )
    except CheckEnded:
        return ""
    values = seen.ranks[0].values
    output = values.get("output")
    if integer(values.get("status")) != USAGE_ERROR or not isinstance(output, str):
        return ""
    said = [line for line in output.splitlines() if _REFUSAL.search(line)]
    return said[-1] if said else ""
