"""Whether the script that a launch file starts takes the options it is given there.

The script itself is asked, and only where there is a doubt: about an option that neither the exercise nor any Python of
the submission names, about a value that is missing, or not of the form that the exercise has, about a word that is
nobody's value, or about --resume where nothing says from which checkpoint. A script that was not handed in, that ends
in another way or refuses something else costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.launch.fault import TRAINING, Fault, Stage
from graders.launch.manifests import like
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.starvation import LONGEST
from lockstep.text import last_lines, safe_line
from lockstep.verdict import CheckEnded

# Those of ddp_train.py: with a value of some form, and without one.
_TEXT, _WHOLE, _NUMBER = r"(?!--).+", r"[+-]?\d+", r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
VALUES = {
    "training-data": _TEXT, "epochs": _WHOLE, "batch-size": _WHOLE, "lr": _NUMBER, "backend": _TEXT,
    "init-method": _TEXT, "checkpoint": _TEXT, "seed": _WHOLE, "report": _TEXT,
}  # fmt: skip
FLAGS = ("scale-lr", "resume", "help")
OPTIONS = (*VALUES, *FLAGS)
# A script that refuses its options does so at once, when it has imported torch.
ANSWER_SECONDS = 10.0
USAGE_ERROR = 2
# Arguments that are looked at; nobody writes as many.
MOST_WORDS = 200
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_TAKES_WORDS = re.compile(rb"""argument\(\s*["'][^-"']|\bargv\b|\btyper\b|\bfire\b""")
_ONE_DASH = re.compile(r"-[A-Za-z][\w.-]+")
# Python's argparse, click and typer.
_REFUSAL = re.compile(
    r"unrecognized arguments: .*|argument \S+: (?:invalid|expected|ignored) .*|no such option: .*|"
    r"invalid value for .*|option \S+ requires an argument.*|got unexpected extra argument.*",
    re.IGNORECASE,
)
# What the exercise's own script says of --resume alone, in any order and with more around it.
_NEEDS_CHECKPOINT = re.compile(r"^(?=.*error: )(?=.*--resume\b)(?=.*--checkpoint\b)", re.IGNORECASE)


def refusal(
    check: Check, where: str, script: str, arguments: Sequence[str], source: str = ""
) -> Fault | None:
    """What is wrong where a script refuses one of its arguments; None where nobody can tell.

    `source` is the text of the file that starts it, where whoever calls that hands arguments on.
    """
    name = file_name(script)
    # Variables that only a cluster fills in: a number is a path as well. One that is nobody's value may be options.
    # Bash's printf with %q makes an empty word of no words, and here nobody hands any on.
    words = [word for word in filled_in(arguments) if word or "%q" not in source]
    doubts = doubtful(words, check.submission.files, name)
    if "1" in doubts and any("$" in word for word in arguments):
        return None
    paths = [path for path in check.submission.files if path.rpartition("/")[2] == name]
    if not doubts:
        # A file that speaks of checkpoints may be one that is called with --checkpoint.
        is_alone = "--resume" in words and "checkpoint" not in f"{source} {' '.join(words)}".lower()
        return _resumes_nothing(check, where, paths, words) if is_alone else None
    if not paths and name == TRAINING:
        check.note(
            f"{where} gives {name} {doubts[0]}, and the exercise knows no such option or value; your own {name} was "
            "not handed in, so that nobody asked it."
        )
    if len(paths) != 1 or paths[0] in check.submission.notebooks:
        return None
    said = _answer(check, paths[0], words)
    named = next((doubt for doubt in doubts if re.search(rf"(?<![\w-]){_spelt(doubt)}(?![\w-])", said)), None)
    if named is None:
        return None
    shown = " ".join(word or "''" for word in words)
    return Fault(
        Stage.SCRIPT,
        f"{where} gives {name} {named or 'an empty argument'}, which it refuses, so that nothing trains: `python "
        f"{paths[0]} {safe_line(shown, 120)}` ended with status {USAGE_ERROR} and "
        f"said: {last_lines(said).rstrip('.')}.",
        f"{_meant(named, words, source)} Compare with `python {paths[0]} --help`.".strip(),
    )


def file_name(script: str) -> str:
    """The name of a script's file, which may be given as a module."""
    return (script if script.endswith(".py") else f"{script.replace('.', '/')}.py").rpartition("/")[2]


def filled_in(arguments: Sequence[str]) -> list[str]:
    """Arguments for a script that is asked here, with something for the variables that only a cluster fills in."""
    return ["1" if "$" in word else word for word in arguments]


def _resumes_nothing(check: Check, where: str, paths: Sequence[str], words: Sequence[str]) -> Fault | None:
    """A script that does not resume without being told from where; one with a place of its own just does so."""
    if len(paths) != 1 or paths[0] in check.submission.notebooks:
        return None
    said = _answer(check, paths[0], words, _NEEDS_CHECKPOINT)
    # The file that it looks for by itself may be missing here: then it refuses one that it is told as well.
    if not said or ask(check, paths[0], [*words, "--checkpoint", "checkpoint.pt"])[0] == USAGE_ERROR:
        return None
    name = paths[0].rpartition("/")[2]
    return Fault(
        Stage.SCRIPT,
        f"{where} gives {name} --resume and no --checkpoint, which it refuses, so that nothing trains: `python "
        f"{paths[0]} {safe_line(' '.join(words), 120)}` ended with status {USAGE_ERROR} and "
        f"said: {last_lines(said).rstrip('.')}.",
        "Say from which file it is to go on, `--resume --checkpoint FILE`, or leave --resume out.",
    )


def _meant(named: str, words: Sequence[str], source: str) -> str:
    """What whoever wrote a word that was refused may have meant; nothing where nobody can tell."""
    if re.search("[\u2018-\u201f]", named):
        return (
            "Those are quotation marks of a text program, which mean nothing to a shell: type \" or ' anew."
        )
    if not named and re.search(r"\$\*|\$\{\*\}", source):
        return (
            '`"$*"` makes one word of all arguments, and an empty one of none: `"$@"` hands on each as it is.'
        )
    if not named:
        return (
            'A variable in quotes that is empty, or not set, is an argument: ${NAME:+"$NAME"} is none then.'
        )
    if not named.startswith("-"):
        before = (
            words[words.index(named) - 1].removeprefix("--").replace("_", "-") if named in words[1:] else ""
        )
        return f"`--{before}` takes no value: write it alone." if before in FLAGS else ""
    option = named.lstrip("-").replace("_", "-")
    if not named.startswith("--"):
        return f"With two dashes: `--{option}`." if option in OPTIONS else ""
    if option in FLAGS:
        return f"`--{option}` takes no value: write it alone."
    if option in VALUES:
        forms = {_WHOLE: "a whole number", _NUMBER: "a number with a point, as in 0.01"}
        return f"Behind `--{option}` stands {forms.get(VALUES[option], 'its value')}."
    return like(option, OPTIONS).replace("`", "`--", 1)


def doubtful(words: Sequence[str], files: Mapping[str, bytes], script: str) -> list[str]:
    """The options and words among the arguments of a script of this name that it may refuse."""
    found, strays = [], []
    words = words[:MOST_WORDS]
    source = b"\n".join(data for path, data in files.items() if path.endswith((".py", ".ipynb")))
    source = _one_dash(source)
    takes_value = False
    for word, after in zip(words, [*words[1:], ""], strict=False):
        option = _OPTION.fullmatch(word)
        if option is not None:
            name = option[1].replace("_", "-")
            takes_value = name not in FLAGS and option[2] is None
            if _is_doubtful(name, after if takes_value else option[2], source):
                found.append(f"--{option[1]}")
            continue
        if _ONE_DASH.fullmatch(word) and not takes_value:
            quoted = (_one_dash(f"{quote}{word}{quote}".encode()) for quote in "\"'")
            found += [] if any(each in source for each in quoted) else [word]
            takes_value = True
            continue
        if not takes_value and not word.startswith("-"):
            strays.append(word)
        takes_value = word.startswith("-")
    # Scripts that take words by their place are seldom, and never refuse them.
    own = [data for path, data in files.items() if path.rpartition("/")[2] == script]
    return found if any(map(_TAKES_WORDS.search, own)) else found + strays


def _is_doubtful(name: str, value: str | None, source: bytes) -> bool:
    """Whether an option may be refused, by its name or with its value; None: it has none.

    `source` is text in which `_` is `-`.
    """
    if name in VALUES:
        return not re.fullmatch(VALUES[name], value or "", re.DOTALL)
    if name in FLAGS:
        return value is not None
    return _one_dash(name.encode()) not in source


def _one_dash(text: bytes) -> bytes:
    return text.replace(b"_", b"-")


def _spelt(name: str) -> str:
    """A pattern for a name, with `-` or `_` in it."""
    return "[-_]".join(map(re.escape, re.split("[-_]", name)))


def _answer(check: Check, path: str, arguments: Sequence[str], refuses: re.Pattern[str] = _REFUSAL) -> str:
    """What a script says when it refuses its arguments; nothing when it takes them, or when it breaks otherwise."""
    status, output = ask(check, path, arguments)
    said = [line for line in output.splitlines() if refuses.search(line)]
    return said[-1] if said and status == USAGE_ERROR else ""


def ask(check: Check, path: str, arguments: Sequence[str]) -> tuple[int | None, str]:
    """How a script ends with these arguments, and what it says; None where it goes on, or could not be run."""
    try:
        seen = check.run(
            "ask_script",
            values={"script": path, "arguments": list(arguments), "seconds": ANSWER_SECONDS},
            seconds=LONGEST * ANSWER_SECONDS + 5.0,
        )
    except CheckEnded:
        return None, ""
    values = seen.ranks[0].values
    status, output = integer(values.get("status")), values.get("output")
    return (status, output) if isinstance(output, str) else (None, "")
