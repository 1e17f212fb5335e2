"""`lockstep verify-report`: what it prints, what it says to a program, and its exit status."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fixtures.reports import KINDS
from fixtures.reports.rework import claims_of
from fixtures.reports.sample import start
from lockstep import cli
from lockstep.reports import command, display
from lockstep.reports.document import document
from lockstep.reports.finding import (
    Finding,
    Judgement,
    advice,
    impossible,
    inconsistent,
    not_verified,
    unusual,
)
from lockstep.reports.model import needs_model
from lockstep.reports.verify import Verification

Report = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "lockstep" / "schemas" / "verify-report-1.schema.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the reports lie; no model is measured, for that takes seconds."""
    monkeypatch.setattr(command, "model_of", lambda report: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def consistent(kind: str = "dataloader", student: str = "ann") -> Report:
    report = copy.deepcopy(start(kind))
    report["student"] = {"id": student}
    return report


def wrong() -> Report:
    """The mean is not that of the readings."""
    report = consistent()
    claims_of(report, "mean_s")[0]["value"] = "3.1416"
    return report


def odd() -> Report:
    report = consistent()
    report["runs"][6]["wall_s"] = report["runs"][0]["wall_s"]
    return report


def write(name: str, report: object) -> str:
    Path(name).write_text(json.dumps(report), encoding="utf-8")
    return name


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the array of `--json`."""
    status = cli.main(["verify-report", "--json", *arguments])
    shown = capsys.readouterr()
    assert shown.err == ""
    array = json.loads(shown.out)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(array)
    return status, array


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["verify-report", *arguments])
    shown = capsys.readouterr()
    assert shown.err == ""
    return status, shown.out


def rules(entry: dict[str, Any], verdict: str) -> set[str]:
    return {finding["rule"] for finding in entry["findings"] if finding["verdict"] == verdict}


def test_a_report_with_nothing_against_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, (entry,) = verified(capsys, write("a.json", consistent()))
    assert status == 0
    assert (entry["file"], entry["verdict"]) == ("a.json", "consistent")
    assert {"S05", "S06"} <= rules(entry, "not verified")
    assert {finding["verdict"] for finding in entry["findings"]} <= {"consistent", "not verified"}


def test_a_wrong_claim_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, (entry,) = verified(capsys, write("a.json", wrong()))
    assert (status, entry["verdict"]) == (1, "inconsistent")
    assert entry["findings"][0]["rule"] == "C01"
    assert "3.1416" in entry["findings"][0]["message"]
    assert entry["findings"][0]["numbers"]


def test_what_was_issued_and_handed_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = consistent()
    attempt = report["attempt"]
    name = write("a.json", report)
    status, (entry,) = verified(
        capsys, name, "--nonce", attempt["nonce"], "--code-sha256", attempt["code_sha256"].upper()
    )
    assert status == 0
    assert not {"S05", "S06"} & {finding["rule"] for finding in entry["findings"]}
    status, (entry,) = verified(capsys, name, "--nonce", "another", "--code-sha256", "0" * 64)
    assert status == 1
    assert {"S05", "S06"} <= rules(entry, "inconsistent")
    arguments = [name, "--code-sha256", "0" * 64, "--code-sha256", attempt["code_sha256"]]
    status, _ = verified(capsys, *arguments)
    assert status == 0


UNREADABLE: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no file"),
    "empty": (b"", "empty"),
    "text": (b"mean 3 s", "not JSON"),
    "cut short": (b'{"schema": "perf-report/1"', "not JSON"),
    "infinite": (b'{"a": Infinity}', "Infinity"),
    "duplicate keys": (b'{"a": 1, "a": 2}', "twice"),
    "deep": (b"[" * 100_000, "deep"),
    "latin-1": (b'{"a": "\xe4"}', "UTF-8"),
    "large": (b" " * (2 << 20), "larger than"),
    "a comma too many": (b'{"a": 1,}', "stands no comma"),
    "single quotes": (b"{'a': 1}", "double quotes only"),
    "two reports": (b"{}\n{}", "all runs go into one"),
    "a list": (b"[]", "holds a list"),
}


@pytest.mark.parametrize(("content", "sentence"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_a_sentence_and_the_others_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, sentence: str
) -> None:
    if content is not None:
        Path("bad.json").write_bytes(content)
    status, (bad, good) = verified(capsys, "bad.json", write("good.json", wrong()))
    assert status == 2
    assert (bad["file"], bad["verdict"]) == ("bad.json", "not verified")
    (finding,) = bad["findings"]
    assert (finding["rule"], finding["verdict"]) == ("S01", "not verified")
    assert sentence in finding["message"]
    assert good["verdict"] == "inconsistent"
    status, shown = printed(capsys, "bad.json", "good.json")
    assert status == 2
    assert shown.startswith("not verified: bad.json\n")
    assert "inconsistent: good.json" in shown
    assert "2 reports: 1 inconsistent, 1 not verified." in shown


def test_a_folder_and_a_pipe_are_no_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe.json")
    status, entries = verified(capsys, ".", "pipe.json", "/dev/zero")
    assert status == 2
    assert {entry["verdict"] for entry in entries} == {"not verified"}


def test_a_report_of_the_wrong_form_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = consistent()
    del report["runs"][0]["wall_s"]
    status, (entry,) = verified(capsys, write("a.json", report))
    assert (status, entry["verdict"]) == (1, "inconsistent")
    assert {finding["rule"] for finding in entry["findings"]} == {"S01"}
    assert "wall_s" in entry["findings"][0]["message"]


def test_copies_are_found_between_students_and_not_within_one_or_a_team(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ann, ben = write("ann.json", consistent()), write("ben.json", consistent(student="ben"))
    status, entries = verified(capsys, ann, ben)
    assert status == 1
    assert [rules(entry, "inconsistent") for entry in entries] == [{"F11"}, {"F11"}]
    assert "ben" in entries[0]["findings"][0]["message"]
    assert verified(capsys, ann)[0] == verified(capsys, ben)[0] == 0

    together = {**consistent(), "student": {"id": "ann", "team": ["ann", "ben"]}}
    assert verified(capsys, write("team.json", together), ben)[0] == 0
    status, entries = verified(capsys, ann, ann)
    assert (status, len(entries)) == (0, 2)


def test_five_reports_of_one_student(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [write(f"{kind}.json", consistent(kind)) for kind in KINDS]
    status, entries = verified(capsys, *names)
    assert [entry["file"] for entry in entries] == names
    assert status == 0, entries
    assert not any(finding["rule"] == "F11" for entry in entries for finding in entry["findings"])


def test_a_device_table_and_a_reference_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write("a.json", consistent())
    Path("gpus.toml").write_text("")
    for arguments in (["--devices", "gpus.toml"], ["--reference", write("r.json", consistent())]):
        assert verified(capsys, name, *arguments)[0] == 0
    # A reference of another kind has nothing to say.
    assert verified(capsys, name, "--reference", write("r.json", consistent("amp")))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--devices", "missing.toml"], "device table missing.toml cannot be used"),
        (["--devices", "broken.toml"], "device table broken.toml cannot be used"),
        (["--reference", "missing.json"], "reference report missing.json cannot be read"),
        (["--reference", "broken.toml"], "reference report broken.toml cannot be read"),
        (["--reference", "form.json"], "reference report form.json is none"),
    ],
)
def test_what_does_not_help_is_refused_in_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    Path("broken.toml").write_text("[[gpu")
    write("form.json", {})
    assert cli.main(["verify-report", write("a.json", consistent()), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("lockstep: ")
    assert shown.err.count("\n") == 1
    assert sentence in shown.err


@pytest.mark.parametrize("arguments", [[], ["--code-sha256", "abc", "a.json"]])
def test_a_wrong_option_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["verify-report", *arguments])
    assert stopped.value.code == 2
    assert "usage: lockstep verify-report" in capsys.readouterr().err


def test_files_beside_the_report_are_read_from_its_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = consistent()
    report["artifacts"] = [{"path": "plot.png", "sha256": "0" * 64}]
    Path("sub").mkdir()
    Path("plot.png").write_bytes(b"of somebody else")
    Path("sub/plot.png").write_bytes(b"mine")
    _, (entry,) = verified(capsys, write("sub/a.json", report))
    (finding,) = [
        each for each in entry["findings"] if each["rule"] == "S06" and "plot.png" in each["message"]
    ]
    assert finding["verdict"] == "inconsistent"


def test_only_reports_with_gpus_have_their_model_measured(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(command, "model_of", lambda report: measured.append(report.kind))
    for kind in KINDS:
        verified(capsys, write("a.json", consistent(kind)))
    assert measured == [kind for kind in KINDS if needs_model(document(consistent(kind)))]
    assert "dataloader" not in measured


# What a person sees


def told(*findings: Finding, file: str = "a.json") -> command.Told:
    """As if the rules had found these."""
    return command.Told(file, Verification(tuple(findings)), document(consistent()))


def shown(*told: command.Told, width: int = 80) -> str:
    from io import StringIO

    from rich.console import Console

    stream = StringIO()
    Console(file=stream, width=width, color_system=None, highlight=False, markup=False).print(
        display.page(told)
    )
    return stream.getvalue()


def finding(made: Finding, rule: str) -> Finding:
    return Finding(made.judgement, made.message, made.numbers, rule)


ALL = (
    finding(not_verified("The GPU is not in the table. More on that."), "P01"),
    finding(advice("Print more digits."), "F02"),
    finding(unusual("The readings are evenly spaced."), "F04"),
    finding(not_verified("The GPU is not in the table. And so on."), "P02"),
    finding(impossible("Faster than the GPU."), "P04"),
    finding(inconsistent("The mean is another."), "C01"),
    finding(not_verified("Nobody said which nonce was issued."), "S05"),
)


def test_the_gravest_comes_first_and_what_was_left_open_last() -> None:
    page = shown(told(*ALL))
    assert page.splitlines()[0] == "impossible: a.json"
    order = ["Faster than", "mean is another", "evenly spaced", "more digits", "not verified:"]
    assert [page.index(words) for words in order] == sorted(page.index(words) for words in order)
    assert "P04 impossible (costs points)" in page
    assert "F04 unusual (a person reads it; costs nothing)" in page
    assert "F02 advice\n" in page
    assert "P01, P02: The GPU is not in the table; S05: Nobody said which nonce was issued." in " ".join(
        line.removeprefix("  │ ") for line in page.splitlines()
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = finding(inconsistent("word " * 60 + "x" * 300), "C01")
    page = shown(told(long, *ALL, file="folder/" * 30 + "a.json"), width=width)
    assert max(map(len, page.splitlines())) <= width


def test_the_last_line_says_what_it_comes_to() -> None:
    fine, bad = told(ALL[0]), told(ALL[5])
    unread = command.Told("b", Verification((ALL[0],)), readable=False)
    assert shown(fine).splitlines()[-1] == "1 report: 1 consistent. Nothing here costs points."
    assert "2 reports: 1 consistent, 1 inconsistent. Inconsistent and" in shown(fine, bad)
    assert "2 reports: 1 consistent, 1 not verified. What cannot be read" in shown(fine, unread)


def test_a_consistent_gpu_report_is_not_called_true(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in KINDS:
        _, page = printed(capsys, write("a.json", consistent(kind)))
        without = page.replace("not verified", "")
        assert "verified" not in without
        assert "proven" not in without
        if consistent(kind)["env"]["gpus"]:
            assert "numbers cannot prove" in " ".join(page.replace("│", " ").split())


HOSTILE = "x\x1b[2J\x1b]0;title\x07\r::error::forged\u202e\n##[error]y"


def test_texts_of_the_report_and_names_of_files_are_made_harmless(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = consistent(student=HOSTILE)
    report["claims"][0]["config"] = {HOSTILE: HOSTILE}
    name = write(f"{HOSTILE.replace('/', '')}.json", report)
    other = write("b.json", consistent(student=f"{HOSTILE}2"))
    for arguments in ([name, other], [name, other, "--json"]):
        cli.main(["verify-report", *arguments])
        out = capsys.readouterr().out
        assert not {character for character in out if not character.isprintable()} - {"\n"}
        assert not [line for line in out.splitlines() if line.lstrip().startswith(("::", "##["))]


def test_a_name_that_is_not_utf_8_can_be_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"\xff.json")
    Path(name).write_text(json.dumps(consistent()))
    _, (entry,) = verified(capsys, name)
    assert entry["file"] == "\ufffd.json"
    assert printed(capsys, name)[0] == 0


def test_numbers_that_json_lacks_are_text() -> None:
    entry = told(finding(inconsistent("x", ratio=float("inf"), all=[float("nan")]), "C01")).to_json()
    assert json.loads(json.dumps(entry, allow_nan=False))["findings"][0]["numbers"] == {
        "ratio": "inf",
        "all": ["nan"],
    }


@pytest.mark.parametrize(
    ("judgements", "status"),
    [
        ((), 0),
        ((Judgement.NOT_VERIFIED, Judgement.CONSISTENT, Judgement.UNUSUAL), 0),
        ((Judgement.UNUSUAL, Judgement.INCONSISTENT), 1),
        ((Judgement.IMPOSSIBLE,), 1),
    ],
)
def test_the_exit_status(judgements: tuple[Judgement, ...], status: int) -> None:
    assert command.exit_status([told(*(Finding(judgement, "x") for judgement in judgements))]) == status


# Speed: what is not imported takes no time


@pytest.mark.parametrize("option", [["--json"], []])
def test_neither_torch_nor_numpy_is_imported(tmp_path: Path, option: list[str]) -> None:
    report = tmp_path / "a.json"
    report.write_text(json.dumps(consistent()))
    heavy = "torch numpy scipy matplotlib safetensors pytest yaml requests"
    program = (
        "import sys\nfrom lockstep import cli\nstatus = cli.main(sys.argv[1:])\n"
        f"assert not set({heavy!r}.split()) & sys.modules.keys(), sorted(sys.modules)\nassert status == 0"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "verify-report", str(report), *option],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_nobody_reads_is_no_traceback(options: list[str]) -> None:
    report = str(ROOT / "reference" / "reports" / "loader.json")
    command = [sys.executable, "-m", "lockstep.cli", "verify-report", report, *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=300)
    assert said == b""
    assert process.returncode != 0
