"""A GPU is found in the table by whatever name it goes by, never with ceilings of a slower one; a course adds its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lockstep.reports.devices import PUBLISHED, DeviceTable, DeviceTableError

TABLE = DeviceTable.published()
OWN = '[[gpu]]\nname = "RTX 3090"\nmemory_gib = 24\nbandwidth_gb_s = 936\nfp32_tflops = 1\nsource = "x"\n'


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("Tesla T4", "T4"),
        ("GRID T4-16Q", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", "V100 SXM3"),
        ("Tesla P100-PCIE-16GB", "P100 PCIe"),
        ("Tesla K80", "K80"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("A100-PCIE-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("GeForce RTX 3090 Ti", "RTX 3090 Ti"),
        ("rtx3080ti", "RTX 3080 Ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "RTX 3060"),
        ("NVIDIA GeForce RTX 4050 Laptop GPU", "RTX 4050"),
        ("GeForce RTX 2080 with Max-Q Design", "RTX 2080"),
        ("NVIDIA GeForce GTX 1660 SUPER", "GTX 1660 SUPER"),
        ("GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("GeForce GTX TITAN X", "GTX TITAN X"),
        ("NVIDIA TITAN X (Pascal)", "TITAN X"),
        ("NVIDIA TITAN Xp", "TITAN Xp"),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("NVIDIA TITAN V", "TITAN V"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("Quadro RTX 5000 with Max-Q Design", "Quadro RTX 5000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("AMD Instinct MI300X", "Instinct MI300X"),
    ],
)
def test_a_name_finds_its_entry(name: str, entry: str) -> None:
    device = TABLE.find(name)
    assert device is not None
    assert device.name == entry


@pytest.mark.parametrize(
    "name",
    ["Apple M2", "NVIDIA GeForce MX450", "NVIDIA GeForce RTX 3070 SUPER", "NVIDIA RTX 3090 Ada", "NVIDIA A200",
     "NVIDIA GeForce RTX 9090 Ti", "", "\x1b[31m", "RTX", "3090 Ti"],
)  # fmt: skip
def test_a_card_that_is_not_there_is_not_measured_by_another(name: str) -> None:
    assert TABLE.find(name) is None


def test_every_entry_finds_itself_and_says_where_it_is_from() -> None:
    entries = tomllib.loads(PUBLISHED.read_text())["gpu"]
    for entry in entries:
        device = TABLE.find(entry["name"])
        assert device is not None
        assert device.name == entry["name"]
        assert device.source
    names = [name for entry in entries for name in (entry["name"], *entry.get("also", ()))]
    assert len(TABLE.devices) == len(names)


def test_a_precision_has_the_fastest_unit_that_may_carry_it_out() -> None:
    a100, t4, gtx = (TABLE.find(name) for name in ("A100", "T4", "GTX 1080 Ti"))
    assert a100 is not None
    assert t4 is not None
    assert gtx is not None
    assert a100.peak("fp32", tf32=False) == 19.5e12
    assert a100.peak("fp32", tf32=True) == a100.peak("tf32", tf32=False) == 156e12
    assert a100.peak("bf16-amp", tf32=False) == 312e12
    # Before Ampere there is no TF32 whatever the setting says, before Volta nothing faster than fp32.
    assert t4.peak("fp32", tf32=True) == 8.1e12
    assert t4.peak("fp16-amp", tf32=True) == 65e12
    # What takes fp16 alone does not calculate in bfloat16, which is emulated there.
    assert t4.peak("bf16-amp", tf32=True) == 8.1e12
    assert a100.peak("bf16-true", tf32=False) == 312e12
    assert gtx.peak("fp16-amp", tf32=True) == gtx.fp32
    assert a100.peak("int8", tf32=True) is None


def test_memory_and_links_have_their_units() -> None:
    t4 = TABLE.find("Tesla T4")
    assert t4 is not None
    assert t4.memory == 16 << 30
    assert TABLE.links["PCIe3x16"].bandwidth == 16e9
    assert set(TABLE.links) == {
        "PCIe3x16",
        "PCIe4x16",
        "PCIe5x16",
        "NVLink2",
        "NVLink3",
        "NVLink4",
        "NVLink5",
    }


def test_a_course_replaces_and_adds(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN + OWN.replace("RTX 3090", "Orin"))
    table = TABLE.extended(path)
    replaced, added = table.find("NVIDIA GeForce RTX 3090"), table.find("NVIDIA Orin")
    assert replaced is not None
    assert replaced.fp32 == 1e12
    assert added is not None
    assert TABLE.find("NVIDIA Orin") is None
    assert table.find("Tesla T4") == TABLE.find("Tesla T4")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[gpu]\n", "is not TOML"),
        ("gpus = 1\n", "[[gpu]] and [[link]] only"),
        ("[gpu]\nname = 'x'\n", "must be written as [[gpu]]"),
        ("gpu = [1]\n", "must be written as [[gpu]]"),
        (OWN.replace('name = "RTX 3090"', ""), "[[gpu]] number 1 lacks `name`"),
        (OWN.replace('"RTX 3090"', "3"), "lacks `name`"),
        (OWN.replace('source = "x"', ""), "lacks `source`"),
        (OWN.replace("fp32_tflops = 1", ""), "lacks `fp32_tflops`"),
        (OWN.replace("fp32_tflops = 1", "fp32_tflops = '1'"), "must be a positive number"),
        (OWN.replace("fp32_tflops = 1", "fp32_tflops = nan"), "must be a positive number"),
        (OWN.replace("fp32_tflops = 1", "fp32_tflops = true"), "must be a positive number"),
        (OWN + "fp8_tflops = 3\n", "has `fp8_tflops`; known are"),
        (OWN + "also = 'x'\n", "`also` must be a list"),
        (OWN + "compute_capability = 8.6\n", "must be text"),
        ("[[link]]\nname = 'x'\nsource = 'y'\n", "[[link]] number 1 (x) lacks `bandwidth_gb_s`"),
        ("[[link]]\nname = 'x'\nsource = 'y'\nbandwidth_gb_s = 1\nadds_up = 2\n", "true or false"),
    ],
)
def test_a_wrong_table_is_explained(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(DeviceTableError) as told:
        TABLE.extended(path)
    assert words in str(told.value)


def test_a_missing_table_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DeviceTableError, match=r"own\.toml cannot be read"):
        TABLE.extended(tmp_path / "own.toml")


def test_reading_the_table_costs_no_torch() -> None:
    code = "import sys, lockstep.reports.devices as d; d.DeviceTable.published(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split()[0] == "False"
