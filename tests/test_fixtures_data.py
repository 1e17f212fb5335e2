"""Generated data are what the real data sets are: the readers that students use take them."""

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import datasets

from fixtures import cifar10, cinic10, fashion_mnist, lfw
from fixtures.pictures import CLASSES, balanced_labels, class_pictures, class_shapes
from fixtures.tree import Tree, write_tree

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.mark.parametrize(
    "make", [lfw.make_tree, cifar10.make_batches, fashion_mnist.make_idx, cinic10.make_folders]
)
def test_the_same_generator_gives_the_same_bytes_and_another_one_others(
    make: Callable[[np.random.Generator], Tree],
) -> None:
    first, again, other = (make(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_faces_are_rgb_jpegs_in_folders_of_their_people(rng: np.random.Generator) -> None:
    for name, content in lfw.make_tree(rng).items():
        person, file = name.split("/")
        assert file.startswith(f"{person}_0")
        assert file.endswith(".jpg")
        image = Image.open(io.BytesIO(content))
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (250, 250))


@pytest.mark.parametrize("size", [250, 32, 16])
def test_no_two_faces_are_alike(rng: np.random.Generator, size: int) -> None:
    files = lfw.make_tree(rng, people=12, most_images=5, size=size)
    pixels = [np.asarray(Image.open(io.BytesIO(content))).astype(int) for content in files.values()]
    # Not by one pixel: a reader that rounds differently must not make two of them one.
    assert all(np.abs(a - b).mean() > 5 for a, b in combinations(pixels, 2))


def test_people_are_never_as_many_as_images(rng: np.random.Generator) -> None:
    for people in (1, 2, 5, 100):
        files = lfw.make_tree(rng, people=people, size=8, most_images=1 + people % 3)
        assert len({name.split("/")[0] for name in files}) == people < len(files)


def test_faces_can_be_nested_grey_or_for_print(rng: np.random.Generator) -> None:
    assert all(name.startswith("lfw/") for name in lfw.make_tree(rng, size=8, prefix="lfw/"))
    for mode in ("L", "CMYK"):
        assert Image.open(io.BytesIO(lfw.face(rng, 16, mode))).mode == mode


def test_torchvision_reads_cifar10(rng: np.random.Generator, tmp_path: Path) -> None:
    write_tree(cifar10.make_batches(rng, train=23, test=11), tmp_path)
    with pytest.raises(RuntimeError, match="corrupted"):
        datasets.CIFAR10(str(tmp_path))
    with cifar10.unverified():
        train = datasets.CIFAR10(str(tmp_path), train=True)
        test = datasets.CIFAR10(str(tmp_path), train=False)
    with pytest.raises(RuntimeError, match="corrupted"):
        datasets.CIFAR10(str(tmp_path))
    assert (len(train), len(test)) == (23, 11)
    assert tuple(train.classes) == CLASSES
    assert set(train.targets) == set(range(10))
    # The patch of class 0 is red and in the upper left corner.
    red, green, blue = np.asarray(train[train.targets.index(0)][0])[2:14, 1:5].mean(axis=(0, 1))
    assert red > 200
    assert max(green, blue) < 100


def test_cifar10_can_be_unpickled_as_its_web_page_says(rng: np.random.Generator) -> None:
    files = cifar10.make_batches(rng, train=20, test=10)
    batch = pickle.loads(files["cifar-10-batches-py/data_batch_1"], encoding="bytes")
    assert set(batch) == {b"batch_label", b"labels", b"data", b"filenames"}
    assert batch[b"data"].shape == (4, 3072)
    assert batch[b"data"].dtype == np.uint8
    meta = pickle.loads(files["cifar-10-batches-py/batches.meta"], encoding="bytes")
    assert meta[b"label_names"][0] == b"airplane"


def test_torchvision_reads_fashion_mnist(rng: np.random.Generator, tmp_path: Path) -> None:
    write_tree(fashion_mnist.make_idx(rng, train=23, test=11), tmp_path)
    train = datasets.FashionMNIST(str(tmp_path), train=True)
    test = datasets.FashionMNIST(str(tmp_path), train=False)
    assert (len(train), len(test)) == (23, 11)
    image, label = train[0]
    assert image.size == (28, 28)
    assert 0 <= label < 10


def test_torchvision_reads_cinic10(rng: np.random.Generator, tmp_path: Path) -> None:
    write_tree(cinic10.make_folders(rng, train=23, valid=12, test=11), tmp_path)
    for part, count in (("train", 23), ("valid", 12), ("test", 11)):
        data = datasets.ImageFolder(str(tmp_path / part))
        assert len(data) == count
        assert tuple(data.classes) == CLASSES
        assert data[0][0].size == (32, 32)


@pytest.mark.parametrize("draw", [class_pictures, class_shapes])
def test_classes_are_separable(rng: np.random.Generator, draw: Callable[..., np.ndarray]) -> None:
    train_labels, test_labels = balanced_labels(rng, 50), balanced_labels(rng, 50)
    train, test = (draw(rng, labels).reshape(50, -1).astype(float) for labels in (train_labels, test_labels))
    means = np.stack([train[train_labels == label].mean(axis=0) for label in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == test_labels).all()


def test_generators_need_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys, fixtures.lfw, fixtures.cifar10, fixtures.fashion_mnist, fixtures.cinic10;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=300).returncode == 0


def test_the_command_writes_a_data_set(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fixtures.lfw", str(tmp_path / "faces"), "--seed", "3"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    expected = lfw.make_tree(np.random.default_rng(3))
    written = {p.relative_to(tmp_path / "faces").as_posix() for p in (tmp_path / "faces").rglob("*.jpg")}
    assert written == set(expected)
