"""Exercise 8, the manifests: a PyTorchJob and an Azure job, read as data, and whether all launch files agree.

What a manifest starts is never run here. Only a script over one of Azure's Python SDKs is: in the sandbox, where the
probe stands in for the SDK.
"""

from __future__ import annotations

from graders.launch.agreement import REPORT, disagreements, report_disagreements
from graders.launch.azure import read_azure
from graders.launch.azure_script import read_script, script_path
from graders.launch.jobs import cluster_job, run_job
from graders.launch.launcher import launcher_fault
from graders.launch.manifests import Claim, Reading, readable
from graders.launch.pytorchjob import read_pytorchjob
from graders.launch.script_options import option_fault
from graders.launch.scripts import MULTI, multi_size
from graders.launch.timeouts import written_fault
from lockstep.check import Check
from lockstep.verdict import CheckEnded, NotChecked


def test_pytorchjob(check: Check) -> None:
    """`launch/pytorchjob.yaml` is a PyTorchJob that the API server, the operator and its pods can work with."""
    conclude(check, read_pytorchjob(check.submission.files))


def test_azure(check: Check) -> None:
    """`launch/azure_job.yml` is a command job of Azure ML that starts the training."""
    conclude(check, azure_reading(check))


def test_consistent(check: Check) -> None:
    """All launch files start equally many processes."""
    multi, job = claimed(f"launch/{MULTI}", multi_size(check)), read_pytorchjob(check.submission.files)
    if multi is None:
        raise open_yet("multi_node")
    if job.claim is None or not (job.claim.worlds or job.claim.odds):
        raise open_yet("pytorchjob")
    others = [claim for claim in (cluster_claim(check, multi), azure_claim(check)) if claim is not None]
    if job.problems and disagreements(multi, [job.claim])[0]:
        raise open_yet("pytorchjob")  # one slip, one message
    problems, notes = disagreements(multi, [job.claim, *others])
    more, told = report_disagreements(check.submission.files.get(REPORT), multi)
    conclude(check, Reading("The launch files", problems + more, notes + told))


def open_yet(name: str) -> NotChecked:
    """What ends the comparison when the file of another check leaves open how many processes it starts."""
    message = f"Not looked at, because {name} leaves open how many processes there are."
    return NotChecked(message, f"Mend {name} first.")


def claimed(file: str, size: tuple[int, int] | None) -> Claim | None:
    """What a script comes to that starts so many processes on each of so many nodes."""
    if size is None:
        return None
    nodes, each = size
    how = f"{nodes} node{'s' if nodes != 1 else ''} x {each} process{'es' if each != 1 else ''}"
    return Claim(file, frozenset({nodes * each}), how, nodes)


def cluster_claim(check: Check, multi: Claim) -> Claim | None:
    """What the job of the cluster comes to: its GPUs, of which each has a process.

    Where that is another number than the others', it has to start as many: if not, `cluster_header` says why.
    """
    found = cluster_job(check)
    if found is None:
        return None
    path, header = found
    claim = claimed(path, (header.nodes, header.gpus_per_node or 0))
    if claim is None or claim.worlds & multi.worlds:
        return claim
    return claim if run_job(check, path, header).fault is None else None


def azure_claim(check: Check) -> Claim | None:
    """What the Azure job comes to, where there is one and nothing is wrong with it."""
    try:
        reading = azure_reading(check)
    except CheckEnded:
        return None  # the check `azure` says why
    return None if reading.problems else reading.claim


def azure_reading(check: Check) -> Reading:
    """What the Azure job says: the YAML file, or else the script over an SDK."""
    reading, path = read_azure(check.submission.files), script_path(check.submission.files)
    # Who wrote a script leaves the template of the YAML file as it was.
    if reading is not None and (path is None or readable(check.submission.files[reading.file])):
        return reading
    if path is None:
        check.fail(
            "launch/azure_job.yml: there is no such file.",
            hint="Write a command job of Azure ML's CLI v2: `type: command`, `command`, `code`, `environment`, `compute`.",
        )
    seen = check.run("azure_script", values={"script": path})
    return read_script(path, seen.ranks[0].values, check.submission.files)


def conclude(check: Check, reading: Reading) -> None:
    """End the check with the problems of a manifest, or pass it with its notes; half passed where it slips."""
    for note in dict.fromkeys(reading.notes):
        check.note(note)
    if reading.problems:
        check.fail(*reading.told())
    if reading.slips:
        check.fail(*reading.told(), points=check.points / 2)
    for where, start in reading.starts.items():
        fault = launcher_fault(where, start, reading.claim, check.submission.files)
        fault = fault or written_fault(where, start)
        if fault is None and start.script:
            nodes = [start.arguments] * (2 if where in reading.apart else 1)
            fault = option_fault(check, where, start.script, nodes)
        if fault is not None:
            check.fail(fault.message, fault.hint, points=check.points / 2)
