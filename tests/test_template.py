"""The student's template is the reference without its solutions, and runs nothing by accident."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from lockstep.template import MEASURED, ROOT, cut, is_given, write_template
from tests.sandboxed import seen

TEMPLATE = ROOT / "student_template"
CUT = sorted(
    path.relative_to(ROOT / "reference").as_posix()
    for path in (ROOT / "reference").rglob("*")
    if path.is_file()
    and "__pycache__" not in path.parts
    and path.parent.name != MEASURED
    and not is_given(path)
)

SOLVED = """\
def add(a, b):
    # >>> solution: return the sum
    total = a + b
    return total
    # <<<

print(add(1, 2))
"""


def test_a_solution_becomes_its_sentence_and_an_error() -> None:
    assert cut(SOLVED, "add.py") == (
        "def add(a, b):\n"
        "    # TODO: return the sum\n"
        '    raise NotImplementedError("add.py is not written yet")\n'
        "\n"
        "print(add(1, 2))\n"
    )


@pytest.mark.parametrize("name", ["go.sh", "go.slurm"])
def test_a_shell_script_ends_where_its_solution_was(name: str) -> None:
    script = cut("# >>> solution: start it\ntorchrun x.py\n# <<<\necho done\n", name)
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"{name} is not written yet\n"


def test_in_markdown_a_solution_becomes_a_comment() -> None:
    text = "## Q1 Why?\n\n<!-- >>> solution: say why -->\nBecause.\n<!-- <<< -->\n\n## Q2\n"
    assert cut(text, "answers.md") == "## Q1 Why?\n\n<!-- TODO: say why -->\n\n## Q2\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "# >>> solution: a\n# >>> solution: b\n# <<<\n",
            "x.py:2: a solution begins inside the one of line 1",
        ),
        ("pass\n# <<<\n", "x.py:2: a solution ends that never began"),
        ("pass\n# >>> solution: a\n", "x.py:2: this solution never ends"),
    ],
)
def test_markers_that_do_not_pair_up_are_refused_with_their_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:
        cut(text, "x.py")
    assert str(refusal.value) == complaint


def test_the_template_is_cut_from_the_reference(tmp_path: Path) -> None:
    """If this fails: `make template`, then look at what changed."""
    names = write_template(ROOT / "reference", tmp_path)
    for name in names:
        assert (TEMPLATE / name).read_text() == (tmp_path / name).read_text(), name
        assert os.access(TEMPLATE / name, os.X_OK) == os.access(ROOT / "reference" / name, os.X_OK), name
    in_template = {path.relative_to(TEMPLATE).as_posix() for path in TEMPLATE.rglob("*.*")}
    assert {name for name in in_template if "__pycache__" not in name} == {*names, "README.md"}


def test_what_students_are_told_is_installed_is(box: Box) -> None:
    told = (
        (TEMPLATE / "README.md").read_text().partition("modules there are ")[2].partition("needs others")[0]
    )
    names = re.findall(r"`(\w+)`", told)
    source = f"""
    import importlib

    def main():
        return [importlib.import_module(name).__name__ for name in {names}]
    """
    assert len(names) > 10
    assert seen(box, source) == names


@pytest.mark.parametrize("name", CUT)
def test_no_marker_and_no_solution_is_left(name: str) -> None:
    template = (TEMPLATE / name).read_text()
    assert ">>> solution" not in template
    assert "<<<" not in template
    assert "TODO" in template


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATE.glob("*.py")))
def test_template_files_compile(name: str) -> None:
    compile((TEMPLATE / name).read_text(), name, "exec")


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("lfw_dataset.py", {"__init__", "__len__", "__getitem__", "show_batch", "time_passes"}),
        (
            "ddp_train.py",
            {
                "setup",
                "make_loader",
                "wrap_model",
                "train_one_epoch",
                "evaluate",
                "save_checkpoint",
                "load_checkpoint",
                "cleanup",
            },
        ),
        (
            "lightning_train.py",
            {
                "prepare_data",
                "setup",
                "train_dataloader",
                "val_dataloader",
                "training_step",
                "validation_step",
                "configure_optimizers",
                "build_trainer",
            },
        ),
        (
            "scaling.py",
            {
                "effective_batch_size",
                "steps_per_epoch",
                "scaled_lr",
                "speedup",
                "efficiency",
                "amdahl_speedup",
                "karp_flatt",
            },
        ),
    ],
)
def test_what_the_student_writes_is_missing_altogether(name: str, functions: set[str]) -> None:
    """Each of these functions does nothing but raise, so that no check can pass by accident."""
    empty = set()
    for node in ast.walk(ast.parse((TEMPLATE / name).read_text())):
        if isinstance(node, ast.FunctionDef):
            body = [statement for statement in node.body if not isinstance(statement, ast.Expr)]
            if len(body) == 1 and isinstance(body[0], ast.Raise):
                empty.add(node.name)
    assert functions <= empty
