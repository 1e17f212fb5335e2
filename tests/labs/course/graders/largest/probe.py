"""Calls `largest`, and knows no right answer."""

from lockstep.sandbox.probing import Inputs, Observation, Student, plain


def largest(student: Student, inputs: Inputs) -> Observation:
    function = student.get(student.load("largest"), "largest")
    with student.calling("largest(values)"):
        seen = function(inputs.tensor("values"))
    return Observation(values={"largest": plain(seen)})
