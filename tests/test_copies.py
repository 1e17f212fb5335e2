"""Copied sources are alike, whatever was done to them; honest ones are not, even where all began with one template."""

from __future__ import annotations

import io
import itertools
import json
import tokenize
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import build
from lockstep.classroom import winnowing
from lockstep.classroom.copies import LEAST, NEAREST, SIMILAR, Alike, alike
from lockstep.classroom.overlap import COMMON_LEAST, Index
from lockstep.classroom.tokens import _PYTHON, MOST, tokens
from lockstep.classroom.winnowing import RUN, WINDOW, Given, Prints, fingerprints
from lockstep.submission import Submission, open_submission
from tests.disguise import DISGUISES, half
from tests.fillings import HANDS, filled

ROOT = Path(__file__).resolve().parent.parent
quick = settings(database=None, max_examples=100, deadline=None)

# Samples that were written from scratch, each by another design; the rest of them begin with the reference's code.
INDEPENDENT = {
    "lfw_dataset.py": (
        "lfw_dataset",
        "argparse_at_import extra_arguments glob_one_level image_folder listdir_plus_paths names_index old_habits "
        "os_walk_with_utils pathlib_rglob plot_instead_of_print",
    ),
    "lightning_train.py": (
        "lightning_train",
        "argparse_at_import class_tower loaders_on_module loaders_to_fit new_name old_spellings",
    ),
    "scaling.py": (
        "scaling",
        "decorated exact_fractions import_time_script numpy_style plain_math static_class torch_tensors",
    ),
    "fashion_trainer.py": (
        "fashion_trainer",
        "accelerator_api by_hand closures functional half_precision import_time_script loss_after_epoch "
        "main_moves_model old_fashioned trainer_class",
    ),
    "data_parallel.py": (
        "data_parallel",
        "alias_and_timeit benchmark_timer class_timer cuda_events fetches_results own_report subclass_and_nanoseconds",
    ),
    "ddp_train.py": (
        "ddp_train",
        "chatty_barriers ddp_subclass gathered_predictions import_time_script join_uneven no_sync_all_reduce "
        "old_spellings own_sampler reduce_by_hand trainer_class",
    ),
    "amp_train.py": ("amp", "old_spellings trainer_class own_arithmetic"),
}


@cache
def handed_out() -> Given:
    return winnowing.given([ROOT / "student_template"])


@cache
def independent(file: str) -> Mapping[str, str]:
    exercise, names = INDEPENDENT[file]
    folder = ROOT / "fixtures" / "submissions" / exercise / "correct"
    return {name: (folder / name / file).read_text() for name in names.split()}


def submission(files: Mapping[str, str]) -> Submission:
    contents = {path: text.encode() for path, text in files.items()}
    return Submission("student", MappingProxyType(contents), frozenset(), "", ())


def prints(files: Mapping[str, str], known: Given | None = None) -> tuple[Prints, ...]:
    return fingerprints(submission(files), handed_out() if known is None else known)


def found(*students: Mapping[str, str], known: Given | None = None) -> Mapping[int, Alike]:
    return alike([prints(files, known) for files in students], lambda a, b: False)


def sources() -> list[tuple[str, str, str]]:
    samples = [(file, name, text) for file in INDEPENDENT for name, text in independent(file).items()]
    return samples + [("fashion_trainer.py", hand, filled(hand)) for hand in HANDS]


# Tokens


def spelled(source: str, path: str = "a.py") -> list[int]:
    return [int(code) for code in tokens(path, source.encode()).codes]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "lockstep" / "classroom").glob("*.py")), ids=lambda path: path.name
)
def test_tokens_are_those_of_python(path: Path) -> None:
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    read = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    expected = [token.string for token in read if token.type not in layout]
    seen = [token for token in _PYTHON.findall(path.read_text()) if token.strip() and token != "\\\n"]
    assert "".join(seen) == "".join(expected)
    assert len(seen) == sum(3 if token == "..." else 1 for token in expected)


SAME = {
    "names": ("total = count + step", "summe = anzahl + schritt"),
    "numbers and texts": ("f(1, 'a')", 'f(2.5e-3, """b""")'),
    "texts side by side": ("f('a' 'b')", "f('ab')"),
    "comments": ("x = 1  # one", "# two\nx = 1"),
    "docstrings": ('def f():\n    """Say."""\n    return 1', "def f():\n    return 1"),
    "layout": ("f(a, b)", "f(\n    a,\n    b,\n)"),
    "continued lines": ("x = a + b", "x = a \\\n    + b"),
    "one line or two": ("if a: b()", "if a:\n    b()"),
    "imports": ("import torch\nfrom os import (\n    path,\n)\nx = 1", "x = 1\nimport numpy as np"),
    "attributes of one's own": ("self.model(x)", "self.net(x)"),
    "line ends": ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_makes_no_difference(one: str, other: str) -> None:
    assert spelled(one) == spelled(other) != []


DIFFERENT = {
    "what is called": ("dist.all_reduce(x)", "dist.broadcast(x)"),
    "keywords": ("for x in y: f()", "while x in y: f()"),
    "operators": ("a + b", "a - b"),
    "texts that are values": ("x = 'a'", "x = a"),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_makes_a_difference(one: str, other: str) -> None:
    assert spelled(one) != spelled(other)


def test_launch_files_keep_their_words_and_batch_options() -> None:
    assert spelled("torchrun a.py", "a.sh") != spelled("deepspeed a.py", "a.sh")
    assert (
        spelled("#SBATCH --nodes=2\n", "a.slurm") == spelled("#SBATCH --nodes=4  # four\n", "a.slurm") != []
    )
    assert spelled("# a remark\n", "a.yaml") == []


@quick
@given(
    st.one_of(
        st.binary(max_size=300), st.text(alphabet="'\"\\\n #rbf(),.:=1e-x", max_size=300).map(str.encode)
    )
)
def test_any_bytes_are_some_tokens(content: bytes) -> None:
    for path in ("a.py", "a.sh"):
        read = tokens(path, content)
        assert len(read.codes) == len(read.lines)
        assert (np.diff(read.lines) >= 0).all()


HOSTILE = (
    "'",
    '"',
    "'''",
    "''''",
    "\\",
    "\\\n",
    "rb",
    "r'",
    " ",
    "#",
    "1e",
    "(",
    ".",
    "ʰ",
    "'\\",
    "\0",
    " \x0c",
    "{}",
)


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_a_long_hostile_source_takes_no_longer_than_another(text: str) -> None:
    # Anything worse than linear would take minutes.
    for path in ("a.py", "a.sh"):
        assert len(tokens(path, (text * (100_000 // len(text))).encode()).codes) <= MOST


# Fingerprints


def test_long_enough_passages_share_a_fingerprint_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(200)]
    shared = " ".join(rng.choice(words, RUN + WINDOW - 1))
    for _ in range(30):
        one, other = (" ".join(rng.choice(words, rng.integers(0, 40))) for _ in range(2))
        a, b = (prints({"a.sh": f"{start} {shared} {start}"})[0].hashes for start in (one, other))
        assert len(np.intersect1d(a, b))


def test_what_was_handed_out_leaves_no_fingerprints() -> None:
    template = {path.name: path.read_text() for path in (ROOT / "student_template").glob("*.py")}
    assert prints(template) == ()
    windows = {name: text.replace("\n", "\r\n") for name, text in template.items()}
    assert prints(windows) == ()
    assert [each.path for each in prints({**template, "train_noddp.py": filled("terse")})] == [
        "train_noddp.py"
    ]


def test_a_source_that_cannot_be_read_is_left_out() -> None:
    text = filled("terse")
    broken = Submission(
        "s", {"a.py": text.encode()}, frozenset(), "", (), problems={"a.py": "It is too large."}
    )
    assert fingerprints(broken, handed_out()) == ()


# Copies


def missed(disguise: str, step: int = 1) -> list[str]:
    return [
        f"{file} {name}"
        for file, name, text in sources()[::step]
        if found({file: text}, DISGUISES[disguise]({file: text})).keys() != {0, 1}
    ]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_disguised_copies_are_found(disguise: str) -> None:
    assert missed(disguise, step=6) == []


# What docs/copies.md says of all of them.
MISSED = {"a third dead code": 1, "all of it": 1}


@pytest.mark.slow
@pytest.mark.parametrize("disguise", DISGUISES)
def test_so_many_disguised_copies_are_found(disguise: str) -> None:
    assert len(missed(disguise)) == MISSED.get(disguise, 0)


def mixed(step: int) -> list[bool]:
    """Whether half of somebody's functions and classes among other work is found, for some pairs of solutions."""
    pairs = [
        (theirs, own, number)
        for file in INDEPENDENT
        for number, (theirs, own) in enumerate(itertools.permutations(independent(file).values(), 2))
    ]
    return [
        found({"a.py": theirs}, {"a.py": own + half(theirs, number)}).keys() == {0, 1}
        for theirs, own, number in pairs[::step]
    ]


@pytest.mark.slow
def test_so_many_half_copies_are_found() -> None:
    caught = mixed(step=3)
    assert (sum(caught), len(caught)) == (83, 130)


def test_half_of_the_functions_among_work_of_ones_own_are_found_in_most_cases() -> None:
    caught = mixed(step=20)
    assert sum(caught) > len(caught) / 2


@pytest.mark.parametrize("file", INDEPENDENT)
def test_independent_solutions_are_not_alike(file: str) -> None:
    assert found(*({file: text} for text in independent(file).values())) == {}


def test_honest_students_who_fill_in_one_template_are_not_alike() -> None:
    assert found(*({"fashion_trainer.py": filled(hand)} for hand in HANDS)) == {}


def test_whole_hand_ins_of_independent_students_are_not_alike() -> None:
    """A file is held against everything that somebody else handed in, other exercises included."""
    students = []
    for number in range(6):
        texts = {file: list(independent(file).values()) for file in INDEPENDENT}
        students.append({file: own[number] for file, own in texts.items() if number < len(own)})
    assert found(*students) == {}


def test_samples_that_are_the_reference_but_for_a_line_are_copies(tmp_path: Path) -> None:
    mistakes = [sample for sample in build.all_submissions("ddp_train") if sample.kind == "mistake"]
    told = [sample for sample in mistakes if 'base = "reference"' in sample.path.read_text()][:4]
    students = []
    for sample in told:
        read = open_submission(build.build(sample, tmp_path / sample.name))
        students.append({"ddp_train.py": read.files["ddp_train.py"].decode()})
    assert found(*students).keys() == {0, 1, 2, 3}


def test_both_are_told_what_they_share_and_where() -> None:
    ann = filled("careful")
    gap = "\n" * 30
    ben = f"import torch\n{gap}" + ann.replace("labels", "targets").replace("images", "pictures")
    result = found(
        {"fashion_trainer.py": ann}, {"deep/trainer.py": ben}, {"fashion_trainer.py": filled("terse")}
    )
    assert result.keys() == {0, 1}
    mine, theirs = result[0].mine, result[0].theirs
    assert (mine.path, theirs.path) == ("fashion_trainer.py", "deep/trainer.py")
    assert mine.share == theirs.share == 1
    assert mine.where.startswith("lines ")
    first, other = (int(passage.where.split()[1]) for passage in (mine, theirs))
    assert other - first == 31
    assert (result[1].mine, result[1].theirs) == (theirs, mine)
    assert result[0].others == (1,)
    assert not result[0].same


def test_similarity_is_told_both_ways() -> None:
    ann, rest = independent("ddp_train.py")["own_sampler"], independent("amp_train.py")["trainer_class"]
    result = found({"a.py": ann}, {"b.py": f"{ann}\n{rest}"})
    assert result[0].mine.share == 1
    assert result[0].theirs.share < SIMILAR + 0.1
    assert (result[1].mine.share, result[1].theirs.share) == (result[0].theirs.share, 1)


def test_equal_files_are_told_to_be_equal() -> None:
    text = filled("careful")
    assert found({"a.py": text}, {"b.py": text.replace("\n", "\r\n")})[0].same


def test_a_team_is_excused() -> None:
    text = {"fashion_trainer.py": filled("careful")}
    team = {0, 1}
    result = alike([prints(text)] * 3, lambda a, b: {a, b} <= team)
    assert {student: each.others for student, each in result.items()} == {0: (2,), 1: (2,), 2: (0, 1)}


def test_what_a_good_part_of_the_class_wrote_is_no_sign() -> None:
    lecture, own = filled("careful"), independent("ddp_train.py")["own_sampler"]
    students = [{"fashion_trainer.py": lecture} for _ in range(COMMON_LEAST + 1)]
    assert found(*students) == {}
    with_a_copy = [*students, {"fashion_trainer.py": lecture, "ddp_train.py": own}, {"x.py": own}]
    result = found(*with_a_copy)
    assert result.keys() == {11, 12}
    assert result[11].files == ("ddp_train.py",)


def test_a_large_ring_is_told_in_part() -> None:
    ring = NEAREST + 5
    others = [{"a.py": f"x = {'x.a' + str(number)}({number})\n" * 3} for number in range(ring * 6)]
    result = found(*[{"ddp_train.py": independent("ddp_train.py")["own_sampler"]}] * ring, *others)
    assert result.keys() == set(range(ring))
    for student, each in result.items():
        assert len(each.others) == NEAREST
        assert student not in each.others
        assert each.more == ring - 1 - NEAREST


def test_a_few_lines_are_nobodys() -> None:
    lines = filled("careful").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("def train("))
    small = "\n".join(lines[start : start + 9])
    assert len(prints({"a.py": small})[0].hashes) < LEAST
    assert found({"a.py": small}, {"b.py": small}) == {}


def test_launch_files_by_the_same_manual_are_not_alike() -> None:
    manual = (ROOT / "reference" / "launch" / "pytorchjob.yaml").read_text()
    own = manual.replace("ddp-train", "my-job").replace("registry", "hub").replace("Worker", "Helper")
    own = own.replace("- python", "- bash\n            - -c\n            - exec python").replace(
        "torchrun", "python -m torch.run"
    )
    result = found({"launch/pytorchjob.yaml": manual}, {"launch/pytorchjob.yaml": own})
    assert result == {}
    assert found({"launch/job.yaml": manual}, {"job.yml": manual}).keys() == {0, 1}


def test_a_notebook_is_told_by_its_cells(tmp_path: Path) -> None:
    text = filled("careful")
    at = text.index("def evaluate(")
    cells = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in ("import json", text[:at], text[at:])
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "trainer.ipynb").write_text(json.dumps(notebook))
    read = fingerprints(open_submission(tmp_path / "trainer.ipynb"), handed_out())
    result = alike([read, prints({"fashion_trainer.py": text})], lambda a, b: False)
    assert result[1].theirs.path == "trainer.ipynb"
    assert result[1].theirs.where == "cells 2 to 3"


# Who shares how much


@quick
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 12))), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_the_index_counts_what_a_loop_would(sets: Sequence[tuple[int, set[int]]], least: int) -> None:
    index = Index(
        [np.array(sorted(own), dtype=np.uint32) for _, own in sets], [owner for owner, _ in sets], 6
    )
    seen = {
        (overlap.place, int(owner)): int(shared)
        for overlap in index.overlaps(least, 0.5)
        for owner, shared in zip(overlap.owners, overlap.shared, strict=True)
    }
    expected = {}
    for place, (owner, own) in enumerate(sets):
        for other in {other for other, _ in sets} - {owner}:
            theirs = set().union(*(each for name, each in sets if name == other))
            if len(own & theirs) >= max(least, 0.5 * len(own)):
                expected[place, other] = len(own & theirs)
    assert seen == expected
