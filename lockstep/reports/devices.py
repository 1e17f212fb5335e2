"""What GPUs can do at most, as their makers publish it: `devices.toml`, which a course may extend."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lockstep.text import safe_line

PUBLISHED = Path(__file__).parent / "devices.toml"

_UNITS = ("tf32_tflops", "fp16_tflops", "bf16_tflops")
_FIGURES = ("memory_gib", "bandwidth_gb_s", "fp32_tflops")
_GPU_KEYS = {"name", "also", "compute_capability", "source", *_FIGURES, *_UNITS}
_LINK_KEYS = {"name", "bandwidth_gb_s", "adds_up", "source"}
_MAKERS = {"nvidia", "amd", "geforce", "tesla", "grid"}
# With one of these behind the same number it is another card, and mostly a faster one.
_VARIANTS = {
    "ti", "super", "titan", "quadro", "rtx", "gtx", "pro", "ada", "blackwell", "x", "xp", "xt", "xtx", "v",
    "d", "ultra", "nvl", "sxm", "sxm2", "sxm3", "sxm4", "sxm5",
}  # fmt: skip
# The ceilings of a family are those of its fastest member, so that these cannot lead beyond them.
AMPERE = 8.0
"""Compute capability from which on a GPU has TF32 and bfloat16 in hardware."""
_PLUGS = {"nvl", "sxm", "sxm2", "sxm3", "sxm4", "sxm5"}


class DeviceTableError(ValueError):
    """A table of GPUs that cannot be used; the message says what is wrong with which entry."""


@dataclass(frozen=True)
class Device:
    """The published ceilings of a GPU: operations per second without sparsity, bytes, bytes per second."""

    name: str
    memory: int
    bandwidth: float
    fp32: float
    tf32: float
    """0 where the hardware has no such mode; the same below."""
    fp16: float
    bf16: float
    compute_capability: str | None
    source: str

    @property
    def emulates_bf16(self) -> bool:
        """Whether the hardware is known to have no bfloat16."""
        return (
            self.bf16 == 0 and self.compute_capability is not None and float(self.compute_capability) < AMPERE
        )

    def peak(self, precision: str, *, tf32: bool) -> float | None:
        """Operations per second that no arithmetic of this precision exceeds; None for a precision not known.

        `tf32` says whether fp32 arithmetic may be carried out in TF32. For mixed precisions it is the fastest
        unit there is, for some operations stay in fp32.
        """
        if precision == "fp32":
            return max(self.fp32, self.tf32 if tf32 else 0.0)
        if precision == "tf32":
            return max(self.fp32, self.tf32)
        if precision in ("bf16-amp", "bf16-true") and self.emulates_bf16:
            # Tensor cores that take fp16 alone are of no use to it.
            return max(self.fp32, self.tf32)
        if precision in ("fp16-amp", "bf16-amp", "fp16-true", "bf16-true"):
            return max(self.fp32, self.tf32, self.fp16, self.bf16)
        return None


@dataclass(frozen=True)
class Link:
    """A link between the GPUs of one machine: nominal bytes per second in one direction."""

    name: str
    bandwidth: float
    adds_up: bool
    """Whether switches on the way may add gradients up, which halves what crosses the link."""


@dataclass(frozen=True)
class DeviceTable:
    """GPUs and links by name."""

    devices: Mapping[frozenset[str], Device] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)

    @classmethod
    def published(cls) -> DeviceTable:
        """The table that comes with lockstep."""
        return _published()

    def extended(self, path: Path) -> DeviceTable:
        """This table with the entries of a TOML file added; an entry of the same name replaces ours.

        Raises DeviceTableError.
        """
        devices, links = _read(path)
        return replace(self, devices={**self.devices, **devices}, links={**self.links, **links})

    def find(self, name: str) -> Device | None:
        """The entry for what `torch.cuda.get_device_name` calls a GPU, or None.

        An entry fits when all its words are in the name, and the one with the most words counts. A word that
        marks another card ("Ti", "SUPER", "Ada") must be in the entry, or a faster card would be measured by a
        slower one's ceilings; memory sizes, "Laptop GPU" or a MIG slice are passed over, because no slice and
        no laptop goes beyond the whole card.
        """
        words = _words(name)
        fitting = [
            (len(entry), device)
            for entry, device in self.devices.items()
            if entry <= words and not (words & _VARIANTS) - entry - _PLUGS
        ]
        if not fitting:
            return None
        most = max(count for count, _ in fitting)
        # Two that fit alike: the higher ceiling.
        return max((device for count, device in fitting if count == most), key=lambda device: device.fp32)


@cache
def _published() -> DeviceTable:
    return DeviceTable().extended(PUBLISHED)


def _words(name: str) -> frozenset[str]:
    """The words of a GPU's name without its maker's: {"rtx", "3090", "ti"}."""
    text = re.sub(r"\b(rtx|gtx)(?=\d)", r"\1 ", name[:200].lower())
    text = re.sub(r"(?<=\d{3})(ti|super)\b", r" \1", text)
    return frozenset(re.findall(r"[a-z0-9]+", text)) - _MAKERS


def _read(path: Path) -> tuple[dict[frozenset[str], Device], dict[str, Link]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceTableError(f"{path.name} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceTableError(f"{path.name} is not TOML: {error}.") from None
    for key in table.keys() - {"gpu", "link"}:
        raise DeviceTableError(
            f"{path.name} has [{safe_line(key, 40)}]; there are [[gpu]] and [[link]] only."
        )
    devices: dict[frozenset[str], Device] = {}
    for number, entry in enumerate(_entries(table, "gpu", path), 1):
        device = _device(entry, f"{path.name}, [[gpu]] number {number}")
        for name in (device.name, *entry.get("also", ())):
            devices[_words(name)] = device
    links = {}
    for number, entry in enumerate(_entries(table, "link", path), 1):
        link = _link(entry, f"{path.name}, [[link]] number {number}")
        links[link.name] = link
    return devices, links


def _entries(table: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DeviceTableError(f"{path.name}: `{key}` must be written as [[{key}]], once for each entry.")
    return entries


def _device(entry: Mapping[str, Any], where: str) -> Device:
    name = _name(entry, where, _GPU_KEYS)
    also = entry.get("also", [])
    if not isinstance(also, list) or not all(isinstance(other, str) and _words(other) for other in also):
        raise DeviceTableError(f"{where} ({name}): `also` must be a list of names.")
    figures = {key: _figure(entry, key, f"{where} ({name})") for key in _FIGURES}
    units = {key: _figure(entry, key, f"{where} ({name})") for key in _UNITS if key in entry}
    capability = entry.get("compute_capability")
    if capability is not None and not (
        isinstance(capability, str) and re.fullmatch(r"\d{1,2}\.\d", capability)
    ):
        raise DeviceTableError(f'{where} ({name}): `compute_capability` must be text such as "8.6".')
    fp32, tf32, fp16, bf16 = (
        units.get(key, figures.get(key, 0.0)) * 1e12 for key in ("fp32_tflops", *_UNITS)
    )
    return Device(
        name=name,
        memory=round(figures["memory_gib"] * 2**30),
        bandwidth=figures["bandwidth_gb_s"] * 1e9,
        fp32=fp32,
        tf32=tf32,
        fp16=fp16,
        bf16=bf16,
        compute_capability=capability,
        source=_source(entry, f"{where} ({name})"),
    )


def _link(entry: Mapping[str, Any], where: str) -> Link:
    name = _name(entry, where, _LINK_KEYS)
    _source(entry, f"{where} ({name})")
    adds_up = entry.get("adds_up", False)
    if not isinstance(adds_up, bool):
        raise DeviceTableError(f"{where} ({name}): `adds_up` must be true or false.")
    return Link(name, _figure(entry, "bandwidth_gb_s", f"{where} ({name})") * 1e9, adds_up)


def _name(entry: Mapping[str, Any], where: str, keys: set[str]) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not _words(name):
        raise DeviceTableError(f"{where} lacks `name`.")
    shown = safe_line(name, 60)
    for key in sorted(entry.keys() - keys):
        known = ", ".join(sorted(keys))
        raise DeviceTableError(f"{where} ({shown}) has `{safe_line(key, 40)}`; known are {known}.")
    return shown


def _source(entry: Mapping[str, Any], where: str) -> str:
    source = entry.get("source")
    if not isinstance(source, str) or not source.strip():
        raise DeviceTableError(f"{where} lacks `source`: where its figures are published.")
    return source


def _figure(entry: Mapping[str, Any], key: str, where: str) -> float:
    value = entry.get(key)
    if value is None:
        raise DeviceTableError(f"{where} lacks `{key}`.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise DeviceTableError(f"{where}: `{key}` must be a positive number.")
    return float(value)
