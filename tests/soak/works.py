"""The twenty submissions of the soak: right, unusual but right, wrong, crashing, hanging and hostile ones.

What each must come to is said where the demo and the tests of attacks say it: in `fixtures/submissions/` and in
`tests/attacks/`. Of each only some checks are made, so that a grading takes a second or two.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from fixtures import build, expect
from lockstep.grading import Options, Silent, grade
from lockstep.result import CheckResult, Result
from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict
from tests.attack_corpus import SHORT_SECONDS, Attack, all_attacks
from tests.samples import impatient_checks
from tests.sandboxed import ROOT

HANGING = "hanging"
MEMORY_BOMB = "attacks/R02_memory_bomb"


@dataclass(frozen=True)
class Work:
    """A submission, and the checks of one exercise that are made of it.

    `source` is "reference", "correct/NAME", "mistakes/NAME" or "attacks/NAME", as in the folders of the samples.
    """

    kind: str
    exercise: str
    source: str
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return self.source if self.source != "reference" else f"reference/{self.exercise}"


WORKS = (
    Work("right", "scaling", "reference", ("effective_batch_size", "speedup", "karp_flatt")),
    Work("right", "lfw_dataset", "reference", ("length", "items_are_images", "transform_applied")),
    Work("right", "ddp_train", "reference", ("weights_in_sync", "gradients_averaged", "really_communicates")),
    Work("unusual", "lfw_dataset", "correct/os_walk_with_utils", ("length", "items_are_images", "lazy")),
    Work("unusual", "ddp_train", "correct/reduce_by_hand", ("weights_in_sync", "really_communicates")),
    Work("unusual", "data_parallel", "correct/class_timer", ("same_output", "timing_is_sound")),
    Work("unusual", "fashion_trainer", "correct/functional", ("eval_mode", "returns_mean_loss")),
    Work("wrong", "lfw_dataset", "mistakes/length_off_by_one", ("length", "transform_applied")),
    Work("wrong", "lfw_dataset", "mistakes/keeps_handles_open", ("length", "lazy")),
    Work("wrong", "ddp_train", "mistakes/never_wraps", ("weights_in_sync", "sampler_disjoint")),
    Work("wrong", "ddp_train", "mistakes/no_wait_for_the_file", ("weights_in_sync", "checkpoint")),
    Work("wrong", "data_parallel", "mistakes/no_synchronise", ("same_output", "timing_is_sound")),
    Work("wrong", "launch", "mistakes/job_wrker", ("pytorchjob", "azure")),
    Work("crashing", "lfw_dataset", "attacks/R05_segmentation_fault", ("transform_applied",)),
    Work("crashing", "ddp_train", "attacks/R14_leaves_in_the_middle", ("weights_in_sync",)),
    Work(HANGING, "lfw_dataset", "attacks/R01_endless_loop", ("transform_applied",)),
    Work(HANGING, "ddp_train", "mistakes/deadlock_on_uneven_shares", ("uneven_data",)),
    Work("hostile", "lfw_dataset", MEMORY_BOMB, ("workers",)),
    Work("hostile", "lfw_dataset", "attacks/F24_daemon_that_rewrites", ("transform_applied",)),
    Work("hostile", "lfw_dataset", "attacks/T13_burns_the_next_ones_time", ("transform_applied",)),
)
EXERCISES = tuple(sorted({work.exercise for work in WORKS}))


def write(work: Work, folder: Path, canary: Path) -> Path:
    """Write the submission into `folder`; hostile ones try to change `canary`."""
    match work.source.split("/"):
        case ["reference"]:
            shutil.copytree(ROOT / "reference", folder, ignore=shutil.ignore_patterns("__pycache__"))
            return folder
        case ["attacks", name]:
            return _attack(name).build(folder, canary)
        case _:
            return build.build(_sample(work), folder)


def graded(work: Work, folder: Path, seed: int, box: Box) -> Result:
    """Grade it as `lockstep` does, in a sandbox that is lent to it; one that hangs is waited for briefly."""
    options = Options(folder, exercises=(work.exercise,), checks=work.checks, seed=seed, world_sizes=(2,))
    with impatient_checks(SHORT_SECONDS) if work.kind == HANGING else contextlib.nullcontext():
        return grade(options, Silent(), box)


def is_too_big(work: Work, machine: str) -> bool:
    """Whether the machine has less than the run may take: that it takes too much is not held against it there."""
    return work.source == MEMORY_BOMB and machine == "memory-tight"


def surprises(work: Work, machine: str, result: Result) -> list[str]:
    """How the result differs from what this submission must come to, a sentence each."""
    if is_too_big(work, machine):
        return [
            f"{check.id} {check.verdict}" for check in checks_of(result) if check.verdict is not Verdict.FAULT
        ]
    match work.source.split("/"):
        case ["reference"]:
            return expect.reference_surprises(result)
        case ["attacks", name]:
            return [text for check in checks_of(result) for text in _attack_surprises(_attack(name), check)]
        case _:
            return expect.surprises(_sample(work), result, graded=work.checks)


def checks_of(result: Result) -> tuple[CheckResult, ...]:
    """The checks of all exercises."""
    return tuple(check for exercise in result.exercises for check in exercise.checks)


def _attack_surprises(attack: Attack, check: CheckResult) -> list[str]:
    if check.verdict in attack.about["verdict"] and check.points == 0:
        return []
    return [f"{check.id} {check.verdict}, {check.points:g} points, of an attack: {check.message}"]


def _attack(name: str) -> Attack:
    (attack,) = (attack for attack in all_attacks() if attack.name == name)
    return attack


def _sample(work: Work) -> build.Sample:
    """The sample; of what it must fail, only the checks that are made count here."""
    kind, name = work.source.split("/")
    (sample,) = (
        sample
        for sample in build.all_submissions(work.exercise)
        if sample.name == name and sample.kind == kind.removesuffix("s")
    )
    return sample
