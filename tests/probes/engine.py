"""The probe of the engine's own tests: calls `main()` of the student's file, or runs a command."""

from __future__ import annotations

from lockstep.sandbox.probing import Inputs, Observation, Student, plain, plain_tensor


def call(student: Student, inputs: Inputs) -> Observation:
    """Send what `main()` returns, which the tests' snippets keep to plain JSON."""
    main = student.get(student.load("student"), "main")
    with student.calling("main()"):
        seen = main()
    return Observation({"seen": seen})


def give(student: Student, inputs: Inputs) -> Observation:
    """Give `main()` the rank's inputs; send what it returns as a value and as an array."""
    main = student.get(student.load("student"), "main")
    with student.calling("main(inputs)"):
        seen = main(inputs)
    array = plain_tensor(seen)
    return Observation({"seen": plain(seen)}, {} if array is None else {"seen": array})


def command(student: Student, inputs: Inputs) -> Observation:
    """Run a command in the student's folder."""
    words = inputs.values["command"]
    done = student.run_command([str(word) for word in words] if isinstance(words, list) else [])
    return Observation({"status": done.status, "said": done.output})


def notebook(student: Student, inputs: Inputs) -> Observation:
    """Run student.ipynb with the inputs as the judge of an exercise may."""
    parameters = inputs.values.get("parameters")
    seconds, output = inputs.values.get("seconds"), inputs.values.get("output")
    run = student.run_notebook(
        "student",
        parameters if isinstance(parameters, dict) else None,
        seconds_per_cell=seconds if isinstance(seconds, int | float) else None,
        output_limit=output if isinstance(output, int) else None,
    )
    if run.error is not None and inputs.values.get("raises", True):
        raise run.error
    return Observation({"run": run.values(), "seen": plain(getattr(run.main, "seen", None))})


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the student's file as a script."""
    return Observation({"status": student.run_script("student.py")})


def scripts(student: Student, inputs: Inputs) -> Observation:
    """Run the script twice in this process."""
    return Observation({"statuses": [student.run_script("student.py") for _ in range(2)]})
