"""What the sandbox promises, one test per promise: what student code can see, reach, use up and leave behind."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from lockstep.exercise import Server
from lockstep.notebook import read_notebook
from lockstep.sandbox import bubblewrap, shims, watching
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import Crashed, GraderFault, Hung, LimitExceeded, Verdict
from tests.sandboxed import (
    GENEROUS,
    PATIENT,
    PROBE,
    ROOT,
    SHORT,
    message,
    processes_of,
    run,
    seen,
    traces,
    verdict,
)
from tests.tiny_class import LAB, RIGHT

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives every box a user of its own")


def _words(text: str) -> list[str]:
    return text.split()


@pytest.fixture(scope="module")
def own_box() -> Iterator[Box]:
    """A second box, for tests that break one or need two."""
    with Box({"engine": PROBE}, isolated=True) as box:
        yield box


@needs_root
@pytest.mark.parametrize("umask", [0o777, 0o477])
def test_what_whoever_starts_it_keeps_to_themselves_costs_no_points(umask: int, tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(RIGHT)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lockstep",
            "check",
            str(tmp_path),
            "--graders",
            str(LAB),
            "--exercise",
            "doubling",
        ],
        cwd=ROOT,
        umask=umask,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "All 2 checks passed: 3.5 of 3.5 points." in done.stdout


@pytest.fixture(scope="module")
def plain_box() -> Iterator[Box]:
    """A box as `--sandbox none` makes it."""
    with Box({"engine": PROBE}, isolated=False) as box:
        yield box


# Its servers


@pytest.mark.parametrize(
    "last",
    [Server.EARLY, pytest.param(Server.FULL, marks=pytest.mark.slow), Server.LATE],
    ids=lambda server: server.name.lower(),
)
def test_each_server_has_what_those_before_it_have_and_no_threads(last: Server) -> None:
    look = """
        import os, sys

        def main():
            names = ("torch", "torch.distributed.run", "wave")
            return [len(os.listdir("/proc/self/task")), *(name in sys.modules for name in names)]
    """
    with Box({"engine": PROBE}, isolated=True, last=last, modules=["wave"]) as box:
        for server in Server:
            if server <= last:
                expected = [1, *(other <= server for other in Server)]
                assert seen(box, look, server=server) == expected


# What it can see


def test_packages_are_those_pinned_here_and_no_others(box: Box) -> None:
    source = """
        import sys

        def main():
            return [folder for folder in sys.path if folder.endswith("packages")]
    """
    assert seen(box, source) == [bubblewrap.PACKAGES]


def test_it_sees_no_process_but_its_own(box: Box) -> None:
    pids = seen(
        box,
        """
        import os
        def main():
            return [int(name) for name in os.listdir("/proc") if name.isdigit()], os.getpid(), os.getppid()
        """,
    )
    assert pids == [[1, 2], 2, 1]


def test_its_network_is_its_own_loopback(box: Box) -> None:
    source = """
        import os, socket
        def main():
            tried = {}
            for family, address in (
                (socket.AF_INET, ("1.1.1.1", 53)), (socket.AF_INET, ("169.254.169.254", 80)),
                (socket.AF_INET, ("127.0.0.1", %d)), (socket.AF_UNIX, "\\0%s"), (socket.AF_UNIX, "%s"),
            ):
                with socket.socket(family, socket.SOCK_STREAM) as end:
                    end.settimeout(5)
                    tried[repr(address)] = end.connect_ex(address)
            try:
                socket.getaddrinfo("pypi.org", 443)
            except OSError as error:
                tried["a name"] = type(error).__name__
            return sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys") else None, tried
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as named,
    ):
        name = f"lockstep-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        named.bind(f"{folder}/socket")
        named.listen()
        interfaces, tried = seen(box, source % (listener.getsockname()[1], name, f"{folder}/socket"))
    assert interfaces is None
    assert list(tried.values()) == [
        errno.ENETUNREACH,
        errno.ENETUNREACH,
        errno.ECONNREFUSED,
        errno.ECONNREFUSED,
        errno.ENOENT,
        "gaierror",
    ]


def test_its_files_are_python_its_own_folder_and_nothing_of_ours(box: Box, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("a secret")
    canary.chmod(0o644)
    secrets = [str(canary), str(ROOT / "README.md"), str(ROOT / "reference"), "/root", "/home", "/etc/shadow"]
    found, readable, probes = seen(
        box,
        f"""
        import os
        def main():
            readable = [path for path in {secrets!r} if os.path.exists(path)]
            probes = [os.path.join(top, name) for top, _, names in os.walk("/opt/probes") for name in names]
            return sorted(os.listdir("/")), readable, probes
        """,
    )
    usual = {"bin", "data", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "tmp", "usr", "work"}
    assert set(found) <= usual
    assert readable == []
    assert {"/opt/probes/engine.py", "/opt/probes/launch/__init__.py"} <= set(probes)
    assert all(name.endswith(".py") for name in probes)


def test_of_lockstep_only_what_runs_inside_is_there(box: Box) -> None:
    names = seen(
        box,
        """
        import os
        def main():
            tops = ("/opt/lockstep", "/opt/probes", "/etc")
            return [name for top in tops for _, _, names in os.walk(top) for name in names]
        """,
    )
    assert isinstance(names, list)
    assert "wire.py" in names
    judging = ("check.py", "explain", "grading", "plugin", "verdict", "box", "compare", "test_")
    assert [name for name in names if str(name).startswith(judging)] == []


def test_nothing_of_the_system_can_be_written(box: Box) -> None:
    refused = seen(
        box,
        """
        import os, sys, torch
        def main():
            refused = {}
            for path in (
                "/x", "/etc/hosts", "/usr/x", "/opt/x", "/dev/x", "/opt/packages/x.pth", "/opt/lockstep/x.py",
                "/opt/lockstep/lockstep/wire.py", "/opt/probes/engine.py",
                torch.__file__, os.path.join(os.path.dirname(os.__file__), "sitecustomize.py"),
                "/proc/sys/kernel/core_pattern", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger",
                "/proc/1/oom_score_adj",
            ):
                try:
                    open(path, "w").close()
                    refused[path] = 0
                except OSError as error:
                    refused[path] = error.errno
            return refused
        """,
        data={"faces": {"a.txt": b"data"}},
    )
    assert isinstance(refused, dict)
    allowed = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)
    assert {path: number for path, number in refused.items() if number not in allowed} == {}


@pytest.mark.parametrize(
    ("ranks", "shared_files", "written"),
    [(None, False, True), (1, False, True), (2, True, True), (2, False, False)],
    ids=["a process", "a rank", "ranks that share files", "ranks apart"],
)
def test_its_data_are_written_where_no_other_rank_could_be_told_by_that(
    ranks: int | None, shared_files: bool, written: bool, box: Box
) -> None:
    source = """
        import os

        def main():
            made = []
            for path in ("/data/x", "/data/faces/.lock"):
                try:
                    open(path, "a").close()
                    made.append(True)
                except OSError:
                    made.append(False)
            return made
    """
    files = {"faces": {"a.txt": b"data"}}
    outcome = run(box, source, ranks=ranks, data=files, shared_files=shared_files)
    assert [rank.values.get("seen") for rank in outcome.ranks] == [[written] * 2] * (ranks or 1)


def test_its_environment_is_a_few_neutral_names(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_TEST_TOKEN", "a secret")
    environment, arguments, path = seen(
        box, "import os, sys\ndef main(): return dict(os.environ), sys.argv, sys.path"
    )
    names = {"PATH", "HOME", "TMPDIR", "LANG", "MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS"}
    # W&B is told that nobody has logged in here.
    own = {name for name in environment if not name.startswith("WANDB_")}
    assert own - {"LD_LIBRARY_PATH"} == names
    assert environment.get("LD_LIBRARY_PATH", "/opt/").startswith("/opt/")
    assert arguments == ["student.py"]
    # Its own folder comes last, or a student's random.py would stand in for Python's.
    assert path[-1] == "/work"
    assert not any(str(ROOT) in str(value) for value in (*environment.values(), *path))


def test_it_is_told_of_as_many_cores_as_on_any_other_machine(box: Box) -> None:
    source = """
        import multiprocessing, os

        def main():
            from torch.distributed.run import determine_local_world_size
            return [os.cpu_count(), multiprocessing.cpu_count(), determine_local_world_size("auto")]
    """
    assert seen(box, source) == [2, 2, 2]


def test_cores_are_told_where_a_machine_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(torch.utils.data.DataLoader, "check_worker_number_rationality", None)
    shims._as_many_cores_everywhere()
    assert os.cpu_count() == 2


def test_nobody_is_warned_of_more_workers_than_cores(box: Box) -> None:
    source = """
        import warnings
        from torch.utils.data import DataLoader

        def main():
            warnings.simplefilter("error")
            return len(DataLoader(range(8), num_workers=64))
    """
    assert seen(box, source) == 8


def test_its_python_is_the_one_outside(box: Box) -> None:
    versions = seen(
        box,
        """
        import os, subprocess, sys
        def main():
            # Not by the name of the stand-in, which starts warm.
            real = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
            fresh = subprocess.run([real, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
            return sys.version, fresh.stdout.strip()
        """,
    )
    assert versions == [sys.version, sys.version]


def test_ranks_have_the_variables_of_torchrun(box: Box) -> None:
    outcome = run(box, "import os\ndef main(): return dict(os.environ)", ranks=2)
    for rank in range(2):
        environment = outcome.ranks[rank].values["seen"]
        assert environment["RANK"] == environment["LOCAL_RANK"] == str(rank)
        assert environment["WORLD_SIZE"] == "2"


OPEN_FILES = """
import os, stat
def kinds():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            mode = os.fstat(int(name)).st_mode
        except OSError:
            continue  # what listdir itself had open
        found[name] = [word for word in ("ISFIFO", "ISSOCK", "ISREG", "ISCHR") if getattr(stat, "S_" + word)(mode)]
    return found
"""


def test_it_inherits_its_own_pipes_and_nothing_else(box: Box) -> None:
    found = seen(box, OPEN_FILES + "def main(): return kinds()\n")
    standard = [found.pop(name) for name in "012"]
    assert standard == [["ISCHR"], ["ISFIFO"], ["ISFIFO"]]
    # The inputs; then result, events, stacks and output.
    assert sorted(found.values()) == [["ISFIFO"]] * 4 + [["ISREG"]]


@pytest.mark.skipif(
    os.getuid() != 0, reason="a run that an ordinary user starts is that user's, and so are its pipes"
)
def test_what_is_said_of_a_run_cannot_be_read_back_by_it(box: Box) -> None:
    refused = seen(
        box,
        OPEN_FILES
        + """
def opened(name):
    try:
        os.close(os.open(f"/proc/self/fd/{name}", os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError:
        return False
    return True
def main(): return [opened(name) for name, found in kinds().items() if found == ["ISFIFO"]]
""",
    )
    assert refused == [False] * 6


def test_a_command_inherits_the_standard_streams_and_a_pipe_for_where_it_stands(box: Box) -> None:
    outcome = run(
        box,
        OPEN_FILES + "import json\nprint(json.dumps(kinds()))\n",
        call="command",
        values=[{"command": ["python", "student.py"]}],
    )
    found = json.loads(str(outcome.ranks[0].values["said"]))
    standard = [found.pop(name) for name in "012"]
    assert standard == [["ISCHR"], ["ISFIFO"], ["ISFIFO"]]
    assert list(found.values()) == [["ISFIFO"]]


def test_it_has_no_privileges_and_cannot_get_any(box: Box) -> None:
    status, core = seen(
        box,
        """
        import resource
        def main():
            lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
            names = ("CapEff", "CapPrm", "CapBnd", "CapInh", "NoNewPrivs", "Seccomp")
            return {name: int(lines[name], 16) for name in names}, resource.getrlimit(resource.RLIMIT_CORE)
        """,
    )
    assert status == {"CapEff": 0, "CapPrm": 0, "CapBnd": 0, "CapInh": 0, "NoNewPrivs": 1, "Seccomp": 2}
    assert core == [0, 0]


def test_a_command_is_confined_as_well(box: Box) -> None:
    """It is forked by the supervisor, which still has the privileges that made the namespaces."""
    source = """
        import os
        lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
        names = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
        print([int(lines[name], 16) for name in names], os.access("/proc/self/mem", os.R_OK))
    """
    for command in (["python", "student.py"], ["sh", "-c", "exec python3 student.py"]):
        outcome = run(box, source, call="command", values=[{"command": command}])
        assert outcome.ranks[0].values["said"] == "[0, 0, 0, 1, 2] False\n"


# Numbers of x86-64: name, call number, arguments.
CALLS: dict[str, tuple[int, ...]] = {
    "ptrace(PTRACE_ATTACH, 1)": (101, 16, 1, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "kcmp": (312, 1, 2, 0, 0, 0),
    "pidfd_getfd": (438, 3, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, 0),
    "unshare(CLONE_NEWUSER)": (272, 0x10000000),
    "setns": (308, 0, 0),
    "clone(CLONE_NEWUSER)": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, 0),
    "io_setup": (206, 1, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "add_key": (248, 0, 0, 0, 0, 0),
    "syslog": (103, 3, 0, 0),
    "personality": (135, 0xFFFFFFFF),
    "memfd_create": (319, 0, 0),
    "shmget": (29, 0, 4096, 0o1600),
    "msgget": (68, 0, 0o1600),
    "semget": (64, 0, 1, 0o1600),
    "mq_open": (240, 0, 0, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, 0, 0),
    "settimeofday": (164, 0, 0),
    "sethostname": (170, 0, 0),
    "socket(AF_VSOCK)": (41, 40, 1, 0),
    "socket(AF_VSOCK), upper half set": (41, 40 | 1 << 32, 1, 0),
    "socket(AF_PACKET)": (41, 17, 3, 0),
    "socket(AF_ALG)": (41, 38, 5, 0),
    "socket(AF_BLUETOOTH)": (41, 31, 3, 0),
    "ioctl(TIOCSTI)": (16, 0, 0x5412, 0),
    "ioctl(TIOCSTI), upper half set": (16, 0, 0x5412 | 1 << 32, 0),
    "prctl(PR_SET_MM)": (157, 35, 14, 0, 0, 0),
    "prctl(PR_SET_MM), upper half set": (157, 35 | 1 << 32, 14, 0, 0, 0),
    "prlimit(1)": (302, 1, 7, 0, 0),
    "sched_setscheduler(1)": (144, 1, 5, 0),
    "setpriority(PRIO_PROCESS, 1)": (141, 0, 1, 19),
    "setpriority(PRIO_USER)": (141, 2, 0, 19),
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are x86-64's")
def test_calls_it_has_no_use_for_are_refused(box: Box) -> None:
    numbers = seen(
        box,
        f"""
        import ctypes
        def main():
            libc, refused = ctypes.CDLL(None, use_errno=True), {{}}
            libc.syscall.restype = ctypes.c_long
            for name, words in {CALLS!r}.items():
                ctypes.set_errno(0)
                done = libc.syscall(*map(ctypes.c_ulong, words))
                refused[name] = ctypes.get_errno() if done == -1 else 0
            return refused
        """,
    )
    expected = {name: errno.ENOSYS if name == "clone3" else errno.EPERM for name in CALLS}
    assert numbers == expected


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has these other ways into the kernel")
@pytest.mark.parametrize(
    "code",
    [b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"],
    ids=["32-bit getpid", "x32 getpid"],
)
def test_calls_by_another_convention_end_the_process(box: Box, code: bytes) -> None:
    source = f"""
        import ctypes, mmap
        def main():
            page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            page.write({code!r})
            return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """
    assert run(box, source).ranks[0].status == -signal.SIGSYS


def test_honest_calls_that_look_alike_are_not_refused(box: Box) -> None:
    assert (
        seen(
            box,
            """
        import os, resource, socket, subprocess, threading
        def main():
            os.nice(1)
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
                socket.socket(family, socket.SOCK_DGRAM).close()
            a, b = socket.socketpair()
            thread = threading.Thread(target=a.send, args=(b"x",))
            thread.start()
            thread.join()
            os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
            return b.recv(1) == b"x" and subprocess.run(["sh", "-c", "ulimit -n 100; exit 3"]).returncode
        """,
        )
        == 3
    )


# What it can reach


def test_the_supervisor_cannot_be_ended_or_slowed(box: Box) -> None:
    fates = seen(
        box,
        """
        import os, resource, signal, time
        def main():
            for number in range(1, 65):
                os.kill(1, number) if number not in (32, 33) else None
            refused = 0
            for what in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
                try:
                    resource.prlimit(1, what, (0, 0))
                except PermissionError:
                    refused += 1
            time.sleep(0.2)
            return refused, open("/proc/1/status").read().count("sleeping")
        """,
    )
    assert fates == [3, 1]


def test_when_memory_runs_out_what_grades_is_ended_last(box: Box) -> None:
    inside = seen(
        box,
        """
        def main():
            scores = [int(open(f"/proc/{who}/oom_score_adj").read()) for who in ("self", 1)]
            try:
                open("/proc/self/oom_score_adj", "w").write("-1000")
            except PermissionError:
                return scores
        """,
    )
    own, server = (int(Path(f"/proc/{who}/oom_score_adj").read_text()) for who in ("self", box.server_pid()))
    assert inside == [1000, 1000]
    assert own < server < 1000


def test_the_supervisor_survives_whatever_is_said_to_it(box: Box) -> None:
    said = seen(
        box,
        """
        import array, socket
        def connect():
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.settimeout(0.5)
            end.connect("/run/warm")
            return end
        def main():
            for words in ([b"\\xff\\xfe"], [b"/no/such"], [b"x" * 4096], [b"/etc/hosts", b"9" * 40], [b"/x", b"-1"]):
                end = connect()
                try:
                    for word in words:
                        end.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))])
                    end.recv(10)
                except OSError:
                    pass
            open_ends, refused = [], False
            while not refused:
                try:
                    open_ends.append(connect())
                except OSError:
                    refused = True
            return len(open_ends) > 1
        """,
    )
    assert said is True


def test_a_rank_cannot_look_into_another(box: Box) -> None:
    outcome = run(
        box,
        """
        import os, time, torch.distributed as dist
        def main(inputs):
            dist.init_process_group("gloo")
            own = f"/proc/{os.getpid()}"
            opened = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if int(pid) != os.getpid():
                    for name in ("environ", "maps", "mem", "fd", "root", "cwd", "auxv", "io"):
                        try:
                            path = f"/proc/{pid}/{name}"
                            os.listdir(path) if name in ("fd", "root", "cwd") else open(path, "rb").read(1)
                            opened.append(path)
                        except OSError:
                            pass
            dist.barrier()
            assert opened == [], opened
            return str(inputs.values)
        """,
        ranks=2,
        call="give",
        values=[{"secret": "of rank 0"}, {"secret": "of rank 1"}],
    )
    assert [rank.error for rank in outcome.ranks] == [None, None]
    assert [rank.values["seen"] for rank in outcome.ranks] == [
        "{'secret': 'of rank 0'}",
        "{'secret': 'of rank 1'}",
    ]


def test_inputs_cannot_be_changed_under_others(box: Box) -> None:
    writable = seen(
        box,
        """
        import mmap, os
        def main():
            changed = []
            for fd in range(3, 64):
                try:
                    size = os.fstat(fd).st_size
                except OSError:
                    continue
                for change in (
                    lambda: os.pwrite(fd, b"x", 0), lambda: os.ftruncate(fd, 0), lambda: mmap.mmap(fd, size)
                ):
                    try:
                        change()
                        changed.append(fd)
                    except (OSError, ValueError):
                        pass
            return changed
        """,
    )
    assert writable == []


def test_a_run_starts_fresh(box: Box) -> None:
    dirty = """
        import builtins, json, os, sys, torch
        def main():
            for folder in (".", "/tmp", "/dev/shm", os.environ["HOME"]):
                open(os.path.join(folder, "left_behind"), "w").close()
            torch.allclose = torch.equal = lambda *_, **__: True
            builtins.left_behind = json.dumps = sys.modules["torch.left_behind"] = 1
            torch.manual_seed(1)
            return None
    """
    look = """
        import builtins, json, os, sys, torch
        def main():
            files = [top for top in (".", "/tmp", "/dev/shm") if os.path.exists(f"{top}/left_behind")]
            clean = not torch.equal(torch.zeros(1), torch.ones(1)) and json.dumps != 1
            names = hasattr(builtins, "left_behind") or "torch.left_behind" in sys.modules
            return files, clean, names, torch.initial_seed()
    """
    before = seen(box, look)
    run(box, dirty)
    assert before == seen(box, look)
    assert before[:3] == [[], True, False]


@pytest.mark.parametrize(
    "imported", ["import helper", "import json\ndel sys.modules['json']\nimport helper, json"]
)
def test_a_script_that_runs_again_imports_its_neighbours_anew(box: Box, imported: str) -> None:
    source = f"""
import sys
{imported}
helper.calls += 1
sys.exit(helper.calls)
"""
    (rank,) = run(box, source, call="scripts", files={"helper.py": "calls = 0"}).ranks
    assert rank.values["statuses"] == [1, 1]


def test_no_run_takes_torch_apart_at_its_end(box: Box) -> None:
    source = """
        import weakref
        def main():
            finalizers = [each for each in weakref.finalize._registry if each.peek()[1].__module__ == "torch.library"]
            return len(finalizers) > 0, any(each.atexit for each in finalizers)
    """
    assert seen(box, source) == [True, False]


def test_two_boxes_know_nothing_of_each_other(box: Box, own_box: Box) -> None:
    hang = "import time\ndef main(): time.sleep(60)"
    outcomes: list[Outcome] = []
    other = threading.Thread(target=lambda: outcomes.append(run(own_box, hang, limits=SHORT)))
    other.start()
    try:
        pids = seen(box, "import os\ndef main(): return [int(n) for n in os.listdir('/proc') if n.isdigit()]")
        assert pids == [1, 2]
    finally:
        other.join()
    assert outcomes[0].timed_out


@needs_root
def test_every_box_has_a_user_of_its_own(box: Box, own_box: Box) -> None:
    users = set()
    for each in (box, own_box):
        each.wait_ready()
        users.add(os.stat(f"/proc/{each._process.pid}").st_uid)
    assert len(users) == 2
    assert all(bubblewrap.FIRST_UID <= uid < bubblewrap.FIRST_UID + bubblewrap.UIDS for uid in users)


# What it can use up


@pytest.mark.parametrize(
    ("source", "limits", "words"),
    [
        ("import torch\n    torch.ones(40 << 28)", GENEROUS, "memory"),
        ("return len(bytearray(40 << 30))", GENEROUS, "memory"),
        ("f = open('big', 'wb')\n    while True: f.write(bytes(1 << 20))", GENEROUS, "disk"),
        ("for n in range(100): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))", GENEROUS, "disk"),
        ("for n in range(10 ** 6): open(f'/tmp/{n}', 'wb').close()", GENEROUS, "disk"),
        ("for n in range(10 ** 6): open(f'/dev/shm/{n}', 'wb').write(bytes(1 << 24))", GENEROUS, "disk"),
        ("a = []\n    while True: a.append(open('/dev/null'))", GENEROUS, "open files"),
        ("while True: print('x' * 1000)", GENEROUS, "printed output"),
        ("import os\n    while True: os.write(2, b'x' * 65536)", GENEROUS, "printed output"),
    ],
    ids=_words("torch-40GB bytes-40GB file files inodes shared-memory handles print stderr"),
)
def test_each_limit_has_its_verdict(box: Box, source: str, limits: Limits, words: str) -> None:
    outcome = run(box, f"def main():\n    {source}\n", limits=limits)
    problem = verdict(outcome, limits)
    assert isinstance(problem, LimitExceeded), problem
    assert words in str(problem)
    assert "in main()" in str(problem)


def test_what_is_handed_in_takes_no_room_from_what_is_written(box: Box) -> None:
    source = """
        def main():
            with open("big", "wb") as file:
                file.write(bytes(20 << 20))
        """
    outcome = run(box, source, files={"notes.txt": "x" * (60 << 20)})
    assert outcome.ranks[0].error is None
    assert outcome.ranks[0].complete


# How it ends


def test_a_hang_names_rank_collective_and_line(box: Box) -> None:
    outcome = run(
        box,
        """
        import torch.distributed as dist
        def main():
            dist.init_process_group("gloo")
            if dist.get_rank() == 0:
                dist.barrier()
        """,
        ranks=2,
        limits=SHORT,
    )
    problem = verdict(outcome, SHORT)
    assert problem.verdict is Verdict.HUNG
    assert "rank 0 waits in barrier at student.py, line 6" in str(problem)
    assert "rank 1 has finished" in str(problem)


def test_a_hang_in_backward_is_told_from_one_in_a_collective(box: Box) -> None:
    outcome = run(
        box,
        """
        import torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        def main():
            dist.init_process_group("gloo")
            model = DistributedDataParallel(torch.nn.Linear(2, 2))
            if dist.get_rank() == 1:
                model(torch.ones(1, 2)).sum().backward()
        """,
        ranks=2,
        limits=SHORT,
    )
    said = message(outcome, SHORT)
    assert "rank 1 waits in the gradient all_reduce inside backward() at student.py, line 8" in said


PIPES = """
import stat
def pipes():
    numbers = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")]
    return [fd for fd in numbers if stat.S_ISFIFO(os.fstat(fd).st_mode)]
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("while True:\n        pass", "student.py, line ", marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "it has stopped itself (SIGSTOP)"),
        (
            "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    time.sleep(60)",
            "No answer within 6 s",
        ),
        pytest.param(
            "[os.write(fd, b'LKS1' + bytes(11)) for fd in pipes()]\n    time.sleep(60)",
            "No answer within 6 s",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["loop", "SIGSTOP", "signals blocked", "half a prefix"],
)
def test_one_process_that_does_not_come_back_hangs(
    box: Box, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    # Some never say where they stand; tests/test_stacks.py sees to those that are slow to.
    monkeypatch.setattr(watching, "STACK_SECONDS", 0.5)
    outcome = run(box, f"import os, signal, time\n{PIPES}def main():\n    {source}\n", limits=PATIENT)
    problem = verdict(outcome, PATIENT)
    assert isinstance(problem, Hung)
    assert words in str(problem)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("os._exit(0)", "ended by itself (exit status 0)"),
        ("os.abort()", "SIGABRT"),
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("sys.exit(0)", "called sys.exit or exit (0)"),
        ("raise ValueError('no')", "raised ValueError: no (student.py, line 3, in main), in main()"),
        ("class E(Exception):\n        def __str__(self): raise E\n    raise E", "raised E (student.py"),
        (
            "class E(Exception):\n        def __str__(self): return '\\ud800'\n    raise E",
            "raised E (student.py",
        ),
        ("[os.close(fd) for fd in range(3, 64) if is_open(fd)]", "without coming back"),
    ],
    ids=_words("_exit abort segfault kill exit exception no-str surrogate closes-all"),
)
def test_a_process_that_ends_otherwise_crashed(box: Box, source: str, words: str) -> None:
    start = "import ctypes, os, sys\ndef main():"
    helper = "\ndef is_open(fd):\n    return os.path.exists(f'/proc/self/fd/{fd}')\n"
    outcome = run(box, f"{start}\n    {source}\n{helper}")
    problem = verdict(outcome)
    assert isinstance(problem, Crashed)
    assert words in str(problem)


@pytest.mark.parametrize("status", [0, 1, 134])
def test_exit_codes_decide_nothing(box: Box, status: int) -> None:
    """A rank that has answered has answered, however its process then ends."""
    outcome = run(
        box,
        f"""
        import os, threading, time
        def main():
            threading.Thread(target=lambda: (time.sleep(0.3), os._exit({status})), daemon=True).start()
            return 1
        """,
    )
    assert outcome.ranks[0].complete
    assert outcome.ranks[0].values["seen"] == 1


def test_one_lost_rank_does_not_hide_behind_its_peers(box: Box) -> None:
    outcome = run(
        box,
        """
        import os, torch, torch.distributed as dist
        def main():
            dist.init_process_group("gloo")
            if dist.get_rank() == 1:
                os._exit(0)
            dist.all_reduce(torch.ones(1))
        """,
        ranks=2,
    )
    said = message(outcome)
    assert said.startswith("The process of rank 1 of 2 ended by itself (exit status 0)")


def test_what_a_student_prints_is_kept_apart(box: Box) -> None:
    outcome = run(
        box,
        """
        import sys
        def main():
            print('{"passed": true}')
            print("5 passed", file=sys.stderr)
            return 1
        """,
    )
    assert outcome.ranks[0].values == {"seen": 1}
    assert "5 passed" in outcome.ranks[0].output


def test_frames_of_the_students_own_are_refused(box: Box) -> None:
    outcome = run(
        box,
        """
        import os
        from lockstep import wire
        def main():
            for fd in range(3, 64):
                try:
                    os.write(fd, wire.pack({"values": {"seen": "forged"}}) * 2)
                except OSError:
                    pass
            return 1
        """,
    )
    assert not outcome.ranks[0].complete
    assert isinstance(verdict(outcome), Crashed)


def test_arrays_come_back_as_they_were(box: Box) -> None:
    sent = np.arange(6, dtype=np.float32).reshape(2, 3)
    outcome = run(
        box, "def main(inputs): return inputs.tensor('sent') * 2", call="give", arrays={"sent": sent}
    )
    np.testing.assert_array_equal(outcome.ranks[0].arrays["seen"], sent * 2)


def test_traffic_is_counted_outside(box: Box) -> None:
    exchange = """
        import torch, torch.distributed as dist
        def main():
            dist.init_process_group("gloo")
            if %s:
                dist.all_reduce(torch.ones(250_000))
            return 1
    """
    silent, loud = (run(box, exchange % words, ranks=2) for words in ("False", "True"))
    assert silent.loopback_bytes is not None
    assert loud.loopback_bytes is not None
    assert loud.loopback_bytes - silent.loopback_bytes > 1_000_000


# What it leaves


DAEMON = """
import os, signal, time
def main():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return 1
"""


def test_a_run_leaves_nothing_running(box: Box) -> None:
    before = traces(box)
    assert run(box, DAEMON, counts_left=True).left_running == 1
    assert traces(box) == before


def test_what_is_left_running_is_waited_for_only_where_it_is_counted(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching.Watching, "_ask_for_report", lambda self: pytest.fail("it was asked for"))
    before = traces(box)
    assert run(box, DAEMON).left_running is None
    assert traces(box) == before


def test_a_process_whose_first_thread_has_ended_is_left_running(box: Box) -> None:
    source = """
        import ctypes, os, threading, time
        SYS_EXIT = {"x86_64": 60, "aarch64": 93}
        def main():
            pid = os.fork()
            if pid == 0:
                threading.Thread(target=time.sleep, args=(600,)).start()
                ctypes.CDLL(None).syscall(SYS_EXIT[os.uname().machine], 0)
            while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
    """
    assert run(box, source, counts_left=True).left_running == 1


LINGERS = """
    import array, os, socket, struct, threading, time
    kept = []
    def connection():
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near = socket.socket()
        near.connect(listener.getsockname())
        kept.append((listener, listener.accept()))
        near.setblocking(False)
        try:
            while True:
                near.send(bytes(65536))
        except BlockingIOError:
            near.setblocking(True)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30000))
        return near
    def main():
        if os.fork() == 0:
            time.sleep(1000)
        for _ in range(4):
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.connect("/run/warm")
            near = connection()
            end.sendmsg([b"\\xff"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [near.fileno()]))])
            threading.Thread(target=near.close, daemon=True).start()
            kept.append(end)
            time.sleep(0.05)
"""


def test_no_connection_that_lingers_keeps_the_supervisor_from_telling(box: Box) -> None:
    assert run(box, LINGERS, counts_left=True).left_running == 1


def test_what_is_about_to_end_is_not_left_running(box: Box) -> None:
    source = """
        import os, time

        def main():
            if os.fork() == 0:
                time.sleep(0.3)
                os._exit(0)
            return 1
    """
    assert run(box, source, counts_left=True).left_running == 0


def test_a_closed_box_leaves_nothing(own_box: Box) -> None:
    _, _, before = traces(own_box)
    seen(own_box, "def main(): return 1")
    pids = processes_of(own_box)
    assert len(pids) > 1
    watched = [os.pidfd_open(pid) for pid in pids]
    own_box.restart()
    # They have let go of everything; to be gone altogether may take the kernel a moment more.
    for pidfd in watched:
        assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)
    assert traces(own_box)[2] == before


def test_after_its_server_was_lost_a_box_starts_another(own_box: Box) -> None:
    own_box.wait_ready()
    assert own_box.server_pid() is not None
    os.kill(own_box.server_pid(), signal.SIGKILL)
    with pytest.raises(GraderFault):
        seen(own_box, "def main(): return 1")
    assert seen(own_box, "def main(): return 2") == 2


# Commands


def test_commands_end_as_real_ones_do(box: Box) -> None:
    script = """
        import os, signal, subprocess, sys
        words = sys.argv[1:]
        if not words:
            for word in ("exit 3", "kill", "raise"):
                done = subprocess.run([sys.executable, "student.py", *word.split()], stderr=subprocess.DEVNULL)
                print(word, done.returncode)
            print(subprocess.run(["python", "-c", "print(1 + 1)"], capture_output=True).stdout)
        elif words[0] == "exit":
            sys.exit(int(words[1]))
        elif words[0] == "kill":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            raise ValueError
    """
    outcome = run(box, script, call="command", values=[{"command": ["python", "student.py"]}])
    assert outcome.ranks[0].values["said"] == "exit 3 3\nkill -15\nraise 1\nb'2\\n'\n"
    assert outcome.ranks[0].values["status"] == 0


def test_processes_that_a_command_spawns_find_its_file(box: Box) -> None:
    source = (
        "import torch.multiprocessing as mp\ndef work(rank): print('rank', rank)\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=1)\n"
    )
    outcome = run(box, source, call="command", values=[{"command": ["python", "student.py"]}])
    assert outcome.ranks[0].values == {"status": 0, "said": "rank 0\n"}


def test_a_command_finds_the_notebook_that_was_handed_in(box: Box) -> None:
    cells = [{"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1\n", "print(x)"]}]
    notebook = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()
    source = read_notebook(notebook, "student.ipynb").text
    read = "import json; print(json.load(open('student.ipynb'))['cells'][0]['source'].split()[-1])"
    outcome = run(box, source, call="command", values=[{"command": ["python", "-c", read]}])
    assert outcome.ranks[0].values["said"] == "print(x)\n"


def test_a_script_from_stdin_gets_its_words(box: Box) -> None:
    told = "echo 'import sys; print(sys.argv, sys.path[0])' |"
    command = f"{told} python - a 'b c'; {told} python"
    outcome = run(box, "", call="command", values=[{"command": ["sh", "-c", command]}])
    assert outcome.ranks[0].values["said"] == "['-', 'a', 'b c'] \n[''] \n"


def test_torchrun_starts_ranks_that_meet(box: Box) -> None:
    script = """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        open(f"rank{dist.get_rank()}", "w").write(str(total.item()))
        dist.destroy_process_group()
    """
    command = "torchrun --standalone --nproc_per_node=2 student.py && cat rank0 rank1"
    outcome = run(box, script, call="command", values=[{"command": ["sh", "-c", command]}])
    assert outcome.ranks[0].values["status"] == 0, outcome
    assert str(outcome.ranks[0].values["said"]).endswith("2.02.0")


# Without a sandbox


def test_without_a_sandbox_verdicts_are_the_same(plain_box: Box) -> None:
    assert seen(plain_box, "def main(): return 1") == 1
    assert isinstance(verdict(run(plain_box, "import os\ndef main(): os._exit(0)")), Crashed)
    assert isinstance(verdict(run(plain_box, "def main():\n    while True: pass", limits=SHORT), SHORT), Hung)
    flood = run(plain_box, "def main():\n    while True: print('x' * 1000)")
    assert isinstance(verdict(flood), LimitExceeded)


def test_without_a_sandbox_a_run_leaves_nothing_running(plain_box: Box) -> None:
    before = traces(plain_box)
    assert run(plain_box, DAEMON).ranks[0].complete
    assert traces(plain_box) == before


def test_without_a_sandbox_the_folder_goes_with_the_box(plain_box: Box) -> None:
    folder = Path(str(seen(plain_box, "import os\ndef main(): return os.getcwd()")))
    workspace = folder.parents[1]
    plain_box.settle()
    assert not folder.exists()
    assert workspace.name.startswith("lockstep-")
    plain_box.restart()
    assert not workspace.exists()


# Preflight


def test_without_bubblewrap_there_is_a_sentence_and_no_box(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise bubblewrap.SandboxUnavailable("bubblewrap (bwrap) is not installed")

    monkeypatch.setattr(bubblewrap, "find", missing)
    assert bubblewrap.problem() == "bubblewrap (bwrap) is not installed"
    with pytest.raises(bubblewrap.SandboxUnavailable):
        Box({"engine": PROBE}, isolated=True)


def test_root_that_may_not_mount_is_told_before_a_box_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"
    monkeypatch.setattr(bubblewrap, "ENTER", ("sh", "-c", refusal))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "CAP_SYS_ADMIN" in (bubblewrap.problem() or "")
