"""Devices as their drivers describe them: listed cards are found, all others are served as their architecture.

Finding 11: each of these cards raised before even the default ran.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileflow.errors import SpecError
from tileflow.runtime import describe
from tileflow.runtime.describe import device_class
from tileflow.target import (
    CATALOGUE,
    DeviceProperties,
    classify,
    described,
    described_here,
    find,
    nvidia_arch,
    runs_on,
    same_architecture,
    target,
    vendor_of,
)

KIB, GIB = 1 << 10, 1 << 30


def nvidia(name: str, capability: tuple[int, int], sms: int, gib: float, smem_kb: int = 228, **more: Any) -> Any:
    values = {
        "name": name, "major": capability[0], "minor": capability[1], "multi_processor_count": sms,
        "total_memory": int(gib * GIB), "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": (smem_kb - 1) * KIB, "shared_memory_per_multiprocessor": smem_kb * KIB,
        "max_threads_per_multi_processor": 2048, "warp_size": 32, "L2_cache_size": 50 << 20,
    }  # fmt: skip
    return SimpleNamespace(**values | more)


def amd(name: str, arch: str, cus: int, gib: float, **more: Any) -> Any:
    values = {
        "name": name, "major": 9, "minor": 4, "gcnArchName": arch, "multi_processor_count": cus,
        "total_memory": int(gib * GIB), "shared_memory_per_block": 64 * KIB,
        "max_threads_per_multi_processor": 2048, "warp_size": 64, "L2_cache_size": 4 << 20,
    }  # fmt: skip
    return SimpleNamespace(**values | more)


Ask = Callable[[Any], str]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The class of a card of which torch says this."""

    def classed(card: Any) -> str:
        monkeypatch.setattr(torch.version, "hip", "7.1" if hasattr(card, "gcnArchName") else None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: card.name)
        describe.class_by_index.cache_clear()
        try:
            return device_class(0)
        finally:
            describe.class_by_index.cache_clear()

    return classed


ADA = {"max_threads_per_multi_processor": 1536, "L2_cache_size": 96 << 20}


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (amd("AMD Instinct MI325X", "gfx942:sramecc+:xnack-", 304, 255.7), "amd-mi325x"),
        (amd("AMD Instinct MI300A", "gfx942:sramecc+:xnack-", 228, 127.5), "amd-mi300a"),
        (nvidia("NVIDIA H20", (9, 0), 78, 95.6), "nvidia-h20"),
        (nvidia("NVIDIA H100 NVL", (9, 0), 132, 93.1), "nvidia-h100-nvl"),
        (nvidia("NVIDIA H200 NVL", (9, 0), 132, 139.8), "nvidia-h200-nvl"),
        (nvidia("NVIDIA GH200 480GB", (9, 0), 132, 94.5), "nvidia-gh200"),
        (nvidia("NVIDIA L40S", (8, 9), 142, 44.4, 100, **ADA), "nvidia-l40s"),
        (nvidia("NVIDIA B300 SXM6 AC", (10, 3), 148, 267.7), "nvidia-b300"),
        (nvidia("NVIDIA A100 80GB PCIe", (8, 0), 108, 79.1, 164), "nvidia-a100-pcie"),
        (nvidia("NVIDIA A100-PCIE-40GB", (8, 0), 108, 39.4, 164), "nvidia-a100-pcie"),
        (nvidia("NVIDIA H100 PCIe", (9, 0), 114, 79.1), "nvidia-h100-pcie"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_card_of_the_catalogue_is_found(ask: Ask, card: Any, expected: str) -> None:
    """Finding 11, but for the last, which was there."""
    assert ask(card) == expected


@pytest.mark.parametrize(
    ("card", "expected", "first_sibling"),
    [
        (nvidia("NVIDIA H100 80GB HBM3 MIG 3g.40gb", (9, 0), 60, 39.5, L2_cache_size=25 << 20),
         "nvidia-sm_90a-60sm-40gb-cache25", "nvidia-h20"),
        (nvidia("NVIDIA H100 80GB HBM3 MIG 7g.80gb", (9, 0), 132, 79.1), "nvidia-sm_90a-132sm-80gb",
         "nvidia-h100-sxm"),
        (nvidia("NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0), 14, 4.8, 164, L2_cache_size=5 << 20),
         "nvidia-sm_80-14sm-5gb-cache5", "nvidia-a100"),
        (nvidia("NVIDIA H100 80GB HBM3", (9, 0), 114, 79.1), "nvidia-sm_90a-114sm-80gb", "nvidia-h100-pcie"),
        (nvidia("NVIDIA GH200 144G HBM3e", (9, 0), 132, 139.8), "nvidia-sm_90a-132sm-144gb", "nvidia-h200"),
        (nvidia("NVIDIA GeForce RTX 3090", (8, 6), 82, 23.6, 100, max_threads_per_multi_processor=1536,
                L2_cache_size=6 << 20), "nvidia-sm_86-82sm-24gb-cache6", None),
        (nvidia("Tesla T4", (7, 5), 40, 14.6, 65, shared_memory_per_multiprocessor=64 * KIB,
                max_threads_per_multi_processor=1024, L2_cache_size=4 << 20),
         "nvidia-sm_75-40sm-15gb-smem64-persm64-threads1024-cache4", None),
        (nvidia("NVIDIA GB10", (12, 1), 48, 119.7, 100, max_threads_per_multi_processor=1536,
                L2_cache_size=24 << 20), "nvidia-sm_121a-48sm-120gb-cache24", None),
        (amd("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 38, 23.9), "amd-gfx942-38cu-24gb", "amd-mi300a"),
        (amd("", "gfx942:sramecc+:xnack-", 304, 191.7), "amd-gfx942-304cu-192gb", "amd-mi300x"),
        (amd("AMD Instinct MI210", "gfx90a:sramecc+:xnack-", 104, 63.9), "amd-gfx90a-104cu-64gb", None),
        (amd("AMD Radeon RX 7900 XTX", "gfx1100", 48, 23.9, warp_size=32, shared_memory_per_multiprocessor=64 * KIB),
         "amd-gfx1100-48cu-24gb-smem64-persm64-warp32", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_any_other_card_is_described(
    ask: Ask, caplog: pytest.LogCaptureFixture, card: Any, expected: str, first_sibling: str | None
) -> None:
    """Finding 11. A slice is never the whole card, nor is a card with fewer SMs under a known name."""
    with caplog.at_level(logging.WARNING, "tileflow.runtime"):
        assert ask(card) == expected
    assert expected in caplog.text and described_here()[expected] == card.name
    made = target(expected)
    assert made.sm_count == card.multi_processor_count
    assert (made.siblings[0] if made.siblings else None) == first_sibling
    assert made.warp_size == card.warp_size and made.backend == ("hip" if hasattr(card, "gcnArchName") else "cuda")


def test_a_torch_that_says_little_is_enough(ask: Ask) -> None:
    """Figures that a build of torch lacks are the nearest entry's."""
    card = SimpleNamespace(name="H800", major=9, minor=0, multi_processor_count=132, total_memory=80 * GIB)
    assert ask(card) == "nvidia-sm_90a-132sm-80gb"
    assert target("nvidia-sm_90a-132sm-80gb").smem_per_block == 227 * KIB


def test_the_class_of_a_device_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    cards = [nvidia("NVIDIA H100 PCIe", (9, 0), 114, 79.1), nvidia("NVIDIA H100 80GB HBM3", (9, 0), 132, 79.1)]

    def properties(index: int) -> Any:
        asked.append(index)
        return cards[index]

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    describe.class_by_index.cache_clear()
    assert [device_class(i) for i in (0, 1)] == ["nvidia-h100-pcie", "nvidia-h100-sxm"]
    assert device_class(torch.device("cuda", 1)) == device_class("cuda:1") == "nvidia-h100-sxm"
    assert asked == [0, 1]
    describe.class_by_index.cache_clear()


# ---- the name says all --------------------------------------------------------------------------------------------

vendors_arches = st.sampled_from(
    [("nvidia", nvidia_arch(*c)) for c in ((7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 3), (12, 1))]
    + [("amd", arch) for arch in ("gfx906", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")]
)


@st.composite
def cards(draw: st.DrawFn) -> DeviceProperties:
    vendor, arch = draw(vendors_arches)
    smem = draw(st.integers(0, 256 * KIB))
    return DeviceProperties(
        draw(st.text(max_size=8)),
        vendor,
        arch,
        sm_count=draw(st.integers(1, 999)),
        mem_bytes=draw(st.integers(0, 999 * GIB)),
        smem_per_block=draw(st.none() | st.just(smem)),
        smem_per_sm=draw(st.none() | st.just(smem + 1024)),
        max_threads_per_sm=draw(st.sampled_from([None, 1024, 1536, 2048])),
        l2_bytes=draw(st.none() | st.integers(0, 512 << 20)) if vendor == "nvidia" else None,
        warp_size=draw(st.sampled_from([None, 32, 64])) if vendor == "amd" else 32,
    )


@settings(max_examples=300, deadline=None)
@given(cards())
def test_a_described_class_is_made_again_of_its_name(card: DeviceProperties) -> None:
    made = described(card)
    assert target(made.name) == made == classify(card)
    assert (made.vendor, made.arch, made.sm_count) == (card.vendor, card.arch, card.sm_count)
    assert vendor_of(made.name) == made.vendor
    assert re.fullmatch(r"[a-z0-9]([a-z0-9_-]{0,61})[a-z0-9]", made.name), "a label of a Ray node"
    assert card.smem_per_block is None or card.smem_per_block < KIB or made.smem_per_block <= card.smem_per_block
    assert min(rate for _, rate in made.peak_tflops) > 0 and made.dram_gbps > 0 and made.dies >= 1
    assert made.siblings == same_architecture(made)
    assert set(made.siblings) == {t.name for t in CATALOGUE.values() if t.arch == made.arch}


def test_another_process_makes_the_same_of_a_name() -> None:
    name = "nvidia-sm_90a-60sm-40gb-cache25"
    code = f"from tileflow.target import target; print(target({name!r}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(target(name))


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-h300", "nvidia-sm_90a-60cu-40gb", "nvidia-sm_90a-0sm-40gb", "nvidia-sm_90a-60sm-40gb-cache025",
        "nvidia-sm_90a-60sm-40gb-speed9", "nvidia-sm_90a-60sm-40gb-warp7", "nvidia-gfx942-60sm-40gb",
        "nvidia-sm_90a-60sm-40gb-cache25-smem99", "nvidia-sm_90a-60sm-40gb-cache25-cache25", "amd-gfx942-38cu",
        "nvidia-sm_90a-60sm-40gb\n", f"nvidia-sm_90a-{'9' * 400}sm-40gb",
    ],
)  # fmt: skip
def test_a_name_that_says_something_else_is_none(name: str) -> None:
    assert find(name) is None
    with pytest.raises(SpecError, match="named by its figures"):
        target(name)


def test_an_unknown_name_s_error_lists_what_is_at_hand() -> None:
    made = classify(DeviceProperties("NVIDIA H800", "nvidia", "sm_90a", 131, 80 * GIB))
    with pytest.raises(SpecError) as caught:
        target("nvidia-h800")
    assert all(name in str(caught.value) for name in (*CATALOGUE, made.name, "NVIDIA H800"))


@pytest.mark.parametrize("change", [{"arch": ""}, {"arch": "gfx942"}, {"arch": "sm_9"}, {"sm_count": 0}])
def test_what_is_no_device_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="must have an architecture"):
        described(replace(DeviceProperties("card", "nvidia", "sm_90a", 60, GIB), **change))


def test_rates_are_the_architecture_s_in_proportion() -> None:
    """Not those of the one card that multiplies at a quarter of its rate, however near its SM count."""
    whole, part = target("nvidia-h100-sxm"), target("nvidia-sm_90a-66sm-40gb")
    assert part.tflops("bfloat16") == pytest.approx(whole.tflops("bfloat16") / 2, rel=0.15)
    assert target("nvidia-sm_90a-132sm-40gb").dram_gbps == pytest.approx(whole.dram_gbps / 2, rel=0.01)
    assert part.dram_gbps < whole.dram_gbps


# ---- what runs where ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binary", "device", "runs"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_80", "sm_89", True),
        ("sm_86", "sm_89", True),
        ("sm_89", "sm_86", False),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90a", False),
        ("sm_75", "sm_80", False),
        ("sm_70", "sm_75", True),
        ("sm_80", "sm_87", False),
        ("sm_87", "sm_87", True),
        ("sm_87", "sm_89", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100a", False),
        ("sm_100a", "sm_103a", False),
        ("sm_100f", "sm_103a", True),
        ("sm_103a", "sm_100a", False),
        ("sm_120", "sm_120", True),
        ("sm_120", "sm_121a", False),
        ("gfx942", "gfx942", True),
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942", "gfx950", False),
        ("gfx942", "sm_80", False),
        ("sm_80", "gfx942", False),
    ],
)
def test_what_runs_where(binary: str, device: str, runs: bool) -> None:
    """NVIDIA: a later minor of the same major, but for systems on a chip and for what is specific to an architecture,
    as all is that Triton makes from 9.0 on."""
    assert runs_on(binary, device) is runs


def test_each_catalogue_entry_runs_its_siblings_code() -> None:
    pairs = [(target(name).arch, entry.arch) for entry in CATALOGUE.values() for name in entry.siblings]
    assert len(pairs) > len(CATALOGUE) / 2
    assert all(runs_on(theirs, ours) for theirs, ours in pairs)


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((7, 5), "sm_75"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"), ((12, 0), "sm_120"),
     ((12, 1), "sm_121a")],
)  # fmt: skip
def test_an_architecture_is_written_as_in_the_catalogue(capability: tuple[int, int], arch: str) -> None:
    assert nvidia_arch(*capability) == arch


@pytest.mark.parametrize("name", ["", "h200", "intel-pvc", "xe_90"])
def test_a_name_without_a_vendor_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="nvidia-"):
        vendor_of(name)
