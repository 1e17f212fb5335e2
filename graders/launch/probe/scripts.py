"""Runs scripts as nodes and answers their stand-ins until they end."""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lockstep.sandbox.probing import Student
from lockstep.sandbox.starvation import LONGEST, Limit
from lockstep.wire import Json

from .bench import MAX_OUTPUT, MAX_RECORDS, NODE, Bench, Held, Request, Script
from .handlers import HANDLERS, order
from .paths import call_through_env, functions
from .programs import ON_A_NODE, SHELL, STAND_IN, TRAINER
from .starters import exported

REPORTED = (NODE, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")


@contextlib.contextmanager
def _listening(bench: Bench, seconds: float) -> Iterator[socket.socket]:
    """Write the stand-ins and listen to them."""
    path = os.path.join(bench.tools, "asked")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    os.mkdir(os.path.join(bench.tools, "bin"))
    os.mkdir(bench.home)
    call_through_env(bench.work, frozenset(HANDLERS))
    text = STAND_IN.format(python=os.path.realpath("/proc/self/exe"), socket=path)
    for name in HANDLERS:
        target = os.path.join(bench.tools, "bin", name)
        with open(target, "w") as file:
            file.write(text)
        os.chmod(target, 0o755)
    for name, content in (
        ("bin/activate", ""),
        ("shell", SHELL.format(work=bench.work) + functions(bench.work, frozenset(HANDLERS))),
        ("on_a_node.py", ON_A_NODE),
        ("trainer.py", TRAINER.format(socket=path, names=REPORTED, seconds=seconds)),
    ):
        with open(os.path.join(bench.tools, name), "w") as file:
            file.write(content)
    try:
        yield listener
    finally:
        listener.close()


def _peer(end: socket.socket) -> Request | None:
    """Whoever is at the other end, from what the kernel says of it rather than from what it says itself."""
    pid = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [word.decode("utf-8", "replace") for word in file.read(1 << 18).split(b"\0")[:-1]]
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read(1 << 18).split(b"\0") if b"=" in entry]
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    # The interpreter and its flags stand in front of the stand-in's own path.
    if len(words) < 3:
        return None
    environment = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs
    }
    return Request(words[2:], environment, folder, pid)


def run_scripts(
    bench: Bench, runs: Sequence[Mapping[str, Any]], student: Student, seconds: float
) -> list[Json]:
    """Start the script once for every entry of `runs`, all at once, and serve their stand-ins until they end."""
    # Those that meet wait for one another as long as they may.
    with _listening(bench, LONGEST * seconds) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, _accept)
        scripts = [_begin(bench, run, student) for run in runs]
        for script in scripts:
            assert script.process.stdout is not None
            os.set_blocking(script.process.stdout.fileno(), False)
            selector.register(script.process.stdout, selectors.EVENT_READ, script)
        limit = Limit(seconds, os.getppid())
        while not limit.is_reached() and not bench.is_through(scripts):
            heard = selector.select(timeout=0.02)
            for key, _ in heard:
                if isinstance(key.data, Script):
                    _drain(key.data, selector)
                elif key.data is _accept:
                    selector.register(listener.accept()[0], selectors.EVENT_READ, "end")
                else:
                    _serve(bench, cast(socket.socket, key.fileobj), selector)
            for script in scripts:
                if script.status is None and script.process.poll() is not None:
                    script.status = script.process.returncode
            bench.attend(scripts[0], bool(heard))
        for script in scripts:
            _drain(script, selector)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.process.pid, signal.SIGKILL)
            script.process.wait()
        return [
            {
                "node": script.node,
                "status": script.status,
                "output": script.output.decode("utf-8", "replace")[-MAX_OUTPUT // 2 :],
            }
            for script in scripts
        ]


def _accept() -> None:
    """Marks the listening socket among those that are waited for."""


def _begin(bench: Bench, run: Mapping[str, Any], student: Student) -> Script:
    node = int(run["node"])
    # The student's own PATH stays behind the stand-ins.
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"},
        **exported(cast(str, run.get("export", ""))),
        "PATH": f"{bench.tools}/bin:{os.environ['PATH']}",
        # As if an environment were active.
        **dict.fromkeys(("CONDA_PREFIX", "VIRTUAL_ENV"), bench.tools),
        "BASH_ENV": os.path.join(bench.tools, "shell"),
        **{
            name: _placed(value, student.work)
            for name, value in cast(dict[str, str], run["environment"]).items()
        },
        **cast(dict[str, str], bench.on_node(node)),
    }
    folder = bench.home if run.get("at_home") else os.path.join(student.work, cast(str, run["folder"]))
    script = os.path.relpath(os.path.join(student.work, cast(str, run["script"])), folder)
    process = subprocess.Popen(
        [_interpreter(os.path.join(folder, script)), script, *cast(list[str], run["arguments"])],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Script(node, process)


def _interpreter(script: str) -> str:
    """Whose language a script is in, by its first line: to a scheduler any will do whose comments begin with #."""
    first = ""
    with contextlib.suppress(OSError), open(script, errors="replace") as file:
        first = file.readline(200)
    return "python3" if not script.endswith(".sh") and re.match(r"#!.*\bpython[\d.]*\b", first) else "bash"


def _placed(value: str, work: str) -> str:
    """A judge's value with @WORK for the folder of the submission."""
    return value.replace("@WORK", work)


def _drain(script: Script, selector: selectors.BaseSelector) -> None:
    stream = script.process.stdout
    assert stream is not None
    if stream.closed:
        return
    with contextlib.suppress(BlockingIOError):
        for _ in range(16):
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                selector.unregister(stream)
                stream.close()
                return
            script.output = (script.output + chunk)[-MAX_OUTPUT:]


def _serve(bench: Bench, end: socket.socket, selector: selectors.BaseSelector) -> None:
    # Anybody in here may connect and say anything.
    with contextlib.suppress(OSError, ValueError, KeyError, RecursionError):
        message = end.recv(1 << 16)
        if message == b"stand-in":
            request = _peer(end)
            answer = order(bench, request) if request else {"status": 1}
            if request and bench.holds and answer.get("hold") and not bench.ended:
                bench.held.append(Held(end, request, bench.records[-1]))
            else:
                end.send(marshal.dumps(answer))
            return
        said = json.loads(message) if message and bench.numbers is not None else None
        if isinstance(said, dict) and len(bench.workers) < MAX_RECORDS:
            _hear(bench, end, said)
            return
    selector.unregister(end)
    end.close()


def _hear(bench: Bench, end: socket.socket, said: dict[str, Json]) -> None:
    """A process of the training first says who it is and gets its number, then what all numbers add up to."""
    assert bench.numbers is not None
    if "total" in said:
        bench.workers.append({"total": said["total"], "rank": said["rank"], "world_size": said["world_size"]})
        end.send(b"seen")
        return
    bench.workers.append({name: said.get(name) for name in REPORTED})
    arrived = sum("RANK" in worker for worker in bench.workers)
    end.send(str(bench.numbers[(arrived - 1) % len(bench.numbers)]).encode())
