"""Views, packing and products through the interpreter and eagerly, at sizes that leave tails."""

from __future__ import annotations

from pathlib import Path

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly
from tile_testing.tiers import every_other

from tileflow.target import CATALOGUE

KERNELS = path_of("packing_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_kernel_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


COMPILED = ("cat_of_three", "merged_and_taken_apart", "gathered", "packed_int4_product", "product_of_two_batches",
            "batches_by_a_matrix", "short_inner_dimension_of_batches", "product_of_fp8",
            "product_of_mxfp4")  # fmt: skip


@pytest.mark.parametrize("architecture", every_other(["sm_90a", "sm_80", "gfx942", "sm_100a", "gfx950"]))
def test_compiles(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    for name in ("TILEFLOW_CACHE", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    device = next(t for t in CATALOGUE.values() if t.arch == architecture)
    for name in COMPILED:
        if (architecture, name) in (("sm_80", "product_of_fp8"), ("gfx942", "product_of_mxfp4")):
            continue  # excluded, with a reason
        lowered = CASES[name].kernel.lower(CASES[name].args, device)
        for source in lowered.emit(lowered.default):
            assert build(source, device).code.startswith(b"\x7fELF")
