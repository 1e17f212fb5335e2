"""`python` and `torchrun` that start warm: stand-ins on the PATH that ask the supervisor for a fork.

A real interpreter would import torch anew for every process that torchrun, a shell script or
multiprocessing starts: 1.5 to 3 s each. The stand-in hands its arguments, environment, folder and open
descriptors over a socket; the supervisor forks a process with torch loaded that goes on as `python` would.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib.util
import os
import runpy
import signal
import socket
import stat
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn, cast

from lockstep.sandbox import confine, elsewhere, missing, ranks, shims

STAND_IN = r"""#!{python} -IS
import array, json, os, signal, socket, sys
end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.connect({socket!r})
skip = end.fileno()
fds = []
for name in os.listdir("/proc/self/fd"):
    fd = int(name)
    try:
        if fd != skip and (fd <= 2 or os.get_inheritable(fd)):
            os.fstat(fd)
            fds.append(fd)
    except OSError:
        pass
words = {prefix!r} + sys.argv[1:]
folder = os.getcwd()
path = {socket!r} + "." + str(os.getpid())
with open(path, "w") as file:
    json.dump({{"words": words, "env": dict(os.environ), "folder": folder, "fds": fds}}, file)
named = "\0".join((path, os.environ.get("RANK", "")))
end.sendmsg([named.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
def pass_on(number, frame):
    try:
        end.send(str(int(number)).encode())
    except OSError:
        pass  # its process has ended: how is still to be read
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, pass_on)
while True:
    answer = end.recv(64)
    if not answer:
        os._exit(70)
    status = int(answer)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (9, 19) else None
        os.kill(os.getpid(), -status)
    os._exit(status)
"""
# Whoever hands in a notebook may make a program of it: by one of these commands, or by `python -m` and a module.
NOTEBOOK_TOOLS = ("jupyter", "jupyter-nbconvert", "jupytext")
NOTEBOOK_MODULES = ("jupyter", "nbconvert", "jupytext")
CONVERTER = ("-m", "lockstep.sandbox.nbconvert")
COMMANDS: dict[str, list[str]] = {
    "python": [],
    "python3": [],
    "torchrun": ["-m", "torch.distributed.run"],
    **{name: [*CONVERTER, name] for name in NOTEBOOK_TOOLS},
}
# Of a terminal that is as wide as most: a progress bar that is copied from project to project asks for it, and fails
# where it is told nothing.
STTY = """#!/bin/sh
if [ "$1" = size ]; then echo 24 80; else exec /usr/bin/stty "$@"; fi
"""
# Student code may connect here as well, as often as it likes: further ones wait until others have ended.
MAX_WAITING = 128
MAX_SENT_FDS = (
    253  # the kernel's own limit for one message: what we had no room for, it would close in our name
)
# Flags of python that take a word of their own; what other flags ask for changes nothing here, but for -I and -V.
FLAGS_WITH_WORD = ("-X", "-W", "--check-hash-based-pycs")


def write_stand_ins(run: str) -> None:
    """Write the stand-in commands to RUN/bin."""
    folder = os.path.join(run, "bin")
    os.mkdir(folder)
    texts = {
        name: STAND_IN.format(python=sys.executable, socket=_socket_path(run), prefix=prefix)
        for name, prefix in COMMANDS.items()
    }
    for name, text in {**texts, "stty": STTY}.items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)


def _socket_path(run: str) -> str:
    return os.path.join(run, "warm")


def listen(run: str) -> socket.socket:
    """The socket the stand-ins of one run connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(_socket_path(run))
    listener.listen(64)
    return listener


class Workers:
    """The warm pythons of one run: which stand-in waits for which process."""

    def __init__(
        self, listener: socket.socket, confinement: ranks.Confinement, work: str, stacks: int
    ) -> None:
        """Start them for who connects to `listener`; where they stand they write to the descriptor `stacks`."""
        self._listener = listener
        self._stacks = stacks
        self._confinement = confinement
        self._work = work
        self._waiting: dict[socket.socket, int | None] = {}
        self._ranks: dict[int, str] = {}

    def sockets(self) -> list[socket.socket]:
        """What to wait for."""
        listening = [self._listener] if len(self._waiting) < MAX_WAITING else []
        return [*listening, *self._waiting]

    def started_ranks(self) -> dict[int, str]:
        """Live warm pythons that said they are a rank, as torchrun tells them: pid, and which one."""
        alive = {pid for pid in self._waiting.values() if pid is not None}
        return {pid: rank for pid, rank in self._ranks.items() if pid in alive and rank.isdecimal()}

    def serve(self, readable: Sequence[socket.socket | int]) -> None:
        """Take new stand-ins, start their processes, pass on signals, end those whose stand-in is gone."""
        if self._listener in readable:
            # The kernel may be out of memory for one more.
            with contextlib.suppress(OSError):
                self._waiting[self._listener.accept()[0]] = None
        for end in [end for end in self._waiting if end in readable]:
            try:
                self._serve_one(end)
            except (OSError, ValueError, OverflowError):
                # No process could be started, or it was not a stand-in that spoke: its command fails.
                self._drop(end)

    def _serve_one(self, end: socket.socket) -> None:
        data, fds, _, _ = socket.recv_fds(end, 4096, MAX_SENT_FDS)
        pid = self._waiting[end]
        try:
            if not data:
                self._drop(end)
            elif pid is not None:
                os.kill(pid, int(data))
            else:
                path, _, rank = data.decode().partition("\0")
                self._waiting[end] = pid = self._start(path, fds)
                self._ranks[pid] = rank[:9]
        finally:
            for fd in fds:
                _close_at_once(fd)

    def _drop(self, end: socket.socket) -> None:
        pid = self._waiting.pop(end, None)
        _forget(end)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start(self, path: str, fds: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
                # Above all not the socket on which the trusted side is told how the run went.
                confine.only_keep({0, 1, 2, self._stacks, *fds})
                self._confinement.apply()
                become_python(path, fds, self._work, self._stacks)
            finally:
                os._exit(70)
        return pid

    def ended(self, pid: int, status: int) -> None:
        """A child of the supervisor ended; if a stand-in waits for it, it ends the same way."""
        for end, waiting in list(self._waiting.items()):
            if waiting == pid:
                with contextlib.suppress(OSError):
                    end.send(str(status).encode())
                del self._waiting[end]
                _forget(end)


def _forget(end: socket.socket) -> None:
    """Close a socket after what is still in it: descriptors that the kernel closed for us might hold us up."""
    with contextlib.suppress(OSError):
        end.setblocking(False)
        end.shutdown(socket.SHUT_RD)
        while True:
            data, fds, _, _ = socket.recv_fds(end, 4096, MAX_SENT_FDS)
            for fd in fds:
                _close_at_once(fd)
            if not data and not fds:
                break
    end.close()


def _close_at_once(fd: int) -> None:
    """Close a descriptor that a student sent: not even a connection that is to linger until all is read holds us up."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        end = socket.socket(fileno=os.dup(fd))
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        end.close()
    os.close(fd)


def become_python(path: str, fds: list[int], work: str, stacks: int) -> NoReturn:
    """Go on as the Python process a stand-in was started as."""
    import fcntl
    import json

    with open(path) as file:
        request = json.load(file)
    os.unlink(path)
    wanted = cast(list[int], request["fds"])
    # Out of the way of those numbers, and not for what this process starts.
    aside = fcntl.fcntl(stacks, fcntl.F_DUPFD_CLOEXEC, max([*fds, *wanted, stacks, 2]) + 1)
    os.close(stacks)
    _place_descriptors(fds, wanted)
    os.setsid()
    environment = cast(dict[str, str], request["env"])
    ranks.become_fresh(
        environment, request["folder"], os.path.join(os.path.dirname(path), "bin", "python"), None
    )
    sys.path.remove(request["folder"])
    shims.install(lambda *_, **__: None)
    missing.install(work, lambda *_, **__: None)
    elsewhere.install(work, lambda *_, **__: None)
    with contextlib.suppress(Exception):
        faulthandler.enable(file=2)
        faulthandler.register(signal.SIGUSR1, file=aside, all_threads=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    status = _run([str(word) for word in request["words"]])
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    ranks.flush_output()
    os._exit(status & 0xFF)


def _place_descriptors(received: list[int], wanted: list[int]) -> None:
    # Two steps, because a received descriptor may have a number that another one wants.
    floor = max([*received, *wanted, 2]) + 1
    import fcntl

    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, floor) for fd in received]
    for fd in received:
        os.close(fd)
    for fd, number in zip(high, wanted, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)


def _run(words: list[str]) -> int:
    try:
        execute(words)
    except SystemExit as stop:
        if stop.code is None:
            return 0
        if isinstance(stop.code, int):
            return stop.code
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _is_missing(module: str) -> bool:
    """Whether Python knows no module of this name; one that cannot be told is for Python to say."""
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, AttributeError, TypeError, ValueError):
        return False


def execute(words: list[str]) -> None:
    """Do in this process what `python WORDS` does; whatever that raises propagates."""
    from lockstep.sandbox import loading

    isolated = False
    while words and words[0].startswith("-") and words[0] not in ("-c", "-m", "-"):
        flag = words.pop(0)
        if flag in FLAGS_WITH_WORD and words:
            words.pop(0)
        elif flag in ("-V", "--version"):
            print(f"Python {sys.version.split()[0]}")
            return
        isolated = isolated or (not flag.startswith("--") and "I" in flag)
    if words[:1] == ["-m"] and words[1:] and words[1] in NOTEBOOK_MODULES:
        words = [*CONVERTER, *words[1:]]
    if words and words[0] == "-m":
        sys.argv = words[1:]
        if not isolated:
            sys.path.insert(0, os.getcwd())
        # Loaded already by the server, which a new interpreter would not have.
        sys.modules.pop(words[1], None)
        if _is_missing(words[1]):
            print(f"python: No module named {words[1]}", file=sys.stderr)
            raise SystemExit(1)
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words and words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        if not isolated:
            sys.path.insert(0, "")
        loading.run_code_as_main(compile(words[1], "<string>", "exec", dont_inherit=True), None)
    elif words and words[0] != "-":
        if not os.path.exists(words[0]):
            # As Python says it, which has no stack then.
            path = os.path.abspath(words[0])
            print(f"python: can't open file '{path}': [Errno 2] No such file or directory", file=sys.stderr)
            raise SystemExit(2)
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        # As Python names the file: processes that it starts look for it from another folder.
        loading.run_as_main(os.path.abspath(words[0]))
    else:
        sys.argv = words or [""]
        if not isolated:
            sys.path.insert(0, "")
        loading.run_code_as_main(compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), None)
