"""`lockstep doctor`: what it says of machines that lack one thing, and of this one."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lockstep import cli
from lockstep.doctor import apparmor, capacity, command, look, trial
from lockstep.doctor.apparmor import Profile
from lockstep.doctor.finding import Finding, Level
from lockstep.doctor.machine import Gpus, Machine
from lockstep.sandbox import backend, box, bubblewrap, cgroup, seccomp
from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from lockstep.verdict import GraderFault
from tests.machines import (
    GIB,
    GOOD,
    NOT_PERMITTED,
    ONE_GPU,
    WATCHED,
    with_host,
    with_packages,
    with_room,
    with_sandbox,
)
from tests.sandboxed import ROOT

SCHEMA = json.loads((ROOT / "lockstep" / "schemas" / "doctor-1.schema.json").read_text())
OK, WEAKER, REFUSED = Level.OK, Level.WEAKER, Level.REFUSED
NO_BWRAP = with_sandbox(bubblewrap=None, problem="bubblewrap (bwrap) is not installed")
CLOSED = with_sandbox(
    problem="bubblewrap cannot make a sandbox here (bwrap: No permissions to create new namespace)",
    namespaces=replace(GOOD.sandbox.namespaces, worked=False, said=NOT_PERMITTED),
)
NO_MOUNTS = with_sandbox(
    problem="root may not make mounts of its own here",
    entering=replace(GOOD.sandbox.namespaces, worked=False, said=NOT_PERMITTED),
)
NO_OTHER_USER = with_sandbox(
    problem="bubblewrap cannot make a sandbox here (setpriv: setresuid failed: Invalid argument)",
    entering=replace(
        GOOD.sandbox.namespaces, worked=False, said="setpriv: setresuid failed: Invalid argument"
    ),
)
NO_FILTER = with_sandbox(
    problem="there is no filter of system calls without libseccomp",
    seccomp=replace(GOOD.sandbox.seccomp, worked=False, said="Unable to find libseccomp"),
)
UNPRIVILEGED = "bubblewrap cannot make a sandbox here (unshare: unshare failed: Operation not permitted)"
HELD = with_sandbox(
    problem=UNPRIVILEGED, apparmor_profile=Profile("bwrap", Path("/etc/apparmor.d/bwrap-userns-restrict"))
)
REMOVING = "apparmor_parser --remove /etc/apparmor.d/bwrap-userns-restrict"
UNRESTRICTING = "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
ALLOWING = "docker run --cap-add SYS_ADMIN"
SET_UP = "make setup"


def examined(machine: Machine) -> dict[str, Finding]:
    """All findings but that of the real run, by id."""
    return {finding.id: finding for finding in command.examine(machine)}


@pytest.fixture(autouse=True)
def four_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cores this machine has."""
    monkeypatch.setattr(capacity, "default_jobs", lambda: 4)


def test_a_good_machine_promises_everything() -> None:
    assert {finding.level for finding in examined(GOOD).values()} == {Level.OK}


@pytest.mark.parametrize(
    ("machine", "name", "level", "seen", "mend"),
    [
        (NO_BWRAP, "bubblewrap", REFUSED, "not installed", "apt-get install -y bubblewrap"),
        (
            with_host(NO_BWRAP, installer="dnf"),
            "bubblewrap",
            REFUSED,
            "not installed",
            "dnf install -y bubblewrap",
        ),
        (with_host(NO_BWRAP, installer=None), "bubblewrap", REFUSED, "not installed", ""),
        (CLOSED, "user_namespaces", REFUSED, NOT_PERMITTED, ""),
        (with_host(CLOSED, container=True), "user_namespaces", REFUSED, NOT_PERMITTED, ALLOWING),
        (
            with_sandbox(CLOSED, most_namespaces=0),
            "user_namespaces",
            REFUSED,
            "user.max_user_namespaces is 0",
            "sysctl user.max_user_namespaces=15000",
        ),
        (
            with_sandbox(CLOSED, unprivileged_namespaces=False),
            "user_namespaces",
            REFUSED,
            "kernel.unprivileged_userns_clone is 0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            with_sandbox(
                CLOSED, namespaces=replace(CLOSED.sandbox.namespaces, said="unshare is not installed")
            ),
            "user_namespaces",
            REFUSED,
            "not tried",
            "apt-get install -y util-linux",
        ),
        (with_host(NO_MOUNTS, container=True), "user", REFUSED, "may not make mounts", ALLOWING),
        (NO_MOUNTS, "user", REFUSED, "may not make mounts", "su --login NAME"),
        (NO_OTHER_USER, "user", REFUSED, "may not be another user", "su --login NAME"),
        (
            with_host(root=False),
            "user",
            WEAKER,
            "not root",
            "sudo /srv/lockstep/.venv/bin/lockstep doctor",
        ),
        (NO_FILTER, "seccomp", REFUSED, "Unable to find libseccomp", "apt-get install -y libseccomp2"),
        (
            with_sandbox(
                NO_FILTER,
                seccomp=replace(NO_FILTER.sandbox.seccomp, said="No module named 'pyseccomp'"),
            ),
            "seccomp",
            REFUSED,
            "pyseccomp",
            SET_UP,
        ),
        (
            with_sandbox(seccomp=replace(NO_FILTER.sandbox.seccomp, said="it is loaded and denies nothing")),
            "seccomp",
            REFUSED,
            "denies nothing",
            "",
        ),
        (
            with_sandbox(problem="bubblewrap cannot make a sandbox here (bwrap: Can't mount proc)"),
            "sandbox",
            REFUSED,
            "Can't mount proc",
            "",
        ),
        (
            with_host(with_sandbox(problem="bwrap: Can't mount proc"), container=True),
            "sandbox",
            REFUSED,
            "Can't mount proc",
            ALLOWING,
        ),
        (with_sandbox(landlock=4), "landlock", WEAKER, "version 4; lockstep wants version 6", ""),
        (with_sandbox(landlock=0), "landlock", WEAKER, "none; lockstep wants version 6", ""),
        (
            replace(GOOD, limits=WATCHED),
            "control_groups",
            WEAKER,
            "no unified tree",
            "systemd-run --user --scope -p Delegate=yes /srv/lockstep/.venv/bin/lockstep doctor",
        ),
        (
            with_host(replace(GOOD, limits=WATCHED), systemd=False),
            "control_groups",
            WEAKER,
            "none for lockstep",
            "",
        ),
        (
            with_host(replace(GOOD, limits=WATCHED), container=True),
            "control_groups",
            WEAKER,
            "none for lockstep",
            "docker run --privileged IMAGE",
        ),
        (
            with_room(available=int(5.2 * GIB)),
            "memory",
            WEAKER,
            "5.2 GiB free of 32 GiB",
            "lockstep grade SUBMISSIONS --out RESULTS --jobs 2",
        ),
        (with_room(available=3 * GIB), "memory", WEAKER, "3 GiB free", ""),
        (with_room(cores=1), "cores", WEAKER, "1", ""),
        (
            with_room(quota=1.5),
            "cores",
            WEAKER,
            "4, with the time of 1.5",
            "lockstep grade SUBMISSIONS --out RESULTS --jobs 2",
        ),
        (
            replace(GOOD, gpus=replace(ONE_GPU, usable=0)),
            "gpus",
            WEAKER,
            "1 of them closed",
            "chmod a+rw /dev/nvidia*",
        ),
        (
            replace(GOOD, gpus=replace(ONE_GPU, memory_file=False)),
            "gpus",
            WEAKER,
            "no /dev/nvidia-uvm",
            "nvidia-modprobe -u -c=0",
        ),
        (replace(GOOD, gpus=ONE_GPU), "gpus", WEAKER, "torch has no CUDA", ""),
        (with_packages(torch=None), "versions", REFUSED, "torch not installed", SET_UP),
        (with_packages(pandas=None), "versions", WEAKER, "pandas not installed", SET_UP),
        (with_packages(torch="2.13.0"), "versions", WEAKER, "torch 2.13.0 instead of 2.15.0", SET_UP),
        (
            replace(GOOD, software=replace(GOOD.software, packages=())),
            "versions",
            WEAKER,
            "not installed as a package",
            SET_UP,
        ),
    ],
)
def test_one_lack_is_one_line_with_what_follows_and_what_mends_it(
    machine: Machine, name: str, level: Level, seen: str, mend: str
) -> None:
    found = examined(machine)
    assert (found[name].level, found[name].follows != "") == (level, True)
    assert seen in found[name].seen
    assert found[name].mend == mend if mend not in (ALLOWING, SET_UP) else mend in found[name].mend
    assert {other for other in found if found[other].level is not Level.OK} == {name}
    assert command.exit_status(list(found.values())) == (1 if level is REFUSED else 0)


def test_apparmor_is_blamed_once_and_only_where_it_is_to_blame() -> None:
    found = examined(with_host(with_sandbox(CLOSED, apparmor_restricts=True), root=False))
    refused = [finding for finding in found.values() if finding.level is REFUSED]
    assert [finding.id for finding in refused] == ["user_namespaces", "apparmor"]
    assert [finding.mend for finding in refused] == [
        "",
        f"sudo {UNRESTRICTING}",
    ]
    lets_bubblewrap = examined(with_sandbox(apparmor_restricts=True))
    assert {finding.level for finding in lets_bubblewrap.values()} == {Level.OK}
    both = with_sandbox(CLOSED, apparmor_restricts=True, apparmor_profile=HELD.sandbox.apparmor_profile)
    assert examined(both)["apparmor"].mend == f"{REMOVING} && {UNRESTRICTING}"
    assert (
        "/etc/apparmor.d/disable and a line in /etc/sysctl.d, for good" in examined(both)["apparmor"].follows
    )
    without = examined(with_sandbox(NO_BWRAP, apparmor_restricts=True))
    assert [name for name, finding in without.items() if finding.level is REFUSED] == ["bubblewrap"]


@pytest.mark.parametrize(
    ("machine", "mend"),
    [
        (HELD, REMOVING),
        # Without its profile bubblewrap is what everything else is there: one command lifts both.
        (with_sandbox(HELD, apparmor_restricts=True), f"{REMOVING} && {UNRESTRICTING}"),
        (
            with_host(with_sandbox(HELD, apparmor_restricts=True), root=False),
            f"sudo {REMOVING} && sudo {UNRESTRICTING}",
        ),
        (with_sandbox(HELD, apparmor_profile=Profile("snap.bwrap", None)), ""),
    ],
)
def test_a_profile_of_bubblewraps_own_is_named_with_what_takes_it_away(machine: Machine, mend: str) -> None:
    found = examined(machine)
    assert [name for name, finding in found.items() if finding.level is REFUSED] == ["apparmor"]
    profile = machine.sandbox.apparmor_profile
    assert profile is not None
    assert f"its profile `{profile.name}`" in found["apparmor"].seen
    assert UNPRIVILEGED in found["apparmor"].seen
    assert found["apparmor"].mend == mend
    assert ("/etc/apparmor.d/disable" in found["apparmor"].follows) == bool(mend)


@pytest.mark.parametrize(
    "machine",
    [
        with_sandbox(HELD, problem=None),
        with_sandbox(NO_FILTER, apparmor_profile=HELD.sandbox.apparmor_profile),
        with_sandbox(CLOSED, apparmor_profile=HELD.sandbox.apparmor_profile),
        # Docker's own profile: a container is started otherwise, not mended from within.
        with_host(HELD, container=True),
    ],
)
def test_a_profile_of_bubblewraps_own_is_not_blamed_for_what_others_refuse(machine: Machine) -> None:
    assert examined(machine)["apparmor"].level is Level.OK


PROFILES = {
    "abstractions/base": "profile bwrap { }",
    "bwrap-userns-restrict": "abi <abi/4.0>,\n\nprofile bwrap /usr/bin/bwrap flags=(attach_disconnected) {\n",
    "other": "# profile bwrap is elsewhere\nprofile bwrap-other /opt/bwrap {\n}\n",
    "usr.bin.bwrap": "/usr/bin/bwrap {\n}\n",
}


@pytest.mark.parametrize(
    ("label", "profile", "file"),
    [
        ("bwrap (enforce)\n", "bwrap", "bwrap-userns-restrict"),
        ("bwrap-other (kill)\n", "bwrap-other", "other"),
        ("/usr/bin/bwrap (enforce)\n", "/usr/bin/bwrap", "usr.bin.bwrap"),
        ("snap.steam//&bwrap (mixed)\n", "snap.steam//&bwrap", None),
        ("unconfined\n", None, None),
        ("bwrap (unconfined)\n", None, None),
        ("bwrap (complain)\n", None, None),
        ("", None, None),
    ],
)
def test_profiles_are_known_by_the_label_of_a_process(
    label: str, profile: str | None, file: str | None, tmp_path: Path
) -> None:
    for name, text in PROFILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = apparmor.profile_named_by(label, tmp_path)
    assert (found and found.name) == profile
    assert (found and found.file and found.file.name) == file


def test_an_ordinary_user_is_shown_commands_with_sudo() -> None:
    assert (
        examined(with_host(NO_BWRAP, root=False))["bubblewrap"].mend == "sudo apt-get install -y bubblewrap"
    )
    # In a container that lends its groups to root alone, one command is enough: to be root.
    found = examined(with_host(replace(GOOD, limits=WATCHED), root=False, container=True))
    assert [finding.mend for finding in found.values() if finding.mend] == [found["user"].mend]


def test_gpus_are_named_with_their_driver_and_torchs_build() -> None:
    machine = replace(GOOD, gpus=ONE_GPU, software=replace(GOOD.software, torch_cuda="13.2"))
    assert examined(machine)["gpus"].seen == "1 (NVIDIA H200), driver 580.65.06; torch is built for CUDA 13.2"
    assert examined(machine)["gpus"].level is Level.OK


# What is printed


@pytest.fixture
def started_on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `lockstep doctor` see that machine; its run in a box, where it comes to that, is a stand-in."""

    def install(machine: Machine) -> None:
        monkeypatch.setattr(command, "gather", lambda: machine)
        monkeypatch.setattr(trial, "trial", lambda gpus: [trial.judged(outcome(), 2.9)])

    return install


HALF = with_host(
    replace(with_sandbox(CLOSED, apparmor_restricts=True), limits=WATCHED, gpus=ONE_GPU), root=False
)


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_fits_and_its_commands_can_be_copied(
    width: int, started_on: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    started_on(HALF)
    assert cli.main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    commands = [line.strip()[2:] for line in lines if line.strip().startswith("$ ")]
    findings = [*examined(HALF).values(), trial.not_tried()]
    assert commands == [finding.mend for finding in findings if finding.mend]
    assert max(len(line.rstrip()) for line in lines if not line.strip().startswith("$ ")) <= width
    assert [line[0] for line in lines if line[:1] in {"✓", "!", "✗"}] == [
        {"ok": "✓", "weaker": "!", "refused": "✗"}[str(finding.level)] for finding in findings
    ]
    whole = " ".join(" ".join(lines).split())
    for finding in findings:
        assert finding.level is Level.OK or finding.follows in whole
    assert lines[-1].endswith("lockstep check PATH --sandbox none")


def test_the_last_line_says_whether_grading_works(
    started_on: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for machine, quick, status, said in (
        (GOOD, [], 0, "Grading works on this machine, with all that lockstep promises."),
        (GOOD, ["--quick"], 0, "Grading should work on this machine, with all that lockstep promises."),
        (with_host(root=False), [], 0, "Grading works on this machine; 1 thing is weaker than could be."),
        (
            NO_BWRAP,
            [],
            1,
            "before what is marked is mended.\nYour own code can do without protection: lockstep check",
        ),
        (with_packages(torch=None), [], 1, "before what is marked is mended.\n"),
    ):
        started_on(machine)
        assert cli.main(["doctor", *quick]) == status
        assert said in capsys.readouterr().out


@pytest.mark.parametrize("machine", [GOOD, HALF, NO_BWRAP, with_packages(torch=None), with_host(root=False)])
def test_programs_are_told_the_same_in_the_format_of_the_schema(
    machine: Machine, started_on: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    started_on(machine)
    status = cli.main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert told["grading"] is (status == 0)
    assert {each["id"]: each["level"] for each in told["findings"]} == {
        **{name: str(finding.level) for name, finding in examined(machine).items()},
        "box": "ok" if status == 0 else "refused",
    }


def test_where_rich_is_missing_programs_are_still_told(
    started_on: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.table", None)
    monkeypatch.delitem(sys.modules, "lockstep.doctor.display", raising=False)
    monkeypatch.delattr("lockstep.doctor.display", raising=False)
    started_on(GOOD)
    assert cli.main(["doctor", "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["doctor"]) == 1
    assert "rich" in capsys.readouterr().err


# Looking


def test_a_bare_machine_is_looked_at_without_an_exception(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bubblewrap, "find", _missing)
    monkeypatch.setattr(seccomp, "filter_program", _no_library)
    monkeypatch.setattr(look, "version", _not_installed)
    monkeypatch.setattr(look, "requires", _not_installed)
    monkeypatch.setattr(look.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(backend.cgroup, "own_hierarchies", dict)
    found = examined(look.gather())
    assert found["bubblewrap"].seen == "not installed"
    assert found["user_namespaces"].seen.endswith("is not installed")
    assert "libseccomp" in found["seccomp"].seen
    assert found["control_groups"].level is WEAKER
    assert found["versions"].level is WEAKER
    assert command.exit_status(list(found.values())) == 1


def _missing() -> str:
    raise bubblewrap.SandboxUnavailable("bubblewrap (bwrap) is not installed")


def _no_library() -> bytes:
    raise RuntimeError("Unable to find libseccomp")


def _not_installed(name: str) -> str:
    raise look.PackageNotFoundError(name)


def test_the_filter_is_tried_and_not_taken_on_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look.try_filter().worked
    # One instruction: return SECCOMP_RET_ALLOW.
    monkeypatch.setattr(seccomp, "filter_program", lambda: struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    assert look.try_filter().said == "it is loaded and denies nothing"
    monkeypatch.setattr(seccomp, "filter_program", lambda: bytes(16))
    assert "seccomp" in look.try_filter().said


@pytest.mark.parametrize(
    ("files", "room"),
    [
        ({"memory.max": "4096", "memory.current": "3000", "memory.stat": "anon 9\ninactive_file 96"}, 1192),
        ({"memory.max": "max", "memory.current": "3000"}, None),
        ({"memory.max": "4096", "memory.current": "5000"}, 0),
        (
            {
                "memory.limit_in_bytes": "4096",
                "memory.usage_in_bytes": "96",
                "memory.stat": "total_inactive_file 50",
            },
            4050,
        ),
        ({}, None),
    ],
)
def test_a_containers_limit_counts_as_the_machines_memory(
    files: dict[str, str], room: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cgroup.room_of(tmp_path) == room


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_a_containers_share_of_the_cores_is_known(
    files: dict[str, str], share: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert look.share_of(tmp_path) == share


def test_a_container_is_known_by_its_marks(tmp_path: Path) -> None:
    assert not look.in_container(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").touch()
    assert look.in_container(tmp_path)


# This machine


def as_an_ordinary_user(look_around: Any) -> Any:
    """What a function tells a user without privileges, in a child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(bubblewrap.TRIAL_UID, bubblewrap.TRIAL_UID, bubblewrap.TRIAL_UID)
                os.setresuid(bubblewrap.TRIAL_UID, bubblewrap.TRIAL_UID, bubblewrap.TRIAL_UID)
            os.write(writing, json.dumps(look_around()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as end:
        told = end.read()
    os.waitpid(child, 0)
    return json.loads(told)


def test_an_ordinary_user_of_this_machine_is_told_what_is_weaker() -> None:
    look.gather()  # what is imported late, that user may not be able to read
    levels = as_an_ordinary_user(
        lambda: {name: str(each.level) for name, each in examined(look.gather()).items()}
    )
    assert levels["user"] == "weaker"
    assert "refused" not in levels.values()


def test_root_that_may_not_mount_is_refused() -> None:
    """An ordinary user, who has nothing to lose, is told that some things are weaker."""
    root = os.getuid() == 0
    done = doctor("--quick", "--json", before=["setpriv", "--bounding-set=-sys_admin"] if root else [])
    found = {each["id"]: each for each in json.loads(done.stdout)["findings"]}
    assert (done.returncode, found["user"]["level"]) == ((1, "refused") if root else (0, "weaker"))
    assert ("may not make mounts of its own" in found["user"]["seen"]) is root


def test_namespaces_that_are_switched_off_are_switched_on_by_the_command_it_names() -> None:
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    done = doctor(
        "--quick", "--json", before=["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    )
    assert done.returncode == 1
    found = {each["id"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["user_namespaces"]["mend"] == "sysctl user.max_user_namespaces=15000"


def test_a_run_in_a_real_box_says_how_it_is_confined() -> None:
    done = doctor("--json")
    told = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    tried = next(finding for finding in told["findings"] if finding["id"] == "box")
    assert (done.returncode, tried["level"]) == (0, "ok"), told
    assert min(tried["values"].values()) > 0


def doctor(*options: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`lockstep doctor` as a process of its own."""
    whole = [*before, sys.executable, "-m", "lockstep.cli", "doctor", *options]
    return subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def outcome(**changes: object) -> Outcome:
    """What two ranks of a confined run say, one of them otherwise."""
    values = {"total": 3.0, **trial.CONFINED}
    other = replace(RankOutcome(complete=True, values=values), **changes)  # type: ignore[arg-type]
    return Outcome(ranks=(RankOutcome(complete=True, values=values), other), elapsed=0.12)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": {"total": 2.0, **trial.CONFINED}}, "2 ranks added up to 2.0"),
        ({"values": {"total": 3.0, **trial.CONFINED, "filter": "0"}}, "a run is not confined: filter 0"),
        ({"values": {"total": 3.0, **trial.CONFINED, "networks": "eth0,lo"}}, "networks eth0,lo"),
        ({"values": {"total": 3.0, **trial.CONFINED, "capabilities": "000001ffffffffff"}}, "capabilities"),
        ({"complete": False, "values": {}}, "the run did not come back"),
        ({"error": StudentError("RuntimeError", "no gloo", (), "")}, "RuntimeError: no gloo"),
    ],
)
def test_a_run_that_is_not_as_it_should_be_refuses_grading(changes: dict[str, Any], said: str) -> None:
    finding = trial.judged(outcome(**changes), 1.0)
    assert (finding.level, finding.mend) == (REFUSED, "")
    assert said in finding.seen


@pytest.mark.parametrize(
    ("why", "seen", "mend"),
    [
        ("the sandbox was lost during a run", "the sandbox was lost during a run", ""),
        (
            "the sandbox's server did not start: Traceback (most recent call last):\n  File 'x', line 4\n"
            "ModuleNotFoundError: No module named 'torch'",
            "the sandbox's server did not start: ModuleNotFoundError: No module named 'torch'",
            SET_UP,
        ),
        ("No module named 'lockstep.sandbox.x'", "No module named 'lockstep.sandbox.x'", ""),
    ],
)
def test_a_box_that_breaks_refuses_grading_and_says_why(
    why: str, seen: str, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *arguments: object, **options: object) -> None:
            raise GraderFault(why)

    monkeypatch.setattr(box, "Box", Broken)
    (finding,) = trial.trial()
    assert (finding.level, finding.seen, mend in finding.mend) == (REFUSED, seen, True)
    assert bool(finding.mend) is bool(mend)


def test_a_box_that_does_not_start_refuses_grading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find", _missing)
    (finding,) = trial.trial()
    assert (finding.level, finding.seen) == (REFUSED, "bubblewrap (bwrap) is not installed")


def on_gpu(**changes: object) -> Outcome:
    """What a run on a GPU says, or something else."""
    rank = replace(RankOutcome(complete=True, values={"total": 1.0, "gradient": 4.0}), **changes)  # type: ignore[arg-type]
    return Outcome(ranks=(rank,), elapsed=2.34)


def test_a_run_on_a_gpu_that_works_says_how_long_it_took() -> None:
    finding = trial.judged_on_gpu(on_gpu())
    assert (finding.level, finding.values) == (OK, {"run_seconds": 2.34})
    assert (finding.seen, finding.follows) == (
        "computed, and met by NCCL, in 2.3 s",
        "`--device cuda` works.",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": {"total": 2.0, "gradient": 4.0}}, "1 rank added up to 2.0, a gradient was 4.0"),
        ({"values": {"total": 1.0, "gradient": 0.0}}, "1 rank added up to 1.0, a gradient was 0.0"),
        ({"complete": False, "values": {}}, "the run did not come back"),
        (
            {"error": StudentError("RuntimeError", "CUDA error: out of memory", (), "")},
            "RuntimeError: CUDA error",
        ),
    ],
)
def test_a_gpu_that_does_not_work_is_told_and_refuses_nothing(changes: dict[str, Any], said: str) -> None:
    finding = trial.judged_on_gpu(on_gpu(**changes))
    assert (finding.id, finding.level, finding.follows) == ("gpu_box", WEAKER, capacity.WITHOUT_GPUS)
    assert said in finding.seen


def test_a_run_on_a_gpu_where_there_is_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "gpu_devices", lambda: ())
    in_a_box, on_a_gpu = trial.trial(1)
    assert (in_a_box.level, on_a_gpu.level) == (OK, WEAKER)
    assert "NVIDIA" in on_a_gpu.seen


@pytest.mark.parametrize(
    ("gpus", "asked"),
    [
        (ONE_GPU, 1),
        (replace(ONE_GPU, usable=0), 0),
        (replace(ONE_GPU, memory_file=False), 0),
        (GOOD.gpus, 0),
    ],
)
def test_a_gpu_is_tried_where_nothing_speaks_against_it(
    gpus: Gpus, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def trial_of(gpus: int) -> list[Finding]:
        tried.append(gpus)
        return []

    monkeypatch.setattr(trial, "trial", trial_of)
    machine = replace(GOOD, gpus=gpus, software=replace(GOOD.software, torch_cuda="13.0"))
    command.tried(machine, command.examine(machine))
    assert tried == [asked]
