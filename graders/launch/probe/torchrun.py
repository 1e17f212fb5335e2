"""Torchrun, and the Python that starts it or a training script."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from torch.distributed import run

from lockstep.wire import Json

from .bench import GPUS, Bench, Order, Request, text

# What runs the command behind it, and stands in front of `python` behind --no-python.
PREFIXES = (
    "env", "nice", "nohup", "numactl", "stdbuf", "taskset", "time", "timeout", "setsid", "ionice", "chrt",
)  # fmt: skip
# What starts a program in a container, an environment or under a profiler, or with other limits or rights.
ENVIRONMENTS = (
    "conda mamba micromamba pixi uv uvx rye poetry pdm hatch pipenv nix guix apptainer singularity docker podman "
    "podman-hpc shifter sarus enroot ch-run charliecloud udocker numactl nsys ncu rocprof rocprofv3 py-spy scalene "
    "unbuffer sudo prlimit systemd-run hwloc-bind"
).split()
MODULES = (["torch.distributed.run"], ["torch.distributed.launch"])
OTHER_LAUNCHERS = ("accelerate", "deepspeed", "horovodrun", "lightning", "fabric")


def told(words: Sequence[str], environment: Mapping[str, str], *, legacy: bool) -> dict[str, Json]:
    """Torchrun's own reading of its command line, as plain values; `problem` when it refuses it."""
    said = io.StringIO()
    with _lent_environment({name: value for name, value in environment.items() if name.startswith("PET_")}):
        try:
            parser = run.get_args_parser()
            if legacy:
                parser.add_argument("--use-env", "--use_env", action="store_true")
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                args = parser.parse_args(list(words))
        except SystemExit:
            lines = [line for line in said.getvalue().splitlines() if "error: " in line]
            return {
                "problem": text(lines[-1].partition("error: ")[2]) if lines else "it only prints its help"
            }
        except ValueError as error:
            return {"problem": text(f"a PET_ variable of the environment cannot be read: {error}")}
    command = [args.training_script, *args.training_script_args]
    before = list(words[: len(words) - len(command)])
    if args.no_python:
        command = _behind_python(command)
    # With torch.distributed.launch a script may follow that reads --local-rank.
    return {
        "nnodes": text(str(args.nnodes)),
        "nproc": text(str(args.nproc_per_node)),
        "backend": text(str(args.rdzv_backend)),
        "endpoint": text(str(args.rdzv_endpoint or "")),
        "id": text(str(args.rdzv_id)),
        "local_addr": text(str(args.local_addr or "")),
        "standalone": bool(args.standalone),
        "node_rank": int(args.node_rank) if -(1 << 40) < int(args.node_rank) < 1 << 40 else None,
        "master_addr": text(str(args.master_addr)),
        "master_port": None if args.master_port is None else text(str(args.master_port)),
        "module": bool(args.module),
        "script": text(command[0]),
        "arguments": [text(word) for word in command[1:41]],
        # `torchrun OPTIONS -- SCRIPT`: behind the dashes no more options can stand.
        "options": len(before) - (before[-1:] == ["--"]),
    }


def _behind_python(command: list[str]) -> list[str]:
    """A command from the file of Python on; all of it where `python` is not what it starts."""
    words = list(command)
    is_python = re.compile(r"(.*/)?python[0-9.]*").fullmatch
    first = os.path.basename(words[0]) if words else ""
    if first in ("sh", "bash") and (at := words.index("-c") + 1 if "-c" in words else 0):
        # A shell for each process, which binds it to its part of the machine: with what it hands on.
        with contextlib.suppress(ValueError):
            said = shlex.split("".join(words[at : at + 1]), comments=True)
            own = list(itertools.takewhile(lambda word: word not in ("$@", "${@}"), said))
            words = [*own, *(words[at + 2 :] if own != said else [])]
            first = "env"
    if first in (*PREFIXES, *ENVIRONMENTS):
        # Which of its options take a value does not matter.
        words = list(itertools.dropwhile(lambda word: not is_python(word), words))
    if not words or not is_python(words[0]):
        return command
    return list(itertools.dropwhile(lambda word: not word.endswith(".py"), words)) or command


@contextlib.contextmanager
def _lent_environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def torchrun(bench: Bench, request: Request) -> Order:
    """What torchrun is to do."""
    return _start(bench, request, "torchrun", request.words[1:], legacy=False)


def _start(bench: Bench, request: Request, program: str, words: list[str], *, legacy: bool) -> Order:
    facts = told(words, request.environment, legacy=legacy)
    script = str(facts.get("script", ""))
    file = script.replace(".", "/") + ".py" if facts.get("module") else script
    there = os.path.isfile(os.path.join(request.folder, file))
    bench.note(
        request,
        "torchrun",
        program,
        words,
        facts=facts,
        there=there,
        folder=text(_below(bench, request.folder)),
        late=bench.is_late(request),
        left=bench.ended and not bench.slept,
    )
    if bench.numbers is None or "problem" in facts:
        return {"status": 2} if "problem" in facts else {"hold": True}
    bench.agents.append(request.pid)
    options = words[: cast(int, facts["options"])]
    if legacy:
        options = [
            word for word in words[: cast(int, facts["options"])] if word not in ("--use-env", "--use_env")
        ]
    return {
        "become": [
            _real("torchrun"),
            *_on_loopback(options, facts, bench),
            os.path.join(bench.tools, "trainer.py"),
        ],
        "changes": {
            "GLOO_SOCKET_IFNAME": "lo",
            "TP_SOCKET_IFNAME": "lo",
            **dict.fromkeys(
                ("PET_MODULE", "PET_NO_PYTHON", "PET_RUN_PATH", "BASH_ENV", "CUDA_VISIBLE_DEVICES"), None
            ),
        },
    }


def _below(bench: Bench, folder: str) -> str:
    if folder == bench.home:
        return "~"
    inside = folder == bench.work or folder.startswith(bench.work + os.sep)
    return os.path.relpath(folder, bench.work) if inside else folder


def _real(name: str) -> str:
    """The warm `python` or `torchrun`; `sys.executable` lies beside it."""
    return os.path.join(os.path.dirname(sys.executable), name)


def _on_loopback(options: list[str], facts: Mapping[str, Json], bench: Bench) -> list[str]:
    """The same options for machines that are all this one: names of hosts become 127.0.0.1, ports stay."""
    kept = [word for word in options if word not in ("-m", "--module", "--no-python", "--no_python")]
    kept = [word for word in kept if word not in ("--run-path", "--run_path")]
    endpoint = str(facts["endpoint"])
    port = endpoint.rpartition(":")[2] if ":" in endpoint else ""
    # argparse takes the last of several.
    kept += [
        "--local-addr",
        "127.0.0.1",
        "--max-restarts",
        "0",
        "--log-dir",
        os.path.join(bench.tools, "logs"),
    ]
    if not str(facts["nproc"]).isdigit():
        kept += ["--nproc-per-node", str(bench.cluster.gpus)]
    if facts["backend"] == "static":
        kept += ["--master-addr", "127.0.0.1"]
        kept += ["--rdzv-endpoint", f"127.0.0.1:{port}"] if endpoint else []
    else:
        # etcd's backends need a server of their own, which no script starts.
        kept += [
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            f"127.0.0.1:{port or 29400}" if endpoint else "",
        ]
    return kept


def python(bench: Bench, request: Request) -> Order:
    """Records launchers and training scripts, and is Python for anything else."""
    words = list(request.words[1:])
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-c", "-m", "-"):
        at += 2 if words[at] in ("-X", "-W") else 1
    name, rest = (words[at], words[at + 1 :]) if at < len(words) else ("", [])
    if name == "-m" and rest[:1] in MODULES:
        legacy = rest[0].endswith("launch")
        return _start(bench, request, f"python -m {rest[0]}", rest[1:], legacy=legacy)
    if name == "-m" and rest and rest[0].split(".")[0] in OTHER_LAUNCHERS:
        bench.note(request, "other", rest[0].split(".")[0], rest[1:])
        return {}
    if os.path.basename(name) == "torchrun":  # python $(which torchrun)
        return _start(bench, request, "torchrun", rest, legacy=False)
    if name == "-m" and rest and rest[0] in ("pip", "venv", "wandb"):
        return {}
    stem = os.path.basename(name if name != "-m" or not rest else rest[0]).removesuffix(".py")
    if stem and (name.endswith(".py") or name == "-m") and re.search(r"train|ddp|main", stem):
        bench.note(request, "python", "python", words, script=text(f"{stem}.py"))
        return {}
    if _asks(request, name, rest):
        words = [os.path.join(bench.tools, "on_a_node.py"), *words[at:]]
    return {
        "become": [_real("python"), *words],
        "changes": {"BASH_ENV": None, GPUS: str(bench.cluster.gpus)},
    }


def _asks(request: Request, name: str, rest: Sequence[str]) -> bool:
    """Whether this Python may call a launcher's main, or ask where it is; what comes from stdin may, for all that can
    be seen here.
    """
    if name in ("", "-"):
        return True
    source = rest[0] if name == "-c" and rest else ""
    if not name.startswith("-"):
        with contextlib.suppress(OSError), open(os.path.join(request.folder, name), errors="replace") as file:
            source = file.read(1 << 18)
    return re.search(r"torch\.distributed|hostname|getfqdn|uname|platform|device_count", source) is not None
