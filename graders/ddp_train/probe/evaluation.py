"""The accuracy over all ranks."""

from __future__ import annotations

from typing import cast

from lockstep.sandbox.device import home
from lockstep.sandbox.probing import Inputs, Observation, Student, plain
from lockstep.wire import Json

from .group import emulated_machine
from .lab import Lab, clean_up, seed_of
from .nets import Rows, new_model, new_rows
from .training import one_pass


def accuracy(student: Student, inputs: Inputs) -> Observation:
    """evaluate() over loaders of make_loader(shuffle=False), of a model that was just being trained.

    The second has the first of the images, with other labels.
    """
    with emulated_machine(inputs):
        return _accuracy(student, inputs)


def _accuracy(student: Student, inputs: Inputs) -> Observation:
    lab = Lab(student)
    lab.setup()
    wrapped = lab.wrap(new_model(inputs))
    wrapped.train()
    batch_size = cast(int, inputs.values["batch_size"])
    results = []
    images = inputs.tensor("images")
    for labels in (inputs.tensor("labels"), inputs.tensor("again")):
        dataset = Rows(images[: len(labels)], labels)
        loader = lab.loader(dataset, batch_size, shuffle=False, seed=seed_of(inputs))
        seen = lab.call("evaluate", wrapped, loader, lab.device, shown="model, loader, device")
        results.append(plain(home(seen)))
    orders = [
        one_pass(lab, lab.loader(new_rows(inputs), batch_size, shuffle=False, seed=seed_of(inputs) + more))[1]
        for more in (0, 1)
    ]
    values: dict[str, Json] = {"accuracy": results[0], "again": results[1]}
    if inputs.values.get("gpus"):
        values["places"] = ", ".join(sorted({str(value.device) for value in wrapped.parameters()}))
    clean_up(lab, inputs)
    return Observation(values, {"order0": orders[0], "order1": orders[1]})
