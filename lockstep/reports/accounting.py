"""Rules on what a run must add up to by itself: its samples and steps, the shares of its processes, its accuracies."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.reports.counts import images_per_step, of_run, process_count, ways_to_count_steps
from lockstep.reports.document import Config, Report, Run
from lockstep.reports.finding import Finding, few, inconsistent
from lockstep.reports.rule import Facts, Rule

FLOAT32_EPS = 2.0**-23
STEPS_OF_AN_EPOCH = "C08"


# C07: samples and steps


def _samples(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_samples_of_runs(report))


def _samples_of_runs(report: Report) -> Iterator[Finding]:
    for run in report.runs:
        ways = ways_to_count_steps(report, run)
        if ways and not any(_holds(report, run, per_step) for per_step in ways):
            per_step = ways[0]
            least, most = _least_and_most(report, run, per_step)
            yield inconsistent(
                f"{of_run(report, run)}: {run.steps} steps of {per_step} images make {max(least, 1)} to {most} images "
                f"(steps x batch x processes; the last batch of an epoch may be short), but samples is {run.samples}. "
                "steps counts the batches of one process, samples the images of all of them; a batch size is the images "
                "of one forward pass.",
                samples=run.samples,
                steps=run.steps,
                images_per_step=per_step,
            )


def _holds(report: Report, run: Run, per_step: int) -> bool:
    """Whether the steps of a run make its samples, at so many images a step."""
    least, most = _least_and_most(report, run, per_step)
    return least <= run.samples <= most


def _least_and_most(report: Report, run: Run, per_step: int) -> tuple[int, int]:
    return _ragged(report, run, per_step), run.steps * per_step + per_step


def _ragged(report: Report, run: Run, per_step: int) -> int:
    """The fewest images in the steps of a run, where the last batch of every epoch may hold a single one."""
    if "iterable_dataset" in report.declared:
        # Every loader worker has an end of its own, and a short batch there.
        return run.steps
    epochs = run.epochs
    if epochs is None:
        items = report.workload.get("dataset_n")
        epochs = math.ceil(run.steps * per_step / int(items)) + 1 if isinstance(items, int | float) else 1
    return (run.steps - epochs) * per_step


# C08: steps of an epoch, and shares of the processes


def _epochs(report: Report, facts: Facts) -> Iterator[Finding]:
    if "iterable_dataset" in report.declared:
        return
    yield from few(_steps_per_epoch(report))
    yield from few(_shares(report))


def _steps_per_epoch(report: Report) -> Iterator[Finding]:
    items = report.workload.get("dataset_n")
    if not isinstance(items, int | float):
        return
    for run in report.runs:
        ways = ways_to_count_steps(report, run)
        if run.epochs is None or not ways:
            continue
        per_epoch = run.steps / run.epochs
        # What is a step is the same for the samples and for the epochs.
        meant = [per_step for per_step in ways if _holds(report, run, per_step)] or ways[:1]
        if any(_fills(per_epoch, items / per_step, run.config) for per_step in meant):
            continue
        per_step = meant[0]
        least, most = _batches_of_an_epoch(items / per_step, run.config)
        processes = process_count(report, run)
        alone = math.ceil(items * processes / per_step)
        message = (
            f"{of_run(report, run)}: {per_epoch:g} steps an epoch, expected {least} to {most}: {items:g} images in steps "
            f"of {per_step}."
        )
        if processes > 1 and abs(per_epoch - alone) <= 1:
            message += (
                f" {alone} is what one process alone needs: every process seems to have gone through the whole data set. "
                "Usual causes: no DistributedSampler in the loader, steps added up over the processes, or a batch size that "
                "is told for all processes together."
            )
        else:
            message += (
                " If the run was cut off, or saw a part of the data set only, leave epochs out, or set dataset_n to the "
                "images it went through."
            )
        yield inconsistent(message, steps=run.steps, epochs=run.epochs, least=least, most=most)


def _fills(per_epoch: float, batches: float, config: Config) -> bool:
    """Whether an epoch of so many batches may have had so many steps."""
    least, most = _batches_of_an_epoch(batches, config)
    # dataset_n may count the images that were gone through: the rule's message says so.
    return least <= per_epoch <= most or math.floor(batches) <= per_epoch <= math.ceil(batches) + 1


def _batches_of_an_epoch(batches: float, config: Config) -> tuple[int, int]:
    """The fewest and the most steps of an epoch, where Lightning's limit_train_batches leaves out the rest.

    A whole number counts batches; a fraction is that of the batches that there are, rounded down before or not.
    """
    least, most = math.floor(batches), math.ceil(batches) + 1
    limit = config.get("limit_train_batches")
    if isinstance(limit, int) and limit >= 1:
        return min(limit, least), min(limit, most)
    if isinstance(limit, float) and 0 < limit < 1:
        return math.floor(least * limit), math.ceil(batches * limit) + 1
    return least, most


def _shares(report: Report) -> Iterator[Finding]:
    for run in report.runs:
        if not run.rank_samples:
            continue
        processes = process_count(report, run)
        if report.kind == "ddp_scaling" and len(run.rank_samples) != processes:
            yield inconsistent(
                f"{of_run(report, run)}: rank_samples has {len(run.rank_samples)} entries for {processes} processes.",
                rank_samples=len(run.rank_samples),
                processes=processes,
            )
            continue
        per_step = images_per_step(report, run)
        epochs = run.epochs or 1
        padding = (per_step or 1) * epochs
        batch = max(1, padding // max(1, processes))
        spread = max(run.rank_samples) - min(run.rank_samples)
        if spread > batch:
            yield inconsistent(
                f"{of_run(report, run)}: the processes got {min(run.rank_samples)} to {max(run.rank_samples)} images. A "
                f"DistributedSampler gives all the same number, give or take a batch an epoch ({batch}). With another way "
                "of sharing out, declare iterable_dataset.",
                spread=spread,
                allowed=batch,
            )
        elif abs(sum(run.rank_samples) - run.samples) > padding:
            yield inconsistent(
                f"{of_run(report, run)}: rank_samples add up to {sum(run.rank_samples)}, samples is {run.samples}. samples "
                "counts the images of all processes together.",
                rank_samples=sum(run.rank_samples),
                samples=run.samples,
            )


# C10: ranges


def _ranges(report: Report, facts: Facts) -> Iterator[Finding]:
    accuracies: dict[str, list[tuple[Config, float]]] = {"accuracy_pct": [], "acc5_pct": []}
    for claim in report.claims:
        if claim.what not in accuracies or claim.value is None:
            continue
        whole = 1.0 if claim.unit == "1" else 100.0
        if not -whole * FLOAT32_EPS <= claim.value.value <= whole * (1 + FLOAT32_EPS):
            yield inconsistent(
                f"{claim.name}: an accuracy lies between 0 and {whole:g}. Was it told in percent while unit says otherwise?",
                value=claim.value.value,
                most=whole,
            )
        accuracies[claim.what].append((claim.config, claim.value.value / whole))
    for config, first in accuracies["accuracy_pct"]:
        for other, five in accuracies["acc5_pct"]:
            if config == other and not first <= five + 4 * FLOAT32_EPS:
                yield inconsistent(
                    f"accuracy_pct is {100 * first:g} %, acc5_pct {100 * five:g} % for the same configuration: who is right "
                    "with the first answer is right with the first five. Were the two mixed up?",
                    accuracy=first,
                    acc5=five,
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="C07",
        demands="The images of a run fit its steps and its batch size.",
        threshold="(steps - epochs) x B <= samples <= steps x B + B, where B is the batch size times the processes, "
        "and times grad_accum where that is in config and steps are the optimizer's",
        why="The last batch of an epoch may be short, and a sampler may pad it.",
        honest="None known; drop_last on or off both fit.",
        examine=_samples,
    ),
    Rule(
        id=STEPS_OF_AN_EPOCH,
        demands="An epoch has as many steps as the data set fills, and the processes get equal shares.",
        threshold="floor(n/B) to ceil(n/B) + 1 steps an epoch, of which Lightning's limit_train_batches may leave a part or a "
        "number; shares within one batch an epoch",
        why="torch.utils.data.DistributedSampler pads or cuts all shares to one length. As many steps as on one process "
        "is how a training without a sampler shows.",
        honest="None known for map-style data sets; iterable ones are declared.",
        examine=_epochs,
        kinds=frozenset({"dataloader", "ddp_scaling", "amp", "lightning"}),
    ),
    Rule(
        id="C10",
        demands="0 <= accuracy <= top-5 accuracy <= 100 %.",
        threshold="a few units in the last place of a float32",
        why="The logs that accuracies are read from hold float32.",
        honest="None known.",
        examine=_ranges,
    ),
)
