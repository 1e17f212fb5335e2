"""Exercise 4, the script: what ddp_train.sh starts, and what it leaves behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fixtures import cifar10
from graders.ddp_train.going_on import goes_on
from graders.ddp_train.hints import NOT_CALLED
from graders.ddp_train.launch_hints import launch_hint
from graders.ddp_train.reported import settings, tells_of_its_run
from graders.ddp_train.script_runs import (
    BATCH_SIZE,
    BATCHES,
    EPOCHS,
    IMAGES,
    LEAST_BATCHES,
    RESNET18_BYTES,
    RESUMING,
    SCRIPT_LIMITS,
    TEST_IMAGES,
    hands_on,
)
from lockstep.check import Check
from lockstep.compare import elements, integer, shown
from lockstep.sandbox.limits import MIB
from lockstep.text import few_names, last_lines, safe
from lockstep.wire import Json

OTHER_NPROC = 1  # more than there are cores a script may refuse
# The last layer may be of any kind and name, as nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 10)) is.
# What stands before is the author's: `model.`, `model/` or nothing.
_BEGINS = r"(?:^|[^a-z0-9])"
RESNET = re.compile(_BEGINS + r"(?:fc\.weight|layer4\.\d+\.conv\d\.weight)$")
THIRD_BLOCK = re.compile(_BEGINS + r"layer[1-4]\.2\.")
CLASSES = 10
WORDS = "my checkpoint.pt"  # one argument
# Without a word for what a script was given it hands none of it on.
_PARAMETERS = re.compile(rb"\$(?:[@*#1-9]|\{[!#]?[@*1-9]|\{#\})|BASH_ARGV|getopts")
_COMMENT = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)  # the template's says "$@"


def test_script(check: Check) -> None:
    """ddp_train.sh starts NPROC processes with torchrun, trains, and leaves a report and a checkpoint to go on from."""
    tree = cifar10.make_batches(check.rng, IMAGES, TEST_IMAGES)
    arguments = ["--epochs", str(EPOCHS), "--batch-size", str(BATCH_SIZE)]
    seen = check.run(
        "launch",
        values={
            "arguments": ["--training-data", "/data/cifar", *arguments],
            "environment": {"NPROC": "2"},
            "other": {"NPROC": str(OTHER_NPROC)},
            "words": ["--checkpoint", WORDS],
            "further": ["--epochs", str(EPOCHS + 1)],
            "documented": [*RESUMING],
        },
        data={"cifar": tree},
        # The default folder has the data, too: half of the points are left to a script that hands nothing on.
        files={f"data/{name}": content for name, content in tree.items()},
        limits=replace(SCRIPT_LIMITS, disk=768 * MIB),  # for those who keep a checkpoint of every epoch
    )
    values = seen.ranks[0].values
    status, output = integer(values.get("status")), values.get("output")
    printed = last_lines(output if isinstance(output, str) else "")
    check.expect(
        status == 0,
        f"`NPROC=2 ./ddp_train.sh --training-data ... {' '.join(arguments)}` ended with status "
        f"{shown(values.get('status'))}. Its last lines: {printed}",
        launch_hint(check.submission, printed),
    )
    least = RESNET18_BYTES
    check.expect(
        seen.loopback_bytes is None or seen.loopback_bytes >= least,
        "ddp_train.sh ran, but its processes exchanged "
        f"{(seen.loopback_bytes or 0) / 1e6:.1f} MB; one step of ResNet-18 on two ranks takes {least / 1e6:.0f} MB.",
        NOT_CALLED
        if isinstance(output, str) and not output.strip()
        else 'Start two processes that join one group: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py. Where two '
        "are started, main has to train what wrap_model returned, a DistributedDataParallel: without it each trains by itself.",
    )
    keys = values.get("keys")
    names = [key for key in elements(keys) if isinstance(key, str)]
    check.expect(
        any(map(RESNET.search, names)),
        "ddp_train.sh ran, but left no checkpoint with the weights of a ResNet-18 by their names (looked for a new file of "
        f"torch.save's{f'; the one that it left holds {few_names(names)}' if names else ''}).",
        "Pass --checkpoint FILE in ddp_train.sh, call save_checkpoint after each epoch, and keep state_dict() of the network in "
        "the file, under any key.",
    )
    check.expect(
        max(settings(values.get("report"), "world_size"), default=0) == 2,
        "ddp_train.sh ran, but wrote no reports/ddp.json that tells of a run with world_size 2 (one that was handed in does "
        "not count).",
        "Pass --report reports/ddp.json in ddp_train.sh; rank 0 writes it, in the format perf-report/1.",
    )
    check.expect(
        not hands_nothing_on(values.get("asked"), check.submission.files.get("ddp_train.sh", b"")),
        "ddp_train.sh works, but hands on nothing that it is given: `./ddp_train.sh --epochs 6 --resume` starts ddp_train.py as "
        "`./ddp_train.sh` does.",
        'Let "$@" stand behind ddp_train.py and its arguments, with the quotes: it is all that the script was given.',
        points=check.points / 2,
    )
    _trained_as_asked(check, values, names, arguments, seen.loopback_bytes)
    goes_on(check, values, arguments, seen.loopback_bytes)
    went_on = values.get("went_on")
    alone = went_on.get("report") if isinstance(went_on, dict) else None
    tells_of_its_run(check, values.get("report"), alone, values.get("asked"))
    asked = _processes_asked_for(values.get("asked"))
    check.expect(
        asked in ("", str(OTHER_NPROC)),
        f"ddp_train.sh works, but `NPROC={OTHER_NPROC} ./ddp_train.sh` asks torchrun for {asked} processes.",
        'Let NPROC say how many there are: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py.',
        points=check.points / 2,
    )
    check.expect(
        asked == "" or not _asks_for_no_number(values.get("unasked")),
        "`NPROC=2 ./ddp_train.sh` works, but `./ddp_train.sh` alone, where nobody has set NPROC, starts no processes.",
        'Give NPROC a default: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py.',
        points=check.points / 2,
    )
    _has_gpus_for_all(check, values)
    first, second = WORDS.split()
    check.expect(
        f"\n{first}\n{second}\n" not in _lines(values.get("asked")),
        f'ddp_train.sh works, but of `./ddp_train.sh --checkpoint "{WORDS}"` two arguments reach ddp_train.py: {first} and '
        f"{second}.",
        'Put quotes around "$@": without them the shell takes arguments apart at every space in them.',
        points=check.points / 2,
    )
    check.expect(
        values.get("executable") is True,
        "ddp_train.sh works, but only with `bash ddp_train.sh`: it is not executable.",
        "chmod +x ddp_train.sh",
        points=check.points / 2,
    )
    if values.get("failed_with") == 0:
        check.note(
            "Where torchrun fails, ddp_train.sh ends with status 0 all the same, as if all had gone well: `set -e` on top, as in the "
            "template, and nothing like `|| true` behind the command. That costs no points."
        )


def _trained_as_asked(
    check: Check,
    values: Mapping[str, Json],
    names: Sequence[str],
    arguments: Sequence[str],
    loopback_bytes: int | None,
) -> None:
    """End the check where a checkpoint is of another network, or of fewer batches than were asked for."""
    batches = integer(values.get("batches"))
    # To wrap the network takes one copy of its weights. Whoever freezes BatchNorm trains all the same, and sends more.
    check.expect(
        batches != 0 or loopback_bytes is None or loopback_bytes >= 2 * RESNET18_BYTES,
        "ddp_train.sh ran and left a checkpoint, but trained on no batch: num_batches_tracked in it is 0, and its processes "
        f"exchanged {(loopback_bytes or 0) / 1e6:.1f} MB, which is what it takes to wrap the network and not one step more.",
        "main calls train_one_epoch(model, train_loader, optimizer, criterion, device, epoch) in each epoch, and saves the "
        "network that it trained.",
    )
    found = values.get("outputs")
    outputs = [number for value in elements(found) if (number := integer(value))]
    check.expect(
        not outputs or CLASSES in outputs,
        "ddp_train.sh works, but no layer of the network in its checkpoint has 10 outputs, as CIFAR-10 has classes; there are "
        f"layers of {', '.join(map(str, outputs[:3]))}.",
        "Give ResNet-18 a last layer of its own, before it is wrapped: model.fc = nn.Linear(model.fc.in_features, 10). Setting "
        "out_features changes no weight, and a layer that the wrapper is given is none of the network's.",
        points=check.points / 2,
    )
    third = next((name for name in names if THIRD_BLOCK.search(name)), "")
    check.expect(
        not third,
        f"ddp_train.sh works, but the network in its checkpoint is larger than a ResNet-18, which has two blocks a stage: "
        f"there is a `{safe(third)}`.",
        "models.resnet18()",
        points=check.points / 2,
    )
    # Without BatchNorm nobody counts, and a script may have arguments of its own. One that keeps the best checkpoint, not
    # the last, has trained on all batches as well: wrapping sends the weights once, and each step after it the gradients,
    # which are as large, there and back: the three steps of one epoch seven times the weights, four steps nine times.
    sent = loopback_bytes is not None and loopback_bytes >= 2 * LEAST_BATCHES * RESNET18_BYTES
    check.expect(
        not batches or batches >= LEAST_BATCHES or sent or not hands_on(values.get("asked")),
        f"`NPROC=2 ./ddp_train.sh --training-data ... {' '.join(arguments)}` works, but by num_batches_tracked in its "
        f"checkpoint the network was trained on {batches} batches; {EPOCHS} epochs of {IMAGES} images in batches of "
        f"{BATCH_SIZE} on two processes are {BATCHES}.",
        "Train args.epochs epochs, each through the whole loader, give make_loader args.batch_size, the size for one process, and write the checkpoint "
        "after every epoch, over the one before. It counts in training mode alone: model.train() in every epoch.",
        points=check.points / 2,
    )


def _lines(words: Json) -> str:
    return words if isinstance(words, str) else ""


def hands_nothing_on(words: Json, script: bytes) -> bool:
    """Whether torchrun was told nothing of what a script was given, which has no word for that either."""
    told = _lines(words)
    return (
        told != ""
        and "--help" not in told
        and WORDS not in told
        and script != b""
        and not _PARAMETERS.search(_COMMENT.sub(b"", script))
    )


def _has_gpus_for_all(check: Check, values: Mapping[str, Json]) -> None:
    """End the check where the script leaves fewer GPUs visible than it starts processes, by its own default.

    Empty, CUDA_VISIBLE_DEVICES hides all, for a training on the CPU.
    """
    words, gpus = _lines(values.get("unasked")), _lines(values.get("gpus"))
    count, devices = _processes_asked_for(words), gpus.replace(" ", "").split(",")
    on_cpus = re.search(r"cpu|gloo", words)
    check.expect(
        on_cpus is not None
        or not count.isdecimal()
        or not all(re.fullmatch(r"\d+|(?:GPU|MIG)-\S+", name) for name in devices)
        or len(devices) >= int(count),
        f"ddp_train.sh works, but it starts {count} processes and sets CUDA_VISIBLE_DEVICES={safe(gpus[:80])}: where there are "
        f"GPUs, there is none for LOCAL_RANK {len(devices)}.",
        "Leave CUDA_VISIBLE_DEVICES to whoever starts the script, or list one GPU for each process: every rank takes cuda:LOCAL_RANK.",
        points=check.points / 2,
    )


def _processes_asked_for(words: Json) -> str:
    """How many processes torchrun was asked for; nothing where that is in no known words, or torchrun was not called."""
    given = re.search(
        r"(?:^|\n)--?nproc[-_]per[-_]node[=\n](0*(\d{1,4})|auto|cpu|gpu)(?:\n|$)",
        words if isinstance(words, str) else "",
    )
    return (given[2] or given[1]) if given else ""


def _asks_for_no_number(words: Json) -> bool:
    """Whether a script that asks for as many processes as NPROC says starts none, or torchrun without a number."""
    if not isinstance(words, str) or not words:
        return words == ""
    lines = words.split("\n")
    # Python that is to find the number out is not there, only what stands in for it.
    if {"-", "-c"} & set(lines) or sum(line.endswith(".py") for line in lines) != 1:
        return False
    given = re.search(r"(?:^|\n)--?nproc[-_]per[-_]node[=\n]([^\n]*)", words)
    return given is not None and (not given[1] or given[1].endswith(".py"))
