"""A class on more than one machine: a real Dask scheduler and its workers, of which some are killed or unfit."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client

from lockstep.classroom.cluster import open_pool
from lockstep.classroom.daskpool import DaskPool
from lockstep.classroom.jobqueue import make_keys
from lockstep.classroom.run import run_grade
from lockstep.classroom.task import Began, CheckEnded, Ended, Event, Lost, Setup, Task
from lockstep.grading import CouldNotGrade
from tests.dask_cluster import DaskCluster, dask_cluster, unusable_lockstep
from tests.graded_on_a_cluster import CHECKS, Watching, graded, hand_in, make_graders, order
from tests.sandboxed import ROOT


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskCluster]:
    (tmp_path / "dask").mkdir()
    with dask_cluster(tmp_path / "dask") as running:
        yield running


@pytest.fixture
def graders(tmp_path: Path) -> Path:
    """Graders that run nothing of a submission."""
    return make_graders(tmp_path / "graders")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe that nobody writes into. In a folder of graders, their second check never ends."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


def test_a_killed_worker_costs_the_check_in_flight(dask: DaskCluster, tmp_path: Path) -> None:
    first = dask.add_worker()

    def kill() -> None:
        dask.add_worker()
        dask.kill(first)

    watching = Watching(kill, of="zoe")
    (tmp_path / "here").mkdir()
    assert graded(order(tmp_path, dask.address), watching) == graded(order(tmp_path / "here"))
    assert len(watching.losses) == 1
    assert "went away" in watching.losses[0]
    assert len(watching.checks) == len(set(watching.checks)) == CHECKS
    # What the killed one could not remove, the other one did.
    assert list((tmp_path / "dask").glob("*/lockstep-*")) == []


def test_without_its_scheduler_a_grading_ends_and_keeps_what_it_has(
    dask: DaskCluster, tmp_path: Path, graders: Path, gate: Path
) -> None:
    dask.add_worker()
    gate = gate.rename(graders / "gate")
    before, after = Watching(dask.kill_scheduler), Watching()
    with pytest.raises(CouldNotGrade, match=r"scheduler at tcp://.* went away. What is graded is kept"):
        graded(order(tmp_path, dask.address, graders), before)
    gate.unlink()
    graded(order(tmp_path, "", graders), after)
    assert before.checks == [("ann", "held", "first")]
    assert sorted(after.checks) == [
        ("ann", "held", "second"),
        *((student, "held", check) for student in ("ben", "zoe") for check in ("first", "second")),
    ]


def test_nodes_that_would_grade_otherwise_get_no_work(
    dask: DaskCluster, tmp_path: Path, graders: Path
) -> None:
    (tmp_path / "bin").mkdir()
    dask.add_worker(environment={"PATH": str(tmp_path / "bin")})
    others = shutil.copytree(
        ROOT / "lockstep", tmp_path / "other" / "lockstep", ignore=shutil.ignore_patterns("__pycache__")
    )
    with (others / "verdict.py").open("a") as file:
        file.write("# Somebody has been here.\n")
    dask.add_worker(environment={"PYTHONPATH": str(others.parent)})
    dask.add_worker(environment={"PYTHONPATH": str(unusable_lockstep(tmp_path / "none"))})
    reasons = (
        "bubblewrap (bwrap) is not installed",
        "its lockstep, graders, reference or fixtures are other files than those here",
        "lockstep cannot be used where the Dask worker runs (ImportError('no torch here'))",
    )

    wait_for_workers(dask, 3)
    with (
        opened(dask, graders) as pool,
        pytest.raises(CouldNotGrade, match=r"no worker of tcp://.* can grade") as refusal,
    ):
        pool.run([a_task(graders)], print)
    assert [reason for reason in reasons if reason not in str(refusal.value)] == [], str(refusal.value)

    dask.add_worker()
    wait_for_workers(dask, 4)
    heard: list[Event] = []
    with opened(dask, graders) as pool:
        pool.run([a_task(graders)], heard.append)
        assert [any(reason in remark for remark in pool.remarks) for reason in reasons] == [True] * 3
        assert len(pool.remarks) == 3
    assert heard[-1] == Ended(1)


def test_whoever_comes_later_takes_a_worker_over(
    dask: DaskCluster, tmp_path: Path, graders: Path, gate: Path
) -> None:
    dask.add_worker()
    gate.rename(graders / "gate")
    others = make_graders(tmp_path / "open")
    later: list[Event] = []
    earlier: list[Event] = []

    def hear(event: Event) -> None:
        earlier.append(event)
        if isinstance(event, CheckEnded):
            with opened(dask, others) as second:
                second.run([a_task(others)], later.append)

    tasks = [a_task(graders), replace(a_task(graders), attempt=2)]
    with (
        opened(dask, graders) as pool,
        pytest.raises(CouldNotGrade, match="another grading took this Dask worker"),
    ):
        pool.run(tasks, hear)
    assert later[-1] == Ended(1)
    assert isinstance(earlier[-1], Lost)


def test_stopped_it_ends_with_the_present_checks(dask: DaskCluster, tmp_path: Path, graders: Path) -> None:
    dask.add_worker()
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        pool.stop()

    with opened(dask, graders) as pool:
        pool.run(iter([a_task(graders), replace(a_task(graders), attempt=2)]), hear)
    assert heard[0] == Began(1, platform.node(), 2)
    assert {event.attempt for event in heard} == {1}


def test_a_scheduler_that_speaks_tls(tmp_path: Path) -> None:
    (tmp_path / "dask").mkdir()
    make_keys(tmp_path)
    files = {"tls-ca-file": "ca_file", "tls-cert": "cert", "tls-key": "key"}
    options = [f"--{option}={tmp_path / name}.pem" for option, name in files.items()]
    config = tmp_path / "cluster.toml"
    config.write_text(
        "".join(f"{option.replace('-', '_')} = '{tmp_path / name}.pem'\n" for option, name in files.items())
    )
    with dask_cluster(tmp_path / "dask", "--protocol", "tls", *options) as dask:
        assert dask.address.startswith("tls://")
        with open_pool(dask.address, config, Setup(), 100.0, tmp_path, print) as pool:
            pool.run([], print)
        with pytest.raises(CouldNotGrade, match="no Dask scheduler answers at tls://"):
            open_pool(dask.address, None, Setup(), 100.0, tmp_path, print)


def a_task(graders: Path) -> Task:
    work = hand_in(graders.parent / "class") / "ann"
    return Task(1, str(work), ("held",), 7, Setup(graders=str(graders)))


def opened(dask: DaskCluster, graders: Path) -> DaskPool:
    return open_pool(dask.address, None, Setup(graders=str(graders)), 100.0, Path(), lambda sentence: None)


def wait_for_workers(dask: DaskCluster, count: int) -> None:
    with Client(dask.address, set_as_default=False) as client:
        client.wait_for_workers(count)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("localhost:8786", "takes the address of a Dask scheduler, tcp://host:8786"),
        ("kubernetes", "one of slurm, pbs, lsf, sge; not kubernetes"),
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("slurm", "--cluster slurm needs a --cluster-config FILE that says jobs and cores and memory"),
    ],
)
def test_no_cluster_is_a_sentence(
    where: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.classroom.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(CouldNotGrade) as refusal:
        open_pool(where, None, Setup(), 100.0, tmp_path, print)
    assert sentence in str(refusal.value)


def test_a_file_for_no_cluster_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = order(tmp_path, config=tmp_path / "cluster.toml")
    assert run_grade(wanted, gradebook=None, trusted=False) == 2
    assert "say which by --cluster as well" in capsys.readouterr().err


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CouldNotGrade, match=r"pip install 'lockstep\[cluster\]'"):
        open_pool("tcp://127.0.0.1:1", None, Setup(), 100.0, tmp_path, print)


def test_nothing_of_dask_is_loaded_for_a_grading_on_this_machine(tmp_path: Path) -> None:
    program = (
        "import sys, lockstep.classroom.grade; print(sorted({'dask', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ},
        cwd=tmp_path,
    )
    assert done.stdout == "[]\n"
