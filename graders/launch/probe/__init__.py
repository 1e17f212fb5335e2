"""Runs launch scripts as the nodes of a small cluster would, with stand-ins for the programs they start.

A stand-in does nothing of its own: it asks this process, which reads from the kernel what the stand-in was
started with, writes that down and says what to do. Where two nodes train for real, torchrun is the real one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, cast

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.wire import Json

from .azure_sdk import azure_script
from .bench import MAX_OUTPUT, Bench, Cluster
from .scripts import run_scripts

__all__ = ["ask_script", "azure_script", "carry_out", "record"]


def _bench(student: Student, inputs: Inputs, numbers: list[int] | None = None) -> Bench:
    cluster = cast(dict[str, Any], inputs.values["cluster"])
    tools = tempfile.mkdtemp(prefix="nodes-")
    return Bench(
        Cluster(cluster["hosts"], cluster["gpus"], cluster["slots"]),
        tools,
        os.path.join(os.path.realpath(tools), "home"),
        os.path.realpath(student.work),
        numbers,
    )


def record(student: Student, inputs: Inputs) -> Observation:
    """Run a script in each of several ways, and in each as one node after the other; what it would have started."""
    seen: list[Json] = []
    student.write_notebooks()
    for way in cast(list[list[dict[str, Any]]], inputs.values["ways"]):
        nodes: list[Json] = []
        for run in way:
            bench = _bench(student, inputs)
            bench.cluster.hosts[:] = run.get("hosts", bench.cluster.hosts)
            bench.holds = bool(run.get("job"))
            with student.calling(f"running `bash {run['script']}`"), _first_machine(run):
                (ended,) = run_scripts(bench, [run], student, cast(float, inputs.values["seconds"]))
            nodes.append({**cast(dict[str, Json], ended), "records": cast(Json, bench.records)})
            shutil.rmtree(bench.tools, ignore_errors=True)
            if cast(dict[str, Json], ended)["status"] is None:
                # It would not end in another way either, and each takes as long.
                return Observation({"ways": [*seen, nodes]})
        seen.append(nodes)
    return Observation({"ways": seen})


@contextlib.contextmanager
def _first_machine(run: Mapping[str, Any]) -> Iterator[None]:
    """The first node listens already where the others are told to meet it: a script may wait for that."""
    port = run["environment"].get("MASTER_PORT", "")
    with contextlib.ExitStack() as listening:
        # Without a sandbox somebody else may have the port, and then listens too.
        with contextlib.suppress(OSError):
            if run["node"] and port.isdigit():
                listening.enter_context(socket.create_server(("", int(port))))
        yield


def carry_out(student: Student, inputs: Inputs) -> Observation:
    """Run a script as all nodes at once, with the real torchrun and a training that adds up numbers."""
    student.write_notebooks()
    bench = _bench(student, inputs, cast(list[int], inputs.values["numbers"]))
    runs = cast(list[dict[str, Any]], inputs.values["way"])
    with student.calling(f"running `bash {runs[0]['script']}` as {len(runs)} nodes"):
        ended = run_scripts(bench, runs, student, cast(float, inputs.values["seconds"]))
    return Observation(
        {"scripts": ended, "workers": cast(Json, bench.workers), "records": cast(Json, bench.records)}
    )


def ask_script(student: Student, inputs: Inputs) -> Observation:
    """Run a training script with the arguments that a launch file gives it; how it ended, if it did so in time."""
    command = ["python", cast(str, inputs.values["script"]), *cast(list[str], inputs.values["arguments"])]
    try:
        ended = student.run_command(command, seconds=cast(float, inputs.values["seconds"]))
    except subprocess.TimeoutExpired:
        return Observation({"status": None})
    return Observation({"status": ended.status, "output": ended.output[-MAX_OUTPUT // 2 :]})
