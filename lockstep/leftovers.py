"""What is left out of a submission: tools' folders, data sets, model weights, and whatever is too much.

Honest folders hold such things. They are skipped with a note rather than refused, and without being read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lockstep.members import Kind, Member, parents_of, shown, size_text

TREE_FILES = 500
"""Files kept. Every run copies them afresh into its sandbox; real submissions hold 5 to 50."""

TREE_BYTES = 16 << 20
"""Bytes kept without notebooks: a run's `/work` is 64 MB, and a student's checkpoint must fit as well."""

FILE_BYTES = 4 << 20
"""The largest file kept. Sources have kilobytes and plots rarely a megabyte; more is data or weights."""

NOTEBOOK_BYTES = 20 << 20
"""The largest notebook read. Pictures in the outputs make them big; JSON takes five times that in memory."""

READ_BYTES = 64 << 20
"""What one submission may hold in all, notebooks included; five times an upload, far less than a bomb."""

FOLDER_ENTRIES = 1000
"""A folder with more entries than that and no source file among them is a data set under some name."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CODE = _set(".py .ipynb .sh")
_TEXTS = _set(".md .txt .rst .toml .cfg .ini .yaml .yml .json .csv .pbs .slurm .sbatch .lsf")
_BULK = _set(
    ".jpg .jpeg .png .gif .bmp .pt .pth .ckpt .bin .npy .npz .pkl .h5 .onnx .safetensors .zip .gz .tgz .tar "
    ".bz2 .xz .7z .rar .log .pdf .mp4 .so .o"
)
_TOOL_FOLDERS = _set(
    ".git .hg .svn __pycache__ .ipynb_checkpoints node_modules __macosx .idea .vscode .mypy_cache "
    ".pytest_cache .ruff_cache .tox .nox .cache .venv .trash wandb mlruns lightning_logs"
)
_TOOL_FILES = frozenset({".ds_store", "icon\r", "thumbs.db", "desktop.ini"})
_DATA_FOLDERS = _set(
    "cifar-10-batches-py cifar-10-batches-bin cifar-100-python cinic-10 cinic10 lfw lfw-deepfunneled "
    "lfw_funneled lfw-funneled lfw_home tiny-imagenet-200 imagenette2 imagenette2-160 imagenette2-320 "
    "hymenoptera_data"
)
# Torchvision's own layout; without `raw` inside, a folder called MNIST is more likely somebody's code.
_TORCHVISION_FOLDERS = _set("mnist fashionmnist kmnist qmnist emnist")

TOOL = "made by a tool, not part of the work"
DATA = "a data set; the checks bring their own"
TOO_BIG = f"larger than {size_text(FILE_BYTES)}"
NOTEBOOK_TOO_BIG = f"a notebook larger than {size_text(NOTEBOOK_BYTES)}; clear its outputs and save it again"
TOO_MUCH = (
    f"beyond the first {TREE_FILES} files or {size_text(TREE_BYTES)}, where sources come first and pictures, "
    "weights and logs last"
)


@dataclass(frozen=True)
class Skipped:
    """A file or a whole folder that was left out, and why, in words that complete "skipped X: ..."."""

    path: str
    reason: str


def folder_reason(name: str, children: Collection[str]) -> str | None:
    """Why a folder called `name` with the entries `children` is left out whole; None to look inside."""
    lower = name.lower()
    entries = {child.lower() for child in children}
    if lower in _TOOL_FOLDERS or lower.endswith((".egg-info", ".dist-info")):
        return TOOL
    if "pyvenv.cfg" in entries or "conda-meta" in entries:
        return TOOL
    if any(PurePosixPath(entry).suffix in _CODE for entry in entries):
        return None
    if lower in _DATA_FOLDERS or (lower in _TORCHVISION_FOLDERS and entries & {"raw", "processed"}):
        return DATA
    return DATA if len(children) > FOLDER_ENTRIES else None


def file_reason(name: str) -> str | None:
    """Why a file or link called `name` is left out; None when it may stay."""
    lower = name.lower()
    # `._name` is what macOS adds beside every file it packs.
    if lower in _TOOL_FILES or lower.startswith("._") or lower.endswith((".pyc", ".pyo")):
        return TOOL
    # A link to a data set on another disk goes by the data set's name, a worktree's .git is a file.
    return folder_reason(name, ())


def prune(members: Sequence[Member]) -> tuple[list[Member], list[Skipped]]:
    """Leave out tools' files and folders and data sets from an archive's listing.

    A folder on disk is pruned while it is walked, by the same two rules.
    """
    children: dict[str, set[str]] = defaultdict(set)
    for member in members:
        above, _, name = member.path.rpartition("/")
        children[above].add(name)
        for parent in parents_of(member.path):
            above, _, name = parent.rpartition("/")
            children[above].add(name)
    reasons = {
        folder: reason
        for folder, entries in children.items()
        if folder and (reason := folder_reason(folder.rpartition("/")[2], entries))
    }
    kept: list[Member] = []
    skipped: dict[str, Skipped] = {}
    for member in members:
        inside = [*parents_of(member.path), *([member.path] if member.kind is Kind.FOLDER else [])]
        outermost = next((folder for folder in inside if folder in reasons), None)
        name = member.path.rpartition("/")[2]
        if outermost is not None:
            skipped[outermost] = Skipped(outermost, reasons[outermost])
        elif member.kind is not Kind.FOLDER and (reason := file_reason(name)):
            skipped[member.path] = Skipped(member.path, reason)
        else:
            kept.append(member)
    return kept, list(skipped.values())


def trim(files: Sequence[Member]) -> tuple[list[Member], list[Skipped]]:
    """Keep what a sandbox can take: no file that is too big, sources before everything else."""
    kept: list[Member] = []
    skipped: list[Skipped] = []
    in_tree = read = 0
    for file in sorted(files, key=_importance):
        is_notebook = file.path.lower().endswith(".ipynb")
        if file.size > (NOTEBOOK_BYTES if is_notebook else FILE_BYTES):
            skipped.append(Skipped(file.path, NOTEBOOK_TOO_BIG if is_notebook else TOO_BIG))
            continue
        # A notebook's outputs are dropped on reading, so it takes next to nothing of the tree.
        in_tree_after = in_tree + (0 if is_notebook else file.size)
        if len(kept) == TREE_FILES or in_tree_after > TREE_BYTES or read + file.size > READ_BYTES:
            skipped.append(Skipped(file.path, TOO_MUCH))
            continue
        in_tree, read = in_tree_after, read + file.size
        kept.append(file)
    return sorted(kept, key=lambda file: file.path), skipped


def skip_notes(skipped: Iterable[Skipped]) -> list[str]:
    """One sentence for each reason, naming the first few."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for item in skipped:
        by_reason[item.reason].append(item.path)
    notes = []
    for reason, paths in by_reason.items():
        paths.sort()
        names = ", ".join(shown(path) for path in paths[:4])
        more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
        notes.append(f"skipped {names}{more}: {reason}")
    return notes


def _importance(file: Member) -> tuple[int, int, str]:
    suffix = PurePosixPath(file.path).suffix.lower()
    rank = 0 if suffix in _CODE else 1 if suffix in _TEXTS else 3 if suffix in _BULK else 2
    return rank, file.path.count("/"), file.path
