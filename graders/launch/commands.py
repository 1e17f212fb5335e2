"""What a command line in a manifest starts, read as text: nobody runs it, so variables keep their names.

The launchers of torch take options before the script and leave everything behind it to the script
(`torch.distributed.run`, `torch.distributed.launch`); both spellings of an option, with `-` and with `_`, are one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SHELLS = {"sh", "bash", "dash", "zsh", "ash"}
_WITHOUT_VALUE = {"standalone", "module", "no_python", "run_path", "use_env", "virtual_local_rank"}
_SHORT = {"-m": "module", "-r": "redirects", "-t": "tee"}
# What runs the command behind its own options; and the words of a shell that may stand before a command.
WRAPPERS = frozenset(
    "catchsegv chrt conda dumb-init env exec ionice mamba micromamba ncu nice nohup nsys numactl pixi poetry setsid "
    "stdbuf sudo taskset time timeout tini uv".split()
)
_WORDS_OF_A_SHELL = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "command", "eval"}
_OTHERS = {
    "accelerate",
    "deepspeed",
    "mpirun",
    "mpiexec",
    "horovodrun",
    "srun",
    "lightning",
    "fabric",
    "composer",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"python[0-9.]*")


@dataclass(frozen=True)
class Start:
    """How training is started: by torch's launcher, by Python alone, or by something that cannot be looked into.

    `flags` are the launcher's options, with `_` and without dashes; `words` all of the command line.
    """

    by: Literal["torchrun", "python", "other"]
    script: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    old: bool = False
    words: tuple[str, ...] = ()

    def number(self, flag: str) -> int | None:
        """An option that is given as a plain number."""
        return int(self.flags[flag]) if re.fullmatch(r"[0-9]{1,6}", self.flags.get(flag, "")) else None


def modernise(start: Start) -> str:
    """A note for who starts training with the launcher that torchrun has replaced."""
    more = "" if "use_env" in start.flags else ", which sets LOCAL_RANK and passes no --local-rank"
    return f"`python -m torch.distributed.launch` is deprecated since PyTorch 1.10: write `torchrun`{more}."


def start_of(words: Sequence[str]) -> Start | None:
    """What a command, given as its words, starts; a shell with `-c` is looked into. None: nothing that trains."""
    at = 0
    while at < len(words) and (words[at] in _WORDS_OF_A_SHELL or _ASSIGNMENT.fullmatch(words[at])):
        at += 1
    if at < len(words) and _name(words[at]) in WRAPPERS:
        # Which of its options take a value does not matter: what it runs has a name that is known.
        while at < len(words) and not _is_known(words[at]):
            at += 1
    return _start(list(words[at:])) if at < len(words) and _is_known(words[at]) else None


def start_in(text: str) -> Start | None:
    """What a shell script starts: its last command that trains."""
    found = None
    for words in simple_commands(text):
        found = start_of(words) or found
    return found


def simple_commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell script, each as its words. What a shell would expand stays as it is."""
    joined = re.sub(r"\\\r?\n", " ", text)
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();&|")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote that goes on in the next line
            words = line.split()
        command: list[str] = []
        for word in words:
            if word and set(word) <= set("();&|"):
                yield command
                command = []
            else:
                command.append(word)
        yield command


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _is_known(word: str) -> bool:
    """Whether a program of this name trains, or starts what does."""
    name = _name(word)
    known = name == "torchrun" or name in _OTHERS or name in SHELLS or name.endswith((".sh", ".py"))
    return known or _PYTHON.fullmatch(name) is not None


def _start(words: list[str]) -> Start | None:
    name, rest = _name(words[0]), words[1:]
    if name == "torchrun":
        return _launched(rest, words, old=False)
    if _PYTHON.fullmatch(name):
        return _python(rest, words)
    options = [position for position, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)]
    if name in SHELLS and options:
        return start_in(rest[options[0] + 1]) if options[0] + 1 < len(rest) else None
    script = words[0] if name.endswith((".sh", ".py")) else None
    return Start("python" if name.endswith(".py") else "other", script, words=tuple(words))


def _python(rest: list[str], words: list[str]) -> Start | None:
    while rest and rest[0].startswith("-"):
        if rest[0] == "-m":
            module = rest[1] if len(rest) > 1 else ""
            if module in ("torch.distributed.run", "torch.distributed.launch"):
                return _launched(rest[2:], words, old=module.endswith("launch"))
            known = module.partition(".")[0] not in ("pip", "venv", "ensurepip")
            return Start("python", module or None, words=tuple(words)) if known else None
        if rest[0] == "-c":
            return Start("other", words=tuple(words))
        rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
    return Start("python", rest[0], words=tuple(words)) if rest else None


def _launched(rest: list[str], words: list[str], *, old: bool) -> Start:
    flags: dict[str, str] = {}
    while rest and rest[0].startswith("-"):
        option, is_one, value = rest[0].partition("=")
        name = _SHORT.get(option) or option.lstrip("-").replace("-", "_")
        rest = rest[1:]
        if name not in _WITHOUT_VALUE and not is_one and rest:
            value, rest = rest[0], rest[1:]
        flags[name] = value
    of_python = (word for word in rest if "no_python" in flags and word.endswith(".py"))
    script = next(of_python, rest[0] if rest else None)
    return Start("torchrun", script, flags, old, tuple(words))
