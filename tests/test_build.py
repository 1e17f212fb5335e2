"""Sample submissions can be built, and what they claim to fail exists."""

import re
from pathlib import Path

import pytest

from fixtures.build import ROOT, Sample, all_submissions, build, exercise_toml

EXERCISES = sorted(path.parent.name for path in (ROOT / "graders").glob("*/exercise.toml"))

MISTAKE = """
base = "reference"
fails = ["adds"]
follows = ["shows"]
why = "takes away"
[[edit]]
file = "task.py"
find = "a + b"
replace = "a - b"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one exercise, its reference, one correct sample and room for mistakes."""
    root = tmp_path / "project"
    files = {
        "graders/task/exercise.toml": 'files = ["task.py", "task.sh"]\n',
        "reference/task.py": "# >>> solution: add\nprint(a + b)\n# <<<\n",
        "reference/task.sh": "#!/bin/sh\n# >>> solution: call task.py\npython task.py\n# <<<\n",
        "reference/other.py": "# >>> solution: another exercise\n# <<<\n",
        "reference/given.py": "handed_out = True\n",
        "fixtures/submissions/task/correct/odd/about.toml": 'why = "adds backwards"\n',
        "fixtures/submissions/task/correct/odd/task.py": "print(b + a)\n",
        "fixtures/submissions/task/correct/sub/about.toml": 'why = "other script"\nbase = "reference"\n',
        "fixtures/submissions/task/correct/sub/task.sh": "#!/bin/sh\nexec python task.py\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "reference/task.sh").chmod(0o755)
    return root


def add_mistake(root: Path, text: str) -> None:
    folder = root / "fixtures/submissions/task/mistakes"
    folder.mkdir(exist_ok=True)
    (folder / "minus.toml").write_text(text)


def only_mistake(root: Path) -> Sample:
    (mistake,) = (sample for sample in all_submissions("task", root) if sample.kind == "mistake")
    return mistake


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_mistake_is_its_base_with_the_edit(root: Path, tmp_path: Path) -> None:
    add_mistake(root, MISTAKE)
    sample = only_mistake(root)
    assert (sample.name, sample.fails, sample.follows) == ("minus", ("adds",), ("shows",))
    folder = build(sample, tmp_path / "out")
    assert "print(a - b)" in (folder / "task.py").read_text()
    assert names(folder) == {"task.py", "task.sh", "given.py"}
    assert (folder / "task.sh").stat().st_mode & 0o111


PASSAGE = '[[passage]]\nfile = "task.sh"\nstart = "# >>> solution"\nstop = "# <<<"\ntext = "exec true\\n"\n'


def test_a_passage_ends_before_the_line_that_stops_it(root: Path, tmp_path: Path) -> None:
    add_mistake(root, MISTAKE + PASSAGE)
    folder = build(only_mistake(root), tmp_path / "out")
    assert (folder / "task.sh").read_text() == "#!/bin/sh\nexec true\n# <<<\n"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# >>> solution", "python3", "0 lines of task.sh begin with 'python3', not one"),
        ("# >>> solution", "#", "3 lines of task.sh begin with '#', not one"),
        ("# <<<", "#!/bin/sh", "no line of task.sh after '# >>> solution' begins with '#!/bin/sh'"),
        ("task.sh", "absent.sh", "edits absent.sh, which its base does not have"),
    ],
)
def test_a_passage_that_is_not_there_is_refused(
    root: Path, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    add_mistake(root, MISTAKE + PASSAGE.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(complaint)):
        build(only_mistake(root), tmp_path / "out")


def test_a_correct_sample_is_its_folder_without_the_description(root: Path, tmp_path: Path) -> None:
    odd, sub = all_submissions("task", root)
    assert (odd.kind, odd.name, odd.fails, odd.why) == ("correct", "odd", (), "adds backwards")
    assert names(build(odd, tmp_path / "odd")) == {"task.py"}
    assert names(build(sub, tmp_path / "sub")) == {"task.py", "task.sh", "given.py"}
    assert "exec" in (tmp_path / "sub" / "task.sh").read_text()


def test_a_notebook_takes_the_place_of_the_file_and_finds_what_is_given(root: Path, tmp_path: Path) -> None:
    notebook = root / "fixtures/submissions/task/correct/cells"
    notebook.mkdir()
    (notebook / "about.toml").write_text('why = "in cells"\nbase = "given"\n')
    (notebook / "task.ipynb").write_text("{}")
    cells, *_ = all_submissions("task", root)
    assert names(build(cells, tmp_path / "out")) == {"task.ipynb", "given.py"}


def test_a_mistake_may_start_from_a_correct_sample(root: Path, tmp_path: Path) -> None:
    text = MISTAKE.replace("reference", "correct/odd").replace('"a + b"', '"b + a"')
    add_mistake(root, text)
    folder = build(only_mistake(root), tmp_path / "out")
    assert names(folder) == {"task.py"}
    assert (folder / "task.py").read_text() == "print(a - b)\n"


def test_whole_files_and_modes_can_be_changed(root: Path, tmp_path: Path) -> None:
    writes = '[[write]]\nfile = "deep/new.py"\ntext = "x = 1"\n'
    add_mistake(root, MISTAKE + writes + '[[chmod]]\nfile = "task.sh"\nexecutable = false\n')
    folder = build(only_mistake(root), tmp_path / "out")
    assert (folder / "deep/new.py").read_text() == "x = 1"
    assert not (folder / "task.sh").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("a + b", "a * b", "found 0 times in task.py"),
        ("a + b", "a", "found 2 times in task.py"),
        ("task.py", "absent.py", "edits absent.py, which its base does not have"),
        ('"reference"', '"correct/none"', "base is"),
        ('"reference"', '"../../outside"', "base is"),
        ("why", "because", "'why'] missing"),
        ("follows", "followed", "unknown key 'followed'"),
        ("replace", "instead", "'replace'] missing"),
        ('["adds"]', "[]", "`fails` at least one"),
        ('["adds"]', '"adds"', "fails should be a list"),
        ('["shows"]', '["adds"]', "both"),
        ("[[edit]]", '[says]\ndraws = ["x"]\n[[edit]]', "['draws'] say something, but stand in neither"),
        ("[[edit]]", '[says]\nadds = "x"\n[[edit]]', "a list of words"),
        ("[[edit]]", "[says]\nadds = []\n[[edit]]", "a list of words"),
        ("[[edit]]", 'hangs = "yes"\n[[edit]]', "hangs should be a bool"),
        ("[[edit]]", "[edit]", "two brackets"),
        ("why =", "why", "minus"),
    ],
)
def test_an_odd_description_is_refused_by_name(
    root: Path, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    add_mistake(root, MISTAKE.replace(old, new))
    with pytest.raises(ValueError) as refusal:
        build(only_mistake(root), tmp_path / "out")
    assert complaint in str(refusal.value)
    assert "task/mistake/minus" in str(refusal.value)


def test_a_mistake_says_what_its_author_must_read(root: Path) -> None:
    add_mistake(root, MISTAKE.replace("[[edit]]", 'hangs = true\n[says]\nadds = ["a - b", "plus"]\n[[edit]]'))
    mistake = only_mistake(root)
    assert (mistake.says, mistake.hangs) == ({"adds": ["a - b", "plus"]}, True)


def test_a_mistake_changes_something(root: Path) -> None:
    add_mistake(root, MISTAKE.split("[[edit]]")[0])
    with pytest.raises(ValueError, match="changes nothing"):
        all_submissions("task", root)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_mistakes_name_checks_that_exist(exercise: str) -> None:
    known = {check["id"] for check in exercise_toml(exercise)["check"]}
    for sample in all_submissions(exercise):
        assert {*sample.fails, *sample.follows, *sample.like_reference} <= known, str(sample)
        assert sample.says or sample.kind == "correct", f"{sample}: what must its author read?"


@pytest.mark.parametrize(
    "sample", [sample for exercise in EXERCISES for sample in all_submissions(exercise)], ids=str
)
def test_every_sample_builds(sample: Sample, tmp_path: Path) -> None:
    folder = build(sample, tmp_path / "submission")
    assert names(folder)
    assert "about.toml" not in names(folder)
