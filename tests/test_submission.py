"""What is handed in becomes one tree in memory; honest leftovers are skipped, everything else is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep import folder as folder_module
from lockstep import leftovers
from lockstep.leftovers import FILE_BYTES, FOLDER_ENTRIES, NOTEBOOK_BYTES, TREE_BYTES, TREE_FILES
from lockstep.source import SOURCE_BYTES
from lockstep.submission import Submission, SubmissionError, display_name, open_submission, source_problem
from tests.intake import quick, taken_or_refused

SOURCE = b"x = 1\n"


def make(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def make_sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def said(read: Submission) -> str:
    return "\n".join(read.notes)


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    files = {"a.py": SOURCE, "sub/b.py": b"", "reports/loader.json": b"{}", "über uns/-rf.txt": b"\0\xff"}
    read = open_submission(make(tmp_path / "Jörg Müller (hw 1)", files))
    assert read.name == "Jörg_Müller__hw_1_"
    assert dict(read.files) == files
    assert (read.notes, dict(read.problems), read.executable) == ((), {}, frozenset())
    with pytest.raises(TypeError):
        read.files["a.py"] = b""  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "read_as", "note"),
    [
        (["scaling (1).py"], ["scaling.py"], "`scaling (1).py` was read as `scaling.py`"),
        (["launch/run(12).sh", "a.py"], ["launch/run.sh", "a.py"], "`launch/run(12).sh` was read as `launch/run.sh`"),
        (["scaling (1).ipynb"], ["scaling.py"], "`scaling (1).ipynb` was read as `scaling.ipynb`"),
        (["a (1).py", "a.py"], ["a (1).py", "a.py"], "`a (1).py` was not read as `a.py`, because that is there as well"),
        (["a (1).py", "A.py"], ["a (1).py", "A.py"], "because that is there as well"),
        (["a (1).ipynb", "a.py"], ["a (1).py", "a.py"], "was not read as `a.ipynb`, because that is there"),
        (["a (1).py", "a (2).py"], ["a (1).py", "a (2).py"], "were not read as `a.py`: keep one of them"),
        (["a (1).py", "a.py/b.py"], ["a (1).py", "a.py/b.py"], "because that is there as well"),
        (["con (1).py"], ["con (1).py"], ""),
        (["x.py", "plot (1).png", "(1).py", "f (a).py"], ["x.py", "plot (1).png", "(1).py", "f (a).py"], ""),
    ],
)  # fmt: skip
def test_the_copy_of_a_browser_is_read_as_the_file_where_only_one_can_be_meant(
    tmp_path: Path, given: list[str], read_as: list[str], note: str
) -> None:
    empty = b'{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": "x = 1"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    files = {path: empty if path.endswith(".ipynb") else SOURCE for path in given}
    read = open_submission(make(tmp_path / "hw", files))
    assert set(read.files) == set(read_as)
    assert note in said(read)


def test_a_single_file_is_a_submission(tmp_path: Path) -> None:
    read = open_submission(make(tmp_path, {"lfw_dataset.py": SOURCE}) / "lfw_dataset.py")
    assert (read.name, dict(read.files)) == ("lfw_dataset", {"lfw_dataset.py": SOURCE})


def test_what_is_handed_in_may_itself_be_a_link(tmp_path: Path) -> None:
    make(tmp_path / "real", {"a.py": SOURCE})
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "file.py").symlink_to("real/a.py")
    assert dict(open_submission(tmp_path / "folder").files) == {"a.py": SOURCE}
    assert dict(open_submission(tmp_path / "file.py").files) == {"file.py": SOURCE}


def test_a_relative_path_still_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make(tmp_path / "hw", {"a.py": SOURCE}))
    assert open_submission(Path(".")).name == "hw"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("hw1.tar.gz", "hw1"),
        ("HW1.ZIP", "HW1"),
        ("Zoë 张伟.zip", "Zoë_张伟"),
        ("=cmd|' /C calc'!A0", "_cmd____C_calc__A0"),
        ("+1", "_1"),
        ("-rf", "rf"),
        ("@here", "_here"),
        ("..", "submission"),
        ("a\x1b[31m\u202eb\n", "a__31m_b_"),
        ("<script>", "_script_"),
        ("a/b", "a_b"),
        ("x" * 300, "x" * 100),
        (".zip", "submission"),
        ("\udcff.py", "_"),
        ("e" + "\u0302" * 9 + ".py", "ê\u0302\u0302"),
    ],
)
def test_display_names_are_harmless(given: str, name: str) -> None:
    assert display_name(given) == name


@pytest.mark.parametrize(
    "junk",
    [
        {".git/config": b""},
        {"__pycache__/a.cpython-311.pyc": b""},
        {"deep/__pycache__/a.pyc": b"", "deep/b.py": SOURCE},
        {".ipynb_checkpoints/a-checkpoint.ipynb": b"{"},
        {"node_modules/x/index.js": b""},
        {".DS_Store": b""},
        {"._a.py": b"\0\5\x16\7"},
        {"Thumbs.db": b""},
        {"a.pyc": b""},
        {"myenv/pyvenv.cfg": b"", "myenv/lib/a.py": SOURCE},
        {".venv/lib/a.py": SOURCE},
        {"wandb/run-1/files/output.log": b""},
        {"lightning_logs/version_0/hparams.yaml": b""},
        {"lockstep.egg-info/PKG-INFO": b""},
        {"data/cifar-10-batches-py/data_batch_1": b""},
        {"lfw/George/George_0001.jpg": b""},
        {"data/MNIST/raw/train-images-idx3-ubyte": b""},
        {"FashionMNIST/raw/t10k-labels-idx1-ubyte.gz": b""},
    ],
    ids=lambda junk: next(iter(junk)).replace("/", "-"),
)
def test_leftovers_are_skipped_with_a_note(junk: dict[str, bytes], tmp_path: Path) -> None:
    read = open_submission(make(tmp_path / "hw", {"a.py": SOURCE, **junk}))
    assert set(read.files) - {"deep/b.py"} == {"a.py"}
    assert "skipped `" in said(read)


@pytest.mark.parametrize(
    "files",
    [
        {"lfw/lfw_dataset.py": SOURCE, "ddp/ddp_train.py": SOURCE},
        {"mnist/train/a.py": SOURCE, "a.py": SOURCE},
        {"venv/a.py": SOURCE, "b.py": SOURCE},
        {"git/a.py": SOURCE, "data/a.txt": b"", "runs/a.py": b""},
    ],
)
def test_code_in_folders_of_such_names_stays(files: dict[str, bytes], tmp_path: Path) -> None:
    assert dict(open_submission(make(tmp_path / "hw", files)).files) == files


def test_a_data_set_under_any_name_is_skipped(tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE})
    (folder / "faces").mkdir()
    for number in range(FOLDER_ENTRIES + 1):
        (folder / "faces" / f"{number}.jpg").touch()
    read = open_submission(folder)
    assert set(read.files) == {"a.py"}
    assert read.notes == ("skipped `faces`: a data set; the checks bring their own",)


def test_a_link_to_a_data_set_is_skipped_by_its_name(tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE})
    (folder / "cifar-10-batches-py").symlink_to("/somewhere/else")
    assert set(open_submission(folder).files) == {"a.py"}


def test_big_files_are_skipped_unread(tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE})
    for name, size in [("model.pt", 1 << 40), ("lfw.tar.gz", FILE_BYTES + 1), ("big.py", 1 << 30)]:
        make_sparse(folder / name, size)
    make_sparse(folder / "ddp_train.ipynb", NOTEBOOK_BYTES + 1)
    read = open_submission(folder)
    assert set(read.files) == {"a.py"}
    assert all(f"`{name}`" in said(read) for name in ("model.pt", "lfw.tar.gz", "big.py", "ddp_train.ipynb"))
    assert "larger than 4 MiB" in read.problems["big.py"]
    assert "`ddp_train.ipynb` was not read" in read.problems["ddp_train.py"]


def test_sources_come_first_when_there_is_too_much(tmp_path: Path) -> None:
    pictures = {f"plots/{number:04}.png": b"" for number in range(TREE_FILES)}
    read = open_submission(make(tmp_path / "many", {**pictures, "z/z/z.py": SOURCE, "z.sh": b""}))
    assert len(read.files) == TREE_FILES
    assert {"z/z/z.py", "z.sh"} < set(read.files)
    assert "skipped `plots/0498.png`, `plots/0499.png`: beyond the first 500 files" in said(read)
    folder = make(tmp_path / "much", {"z.py": SOURCE})
    for number in range(1 + TREE_BYTES // FILE_BYTES):
        make_sparse(folder / f"{number}.bin", FILE_BYTES)
    read = open_submission(folder)
    assert len(read.files) == TREE_BYTES // FILE_BYTES
    assert "z.py" in read.files


def test_a_lone_folder_is_unwrapped(tmp_path: Path) -> None:
    read = open_submission(make(tmp_path / "hw", {"outer/inner/a.py": SOURCE, "outer/.DS_Store": b""}))
    assert dict(read.files) == {"a.py": SOURCE}
    assert read.notes[0] == "the submission was read from the folder `outer/inner` inside"
    read = open_submission(make(tmp_path / "reports_only", {"reports/loader.json": b"{}"}))
    assert set(read.files) == {"reports/loader.json"}


def test_executable_files_and_contents_make_the_digest(tmp_path: Path) -> None:
    def digest(files: dict[str, bytes], executable: str = "") -> str:
        folder = make(tmp_path / f"hw{len(list(tmp_path.iterdir()))}", files)
        if executable:
            (folder / executable).chmod(0o755)
        read = open_submission(folder)
        assert read.executable == ({executable} if executable else set())
        return read.digest

    digests = [
        digest({"a.py": b"x", "b.py": b"y"}),
        digest({"a.py": b"x", "b.py": b"y"}, "a.py"),
        digest({"a.py": b"xb.py", "b.py": b"y"}),
        digest({"a.py": b"y", "b.py": b"x"}),
        digest({"a.py": b"x", "c.py": b"y"}),
        digest({"a.py": b"x"}),
    ]
    assert len(set(digests)) == len(digests)
    assert digests[0] == digest({"b.py": b"y", "a.py": b"x"})


@contextmanager
def special(folder: Path, kind: str) -> Iterator[None]:
    path = folder / "odd"
    if kind == "a symbolic link":
        path.symlink_to("/etc/passwd")
        yield
    elif kind == "a named pipe":
        os.mkfifo(path)
        yield
    else:
        here = os.open(folder, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{here}/odd")
            yield
        os.close(here)


@pytest.mark.parametrize("kind", ["a symbolic link", "a named pipe", "a socket"])
def test_links_pipes_and_sockets_inside_are_refused(kind: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE, "sub/b.py": SOURCE})
    with special(folder / "sub", kind), pytest.raises(SubmissionError, match=f"`sub/odd` is {kind}"):
        open_submission(folder)


def test_links_are_refused_wherever_they_lead(tmp_path: Path) -> None:
    for target in ("a.py", "missing", "..", "."):
        folder = make(tmp_path / f"to {len(target)}", {"a.py": SOURCE})
        (folder / "link").symlink_to(target)
        with pytest.raises(SubmissionError, match="`link` is a symbolic link"):
            open_submission(folder)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a\\b.py"], "a backslash"),
        (["c:a.py"], "a drive"),
        (["a\x1b[31m.py"], "control characters"),
        (["a\u202egp.py"], "direction marks"),
        (["con.py"], "Windows keeps"),
        (["\udcff.py"], "not valid UTF-8"),
        (["A.py"], "upper and lower case"),
        (["u\u0308.py", "\u00fc.py"], "twice"),
        (["/".join(["d"] * 17) + "/b.py"], "folders deep"),
    ],
)
def test_odd_names_in_a_folder_are_refused(names: list[str], sentence: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE, **dict.fromkeys(names, SOURCE)})
    with pytest.raises(SubmissionError, match=sentence) as caught:
        open_submission(folder)
    assert str(caught.value).isprintable()


def test_decomposed_umlauts_are_composed(tmp_path: Path) -> None:
    assert set(open_submission(make(tmp_path / "hw", {"a.py": b"", "fu\u0308r.csv": b""})).files) == {
        "a.py",
        "f\u00fcr.csv",
    }


def missing(folder: Path) -> Path:
    return folder / "missing"


def empty(folder: Path) -> Path:
    return make(folder / "empty", {})


def only_empty_folders(folder: Path) -> Path:
    (folder / "shell" / "inner").mkdir(parents=True)
    return folder / "shell"


def only_leftovers(folder: Path) -> Path:
    return make(folder / "hw", {".git/config": b"", ".DS_Store": b""})


def only_a_pdf(folder: Path) -> Path:
    return make(folder / "hw", {"report.pdf": b"%PDF", "data.csv": b"", "b.txt": b"", "c.txt": b""})


def only_an_archive(folder: Path) -> Path:
    return make(folder / "hw", {"mine.zip": b"PK", "notes.txt": b""})


def a_pdf(folder: Path) -> Path:
    return make(folder, {"report.pdf": b"%PDF"}) / "report.pdf"


def a_text(folder: Path) -> Path:
    return make(folder, {"lfw_dataset.py.txt": SOURCE}) / "lfw_dataset.py.txt"


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.py")
    return folder / "pipe.py"


def a_device(folder: Path) -> Path:
    return Path("/dev/null")


def a_dangling_link(folder: Path) -> Path:
    (folder / "link.py").symlink_to("nowhere")
    return folder / "link.py"


def a_loop(folder: Path) -> Path:
    (folder / "loop.py").symlink_to("loop.py")
    return folder / "loop.py"


def a_nul(folder: Path) -> Path:
    return folder / "a\0b.py"


def a_long_name(folder: Path) -> Path:
    return folder / ("x" * 300 + ".py")


def below_a_file(folder: Path) -> Path:
    return make(folder, {"a.py": SOURCE}) / "a.py" / "b.py"


def a_huge_source(folder: Path) -> Path:
    make_sparse(folder / "big.py", 1 << 40)
    return folder / "big.py"


def a_huge_notebook(folder: Path) -> Path:
    make_sparse(folder / "big.ipynb", 1 << 40)
    return folder / "big.ipynb"


@pytest.mark.parametrize(
    ("make_path", "sentence"),
    [
        (missing, "There is no file or folder `missing`"),
        (empty, "`empty` is empty"),
        (only_empty_folders, "`shell` is empty"),
        (only_leftovers, r"holds nothing that can be graded. Skipped `.DS_Store`, `.git`: made by a tool"),
        (only_a_pdf, r"holds nothing that can be graded. It holds `b.txt`, `c.txt`, `data.csv` and more"),
        (only_an_archive, r"another archive, `mine.zip`"),
        (a_pdf, r"`report.pdf` is not of a type that is graded. Hand in a folder, a .zip"),
        (a_text, r"`lfw_dataset.py.txt` is not of a type"),
        (a_pipe, "neither a file nor a folder"),
        (a_device, "neither a file nor a folder"),
        (a_dangling_link, "There is no file or folder `link.py`"),
        (a_loop, "cannot be opened"),
        (a_nul, "cannot be opened"),
        (a_long_name, "cannot be opened"),
        (below_a_file, "cannot be opened"),
        (a_huge_source, "`big.py`: larger than 4 MiB"),
        (a_huge_notebook, "`big.ipynb`: a notebook larger than 20 MiB; clear its outputs"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_reason(make_path, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=sentence) as caught:
        open_submission(make_path(tmp_path))
    assert str(tmp_path) not in str(caught.value)


def test_unreadable_files_and_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, whom no permission stops.
    folder = make(tmp_path / "hw", {"a.py": SOURCE, "sub/b.py": SOURCE})
    real_open, real_scandir = os.open, os.scandir

    def refuse_open(path: Path, *arguments: int) -> int:
        if Path(path).name == "b.py":
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module.os, "open", refuse_open)
        with pytest.raises(SubmissionError, match=r"`sub/b\.py` cannot be read: permission denied"):
            open_submission(folder)

    def refuse_scandir(path: Path) -> object:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return real_scandir(path)

    monkeypatch.setattr(folder_module.os, "scandir", refuse_scandir)
    with pytest.raises(SubmissionError, match="The folder `sub` cannot be read: permission denied") as caught:
        open_submission(folder)
    assert str(tmp_path) not in str(caught.value)


def test_a_file_that_is_swapped_while_it_is_read_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "hw", {"a.py": SOURCE})
    (file,), _ = folder_module.list_folder(folder)
    (folder / "a.py").write_bytes(b"x" * 1000)
    with pytest.raises(SubmissionError, match="changed while it was read"):
        file.read()
    (folder / "a.py").unlink()
    (folder / "a.py").symlink_to("/etc/passwd")
    with pytest.raises(SubmissionError, match="cannot be read"):
        file.read()
    (folder / "a.py").unlink()
    os.mkfifo(folder / "a.py")
    with pytest.raises(SubmissionError, match="changed while it was read"):
        file.read()


def test_a_folder_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "WALKED_ENTRIES", 20)
    folder = make(tmp_path / "hw", {f"{number}.txt": b"" for number in range(20)})
    make(folder, {"sub/a.py": SOURCE})
    with pytest.raises(SubmissionError, match="more than 20 files"):
        open_submission(folder)


SOURCES = {
    "plain": (b"x = 1\n", None),
    "empty": (b"", None),
    "byte order mark": (b"\xef\xbb\xbfx = 1\r\n", None),
    "umlauts": ("# für\n".encode(), None),
    "latin-1 with a cookie": (b"# -*- coding: latin-1 -*-\nx = '\xfc'\n", None),
    "windows-1252 with a cookie in line 2": (
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'\n",
        None,
    ),
    "gbk with a cookie": ("# coding: gbk\nx = '中'\n".encode("gbk"), None),
    "latin-1 without a cookie": (b"x = 1\ny = 2\nz = '\xfc'\n", "not valid UTF-8 in line 3"),
    "latin-1 in the first line": (b"# f\xfcr\n", "not valid UTF-8 in line 1"),
    "old Mac line ends": (b"x\ry\rz = '\xfc'\r", "in line 3"),
    "utf-16": ("x = 1\n".encode("utf-16"), "UTF-16"),
    "NUL": (b"x = 1\ny = '\0'\n", "a NUL byte in line 2"),
    "a cookie that does not exist": (b"# coding: klingon\n", "declares an encoding that does not exist"),
    "a mark against a cookie": (
        b"\xef\xbb\xbf# coding: latin-1\n",
        "declares an encoding that does not exist",
    ),
    "a codec that executes": (b"# coding: unicode_escape\n", "declares the encoding `unicode_escape`"),
    "a codec that is slow": (b"# coding: punycode\n" + b"a" * 200_000, "declares the encoding `punycode`"),
    "a codec that is no character set": (b"# coding: zlib\n", "`zlib`"),
    "utf-7": (b"# coding: utf-7\n+AAo-import os\n", "`utf-7`"),
    "ascii that is not": (b"# coding: ascii\nx = '\xfc'\n", "not valid ASCII in line 2"),
    "too long": (b"x = 1\n" * 50_000, "has 292 KiB; a source of more than 256 KiB is not graded"),
    "a notebook": (b'{"cells": [], "nbformat": 4}', "is a notebook with a false suffix"),
    "a dict that is none": (b"{'cells': 1}\n", None),
}


@pytest.mark.parametrize("case", SOURCES)
def test_sources_that_python_cannot_read_are_named(case: str, tmp_path: Path) -> None:
    data, sentence = SOURCES[case]
    problem = source_problem("a.py", data)
    read = open_submission(make(tmp_path / "hw", {"a.py": data, "b.py": SOURCE}))
    assert read.files["a.py"] == data
    if sentence is None:
        assert problem is None
        assert (dict(read.problems), read.notes) == ({}, ())
        compile(data, "a.py", "exec")
    else:
        assert problem is not None
        assert problem.startswith("`a.py` ")
        assert sentence in problem
        assert dict(read.problems) == {"a.py": problem}
        assert read.notes == (problem,)


def test_direction_marks_are_pointed_out(tmp_path: Path) -> None:
    files = {"a.py": "x = 1\n\ny = '\u202e'\n".encode(), "b.py": b"\xef\xbb\xbfx\n"}
    read = open_submission(make(tmp_path / "hw", files))
    assert read.notes == (
        "`a.py` holds bidirectional control characters in line 3: it may read otherwise than it runs",
    )


def test_importing_the_intake_is_quick() -> None:
    """Neither torch nor nbformat is loaded before it is needed."""
    program = (
        "import sys, lockstep.submission as s, pathlib; s.open_submission(pathlib.Path(sys.argv[1])); "
        "print({'torch', 'numpy', 'nbformat', 'jsonschema'} & set(sys.modules))"
    )
    root = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", program, str(root / "reference")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=root,
    )
    assert run.stdout == "set()\n"


def test_the_limits_fit_together() -> None:
    assert SOURCE_BYTES < FILE_BYTES < TREE_BYTES < leftovers.READ_BYTES
    assert FILE_BYTES < NOTEBOOK_BYTES < leftovers.READ_BYTES


@quick
@given(data=st.binary(max_size=300) | st.text(max_size=99).map(lambda text: b"# coding: " + text.encode()))
def test_any_source_is_taken_with_or_without_a_note(data: bytes, tmp_path: Path) -> None:
    taken_or_refused(tmp_path / "a.py", data)
    problem = source_problem("a.py", data)
    assert problem is None or problem.isprintable()
