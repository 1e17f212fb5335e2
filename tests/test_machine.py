"""`lockstep doctor` on a Debian 13 as it comes, with systemd: what it says there, and what its commands mend.

Only `make machine` runs these tests, in a machine that is emulated and thrown away: they change its kernel's settings.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sandboxed import ROOT

pytestmark = pytest.mark.machine

LOCKSTEP = f"{ROOT}/.venv/bin/lockstep"
BWRAP_PROFILE = Path("/usr/share/apparmor/extra-profiles/bwrap-userns-restrict")
PROFILES = Path("/etc/apparmor.d")


@dataclass(frozen=True)
class Said:
    """What the doctor said: its exit status, and of each finding its level and the command that mends it."""

    status: int
    levels: dict[str, str]
    mends: dict[str, str]


def shell(command: str, user: str) -> subprocess.CompletedProcess[str]:
    """What a user's login shell does with a command."""
    return subprocess.run(
        ["runuser", "--login", user, "--command", command], capture_output=True, text=True, check=False
    )


def doctor(user: str, command: str = f"{LOCKSTEP} doctor", options: str = "--quick") -> Said:
    """What the doctor says, started by that command."""
    done = shell(f"{command} {options} --json", user)
    assert done.stdout.startswith("{"), done.stderr
    findings = {each["id"]: each for each in json.loads(done.stdout)["findings"]}
    return Said(
        done.returncode,
        {name: each["level"] for name, each in findings.items()},
        {name: each["mend"] for name, each in findings.items() if each["mend"]},
    )


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    if os.getuid() != 0 or not Path("/run/systemd/system").is_dir() or not PROFILES.is_dir():
        pytest.fail("`make machine` starts a machine in which these tests can be run")


@pytest.fixture
def settings() -> Iterator[Callable[[str, str], None]]:
    """Changes settings of the kernel; afterwards they are what they were."""
    before: dict[Path, str] = {}

    def change(name: str, value: str) -> None:
        file = Path("/proc/sys", *name.split("."))
        before.setdefault(file, file.read_text())
        file.write_text(value)

    yield change
    for file, value in before.items():
        file.write_text(value)


@pytest.mark.parametrize("options", ["--quick", ""])
def test_root_is_promised_everything(options: str) -> None:
    said = doctor("root", options=options)
    assert said.status == 0
    assert set(said.levels.values()) == {"ok"}


def test_an_ordinary_user_gets_control_groups_by_the_command_that_is_named() -> None:
    said = doctor("student")
    assert {name: level for name, level in said.levels.items() if level != "ok"} == {
        "user": "weaker",
        "control_groups": "weaker",
    }
    lent = doctor("student", said.mends["control_groups"])
    assert (lent.status, lent.levels["control_groups"]) == (0, "ok")
    assert doctor("student", said.mends["user"]).levels["user"] == "ok"


def test_in_a_desktops_terminal_an_ordinary_user_has_control_groups() -> None:
    # A terminal window is a scope in a slice of its user's, to whom systemd gave the slice.
    said = doctor("student", f"systemd-run --quiet --user --scope {LOCKSTEP} doctor")
    assert (said.status, said.levels["control_groups"]) == (0, "ok")


@pytest.mark.parametrize("user", ["root", "student"])
@pytest.mark.parametrize(
    ("name", "value"), [("user.max_user_namespaces", "0"), ("kernel.unprivileged_userns_clone", "0")]
)
def test_namespaces_that_are_switched_off_are_switched_on_by_the_command_that_is_named(
    name: str, value: str, user: str, settings: Callable[[str, str], None]
) -> None:
    settings(name, value)
    refused = doctor(user)
    assert (refused.status, refused.levels["user_namespaces"]) == (1, "refused")
    assert shell(refused.mends["user_namespaces"], user).returncode == 0
    assert doctor(user).status == 0


@pytest.fixture
def profile_of_bubblewrap() -> Iterator[Path]:
    """The profile that Ubuntu loads for bubblewrap, in the place where it has it."""
    place = PROFILES / BWRAP_PROFILE.name
    place.write_bytes(BWRAP_PROFILE.read_bytes())
    subprocess.run(["apparmor_parser", "--replace", place], check=True)
    yield place
    subprocess.run(["apparmor_parser", "--remove", place], capture_output=True, check=False)
    place.unlink()


@pytest.mark.parametrize("user", ["root", "student"])
def test_the_profile_of_bubblewrap_is_taken_away_by_the_command_that_is_named(
    user: str, profile_of_bubblewrap: Path
) -> None:
    refused = doctor(user)
    assert [name for name, level in refused.levels.items() if level == "refused"] == ["apparmor"]
    assert str(profile_of_bubblewrap) in refused.mends["apparmor"]
    grading = shell(f"{LOCKSTEP} check {ROOT}/reference --exercise scaling", user)
    assert grading.returncode != 0
    assert "`lockstep doctor` says what mends it" in grading.stdout + grading.stderr
    assert shell(refused.mends["apparmor"], user).returncode == 0
    assert doctor(user).status == 0
