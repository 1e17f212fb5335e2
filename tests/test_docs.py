"""The documents are true: their commands exist, their links lead somewhere, their example grades."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from lockstep import cli
from lockstep.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of prose just above it."""

    document: Path
    language: str
    text: str
    above: str


def _blocks(document: Path) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [
        Block(document, match[1], match[2], match.string[: match.start()].rstrip().rpartition("\n\n")[2])
        for match in found
    ]


def _commands() -> list[tuple[str, str]]:
    blocks = [block for document in DOCUMENTS for block in _blocks(document) if block.language == "console"]
    return [(block.document.name, line) for block in blocks for line in block.text.splitlines()]


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def _pytest_help() -> str:
    command = [sys.executable, "-m", "pytest", "--help"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.mark.parametrize(("document", "line"), _commands())
def test_a_documented_command_exists(document: str, line: str) -> None:
    assert line.startswith("$ "), f"{document}: {line!r} is no command"
    program, *arguments = shlex.split(line[2:])
    match program:
        case "make":
            assert set(arguments) <= _targets()
        case ".venv/bin/lockstep":
            cli._parser().parse_args(arguments)
        case ".venv/bin/pytest":
            assert (ROOT / arguments[0]).exists()
            options = {argument for argument in arguments[1:] if argument.startswith("-")}
            assert options <= set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", _pytest_help()))
        case ".venv/bin/python":
            command = [sys.executable, *arguments, "--help"]
            subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, check=True)
        case _:
            pytest.fail(f"{document}: nobody knows whether {line[2:]!r} works; teach this test")


def test_a_documented_hash_is_that_of_a_worked_solution() -> None:
    """What a newcomer is shown first must not say that the reference's own report is of another script."""
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (ROOT / "reference").glob("*.py")}
    named = [found for _, line in _commands() for found in re.findall(r"--code-sha256 (\w+)", line)]
    assert named
    assert {*named} <= hashes


def test_the_readme_begins_with_the_two_commands() -> None:
    first = next(block for block in _blocks(ROOT / "README.md"))
    assert first.text == "$ make demo\n$ make test\n"
    assert README.index("make demo") < 600


def test_ci_runs_the_test_command_of_the_readme_then_lint() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert script.index("\nmake test\n") < script.index("\nmake lint\n")


def test_every_make_target_says_what_it_is_for() -> None:
    # `make test` hands its children variables by which a make inside it says which folder it enters.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert {line.split()[0] for line in shown.stdout.splitlines()} == _targets()
    assert all(len(line.split()) > 2 for line in shown.stdout.splitlines())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (document.parent / target).exists(), target


@cache
def _tests() -> set[str]:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    return {
        *(file.name for file in files),
        *(
            name
            for file in files
            for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.M)
        ),
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_and_samples_that_documents_name_exist(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    # The README's are those of an exercise that is yet to be written.
    named = re.findall(r"\btest_\w+(?:\.py)?", text) if document.name != "README.md" else []
    samples = ROOT / "fixtures" / "submissions"
    for listed in re.findall(r"\bsamples? ((?:such as )?`\w+`(?:(?:,| and) `\w+`)*)", text):
        for name in re.findall(r"`(\w+)`", listed):
            assert [*samples.glob(f"*/*/{name}"), *samples.glob(f"*/*/{name}.toml")], name
    assert [name for name in named if name not in _tests()] == []


def test_attacks_that_the_promises_name_exist() -> None:
    corpus = {folder.name[:3] for folder in (ROOT / "tests" / "attacks").iterdir()}
    assert {*re.findall(r"\b[FSTRMX]\d\d\b", (ROOT / "docs" / "security.md").read_text())} <= corpus


def _first_column(heading: str) -> list[str]:
    """The first cells of the table below a line that begins with `heading`, without its header."""
    rows = README[README.index(heading) :].split("\n\n")[0].splitlines()
    return [row.split(" | ")[0].strip("| ") for row in rows[2:]]


def test_the_readme_explains_every_verdict() -> None:
    assert sorted(_first_column("| verdict | it means |")) == sorted(str(verdict) for verdict in Verdict)


def test_the_readme_explains_every_option_of_grading() -> None:
    documented = {cell.strip("`").split()[0] for cell in _first_column("| option | |")}
    shown = _pytest_help()
    group = shown[shown.index("grading distributed-training labs") :].split("\n\n")[0]
    assert documented == set(re.findall(r"^  (--[a-z-]+)", group, re.MULTILINE))


def test_folders_the_readme_names_exist() -> None:
    for cell in _first_column("| folder | |"):
        for name in re.findall(r"`([\w/]+/)`", cell):
            assert (ROOT / name).is_dir()


RIGHT = "def mean(values):\n    return values.mean()\n"
WRONG = "def mean(values):\n    return values.sum()\n"


@pytest.mark.parametrize(("source", "status", "verdict"), [(RIGHT, 0, "passed"), (WRONG, 1, "failed")])
def test_the_exercise_of_the_readme_grades(tmp_path: Path, source: str, status: int, verdict: str) -> None:
    """Whoever adds a lab copies this example: it works as it stands there."""
    for block in _blocks(ROOT / "README.md"):
        if named := re.match(r"`(graders/mean/[\w.]+)`", block.above):
            (tmp_path / named[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / named[1]).write_text(block.text)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mean.py").write_text(source)
    arguments = ["check", "work", "--graders", "graders", "--json", "result.json"]
    done = subprocess.run(
        [sys.executable, "-m", "lockstep.cli", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    (exercise,) = json.loads((tmp_path / "result.json").read_text())["exercises"]
    (check,) = exercise["checks"]
    assert (check["id"], check["verdict"], check["max_points"]) == ("mean_of_values", verdict, 2)
    assert "`mean(values)` is the arithmetic mean of a tensor." in done.stdout or status == 0
