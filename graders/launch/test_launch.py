"""The judge of exercise 8, its scripts: what they start where, and whether two nodes come together.

The manifests for Kubernetes and Azure have a judge of their own, test_manifests.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graders.launch import jobs, scripts
from graders.launch.fault import Fault
from graders.launch.header_slips import placeholders
from graders.launch.reach import reach_fault
from graders.launch.script_options import option_fault
from graders.launch.scripts import MULTI, SINGLE
from graders.launch.starts import NodeRun, read_run
from graders.launch.timeouts import started_fault
from graders.launch.workers import read_workers, together_fault
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.sandbox.starvation import LONGEST
from lockstep.wire import Json

# Two nodes that come together do so in about a second; the rest is for a busy machine.
MEETING_SECONDS = 20.0


def test_single_node(check: Check) -> None:
    """torchrun_single.sh starts the training with torchrun on one node."""
    path = scripts.insist_on(check, SINGLE)
    chosen = scripts.run_single(check, path)
    if chosen.fault:
        scripts.end(chosen.fault)
    start = next(start for run in chosen.runs for start in run.starts if start.kind == "torchrun")
    _modernise(check, chosen.runs)
    if start.nproc == 1:
        check.note("It starts one process; --nproc-per-node says how many.")
    if start.nproc and "NPROC" not in scripts.launch_text(check).replace("NPROC_", ""):
        _note_count(check, path, start.nproc)
    _note_arguments(check, path)
    timeout = started_fault(f"`bash {path}`", [start], scripts.launch_text(check))
    _leave_half(check, timeout or _refused(check, path, chosen))


def test_multi_node(check: Check) -> None:
    """torchrun_multi.sh starts two processes on each of two nodes, which agree on where to meet."""
    path = scripts.insist_on(check, MULTI)
    chosen, _ = scripts.run_multi(check, path)
    if chosen.fault:
        scripts.end(chosen.fault)
    start = next(start for run in chosen.runs for start in run.starts if start.kind == "torchrun")
    _modernise(check, chosen.runs)
    if start.nodes[0] < start.nodes[1]:
        check.note(
            "--nnodes MIN:MAX lets a training begin before all nodes are there; for a fixed number write one."
        )
    if start.backend != "static" and start.rdzv_id == "none":
        check.note(
            "Give the job an --rdzv-id of its own, so that another one at the same endpoint is not mixed with it."
        )
    if start.script.startswith(("/", "~")) and not start.there:
        check.note(f"{start.script} is a path of one machine; begin from the folder of the script instead.")
    if words := scripts.arguments_of(chosen.way[0]):
        check.note(f"It was run as `bash {path} {' '.join(words)}`.")


def _modernise(check: Check, runs: Sequence[NodeRun]) -> None:
    if any(start.program.endswith("launch") for run in runs for start in run.starts):
        check.note("torch.distributed.launch is deprecated: torchrun takes the same options.")
    if folders := sorted({folder for run in runs for folder in run.elsewhere}):
        check.note(
            f"{folders[0]} only exists on one machine; it was taken for the folder you handed in. A script finds its own "
            'with "$(dirname "$0")".'
        )


def _note_arguments(check: Check, path: str) -> None:
    """The template hands its arguments on; who writes them out, or reads them, has done nothing wrong."""
    text = scripts.source(check, path)
    if not re.search(r"\$\{?[@*1-9]", text):
        check.note(
            f'{path} hands no arguments on: with "$@" behind the script, what stands behind {path} reaches it.'
        )
    elif re.search(r"""\.py[^\n#]{0,200} "?\$\{?1\}?"?[ \t]*$""", text, re.MULTILINE) and not re.search(
        r"\$\{?[@*2-9]|\bshift\b", text
    ):
        check.note(f'{path} hands on the first of its arguments alone: "$@" are all of them.')
    elif re.search(r"""(?<!["'\w\\])\$(?:@|\{@\})(?!["'\w])""", text):
        check.note(
            f'{path} has $@ without quotes, which tears a path with a blank in two; "$@" keeps it whole.'
        )
    if re.search(r"cd \$\(dirname \$", text):
        check.note(
            f'Below a folder with a blank in its name {path} goes astray: write cd "$(dirname "$0")/..".'
        )


def _note_count(check: Check, path: str, count: int) -> None:
    """The template's NPROC; a number that is written out is a number of processes as well."""
    if re.search(rf"--nproc[-_]per[-_]node[ =]{count}\b", scripts.source(check, path)):
        check.note(
            f'It starts {count} process{"es" * (count != 1)}, whatever NPROC says: with "${{NPROC:-{count}}}" whoever '
            "calls it may say another number."
        )


def _leave_half(check: Check, fault: Fault | None) -> None:
    """End the check with half of its points for what would only show where the training is a real one."""
    if fault is not None:
        check.fail(fault.message, fault.hint, points=check.points / 2)


def test_multi_node_runs(check: Check) -> None:
    """Two nodes that run torchrun_multi.sh train together: four processes add up their numbers."""
    path = scripts.insist_on(check, MULTI)
    chosen, lab = scripts.run_multi(check, path)
    if chosen.fault:
        scripts.end(chosen.fault)
    numbers = [int(number) for number in check.rng.integers(1, 1 << 40, 4)]
    first = chosen.runs[0]
    # One that starts the other node as well runs on the first alone.
    from_one = len({start.node for start in first.starts}) > 1
    way = chosen.way[:1] if from_one else chosen.way
    values: dict[str, Json] = {
        **lab.values([]),
        "way": [dict(run) for run in way],
        "numbers": list(numbers),
        "seconds": MEETING_SECONDS,
    }
    # On paper they would meet. That they do not must be seen twice: half a dozen processes that look for one another
    # within a second were once, in some thousand gradings of right scripts, not there in time.
    for _ in range(2):
        seen = check.run(
            "carry_out",
            values=values,
            data=lab.data(),
            files=scripts.missing_files(check),
            seconds=LONGEST * MEETING_SECONDS + 10.0,
        )
        told = seen.ranks[0].values
        workers = read_workers(told.get("workers"))
        fault = together_fault(path, _nodes(told.get("scripts")), workers, sum(numbers))
        if fault is None:
            break
    if fault:
        scripts.end(fault)
    _leave_half(check, _elsewhere_fault(check, path, chosen))


def _elsewhere_fault(check: Check, path: str, chosen: scripts.Chosen) -> Fault | None:
    """What would keep real nodes from training together that let these do so."""
    starts = [start for run in chosen.runs for start in run.starts if start.kind == "torchrun"]
    where, text = f"`bash {path}`", scripts.launch_text(check)
    found = started_fault(where, starts, text) or reach_fault(where, starts, text)
    return found or _refused(check, path, chosen)


def _refused(check: Check, path: str, chosen: scripts.Chosen) -> Fault | None:
    """An argument with which the script does not train; not known where it may be one that was only handed on here."""
    starts = [start for run in chosen.runs for start in run.starts if start.kind == "torchrun"]
    start = starts[0]
    handed = {word for run in chosen.way for word in scripts.arguments_of(run)}
    if handed & set(start.arguments):
        return None
    nodes = list({start.node: start.arguments for start in reversed(starts)}.values())[::-1]
    return option_fault(check, f"`bash {path}`", start.script, nodes, scripts.source(check, path))


def _nodes(value: Json) -> Sequence[NodeRun]:
    return [read_run(run) for run in elements(value)]


def test_cluster_header(check: Check) -> None:
    """The file for the cluster asks for what it then starts: nodes, tasks, GPUs and a limit on the time."""
    found = jobs.find_jobs(check)
    check.expect(
        len(found) > 0,
        "There is none of launch/train.slurm, launch/train.pbs and launch/train.lsf in what you handed in.",
        "One is enough: the one for the scheduler of your cluster.",
    )
    looked_at = []
    for path, header in found:
        fault = jobs.header_fault(path, header)
        if fault is None:
            job = jobs.run_job(check, path, header)
            fault = job.fault
            if fault is None:
                for remark in (*header.remarks, *placeholders(header)):
                    check.note(remark)
                _leave_half(check, jobs.slip(check, path, header, job.runs))
                return
        looked_at.append(fault)
    # An untouched file of the template beside one's own comes least far.
    scripts.end(max(looked_at, key=lambda fault: fault.stage))
