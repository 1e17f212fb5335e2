"""The grader of exercise 2: what `train` and `evaluate` may ask of the check's model and pictures, as of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from tests.samples import edited, messages_of_losses

RETURNED = "        losses.append(loss_sum / n_items)\n    return losses\n"
WHOLE = """        losses.append(loss_sum / n_items)
        torch.save(model, "best.pth")
    best = torch.load("best.pth", weights_only=False)
    model.load_state_dict(best.state_dict())
    return losses
"""
COUNTED = "    return n_correct / n_items\n"
ONE_READ_AGAIN = """    torch.save(model, "whole.pth")
    model = torch.load("whole.pth", weights_only=False)
    with torch.no_grad():
        found = torch.cat([model(images.to(device)).argmax(dim=1).cpu() for images, _ in loader])
    return (found == torch.as_tensor(loader.dataset.targets)).float().mean().item()
"""
OF_EACH_CLASS = """    with torch.no_grad():
        found = torch.cat([model(images.to(device)).argmax(dim=1).cpu() for images, _ in loader])
    targets = torch.as_tensor(loader.dataset.targets)
    for name, number in loader.dataset.class_to_idx.items():
        print(f"{name}: {(found[targets == number] == number).float().mean():.2%}")
    return (found == targets).float().mean().item()
"""


@pytest.mark.parametrize(
    "edit",
    [(RETURNED, WHOLE), (COUNTED, ONE_READ_AGAIN), (COUNTED, OF_EACH_CLASS)],
    ids=["a whole model is kept", "one is read again", "the labels of the data set"],
)
def test_what_real_ones_have_costs_nothing(edit: tuple[str, str], tmp_path: Path, box: Box) -> None:
    folder = edited("fashion_trainer", tmp_path, edit)
    assert messages_of_losses(folder, "fashion_trainer", box, []) == []
