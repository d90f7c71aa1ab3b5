"""The device catalogue: plausible, consistent figures, found by name and by what a driver calls the device."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace

import pytest
from tile_testing import ROOT

from tileflow.errors import SpecError
from tileflow.expr import Expr
from tileflow.target import CATALOGUE, DeviceProperties, Target, classify, normalise_arch, same_architecture, target

EVERY = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=str)


@pytest.mark.parametrize(
    ("name", "arch", "capability", "sms", "smem_per_block", "warp_size"),
    [
        ("nvidia-a100", "sm_80", 80, 108, 163 << 10, 32),
        ("nvidia-h100-sxm", "sm_90a", 90, 132, 227 << 10, 32),
        ("nvidia-h100-pcie", "sm_90a", 90, 114, 227 << 10, 32),
        ("nvidia-h200", "sm_90a", 90, 132, 227 << 10, 32),
        ("nvidia-b200", "sm_100a", 100, 148, 227 << 10, 32),
        ("nvidia-a100-pcie", "sm_80", 80, 108, 163 << 10, 32),
        ("nvidia-l40s", "sm_89", 89, 142, 99 << 10, 32),
        ("nvidia-h20", "sm_90a", 90, 78, 227 << 10, 32),
        ("nvidia-gh200", "sm_90a", 90, 132, 227 << 10, 32),
        ("nvidia-b300", "sm_103a", 103, 148, 227 << 10, 32),
        ("nvidia-rtx5090", "sm_120", 120, 170, 99 << 10, 32),
        ("amd-mi300x", "gfx942", 0, 304, 64 << 10, 64),
        ("amd-mi325x", "gfx942", 0, 304, 64 << 10, 64),
        ("amd-mi300a", "gfx942", 0, 228, 64 << 10, 64),
        ("amd-mi350x", "gfx950", 0, 256, 160 << 10, 64),
    ],
)
def test_the_figures_that_decide_what_builds(
    name: str, arch: str, capability: int, sms: int, smem_per_block: int, warp_size: int
) -> None:
    entry = target(name)
    assert (entry.arch, entry.capability, entry.sm_count) == (arch, capability, sms)
    assert (entry.smem_per_block, entry.warp_size) == (smem_per_block, warp_size)
    assert entry.backend == ("cuda" if entry.vendor == "nvidia" else "hip")


@EVERY
def test_an_entry_is_consistent(entry: Target) -> None:
    assert CATALOGUE[entry.name] is entry
    assert entry.name.startswith(entry.vendor + "-")
    assert entry.smem_per_block <= entry.smem_per_sm
    assert entry.max_threads_per_sm % entry.warp_size == 0
    assert entry.tflops("float32") < entry.tflops("bfloat16") == entry.tflops("float16")
    assert entry.tflops("float64") == entry.tflops("float32"), "an unknown rate is the plain float32 one"
    assert min(rate for _, rate in entry.peak_tflops) > 0
    assert pickle.loads(pickle.dumps(entry)) == entry
    with pytest.raises(FrozenInstanceError):
        entry.sm_count = 1  # type: ignore[misc]


@EVERY
def test_siblings_are_other_entries_of_the_same_vendor_and_arch(entry: Target) -> None:
    for sibling in entry.siblings:
        other = target(sibling)
        assert other is not entry
        assert (other.vendor, other.arch) == (entry.vendor, entry.arch), "a sibling's binaries must run here"
    assert sorted(entry.siblings) == sorted(same_architecture(entry)), "explicit, and each once"


@EVERY
def test_a_driver_s_name_leads_back_to_the_entry(entry: Target) -> None:
    assert entry.display_names
    for display in entry.display_names:
        card = DeviceProperties(display, entry.vendor, entry.arch, entry.sm_count, entry.mem_gb << 30)
        assert classify(card) is entry


@EVERY
def test_constraints_can_name_the_fields(entry: Target) -> None:
    fits = Expr.of(entry.smem_per_block).le(Expr.sym("target.smem_per_block"))
    assert fits.evaluate(entry.symbols()) == 1
    for symbol, number in entry.symbols().items():
        assert number == getattr(entry, symbol.removeprefix("target."))


def test_an_unknown_device_class_gives_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'nvidia-h300'") as caught:
        target("nvidia-h300")
    assert all(name in str(caught.value) for name in CATALOGUE)


def test_amd_feature_suffixes_are_no_part_of_the_arch() -> None:
    assert normalise_arch("gfx942:sramecc+:xnack-") == "gfx942"
    assert normalise_arch("sm_90a") == "sm_90a"


# ---- abilities by name --------------------------------------------------------------------------

HOPPERS = {t.name for t in CATALOGUE.values() if t.arch == "sm_90a"}
BLACKWELLS = {"nvidia-b200", "nvidia-b300"}


@EVERY
def test_abilities_go_with_the_architecture(entry: Target) -> None:
    assert entry.has_wgmma == (entry.name in HOPPERS)
    assert entry.has_tensor_memory == (entry.name in BLACKWELLS)
    assert entry.has_warp_groups == (entry.name in HOPPERS | BLACKWELLS)
    assert entry.has_tensor_maps == (entry.name in HOPPERS | BLACKWELLS | {"nvidia-rtx5090"})
    assert entry.has_dependent_launches == entry.has_tensor_maps
    assert entry.has_bfloat16 and not replace(entry, vendor="nvidia", arch="sm_75").has_bfloat16
    assert entry.has_e4m3 == ("a100" not in entry.name)
    assert entry.has_fnuz == (entry.vendor == "amd")
    is_cdna3 = entry.arch == "gfx942"
    assert (entry.has_kpack, entry.has_float64_products, entry.has_scaled_products) == (is_cdna3, *[not is_cdna3] * 2)
    assert entry.has_tf32_products == (entry.vendor == "nvidia" or is_cdna3)


def compared(tree: ast.AST) -> Iterator[int]:
    """The lines that compare or reckon with a capability, or compare an architecture with one that they name."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Compare, ast.BinOp)):
            continue
        inside = list(ast.walk(node))
        names = {n.attr for n in inside if isinstance(n, ast.Attribute)}
        if names & {"capability", "get_device_capability"}:
            yield node.lineno
        texts = [n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        if "arch" in names and isinstance(node, ast.Compare) and any(t.startswith(("sm_", "gfx")) for t in texts):
            yield node.lineno


def test_no_file_but_the_catalogue_compares_architectures() -> None:
    root = ROOT
    files = [f for folder in ("tileflow", "search", "cluster", "experiments") for f in (root / folder).rglob("*.py")]
    assert len(files) > 300
    found = [f"{f.name}:{n}" for f in sorted(files) if f != root / "tileflow/target.py"
             for n in compared(ast.parse(f.read_text()))]  # fmt: skip
    assert found == []
