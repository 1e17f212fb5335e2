"""Hidden LFW trees, the trusted reading of their images, and quilts: images that a figure gives away."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from PIL import Image

SIDE = 250  # pixels; every image of LFW is 250x250
JUNCTION_OFFSETS = (3, 5, 9)  # pixels; the faces of a figure are drawn large or small
_SYLLABLES = (
    "an", "bel", "cor", "da", "el", "fa", "gri", "ha", "iv", "jo", "ka", "lu", "mo", "ni", "ol", "pa", "qui",
    "ro", "sa", "to", "ul", "vi", "wen", "xa", "yo", "zel",
)  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """A folder of images: the files in it, and the pixels a reader must see: (height, width, 3) uint8."""

    files: dict[str, bytes]
    pixels: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """The number of images."""
        return len(self.pixels)

    @property
    def people(self) -> int:
        """The number of people's folders."""
        return len({path.split("/")[0] for path in self.pixels})


def make_tree(rng: np.random.Generator, people: int, images: int) -> Tree:
    """A clean tree as the download unpacks: `images` faces over `people` folders, nothing else."""
    files = {path: jpeg(patchwork(rng)) for path in make_names(rng, people, images)}
    return Tree(files, {path: read(data) for path, data in files.items()})


def make_names(rng: np.random.Generator, people: int, images: int) -> list[str]:
    """`Person_Name/Person_Name_0001.jpg` for `images` images of `people` people, each at least one."""
    names: list[str] = []
    while len(names) < people:
        name = "_".join(_word(rng) for _ in range(int(rng.integers(2, 4))))
        if name not in names:
            names.append(name)
    counts = np.ones(people, dtype=int)
    np.add.at(counts, rng.integers(0, people, images - people), 1)
    return _numbered(dict(zip(names, counts.tolist(), strict=True)))


def make_odd_names(rng: np.random.Generator) -> list[str]:
    """As `make_names`, of people as LFW has them beside first and last names, one with more than 99 images.

    Such as Madonna, Jean-Pierre_Raffarin, Luiz_Inacio_Lula_da_Silva, Abdullah_al-Attiyah, and George_W_Bush with 530.
    """
    first, second, third, last = (_word(rng) for _ in range(4))
    few = (
        first,
        f"{first}-{second}_{last}",
        f"{first}_{second}_{third}_da_{last}",
        f"{first}_al-{last}",
    )
    images = {name: int(rng.integers(1, 4)) for name in few}
    return _numbered({**images, f"{first}_{second[0]}_{last}": int(rng.integers(101, 131))})


def _numbered(images: dict[str, int]) -> list[str]:
    return [
        f"{name}/{name}_{number:04d}.jpg" for name, count in images.items() for number in range(1, count + 1)
    ]


def _word(rng: np.random.Generator) -> str:
    return "".join(rng.choice(_SYLLABLES, int(rng.integers(2, 4)))).capitalize()


def patchwork(rng: np.random.Generator) -> Image.Image:
    """A picture that no other picture equals, and that is quick to make: random patches."""
    patches = rng.integers(0, 256, (10, 10, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((SIDE, SIDE), Image.Resampling.NEAREST)


def plain_images(rng: np.random.Generator, count: int) -> list[bytes]:
    """Small JPEG files, each of one colour; the colours differ in every channel."""
    steps = np.stack([rng.permutation(count) for _ in range(3)], axis=-1) * (256 // count)
    colours = steps + rng.integers(0, 256 // count // 2, (count, 3))
    return [jpeg(Image.fromarray(np.tile(colour, (16, 16, 1)).astype(np.uint8))) for colour in colours]


def jpeg(image: Image.Image) -> bytes:
    """The image as a JPEG file."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def read(data: bytes) -> np.ndarray:
    """What the trusted reader sees in an image file: (height, width, 3) uint8, RGB."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def to_tensor(pixels: np.ndarray) -> np.ndarray:
    """What torchvision's ToTensor makes of the pixels: (3, height, width) float32 in 0..1."""
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32) / np.float32(255)


def fingerprint(array: np.ndarray) -> str:
    """Equal for arrays of equal dtype, shape and values. The probe computes the same of what it is given."""
    digest = hashlib.blake2b(f"{array.dtype} {array.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# A quilt is an image of four large squares in four different pure colours. Where they meet, a figure shows
# the same four colours around one point, however the script moved, scaled, mirrored or normalised the image
# and whatever it drew it with. So the judge finds in a figure which hidden images are in it, and a figure
# that was drawn without reading them shows others: there are 210 patterns.
_COLOURS = range(8)  # as bits: red 4, green 2, blue 1; full or none, so that clipping changes nothing
_ROUND = ((0, 1, 2, 3), (1, 3, 0, 2), (3, 2, 1, 0), (2, 0, 3, 1))
_SYMMETRIES = _ROUND + tuple((a, c, b, d) for a, b, c, d in _ROUND)
_ON_THEIR_HEADS = ((2, 3, 0, 1), (3, 2, 1, 0))  # mirrored top to bottom, and turned by half
_UPRIGHT = ((0, 1, 2, 3), (1, 0, 3, 2), *_ON_THEIR_HEADS)
_ON_THEIR_SIDE = tuple(order for order in _SYMMETRIES if order not in _UPRIGHT)


def _pattern(quarters: tuple[int, ...]) -> tuple[int, ...]:
    """The same four numbers for an image and for its rotations and mirror images."""
    return min(tuple(quarters[place] for place in order) for order in _SYMMETRIES)


def make_quilts(rng: np.random.Generator, patterns: int, images: int) -> tuple[Tree, set[tuple[int, ...]]]:
    """A clean tree of quilts, and the patterns that occur in it."""
    every = sorted({_pattern(order) for order in permutations(_COLOURS, 4)})
    chosen = [every[place] for place in rng.choice(len(every), patterns, replace=False)]
    names = make_names(rng, people=max(2, images // 4), images=images)
    data = {pattern: jpeg(_quilt(pattern)) for pattern in chosen}
    order = [chosen[place % patterns] for place in rng.permutation(images)]
    files = {name: data[pattern] for name, pattern in zip(names, order, strict=True)}
    pixels = {pattern: read(content) for pattern, content in data.items()}
    return Tree(files, {name: pixels[pattern] for name, pattern in zip(names, order, strict=True)}), set(
        chosen
    )


def _quilt(quarters: tuple[int, ...]) -> Image.Image:
    bits = np.array(quarters, dtype=np.uint8).reshape(2, 2)
    colours = np.stack([bits >> 2 & 1, bits >> 1 & 1, bits & 1], axis=-1) * np.uint8(255)
    return Image.fromarray(colours.repeat(SIDE // 2, axis=0).repeat(SIDE // 2, axis=1))


def quilts_in(picture: np.ndarray, hidden: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Which of the hidden patterns a picture of shape (height, width, 3) shows.

    None at all where most of the patterns in it are others: a picture of every possible pattern shows
    nothing, though where two images touch, honest figures hold some patterns by chance.
    """
    found: set[tuple[int, ...]] = set()
    for junctions in _junctions(picture):
        seen: Counter[tuple[int, ...]] = Counter()
        for digits, count in junctions.items():
            seen[_pattern(digits)] += count
        known = sum(count for pattern, count in seen.items() if pattern in hidden)
        if 3 * known >= sum(seen.values()):
            found |= seen.keys() & hidden
    return found


def on_their_side(picture: np.ndarray, patterns: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Which of the patterns in a picture it shows with rows for columns, mirrored or not, and hardly otherwise."""
    return patterns & _shown(picture, _ON_THEIR_SIDE).keys()


def on_their_heads(picture: np.ndarray, patterns: set[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """Which of the patterns in a picture it shows upside down, mirrored or not, and hardly otherwise; and how often."""
    found = _shown(picture, _ON_THEIR_HEADS)
    return {pattern: found[pattern] for pattern in patterns & found.keys()}


def _shown(picture: np.ndarray, ways: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """Which patterns a picture shows in one of these ways and hardly in others, and how often, a fifth unseen."""
    so, otherwise = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
    times: dict[tuple[int, ...], float] = {}
    for offset, junctions in zip(JUNCTION_OFFSETS, _junctions(picture), strict=False):
        at_once = Counter[tuple[int, ...]]()
        for digits, count in junctions.items():
            pattern = _pattern(digits)
            if any(tuple(pattern[place] for place in order) == digits for order in ways):
                at_once[pattern] += count
            else:
                otherwise[pattern] += count
        so += at_once
        times |= {
            pattern: max(times.get(pattern, 0), count / (2 * offset) ** 2)
            for pattern, count in at_once.items()
        }
    return {pattern: times[pattern] for pattern in so if so[pattern] > 3 * otherwise[pattern]}


def _junctions(picture: np.ndarray) -> Iterator[dict[tuple[int, ...], int]]:
    """The four colours around the points where they meet, in reading order, and how often; at each distance."""
    high = (picture > 127).astype(np.uint16)
    bits = high[..., 0] << 2 | high[..., 1] << 1 | high[..., 2]
    for offset in JUNCTION_OFFSETS:
        step = 2 * offset
        if min(bits.shape) <= step:
            continue
        # The four pixels diagonally around each point, as one number of four octal digits.
        corners = bits[:-step, :-step], bits[:-step, step:], bits[step:, :-step], bits[step:, step:]
        codes = corners[0] << 9 | corners[1] << 6 | corners[2] << 3 | corners[3]
        counts = np.bincount(codes.ravel(), minlength=4096)
        # A point where four squares meet is seen from (2 x offset)^2 places, of which small, blurred and compressed
        # pictures leave four in five at one of the distances. Blurred edges make others in up to 45 in a hundred.
        often = (int(code) for code in np.flatnonzero(counts >= step**2 / 2))
        found = {tuple(code >> shift & 7 for shift in (9, 6, 3, 0)): int(counts[code]) for code in often}
        yield {digits: count for digits, count in found.items() if len(set(digits)) == 4}
