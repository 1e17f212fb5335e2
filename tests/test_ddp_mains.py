"""The grader of exercise 4, `main` beside right functions: what it may do besides, or in another way, costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from tests.samples import edited, messages_of_losses

EXERCISE = "ddp_train"
Edits = list[tuple[str, str]]
EVALUATION = "        accuracy = evaluate(model, test_loader, device)\n"
OPENED = "    train_data = datasets.CIFAR10(args.training_data, train=True, transform=transform)\n"
LOADER = "    train_loader = make_loader(train_data, args.batch_size, seed=args.seed)\n"
CLASSES = ("len(train_data.classes)", "10")
OPTIMIZER = "    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)\n"


def split(share: float, more: str = "") -> Edits:
    """A part of the images kept for validation, the same on every rank."""
    parts = (
        f"    train_data, val_data = torch.utils.data.random_split(train_data, [{share}, {1 - share:.1f}], "
        "torch.Generator().manual_seed(1))\n"
    )
    loaders = LOADER.replace("seed=args.seed", f"seed=args.seed{more}")
    loaders += "    val_loader = make_loader(val_data, args.batch_size, shuffle=False)\n"
    on_both = EVALUATION + EVALUATION.replace("accuracy", "of_validation").replace(
        "test_loader", "val_loader"
    )
    return [(OPENED, OPENED + parts), (LOADER, loaders), (EVALUATION, on_both), CLASSES]


ON_TRAINING = EVALUATION.replace("accuracy", "on_training").replace("test_loader", "train_loader")
HEAD = """    head = set(map(id, model.module.fc.parameters()))
    body = [value for value in model.parameters() if id(value) not in head]
    groups = [{"params": body, "lr": lr / 10}, {"params": model.module.fc.parameters()}]
"""
HANDED_ON = """        if rank == 0:
            plan.step()
        rate = torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64)
        dist.broadcast(rate, 0)
        optimizer.param_groups[0]["lr"] = rate.item()
"""
WAYS: dict[str, tuple[tuple[str, ...], Edits]] = {
    "the accuracy over the training images": (
        ("reshuffles", "script"),
        [(EVALUATION, ON_TRAINING + EVALUATION)],
    ),
    "half for validation": (("reshuffles", "script"), split(0.5)),
    "a tenth, and no short batch": (
        ("reshuffles", "script", "really_communicates"),
        split(0.9, ", drop_last=True"),
    ),
    "a fifth, and no short batch": (
        ("reshuffles", "script", "really_communicates"),
        split(0.8, ", drop_last=True"),
    ),
    "a warm-up that waits": (
        ("lr_scaling",),
        [
            (OPTIMIZER, f"{OPTIMIZER}    warm_up = torch.optim.lr_scheduler.ConstantLR(optimizer)\n"),
            (EVALUATION, f"        warm_up.step()\n{EVALUATION}"),
        ],
    ),
    "rank 0 plans the rate for all": (
        ("really_communicates",),
        [
            (OPTIMIZER, f"{OPTIMIZER}    plan = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)\n"),
            (EVALUATION, HANDED_ON + EVALUATION),
        ],
    ),
    "every rank plans by what all came to": (
        ("really_communicates",),
        [
            (
                OPTIMIZER,
                f"{OPTIMIZER}    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max')\n",
            ),
            (EVALUATION, f"{EVALUATION}        plan.step(accuracy)\n"),
        ],
    ),
    "a head that learns faster": (
        ("lr_scaling",),
        [(OPTIMIZER, HEAD + OPTIMIZER.replace("model.parameters()", "groups"))],
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_main_may_do_costs_nothing(name: str, tmp_path: Path, box: Box) -> None:
    checks, edits = WAYS[name]
    folder = edited(EXERCISE, tmp_path, *edits)
    assert messages_of_losses(folder, EXERCISE, box, checks) == []


SAVED = "        if args.checkpoint:\n            save_checkpoint(model, optimizer, epoch, args.checkpoint)\n"


def test_who_comes_to_no_second_epoch_without_a_checkpoint_is_seen_in_three_with_one(
    tmp_path: Path, box: Box
) -> None:
    always = (SAVED, "        save_checkpoint(model, optimizer, epoch, args.checkpoint)\n")
    one_epoch = ("criterion, device, epoch)\n        if device", "criterion, device, 0)\n        if device")
    folder = edited(EXERCISE, tmp_path, always, one_epoch)
    (told,) = messages_of_losses(folder, EXERCISE, box, ["reshuffles"])
    assert "two epochs had the same" in told


RETURNED = "    return DataLoader(dataset, batch_size, sampler=sampler, drop_last=drop_last)\n"
LOOP = "    for images, labels in loader:\n        images, labels = images.to(device), labels.to(device)\n"
EVALUATED = "    for images, labels in loader:\n        correct"
MADE = """    def named(items):
        return {"labels": torch.tensor([int(label) for _, label in items]), "pixels": torch.stack([x for x, _ in items])}

    return DataLoader(dataset, batch_size, sampler=sampler, drop_last=drop_last, collate_fn=named)
"""
NAMED = """    for batch in loader:
        images, labels = batch["pixels"].to(device), batch["labels"].to(device)
"""


def test_batches_may_be_dicts(tmp_path: Path, box: Box) -> None:
    taken = (
        '    for batch in loader:\n        images, labels = batch["pixels"], batch["labels"]\n        correct'
    )
    folder = edited(EXERCISE, tmp_path, (RETURNED, MADE), (LOOP, NAMED), (EVALUATED, taken))
    shares = ["sampler_disjoint", "shuffle_false_for_eval", "steps_per_epoch"]
    assert messages_of_losses(folder, EXERCISE, box, shares) == []
