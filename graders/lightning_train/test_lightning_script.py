"""The judge of exercise 5, the script in one process: its data, its precision, and what else it is told.

Two processes of it have a judge of their own, test_lightning_ranks.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from fixtures import fashion_mnist
from graders.lightning_train import expected
from graders.lightning_train.expected import Item
from graders.lightning_train.figures import logs_no_constant, logs_no_sum, watches_the_right_way
from graders.lightning_train.left import has_table, writes_its_report
from graders.lightning_train.runs import FEW, LIMITS, drawn_size, fitted, run_script
from graders.lightning_train.unsaid import goes_without_logger, without_devices
from graders.lightning_train.validated_alike import tells_of_changed_pictures
from lockstep.check import Check
from lockstep.compare import close, integer, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import few_names, safe
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

MOST_EPOCHS = 10  # until a run that was told two of them is ended
FEW_PICTURES = 4  # in a batch; larger ones are cut down to LOADED_BY


def test_data(check: Check) -> None:
    """The script trains on the training pictures, each once per epoch, and validates on others."""
    n_train, n_test = drawn_size(check, 60, 90), int(check.rng.integers(25, 40))
    arguments = ["--devices", "1", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv"]
    outcome = run_script(check, arguments, n=(n_train, n_test), one_epoch=True)
    seen = outcome.ranks[0]
    call = f"lightning_train.py on {n_train} training and {n_test} test pictures, one epoch of all batches"
    fitted(check, seen, call)
    trained, validated = expected.pictures(seen, "train"), expected.pictures(seen, "val")
    hint = "FashionMNIST(folder, train=True) is there to train on, train=False for validation."
    tried = expected.items(seen.values.get("items"), "tried")
    tested = sum(part == "test" for part, _ in (*trained, *tried))
    check.expect(tested == 0, f"{call}: {tested} pictures of the test part were trained on.", hint)
    check.expect(
        len(validated) > 0,
        f"{call}: validation_step was given no picture.",
        "Has LitFashion a method validation_step, spelled just so? Give Lightning a loader for validation, too: "
        "val_dataloader() of the module or the LightningDataModule, or the "
        "second loader of trainer.fit(model, train_loader, val_loader). Where there is one, is the Trainer told to leave it "
        "out, as by limit_val_batches=0.0 or a check_val_every_n_epoch larger than max_epochs?",
    )
    both = len(set(trained) & set(validated)) or _same_by_content(seen, trained, validated)
    check.expect(
        both == 0,
        f"{call}: {both} of the pictures for validation were trained on as well. What they say of the model is too good.",
        hint,
    )
    twice = len(trained) - len(set(trained))
    check.expect(
        twice == 0,
        f"{call}: {twice} pictures were trained on twice.",
        "One pass over the data set is an epoch: shuffle=True draws without replacement, RandomSampler may not.",
    )
    # A part of the training pictures may be kept for validation instead of the test part. Those of which only the content
    # is known may be of either.
    parts = {part for part, _ in validated}
    may_be = parts == {"?"} and len(set(trained)) <= n_train - FEW
    kept = len(set(validated)) if parts == {"train"} or may_be else 0
    total = len(set(trained)) + kept
    check.expect(
        n_train - FEW < total <= n_train,
        f"{call}: training_step was given {len(set(trained))} different pictures"
        + (f" and {kept} were kept for validation" if kept else "")
        + f", expected {n_train} in all.",
        "The loader has to go through the whole training part.",
    )


def _same_by_content(seen: RankOutcome, trained: Sequence[Item], validated: Sequence[Item]) -> int:
    """How many pictures look the same in both stages, where numbers are not known of both."""
    if all(part != "?" for part, _ in (*trained, *validated)):
        return 0
    both = [set(expected.hashes(seen.values.get("hashes"), stage)) for stage in ("train", "val")]
    return len(both[0] & both[1])


def test_precision(check: Check) -> None:
    """--precision bf16-mixed: the network computes in bfloat16, its parameters stay in float32."""
    arguments = [
        "--devices", "1", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv",
        "--precision", "bf16-mixed",
    ]  # fmt: skip
    outcome = run_script(check, arguments, n=(32, 16), stop_before=1, one_epoch=True)
    call = "lightning_train.py --precision bf16-mixed"
    seen = outcome.ranks[0]
    fitted(check, seen, call)
    precision = seen.values.get("precision")
    check.expect(
        precision == "bf16-mixed",
        f"{call}: the Trainer has precision {shown(precision)}.",
        "Hand --precision on to build_trainer(precision=args.precision).",
    )
    parameters = expected.strings(seen.values.get("parameter_types"))
    check.expect(
        parameters == ["float32"],
        f"{call}: the parameters of the module are {safe(' and '.join(parameters), 60) or 'unknown'}, expected float32. Small "
        "updates are lost in 16 bits.",
        "Do not call half(), bfloat16() or to(dtype) on the network: mixed precision casts what it computes with, and "
        "leaves the parameters alone.",
    )
    types = expected.strings(seen.values.get("types"))
    check.expect(
        "bfloat16" in types,
        f"{call}: the layers of the network computed in {safe(' and '.join(types), 60) or 'nothing that could be seen'}, "
        "expected bfloat16.",
        "Let Lightning's autocast do its work: no torch.autocast(enabled=False) around the network.",
    )
    arguments[-1] = "32-true"
    call = "lightning_train.py --precision 32-true"
    try:
        seen = run_script(check, arguments, n=(32, 16), stop_before=1, one_epoch=True).ranks[0]
    except CheckEnded:
        return  # other names of it, and no others, may be known to a script
    if "bfloat16" in expected.strings(seen.values.get("types")):
        check.fail(
            f"--precision bf16-mixed works, but with {call} the layers of the network computed in bfloat16, too: the Trainer "
            f"has precision {shown(seen.values.get('precision'))}.",
            "Hand --precision on to build_trainer(precision=args.precision), whatever it is.",
            points=check.points / 2,
        )


def test_script(check: Check) -> None:
    """The script trains as it is told, in a new order every epoch, logs where it is told, and answers --help."""
    arguments = ["--devices", "1", "--max-epochs", "2", "--limit-train-batches", "0.5", "--logger", "csv"]
    n_train = 300  # so that a batch sampler of their own makes several batches, too
    outcome = run_script(check, arguments, n=(n_train, 24), most_epochs=MOST_EPOCHS)
    seen = outcome.ranks[0]
    call = "lightning_train.py --max-epochs 2 --limit-train-batches 0.5 --logger csv"
    fitted(check, seen, call)
    epochs = Counter(expected.counts({"train": seen.values.get("epochs_from_one")}, "train"))
    check.expect(
        sorted(epochs) == [1, 2],
        f"{call} trained for {f'more than {MOST_EPOCHS}' if len(epochs) > MOST_EPOCHS else len(epochs)} epochs, expected 2.",
        "Hand --max-epochs on to build_trainer(max_epochs=...).",
    )
    share = sum(expected.counts(seen.values.get("sizes"), "train")) / 2 / n_train
    check.expect(
        share <= 0.6 and close(seen.values.get("limit"), 0.5),
        f"{call} trained on {share:.0%} of the pictures in an epoch, expected half of them.",
        "Hand --limit-train-batches on to build_trainer(limit_train_batches=...), as a float.",
    )
    loggers = expected.strings(seen.values.get("loggers"))
    check.expect(
        has_table(seen.values.get("left")),
        f"{call} left no metrics.csv with a number in it"
        + ("." if "CSVLogger" in loggers else f": the Trainer logs with {few_names(loggers) or 'nothing'}."),
        "With --logger csv use pytorch_lightning.loggers.CSVLogger, and log with self.log.",
    )
    for name in ("tensorboard", "wandb"):
        # As many pictures, because what reads them in a way of its own is not stopped at fit.
        if name == "tensorboard":
            untold, astray = without_devices(check, ["--logger", name], (n_train, 24))
        else:
            told = ["--devices", "1", "--logger", name]
            untold = run_script(check, told, n=(n_train, 24), at_fit=True).ranks[0]
        loggers = expected.strings(untold.values.get("loggers"))
        check.expect(
            any(name in logger.lower() for logger in loggers),
            f"lightning_train.py --logger {name}: the Trainer logs with {few_names(loggers) or 'nothing'}.",
            "Choose the logger by the argument: TensorBoardLogger, WandbLogger or CSVLogger.",
        )
        unasked = [logger for logger in loggers if "wandb" in logger.lower() and name != "wandb"]
        check.expect(
            not unasked,
            f"lightning_train.py --logger {name}: the Trainer logs with {few_names(loggers)}, with W&B as well, which was not "
            "asked for: it wants an account, and sends what it is given to another machine.",
            "Choose the logger by the argument, and make no others: TensorBoardLogger, WandbLogger or CSVLogger.",
            points=check.points / 2,
        )
    helped = run_script(check, ["--help"], n=(16, 8), at_fit=True).ranks[0]
    check.expect(
        integer(helped.values.get("status")) == 0
        and integer(helped.values.get("fits")) == integer(helped.values.get("rehearsed")),
        "`lightning_train.py --help` does not print help and end.",
        "argparse answers --help by itself, unless it is told add_help=False: parse the arguments before anything else is done.",
    )
    imported = check.run(
        "imported", data={"fashion": fashion_mnist.make_idx(check.rng, 16, 8)}, limits=LIMITS
    ).ranks[0]
    check.expect(
        integer(imported.values.get("fits")) == 0,
        "The script works, but `import lightning_train` starts a training: so does every process that Lightning starts "
        "with --strategy ddp_spawn, and every worker of a DataLoader on Windows and macOS.",
        'Put what runs into main() and call it under `if __name__ == "__main__":`.',
        points=check.points / 2,
    )
    _draws_anew(check, seen, call)
    logs_no_constant(check, seen, call)
    logs_no_sum(check, seen, call)
    tells_of_changed_pictures(check, seen)
    watches_the_right_way(check, seen, call)
    check.expect(
        integer(seen.values.get("limit_val")) != 1,
        f"{call}: the Trainer has limit_val_batches=1: a whole number is a number of batches, so that val_loss and val_acc are "
        "those of the first batch alone.",
        "Leave it out: Lightning validates on all batches. As a share that is limit_val_batches=1.0.",
        points=check.points / 2,
    )
    if astray is not None:
        check.fail(astray.message, astray.hint, points=check.points / 2)
    _keeps_defaults(check, untold)
    _hands_on(check, (n_train, 24))
    _batches_as_asked(check)
    _hands_on_the_strategy(check)
    writes_its_report(check)


def _draws_anew(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check where two epochs go through the files in their order."""
    # Known by their numbers: who keeps the pictures in memory has read them in this order before, for no step.
    read = [index for part, index in expected.pictures(seen, "train") if part == "train"]
    begins = [place for place, (before, after) in enumerate(pairwise(read), 1) if after <= before]
    again = len(begins) == 1 and all(
        one == other for one, other in zip(read, read[begins[0] :], strict=False)
    )
    check.expect(
        not again,
        f"{call} trained on the pictures in the order of the file in both epochs, {', '.join(map(str, read[:3]))} and so on, "
        "expected a new order each time. With limit_train_batches=0.2 it never sees the other 80 %.",
        "DataLoader(..., shuffle=True) for training.",
        points=check.points / 2,
    )


def _keeps_defaults(check: Check, untold: RankOutcome) -> None:
    """End the check where the script without its flags trains for longer, or on more, than build_trainer() would."""
    told, limit = untold.values.get("max_epochs"), untold.values.get("limit")
    epochs = integer(told)
    # A whole number of batches may be a share of what there is, counted out.
    is_share = integer(limit) is None
    check.expect(
        epochs is not None and 1 <= epochs <= 10 and (not is_share or close(limit, 0.2, rtol=1e-6)),
        "lightning_train.py without --max-epochs and --limit-train-batches: the Trainer has "
        f"max_epochs={shown(told)} and limit_train_batches={shown(limit)}, expected at most 10 and 0.2, as of "
        "build_trainer().",
        "Let the defaults of both flags be those of build_trainer(), or hand a flag on only where it was given.",
        points=check.points / 2,
    )


def _hands_on(check: Check, n: tuple[int, int]) -> None:
    """End the check where --accelerator or --precision do not reach the Trainer, on a machine with a GPU.

    The script is not told of a logger, and where it needs one the check ends as well.
    """
    # Without --strategy, which was called accelerator once.
    told = ["--devices", "1", "--precision", "64-true"]
    made = _made_with_a_gpu(check, told)
    if made is None:
        del told[2:]  # its choices may be other precisions
        made = _made_with_a_gpu(check, told)
    if made is None:
        goes_without_logger(check, n)
        return
    call = f"lightning_train.py --accelerator cpu {' '.join(told)} on a machine with a GPU"
    check.expect(
        made.get("accelerator") == "CPUAccelerator",
        f"{call}: the Trainer has a {shown(made.get('accelerator'))}.",
        "Hand --accelerator on to build_trainer(accelerator=args.accelerator).",
        points=check.points / 2,
    )
    check.expect(
        "--precision" not in told or made.get("precision") == "64-true",
        f"{call}: the Trainer has precision {shown(made.get('precision'))}.",
        "Hand --precision on to build_trainer(precision=args.precision), whatever it is.",
        points=check.points / 2,
    )


def _made_with_a_gpu(check: Check, told: Sequence[str]) -> Mapping[str, Json] | None:
    """What the Trainer is like whose fit is called on a machine with a GPU; None where it is not called."""
    try:
        seen = run_script(check, told, n=(16, 8), at_fit=True, gpus=1).ranks[0].values
    except CheckEnded:
        return None
    return seen if integer(seen.get("fits")) else None


def _batches_as_asked(check: Check) -> None:
    """End the check where a script that takes --batch-size, as the template does, makes larger batches than it was asked for."""
    told = [
        "--devices",
        "1",
        "--limit-train-batches",
        "1.0",
        "--logger",
        "csv",
        "--batch-size",
        str(FEW_PICTURES),
    ]
    try:
        seen = run_script(check, told, n=(16, 8), stop_before=0).ranks[0]
    except CheckEnded:
        return  # the flag need not be known to a script
    sizes = expected.counts(seen.values.get("sizes"), "train")
    check.expect(
        not sizes or sizes[0] <= FEW_PICTURES,
        f"lightning_train.py {' '.join(told)}: the first batch has {sizes[0] if sizes else 0} pictures or more.",
        "Give the loaders the size that the script is given: DataLoader(self.train_data, self.batch_size, shuffle=True).",
        points=check.points / 2,
    )


def _hands_on_the_strategy(check: Check) -> None:
    """End the check where --strategy changes nothing: neither on one device nor in how two processes are started."""
    # Who leaves the strategy to Lightning on one device is asked for one with two that is not Lightning's own choice.
    for devices, strategy, wanted in ((1, "ddp", "DDP"), (2, "ddp_spawn", "(spawn)")):
        told = ["--devices", str(devices), "--strategy", strategy, "--logger", "csv"]
        try:
            seen = run_script(check, told, n=(16, 8), at_fit=True).ranks[0].values
        except CheckEnded:
            return  # not all of these need be known to a script
        made = seen.get("strategy")
        if not integer(seen.get("fits")) or (isinstance(made, str) and wanted in made):
            return
    check.fail(
        f"lightning_train.py --accelerator cpu {' '.join(told)}: the Trainer has a {shown(made)}, which is what Lightning "
        "chooses where it is told no strategy; with --devices 1 --strategy ddp likewise.",
        "Hand --strategy on to build_trainer(strategy=args.strategy), whatever it is.",
        points=check.points / 2,
    )
