"""What a command line in a manifest starts, read as text: nobody runs it, so variables keep their names.

The launchers of torch take options before the script and leave everything behind it to the script
(`torch.distributed.run`, `torch.distributed.launch`); both spellings of an option, with `-` and with `_`, are one.
"""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

from graders.launch.starts import Endpoint

# Torch 2.8, `distributed/run.py`; like argparse it takes the beginning of a name for the name.
OPTIONS = (
    "duplicate-stderr-filters duplicate-stdout-filters event-log-handler help local-addr local-rank local-ranks-filter "
    "log-dir log-line-prefix-template logs-specs master-addr master-port max-restarts module monitor-interval nnodes "
    "no-python node-rank nproc-per-node numa-binding print-completion rdzv-backend rdzv-conf rdzv-endpoint rdzv-id "
    "redirects role run-path shutdown-timeout signals-to-handle standalone start-method tee use-env virtual-local-rank"
).split()
SHELLS = {"sh", "bash", "dash", "zsh", "ash"}
_WITHOUT_VALUE = {"standalone", "module", "no_python", "run_path", "use_env", "virtual_local_rank"}
_SHORT = {"-m": "module", "-r": "redirects", "-t": "tee"}
# What runs the command behind its own options; and the words of a shell that may stand before a command.
WRAPPERS = frozenset(
    "catchsegv chrt conda coverage dumb-init env exec gosu hatch ionice kernprof mamba memray micromamba ncu nice "
    "nohup nsys numactl pdm perf pipenv pixi poetry py-spy rye scalene setsid stdbuf strace sudo taskset time timeout "
    "tini uv uvx valgrind viztracer xvfb-run".split()
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
# What starts something that is written down elsewhere.
_RUNNERS = frozenset(
    "dvc invoke ipython ipython3 jupyter just make mlflow nox papermill ray snakemake tox wandb".split()
)
_RUN_BY_NAME = frozenset("conda hatch mamba micromamba pdm pipenv pixi poetry rye uv".split())
# Programs, and words of a shell, that wait or end without having trained anything.
_IDLE = frozenset(
    ": [ [[ apt apt-get break cat cd chmod continue date df done du echo esac exit export false fi for free hostname "
    "id ls lscpu mkdir nproc nvcc nvidia-smi pip pip3 printenv printf ps pwd set shopt sleep tail tee test touch trap "
    "true ulimit umask uname unset wait which whoami }".split()
)
_TRANSPARENT = _WORDS_OF_A_SHELL | {"exec", "nohup", "setsid", "sudo", "time"}
# Modules of Python that start what they are told, and those whose name a script of one's own may have as well.
_STARTING_MODULES = frozenset(
    "asyncio bdb cProfile code doctest idlelib pdb profile runpy test timeit trace tracemalloc unittest".split()
)
_STARTING_NOTHING = (sys.stdlib_module_names | {"pip"}) - _STARTING_MODULES
# A text behind `python -c` that imports nothing else, and has none of these words, only looks around.
_LOOKED_AT = (sys.stdlib_module_names | {"numpy", "torch", "torchvision"}) - _STARTING_MODULES
_IMPORT = re.compile(r"\b(?:from\s+([\w.]+)\s+import\b|import\s+([^;\n]*))")
_STARTING_WORDS = re.compile(
    r"backward|compile|distributed|eval|exec|import_|importlib|multiprocessing|open|optim|spawn|subprocess|system|"
    r"torchrun|[$`]"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"python[0-9.]*")
_BY_MODULE = (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"])
# Options of Python behind one dash, of which the last may have its value in the same word: -um pkg, -mpkg.
_PYTHON_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*([cm])(.*)", re.DOTALL)
# How a shell's text reads what stands behind it.
_READS_WORDS = re.compile(r"\$\{?[!#]?[@*#0-9]|\b(?:shift|getopts|BASH_ARGV)\b|\bfor\s+\w+\s*(?:;|do\b)")
# What fills in a number or a name, and starts nothing that trains.
_LOOKED_UP = re.compile(
    r"\$\((?:awk|cat|cut|echo|getent|head|hostname|ip|nproc|nvidia-smi|printf|sort|tr|wc)\b[^()]*\)"
)
_WHICH = re.compile(r"\$\((?:which|command -v)\s+([\w./-]+)\)|`(?:which|command -v)\s+([\w./-]+)`")


@dataclass(frozen=True)
class Start:
    """How training is started: by torch's launcher, by Python alone, or by something that cannot be looked into.

    `flags` are the launcher's options, with `_` and without dashes; `words` all of the command line, `before` what
    stands in front of it and runs it: nothing where a script has several of which it chooses one.
    """

    by: Literal["torchrun", "python", "other"]
    script: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    old: bool = False
    words: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether there may be more options than can be read: in a variable that stands where the script would."""
        return self.script is not None and self.script.startswith("$")

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the script is given, up to where a shell sends its output elsewhere; variables keep their names."""
        if self.by == "other" or self.script not in self.words:
            return ()
        behind = self.words[self.words.index(self.script) + 1 :]
        if not behind:
            return ()
        # Azure's variables may have blanks in them: they are no word of a shell's.
        text = re.sub(r"\$\{\{[^{}]*\}\}", "$input", "\0".join(behind))
        return tuple(itertools.takewhile(lambda word: not re.match(r"\d*[<>]", word), text.split("\0")))

    def number(self, flag: str) -> int | None:
        """An option that is given as a plain number."""
        return int(self.flags[flag]) if re.fullmatch(r"[0-9]{1,6}", self.flags.get(flag, "")) else None


def modernise(start: Start) -> str:
    """A note for who starts training with the launcher that torchrun has replaced."""
    more = "" if "use_env" in start.flags else ", which sets LOCAL_RANK and passes no --local-rank"
    return f"`python -m torch.distributed.launch` is deprecated since PyTorch 1.10: write `torchrun`{more}."


def start_of(words: Sequence[str]) -> Start | None:
    """What a command, given as its words, starts; a shell with `-c` is looked into. None: nothing that trains."""
    first = at = _program(words, _WORDS_OF_A_SHELL)
    if at < len(words) and _name(words[at]) in WRAPPERS:
        # Which of its options take a value does not matter: what it runs has a name that is known.
        while at < len(words) and not _is_known(words[at]) and words[at : at + 2] not in _BY_MODULE:
            at += 1
    if at < len(words) and words[at] == "-m":  # uv run -m MODULE
        start = _python(list(words[at:]), list(words[at:]))
    else:
        start = _start(list(words[at:])) if at < len(words) and _is_known(words[at]) else None
    return replace(start, before=(*words[first:at], *start.before)) if start else None


def start_in(text: str) -> Start | None:
    """What a shell script starts: its last command that trains, or else one that may start anything."""
    found = None
    commands = list(simple_commands(text))
    for words in commands:
        start = start_of(words)
        if start is not None and found is not None:
            start = replace(start, before=())
        if start is not None and found is not None and start.by == found.by == "torchrun":
            ranks = {each.flags.get("node_rank", "") for each in (start, found)}
            # One command for each node, among which the script chooses.
            start = replace(start, flags={**start.flags, "node_rank": ""}) if len(ranks) > 1 else start
        # What else stands there is how it is meant to be started.
        only_helps = start is not None and "--help" in start.words and found is not None
        found = found if only_helps else start or found
    others = (Start("other", words=tuple(words)) for words in commands if _may_start_anything(words))
    return found or next(others, None)


def meets_itself(address: str) -> bool:
    """Whether every node takes itself for this host, with or without a port."""
    host, colon, _ = address.rpartition(":")
    if not colon or address.endswith("]") or (":" in host and not host.endswith("]")):
        host = address
    return host != "" and Endpoint(host.strip("[]").lower(), "").is_local


def starts_nothing(words: Sequence[str]) -> bool:
    """Whether a command is known to train nothing, because it only waits, prints or looks around.

    A program whose name says nothing may be anybody's own.
    """
    words = words[_program(words, _TRANSPARENT) :]
    name = _name(words[0]) if words else ""
    if name in SHELLS:
        text = _text_for_shell(words[1:])
        if text is None:  # it has nothing to read and ends, unless there is a script
            return all(word.startswith(("-", "+")) for word in words[1:])
        return start_in(text) is None and all(map(_is_idle, simple_commands(text)))
    return (_PYTHON.fullmatch(name) is not None and start_of(words) is None) or name in _IDLE


def starts_only(text: str, start: Start) -> bool:
    """Whether all that a shell script does is to start this: it changes no folder and fetches no file."""
    commands = [words for words in simple_commands(text) if words]
    rest = [words for words in commands if tuple(words[-len(start.words) :]) != start.words]
    return len(rest) == len(commands) - 1 and all(_is_idle(words) and "cd" not in words for words in rest)


def torn_line(text: str) -> str | None:
    """A line that begins with an option, which a shell takes for a command of its own; None where there is none.

    What stands in quotes or is read from a here-document may go over several lines.
    """
    try:
        whole_lines = [shlex.split(line) for line in re.sub(r"\\\r?\n", " ", text).splitlines()]
    except ValueError:
        return None
    torn = (" ".join(words) for words in whole_lines[1:] if words and re.match(r"--[A-Za-z]", words[0]))
    return None if "<<" in text else next(torn, None)


def lost_words(words: Sequence[str]) -> list[str]:
    """What stands behind the text of a shell's -c, where that text reads no $0, $1 or $@: nobody gets it."""
    at = _text_at(words[1:]) if words and _name(words[0]) in SHELLS else None
    if at is None or _READS_WORDS.search("".join(words[at + 1 : at + 2])):
        return []
    return list(words[at + 2 :])


def simple_commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell script, each as its words. What a shell would expand stays as it is."""
    joined = _WHICH.sub(lambda found: found[1] or found[2], re.sub(r"\\\r?\n", " ", text))
    joined = _LOOKED_UP.sub("$output", joined)
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


def _program(words: Sequence[str], before: AbstractSet[str]) -> int:
    """Where the program of a command stands, behind assignments and such words."""
    at = 0
    while at < len(words) and (words[at] in before or _ASSIGNMENT.fullmatch(words[at])):
        at += 1
    return at


def _is_idle(words: Sequence[str]) -> bool:
    """Whether a command of a shell script starts nothing, as far as its words can tell."""
    words = words[_program(words, _TRANSPARENT) :]
    if not words:
        return True
    if any("$(" in word or "`" in word for word in words):
        return False
    name = _name(words[0])
    # Python alone may read what another command prints. What is left of 2>&1 is a number.
    looks = _PYTHON.fullmatch(name) is not None and len(words) > 1 and start_of(words) is None
    return looks or name in _IDLE or name.isdigit() or words[0].startswith((">", "<"))


def _may_start_anything(words: Sequence[str]) -> bool:
    """Whether a command is one's own program, comes out of a variable, or starts what is written down elsewhere."""
    words = words[_program(words, _TRANSPARENT) :]
    if not words or _name(words[0]) in _IDLE:
        return False
    name = _name(words[0])
    own = "/" in words[0] and not words[0].startswith(("/bin/", "/usr/", "/sbin/")) and name not in WRAPPERS
    return own or words[0].startswith("$") or name in _RUNNERS or (name in _RUN_BY_NAME and "run" in words)


def _text_for_shell(rest: Sequence[str]) -> str | None:
    """What a shell is told behind its own `-c`; None where it reads a file or what is typed."""
    at = _text_at(rest)
    return None if at is None else "".join(rest[at : at + 1])


def _text_at(rest: Sequence[str]) -> int | None:
    """Where that text stands."""
    at, told = 0, False
    while at < len(rest) and rest[at].startswith(("-", "+")):
        option = rest[at]
        told = told or re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) is not None
        with_value = re.fullmatch(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file", option)
        at += 2 if with_value else 1
        if option == "--":
            break
    return at if told else None


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
    if name in SHELLS and (text := _text_for_shell(rest)) is not None:
        inner = start_in(text)
        return replace(inner, before=(words[0], *inner.before)) if inner else None
    script = words[0] if name.endswith((".sh", ".py")) else None
    return Start("python" if name.endswith(".py") else "other", script, words=tuple(words))


def _python(rest: list[str], words: list[str]) -> Start | None:
    while rest and rest[0].startswith("-") and rest[0] != "-":
        if option := _PYTHON_OPTION.fullmatch(rest[0]):
            value, rest = (option[2], rest[1:]) if option[2] else ("".join(rest[1:2]), rest[2:])
            if option[1] == "c":
                return None if _looks_around(value) else Start("other", words=tuple(words))
            if value in ("torch.distributed.run", "torch.distributed.launch"):
                return _launched(rest, words, old=value.endswith("launch"))
            package = value.partition(".")[0]
            if package in _STARTING_NOTHING:
                return None
            is_launcher = package in _OTHERS
            return Start("other" if is_launcher else "python", value or None, words=tuple(words))
        rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
    if rest and _name(rest[0]) == "torchrun":
        return _launched(rest[1:], words, old=False)
    return Start("python", rest[0], words=tuple(words)) if rest else None


def _looks_around(text: str) -> bool:
    """Whether a text of Python trains nothing: what it imports is Python's or torch's own, and it starts nothing."""
    # A quote at its beginning: the text goes on in the lines that follow.
    if _STARTING_WORDS.search(text) or text.startswith(('"', "'")):
        return False
    imported = [module for found in _IMPORT.findall(text) for module in (found[0] or found[1]).split(",")]
    return all(re.split(r"[.\s]", module.strip(" ()"))[0] in _LOOKED_AT for module in imported)


def _launched(rest: list[str], words: list[str], *, old: bool) -> Start:
    flags: dict[str, str] = {}
    while rest and rest[0].startswith("-"):
        option, is_one, value = rest[0].partition("=")
        name = _SHORT.get(option) or _in_full(option.lstrip("-").replace("_", "-"))
        rest = rest[1:]
        if name not in _WITHOUT_VALUE and not is_one and rest:
            value, rest = rest[0], rest[1:]
        flags[name] = value
    of_python = (word for word in rest if "no_python" in flags and word.endswith(".py"))
    script = next(of_python, rest[0] if rest else None)
    return Start("torchrun", script, flags, old, tuple(words))


def _in_full(option: str) -> str:
    """The name of an option, with `_`, of which this may be the beginning."""
    begun = [known for known in OPTIONS if known.startswith(option)] if option not in OPTIONS else []
    return (begun[0] if len(begun) == 1 else option).replace("-", "_")
