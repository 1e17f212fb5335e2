"""Mutants of the worked solutions: what the maker changes, what it leaves alone, and that checks notice."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
import yaml

from fixtures.mutants import grading, page
from fixtures.mutants.grading import Outcome
from fixtures.mutants.launching import shell_changes, yaml_changes
from fixtures.mutants.making import EXERCISES, mutants, write
from fixtures.mutants.python import changes
from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict

SLICE = 5


def made(line: str) -> set[str]:
    """What one line, or several, of a solution become."""
    body = "".join(f"    {part}\n" for part in line.splitlines())
    source = f"def f(x, y):\n    # >>> solution: do it\n{body}    # <<<\n"
    return {change.after for change in changes(source)}


def solved(command: str) -> str:
    return f"#!/bin/sh\ncd here\n# >>> solution: start it\n{command}\n# <<<\n"


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("return x + 2", {"return", "return x - 2", "return x + 3", "return x + 1"}),
        ("return x < y", {"return", "return x <= y", "return x >= y"}),
        ("return -x", {"return", "return x"}),
        ("return x == 'a'", {"return", "return x != 'a'", "return x == 'a_'"}),
        ("return x and y", {"return", "return x or y", "return x", "return y"}),
        ("return x if y else 1.5", {"return", "return x", "return 1.5", "return x if not y else 1.5", "return x if y else 3.0"}),
        ("x.run(y, key=True)", {"", "x.run(y)", "x.run(y, key=False)"}),
        ("x(y, 0)", {"", "x(0, y)", "x(y)", "x(y, 1)"}),
        ("x.train()", {"", "x.eval()"}),
        ("return float(x)", {"return", "return x"}),
        ("return x.item()", {"return", "return x"}),
        ("x += y", {"", "x = y", "x -= y"}),
        ("x.lr = y", {""}),
        ("return x[:y]", {"return", "return x[:y - 1]", "return x[:]"}),
        ("for z in range(y):\n    x(z)", {"", "for z in range(y): … break", "for z in range(y - 1):", "for z in y:"}),
        ("with x.no_grad():\n    y.z()", {"y.z()", "with x:", ""}),
        ("try:\n    return x\nexcept OSError:\n    return y", {"return x", "return"}),
        ("if x:\n    return y", {"if not x:", "return y", "", "return"}),
        ("return [z for z in x if z]", {"return", "return [z for z in x]"}),
    ],
)  # fmt: skip
def test_one_thing_is_changed_at_a_time(line: str, becomes: set[str]) -> None:
    assert made(line) == becomes


@pytest.mark.parametrize(
    "line",
    [
        '"""What this does."""',
        "print(x, 3)",
        "x.set_xlabel('seconds')",
        "found = 'a GPU' if x else 'none'\nprint(f'this machine has {found}')",
        "z: int",
    ],
)
def test_texts_for_people_and_annotations_are_left_alone(line: str) -> None:
    assert made(line) == set()


def test_an_exception_is_left_out_and_its_words_stay() -> None:
    assert made("raise ValueError(f'not {x + 1}')") == {""}


def test_a_text_of_several_words_stays() -> None:
    assert made("return f'not here, {y}'") == {"return"}
    assert made("return 'no GPU'") == {"return"}
    assert made("return x + '.part'") >= {"return x + '.part_'"}


def test_an_argument_that_only_an_exception_mentions_is_left_alone() -> None:
    source = (
        "def need(name, value):\n    # >>> solution: a\n    if not value:\n        raise ValueError(name)\n    # <<<\n"
        "def f(x):\n    # >>> solution: b\n    need('x', x)\n    # <<<\n"
    )
    assert {change.after for change in changes(source) if change.place == "f"} == {
        "",
        "need(x, 'x')",
        "need('x')",
    }


def test_what_is_handed_out_is_left_alone() -> None:
    source = "A = 1\ndef f(x=2):\n    y = 3\n    # >>> solution: do it\n    return x\n    # <<<\nf(4)\n"
    assert [(change.before, change.after) for change in changes(source)] == [("return x", "return")]


def test_a_decorator_goes_although_it_stands_above_the_markers() -> None:
    source = "@no_grad\ndef f():\n    # >>> solution: do it\n    pass\n    # <<<\n"
    (change,) = changes(source)
    assert (change.before, change.text) == ("@no_grad def f():", "def f():\n    pass\n")


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("run --n 2 it.py", {"", "--n", "2", "3", "it.py", "--n 2", "run"}),
        ('run "$X"', {'"0"'}),
        ('run "${N:-2}"', {'"2"', '"${N:-3}"'}),
        ("#SBATCH --nodes=2", {"--nodes=3"}),
    ],
)
def test_flags_words_numbers_and_variables_of_a_command_are_changed(command: str, becomes: set[str]) -> None:
    changed = list(shell_changes(solved(command)))
    assert becomes <= {change.after for change in changed} | {change.before for change in changed}
    assert all(change.text.startswith("#!/bin/sh\ncd here\n") for change in changed)
    assert solved(command) not in {change.text for change in changed}


def test_keys_and_values_of_a_manifest_are_changed() -> None:
    text = "kind: Job\nspec:\n  replicas: 2\n  inject: 'false'\n  args: [a]\n"
    documents = [yaml.safe_load(change.text) for change in yaml_changes(text)]
    spec = {"replicas": 2, "inject": "false", "args": ["a"]}
    for expected in (
        {"spec": spec},
        {"kind": "Jobx", "spec": spec},
        {"kind": "Job", "spec": {**spec, "replicas": 3}},
        {"kind": "Job", "spec": {**spec, "replicas": "2"}},
        {"kind": "Job", "spec": {**spec, "inject": False}},
        {"kind": "Job", "spec": {**spec, "args": []}},
    ):
        assert expected in documents


def test_names_that_the_author_of_a_manifest_chooses_are_left_out_and_not_changed() -> None:
    changed = list(yaml_changes("image: mine\nmetadata:\n  name: job\n"))
    assert [(change.place, change.after) for change in changed] == [
        ("image", ""),
        ("metadata", ""),
        ("metadata.name", ""),
    ]


@pytest.mark.parametrize("exercise", ["scaling", "lfw_dataset", "launch"])
def test_every_mutant_has_a_name_of_its_own_and_code_of_its_own(exercise: str, tmp_path: Path) -> None:
    all_of_it = mutants(exercise)
    assert len({mutant.name for mutant in all_of_it}) == len(all_of_it) > 50
    assert len({(mutant.file, mutant.change.text) for mutant in all_of_it}) == len(all_of_it)
    for mutant in all_of_it:
        if mutant.file.endswith(".py"):
            ast.parse(mutant.change.text)
    folder = write(tmp_path, exercise, all_of_it[0])
    assert (folder / all_of_it[0].file).read_text() == all_of_it[0].change.text
    assert (folder / "perf_report.py").exists()


def test_reasons_are_given_for_mutants_that_are_made() -> None:
    made_now = {exercise: mutants(exercise) for exercise in EXERCISES}
    assert list(page.unmade(page.read_reasons(), made_now)) == []


def test_a_run_says_what_is_wrong_with_its_outcomes() -> None:
    reasons = [page.Reason("scaling", "equivalent", "the same", ("known", "stale"))]
    outcomes = [
        Outcome("known", None, Verdict.PASSED, 1.0),
        Outcome("new", None, Verdict.PASSED, 1.0),
        Outcome("stale", "speedup", Verdict.FAILED, 1.0),
        Outcome("broken", "speedup", Verdict.FAULT, 1.0),
    ]
    said = list(page.complaints({"scaling": outcomes}, reasons))
    assert said == [
        "scaling: no reason is given for new",
        "scaling: the reason is stale, it is caught: stale",
        "scaling: lockstep itself failed at broken",
        "only 2 of 3 mutants that change what is asked for are caught, less than 95%",
    ]


def test_outcomes_are_kept_one_by_one_and_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "results" / "scaling.jsonl"
    for check in (None, "speedup"):
        grading.append(path, Outcome("a", check, Verdict.FAILED, 0.5))
    with path.open("a") as file:
        file.write('{"name": "cut o')
    assert grading.read(path) == [Outcome("a", "speedup", Verdict.FAILED, 0.5)]


def test_checks_catch_mutants_of_the_scaling_functions(box: Box) -> None:
    explained = {name for reason in page.read_reasons() for name in reason.mutants}
    costs = grading.baseline("scaling", box)
    drawn = random.Random(grading.SEED).sample(mutants("scaling"), SLICE)
    for mutant in drawn:
        function = mutant.change.place
        order = sorted(costs, key=lambda check, near=function: (check != near, costs[check]))  # type: ignore[misc]
        ended = grading.outcome(mutant, order, box)
        assert (ended.check is None) == (mutant.name in explained), ended


def test_a_mutant_that_is_no_mistake_keeps_everything(box: Box) -> None:
    swapped = "effective_batch_size(world_size, batch_size)"
    mutant = next(mutant for mutant in mutants("scaling") if swapped in mutant.change.after)
    ended = grading.outcome(mutant, ("effective_batch_size", "steps_per_epoch"), box)
    assert ended.check is None
    assert ended.verdict is Verdict.PASSED
