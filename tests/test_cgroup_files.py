"""What is written to control groups and how their answers are read, on a kernel that is simulated in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from lockstep.sandbox import backend, cgroup, cgroup1, cgroup2, watched
from lockstep.sandbox.cgroup import Hierarchy, Unusable
from lockstep.sandbox.limits import MIB, Limits, Usage
from lockstep.verdict import GraderFault
from tests.cgroup_kernel import Kernel

LIMITS = Limits(memory=300 * MIB, processes=40)
INIT = 1


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "groups"
    folder.mkdir()
    return folder


def _texts(folder: Path, *names: str) -> list[str]:
    return [(folder / name).read_text() for name in names]


# Where runs get their groups


def test_root_in_the_topmost_group_gives_groups_below_it(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(top, real_root=True)
    kernel.live_in(top, INIT)
    kernel.install(monkeypatch)
    parent = cgroup2.find(kernel.hierarchy())
    assert parent.folder == top
    assert (top / "cgroup.subtree_control").read_text() == "memory pids"
    assert [path.name for path in top.iterdir() if path.is_dir()] == []


def test_in_a_systemd_user_s_session_its_slice_does(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(top, real_root=True)
    kernel.closed.add(top)
    (top / "cgroup.subtree_control").write_text("memory pids")
    kernel.group("user.slice", given="memory pids", closed=True)
    kernel.group("user.slice/user@1000.service", given="memory pids")
    slice_ = kernel.group("user.slice/user@1000.service/app.slice", given="memory pids")
    kernel.live_in(kernel.group("user.slice/user@1000.service/app.slice/app-shell.scope"), INIT)
    kernel.install(monkeypatch)
    assert cgroup2.find(kernel.hierarchy()).folder == slice_


def test_a_slice_that_may_give_on_what_it_was_given_is_made_to(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(top, real_root=True)
    kernel.closed.add(top)
    (top / "cgroup.subtree_control").write_text("memory pids")
    slice_ = kernel.group("delegated")
    kernel.live_in(kernel.group("delegated/job"), INIT)
    kernel.install(monkeypatch)
    assert cgroup2.find(kernel.hierarchy()).folder == slice_
    assert (slice_ / "cgroup.subtree_control").read_text() == "memory pids"


@pytest.mark.parametrize("container", [False, True], ids=["a delegated scope", "a container"])
def test_where_lockstep_is_alone_with_its_relatives_they_move_to_a_leaf(
    top: Path, container: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(top, real_root=not container)
    own = top
    if not container:
        kernel.closed.add(top)
        (top / "cgroup.subtree_control").write_text("memory pids")
        own = kernel.group("run.scope")
    kernel.live_in(own, os.getppid())
    kernel.install(monkeypatch)
    assert cgroup2.find(kernel.hierarchy()).folder == own
    moved = {int(word) for word in (own / cgroup2.LEAF / "cgroup.procs").read_text().split()}
    assert moved == {os.getpid(), os.getppid()}
    # The next lockstep finds itself in the leaf, and what is around it ready.
    kernel.live_in(own / cgroup2.LEAF)
    assert cgroup2.find(kernel.hierarchy()).folder == own


def test_the_workers_of_one_grading_are_relatives() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other,
    ):
        related = cgroup2._relatives(one.pid, {os.getpid(), one.pid, other.pid})
        alone = cgroup2._relatives(one.pid, {one.pid, other.pid})
    assert {os.getpid(), one.pid, other.pid} <= related
    assert alone == {one.pid}


def test_nobody_else_s_process_is_moved(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(top, real_root=False)
    # Its parent has ended, so that it is nobody's whom we know.
    started = subprocess.run(
        ["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
    )
    stranger = int(started.stdout)
    kernel.live_in(top, os.getppid(), stranger)
    kernel.install(monkeypatch)
    try:
        with pytest.raises(Unusable, match="holds 1 processes that are not lockstep's to move"):
            cgroup2.find(kernel.hierarchy())
    finally:
        os.kill(stranger, signal.SIGKILL)
    assert not (top / cgroup2.LEAF).exists()


def test_a_session_of_root_s_is_refused_with_the_reason(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(top, real_root=True)
    kernel.closed.add(top)
    (top / "cgroup.subtree_control").write_text("memory pids")
    kernel.group("user.slice", given="memory pids", closed=True)
    kernel.live_in(kernel.group("user.slice/session-3.scope", closed=True))
    kernel.install(monkeypatch)
    with pytest.raises(Unusable, match=r"session-3\.scope: Permission denied"):
        cgroup2.find(kernel.hierarchy())


def test_a_tree_without_controllers_is_refused_with_the_reason(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(top, real_root=True)
    (top / "cgroup.controllers").write_text("hugetlb")
    kernel.live_in(top)
    kernel.install(monkeypatch)
    with pytest.raises(Unusable, match="was not given the control of memory and pids"):
        cgroup2.find(kernel.hierarchy())


def test_a_group_that_is_refused_later_leaves_the_run_to_be_watched(top: Path) -> None:
    gone = cgroup2.Parent(top / "gone")
    assert backend.Groups(gone).open().name == watched.NAME


# What a run's group is told, and what it says


@pytest.fixture
def group(top: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[cgroup2.Group, Path]:
    kernel = Kernel(top, real_root=True)
    (top / "cgroup.subtree_control").write_text("memory pids")
    kernel.install(monkeypatch)
    return cgroup2.Parent(top).open("run"), top / "run"


def test_limits_are_written_and_the_whole_group_dies_of_memory(group: tuple[cgroup2.Group, Path]) -> None:
    run, folder = group
    run.limit(LIMITS)
    names = ("memory.max", "pids.max", "memory.oom.group", "memory.swap.max")
    assert _texts(folder, *names) == [str(300 * MIB), "40", "1", "0"]


def test_a_kernel_without_the_lesser_files_limits_as_well(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(top, real_root=True, missing=("memory.oom.group", "memory.swap.max", "memory.peak"))
    (top / "cgroup.subtree_control").write_text("memory pids")
    kernel.install(monkeypatch)
    run = cgroup2.Parent(top).open("run")
    run.limit(LIMITS)
    assert _texts(top / "run", "memory.max") == [str(300 * MIB)]
    seen = []
    for now in (5, 9, 2):
        (top / "run" / "memory.current").write_text(f"{now}\n")
        seen.append(run.usage().peak_memory)
    assert seen == [5, 9, 9]


@pytest.mark.parametrize("file", ["memory.max", "pids.max"])
def test_a_limit_that_is_not_taken_is_an_error(group: tuple[cgroup2.Group, Path], file: str) -> None:
    """systemd can take controllers back at any time: a run must not go on without them."""
    run, folder = group
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError):
        run.limit(LIMITS)


@pytest.mark.parametrize(
    ("events", "pids", "exceeded"),
    [
        ("oom 0\noom_kill 0\n", "max 0\n", None),
        ("max 812\noom 0\noom_kill 0\n", "max 0\n", None),
        ("oom 1\noom_kill 3\noom_group_kill 1\n", "max 0\n", "memory"),
        ("oom 0\noom_kill 0\n", "max 7\n", "processes"),
        ("oom 1\noom_kill 1\n", "max 7\n", "memory"),
    ],
    ids=["nothing", "full and made room", "memory", "processes", "both"],
)
def test_the_limit_that_was_hit(
    group: tuple[cgroup2.Group, Path], events: str, pids: str, exceeded: str | None
) -> None:
    run, folder = group
    (folder / "memory.events").write_text(events)
    (folder / "pids.events").write_text(pids)
    (folder / "memory.peak").write_text("1234\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n")
    assert run.usage() == Usage(1234, 2.5, exceeded)


def test_a_process_that_the_machine_killed_is_not_held_against_its_run(
    group: tuple[cgroup2.Group, Path],
) -> None:
    run, folder = group
    (folder / "memory.events").write_text("oom 0\noom_kill 1\n")
    with pytest.raises(GraderFault, match="the machine ran out of memory"):
        run.usage()


def test_what_is_left_in_a_group_is_ended_with_it(group: tuple[cgroup2.Group, Path]) -> None:
    run, folder = group
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as left:
        run.add(left.pid)
        run.close()
        assert left.wait(60) == -signal.SIGKILL
    assert not folder.exists()


def test_a_group_that_is_gone_says_nothing(group: tuple[cgroup2.Group, Path]) -> None:
    run, folder = group
    cgroup.remove(folder)
    assert run.usage() == Usage(None, None, None)


# Version 1


@pytest.mark.parametrize(
    ("peak", "killed", "pids", "exceeded"),
    [
        (100 * MIB, 0, 0, None),
        (300 * MIB, 0, 0, None),
        (300 * MIB, 1, 0, "memory"),
        (100 * MIB, 0, 3, "processes"),
        (300 * MIB, 1, 3, "memory"),
        (100 * MIB, 1, 0, GraderFault),
    ],
    ids=["nothing", "full and made room", "memory", "processes", "both", "the machine's"],
)
def test_the_limit_of_version_1_that_was_hit(
    top: Path, peak: int, killed: int, pids: int, exceeded: str | type[GraderFault] | None
) -> None:
    answers = {
        "memory.max_usage_in_bytes": f"{peak}\n",
        "memory.limit_in_bytes": f"{300 * MIB}\n",
        "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {killed}\n",
        "pids.events": f"max {pids}\n",
        "cpuacct.usage": "2500000000\n",
    }
    for name, text in answers.items():
        (top / name).write_text(text)
    run = cgroup1.Group(top, top, top)
    if exceeded is GraderFault:
        with pytest.raises(GraderFault, match="the machine ran out of memory"):
            run.usage()
    else:
        assert run.usage() == Usage(peak, 2.5, exceeded)


# Where this process's own groups are


@pytest.mark.parametrize(
    ("groups", "mounts", "found"),
    [
        (
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            "24 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope")},
        ),
        (
            "4:memory:/jobs/7\n2:cpu,cpuacct:/\n0::/\n",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            "42 31 0:39 / /tmp rw - tmpfs tmpfs rw,memory\n",
            {
                "memory": ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/jobs/7"),
                "cpu": ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                "cpuacct": ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                "": ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"),
            },
        ),
        (
            "4:memory:/docker/abc\n",
            "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            {"memory": ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory")},
        ),
        (
            "0::/../../elsewhere\n",
            "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            {},
        ),
        (
            "0::/mine\n",
            "24 1 0:22 / /mnt/two\\040words rw - cgroup2 cgroup2 rw\n",
            {"": ("/mnt/two words", "/mnt/two words/mine")},
        ),
    ],
    ids=["version 2", "both versions", "a container's part", "outside what is seen", "an odd path"],
)
def test_own_groups_are_found(groups: str, mounts: str, found: dict[str, tuple[str, str]]) -> None:
    expected = {name: Hierarchy(Path(top), Path(own)) for name, (top, own) in found.items()}
    assert cgroup.hierarchies(groups, mounts) == expected


def test_a_lineage_ends_at_the_top() -> None:
    hierarchy = Hierarchy(Path("/groups"), Path("/groups/a/b"))
    assert hierarchy.lineage() == (Path("/groups/a/b"), Path("/groups/a"), Path("/groups"))
