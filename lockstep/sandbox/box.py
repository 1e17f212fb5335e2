"""One sandbox with its warm server, seen from the trusted side: start it, run things in it, end it."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from lockstep import wire
from lockstep.exercise import Exercise, Server
from lockstep.sandbox import backend, bubblewrap, channel, forgotten, seccomp
from lockstep.sandbox.connection import Connection
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.spec import RunSpec
from lockstep.verdict import GraderFault
from lockstep.wire import Json

PACKAGE = Path(__file__).resolve().parent.parent
# The only files of lockstep that exist inside; the trusted side's own stay outside.
INSIDE_FILES = (
    "__init__.py cellheader.py crossentropy.py jsontext.py text.py wire.py sandbox/__init__.py sandbox/channel.py "
    "sandbox/confine.py sandbox/server.py sandbox/supervisor.py sandbox/apart.py sandbox/job.py "
    "sandbox/memoryfile.py sandbox/places.py sandbox/probefiles.py sandbox/processes.py sandbox/ranks.py "
    "sandbox/probing.py sandbox/loading.py sandbox/warm.py sandbox/watch.py sandbox/shims.py sandbox/slowed.py "
    "sandbox/modelmeter.py sandbox/missing.py sandbox/awaiting.py sandbox/cells.py sandbox/jupyter.py "
    "sandbox/lightning_names.py sandbox/lightning_spellings.py sandbox/device/__init__.py sandbox/device/amp.py "
    "sandbox/device/cuda.py sandbox/device/groups.py sandbox/device/machine.py sandbox/device/marks.py "
    "sandbox/device/mixing.py sandbox/device/parallel.py sandbox/device/streams.py sandbox/device/tensors.py "
    "sandbox/device/others.py sandbox/gpus.py sandbox/nbconvert.py sandbox/starvation.py sandbox/stopwatch.py "
    "sandbox/dataloaders.py sandbox/helptexts.py sandbox/whereabouts.py sandbox/reading.py sandbox/scripts.py "
    "sandbox/exported.py sandbox/running.py sandbox/elsewhere.py sandbox/databricks.py sandbox/wandb_spellings.py "
    "sandbox/after_import.py sandbox/library_spellings.py sandbox/unscripted.py sandbox/machines.py "
    "sandbox/lowprecision.py sandbox/firststeps.py sandbox/lately.py sandbox/fullsets.py sandbox/fewbatches.py "
    "sandbox/shortschedules.py magics.py"
).split()
INSIDE = "/opt/lockstep"
PROBES = "/opt/probes"
START = """
import sys
sys.path[:] = [folder for folder in sys.path if not folder.endswith({hidden!r})] + {path!r}
from lockstep.sandbox.server import main
main(*map(int, sys.argv[1:]))
"""
# Where the interpreter that a virtual environment was made from keeps packages of its own; not those pinned here.
FOREIGN_PACKAGES = ("site-packages", "dist-packages")
END_SECONDS = 10.0


def _send_descriptors_freely() -> None:
    """Take the limit of open files as high as this process may.

    Descriptors that were sent and not received yet count for the user, all processes together, and against the limit
    of who sends the next. What a student leaves in sockets, up to a run's limit, must not keep us from sending.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Box:
    """A sandbox with warm servers, some ready before others. Use as a context manager.

    `run` may be called any number of times.
    """

    def __init__(
        self,
        probes: Mapping[str, Path],
        *,
        isolated: bool,
        real_gpus: int = 0,
        last: Server = Server.FULL,
        modules: Sequence[str] = (),
    ) -> None:
        """Start the servers up to the `last` and return at once; `run` waits until the one it needs is warm.

        The late server imports `modules` for exercises that need them. With `real_gpus` those of this machine
        can be opened inside.
        Raises bubblewrap.SandboxUnavailable when `isolated` and this machine has no sandbox.
        """
        self.isolated = isolated
        self._probes = probes
        self._real_gpus = real_gpus
        self._last = last
        self._modules = tuple(modules)
        self._start()

    def _start(self) -> None:
        parent = None
        if self.isolated:
            _send_descriptors_freely()
            forgotten.remove()
            parent, _ = backend.find()
        self._name = secrets.token_hex(16)
        self._groups = backend.Groups(parent)
        self._workspace = None if self.isolated else tempfile.mkdtemp(prefix="lockstep-")
        self._filter = seccomp.filter_program() if self.isolated else None
        self._lease = bubblewrap.lease_uid() if self.isolated else None
        pairs = [channel.pair() for _ in range(self._last + 1)]
        self._servers = [Connection(ours, isolated=self.isolated, groups=self._groups) for ours, _ in pairs]
        try:
            self._process = self._launch(*(theirs.fileno() for _, theirs in pairs))
        except BaseException:
            self._forget()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        channel.send(
            self._servers[0].control,
            {
                "op": "configure",
                "isolated": self.isolated,
                "workspace": self._workspace or "/tmp",
                "modules": list(self._modules),
                "gpus": self._real_gpus > 0,
                "probes": [self._inside(name) for name in self._probes],
            },
        )

    def _launch(self, *controls: int) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": "/usr/bin:/bin",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "LANG": "C.UTF-8",
            # Starting CUDA would spoil it for every fork, and to ask whether it is there the usual way starts it.
            "CUDA_VISIBLE_DEVICES": "",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            # Memory in small pages costs what trains a ResNet 7 % of its CPU more, and saves no memory: measured.
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        }
        path = [bubblewrap.PACKAGES, INSIDE] if self.isolated else [str(PACKAGE.parent)]
        hidden = FOREIGN_PACKAGES if self.isolated else ()
        python = bubblewrap.interpreter() if self.isolated else sys.executable
        server = [
            python,
            "-I",
            "-X",
            "utf8",
            "-c",
            START.format(path=path, hidden=hidden),
            *map(str, controls),
        ]
        if not self.isolated:
            environment = {
                **os.environ,
                **environment,
                "MPLCONFIGDIR": str(self._workspace),
                "TMPDIR": str(self._workspace),
            }
            return subprocess.Popen(
                server,
                pass_fds=controls,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        visible = {f"{INSIDE}/lockstep/{name}": PACKAGE / name for name in INSIDE_FILES}
        for name, probe in self._probes.items():
            if probe.is_dir():
                visible |= {f"{self._inside(name)}/{file.name}": file for file in sorted(probe.glob("*.py"))}
            else:
                visible[self._inside(name)] = probe
        devices = bubblewrap.gpu_devices() + bubblewrap.gpu_driver() if self._real_gpus else ()
        with contextlib.ExitStack() as stack:
            etc: dict[str, int] = {}
            for name, text in bubblewrap.ETC_FILES.items():
                file = stack.enter_context(tempfile.TemporaryFile())
                file.write(text.encode())
                file.seek(0)
                etc[name] = file.fileno()
            environment |= {"HOME": "/tmp", "MPLCONFIGDIR": "/tmp"}
            libraries = [bubblewrap.library_path(), bubblewrap.driver_library() if self._real_gpus else None]
            if any(libraries):
                environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
            return subprocess.Popen(
                bubblewrap.command(server, visible, etc, environment, self._lease, devices),
                pass_fds=(*controls, *etc.values()),
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **forgotten.mark(self._name)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the servers and with them everything in the box."""
        with contextlib.suppress(OSError, EOFError):
            self.settle()
        if self.isolated or not all(server.ready for server in self._servers):
            self._process.kill()
        if self.isolated and not self._servers[0].ready:
            self._process.wait()
            forgotten.remove_box(self._name)
        # Everything in the box dies after that process, not with it: a user id may be lent again, and memory
        # counted on, only when the last one has let go of its end. Without namespaces the servers end by themselves.
        for server in self._servers:
            server.wait_closed()
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            self._process.kill()
        self._process.wait()
        self._forget()

    def _forget(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.stderr is not None:
            process.stderr.close()
        self._groups.close()
        if self._lease is not None:
            self._lease.close()
        if self._workspace is not None:
            shutil.rmtree(self._workspace, ignore_errors=True)

    def wait_ready(self, connection: Connection | None = None) -> None:
        """Wait until a server is warm, or all are. Raises GraderFault when it does not start."""
        for server in self._servers if connection is None else (connection,):
            if not server.wait_ready():
                self._process.kill()
                assert self._process.stderr is not None
                said = self._process.stderr.read()[-2000:].decode("utf-8", "replace")
                raise GraderFault(f"the sandbox's server did not start: {said.strip() or 'it said nothing'}")

    def server_pid(self) -> int | None:
        """The process that runs are forked from when everything is imported, as this side numbers it."""
        self.wait_ready()
        return self._servers[-1].pid

    def server_memory(self) -> int:
        """Bytes that the last warm server has resident; its runs share them."""
        self.wait_ready()
        return self._servers[-1].memory

    def restart(self) -> None:
        """Throw the box away and start another, after a run that broke the server."""
        self.close()
        self._start()

    def run(self, spec: RunSpec) -> Outcome:
        """Run once. What it started has been ended; the next run begins when it is gone.

        Raises GraderFault when something of lockstep's own broke; the box is usable again afterwards.
        """
        server = self._servers[spec.server]
        self.wait_ready(server)
        try:
            # Two checks never run side by side, whichever server they come from.
            for other in self._servers:
                if other is not server:
                    other.settle()
            return server.run(spec, self._spec_frame(spec))
        except (OSError, EOFError) as error:
            self.restart()
            raise GraderFault(f"the sandbox was lost during a run: {error}") from error
        except GraderFault:
            self.restart()
            raise

    def settle(self) -> None:
        """Wait until nothing is left of the last run, nor of the one that is being prepared."""
        for server in self._servers:
            server.settle()

    def _inside(self, probe: str) -> str:
        """Where the server finds a probe."""
        outside = self._probes[probe]
        return f"{PROBES}/{probe}{outside.suffix}" if self.isolated else str(outside)

    def _spec_frame(self, spec: RunSpec) -> bytes:
        import numpy as np

        arrays = {} if self._filter is None else {"seccomp": np.frombuffer(self._filter, dtype=np.uint8)}
        environments: list[Json] = [dict(rank.environment) for rank in spec.ranks]
        values: dict[str, Json] = {
            "probe": self._inside(spec.probe),
            "call": spec.call,
            "env": environments,
            "data": list(spec.data),
            "apart": self.isolated and spec.apart,
            "limits": cast(Json, spec.limits.for_inside()),
        }
        return wire.pack(values, arrays)


def open_box(
    exercises: Sequence[Exercise],
    *,
    isolated: bool,
    real_gpus: int = 0,
    probes: Mapping[str, Path] | None = None,
) -> Box:
    """A box that can run these exercises' probes, and further ones; it is bound to no submission."""
    # An exercise whose files are only read has none.
    own = {exercise.id: exercise.probe.resolve() for exercise in exercises if exercise.probe.exists()}
    probes = {**(probes or {}), **own}
    modules = sorted({name for exercise in exercises for name in exercise.warm})
    last = max((exercise.server for exercise in exercises), default=Server.FULL)
    return Box(probes, isolated=isolated, real_gpus=real_gpus, last=last, modules=modules)
