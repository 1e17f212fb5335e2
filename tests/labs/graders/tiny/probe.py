"""The probe of lockstep's own test lab."""

import torch.distributed as dist

from lockstep.sandbox.probing import Inputs, Observation, Student, plain


def double(student: Student, inputs: Inputs) -> Observation:
    function = student.get(student.load("tiny"), "double")
    with student.calling("double(x)"):
        return Observation({}, {"y": function(inputs.tensor("x"))})


def add_up(student: Student, inputs: Inputs) -> Observation:
    function = student.get(student.load("tiny"), "add_up")
    dist.init_process_group("gloo")
    with student.calling("add_up(x)"):
        total = function(inputs.tensor("x"))
    return Observation({"total": plain(total)})


def draw(student: Student, inputs: Inputs) -> Observation:
    student.load("tiny")
    return Observation({"drawn": inputs.values["drawn"]})
