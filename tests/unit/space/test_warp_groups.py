"""How Triton deals out the products of valid configs to warp groups, against what the space says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from tile_testing.strangers import ALL

from tileflow.api import load_kernel
from tileflow.build import compile as build_module
from tileflow.build.compile import build
from tileflow.config import Config, ConfigSpace
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")
WARPS = re.compile(r"(#mma\d*) = #ttg.nvidia_mma<\{versionMajor = 3.*?warpsPerCTA = \[(\d+), (\d+)\]")
RESULT = re.compile(r"ttng.warp_group_dot .*-> tensor<(\d+)x(\d+)x\w+, (#mma\d*)>")


def lowered(name: str, **sizes: object) -> Lowered:
    kernel = load_kernel(f"examples.{name}")
    return kernel.lower(kernel.inputs(device="meta", **sizes), H200)


def backward(m: int) -> Lowered:
    return lowered("attention:attention_backward", batch=2, heads=2, m=m, d=32, dtype=torch.bfloat16)


def repeated(it: Lowered, config: Config, region: int, cache: Path) -> list[bool]:
    """Of each product of warp groups, whether some of them compute the same, as the compiler's last text of it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(cache))
        patch.setenv("TILEFLOW_CACHE", str(cache / "tileflow"))
        build_module.generated_functions.cache_clear()
        build(it.emit(config)[region], H200)
    (text,) = (path.read_text() for path in cache.glob("*/*.ttgir"))
    warps = {name: (int(m), int(n)) for name, m, n in WARPS.findall(text)}
    found = RESULT.findall(text)
    return [int(m) < 16 * warps[layout][0] or int(n) < 8 * warps[layout][1] for m, n, layout in found]


@pytest.mark.parametrize(("rows", "keys", "warps"), [(64, 16, 4), (128, 16, 8), (128, 64, 4), (256, 32, 16)])
def test_warp_groups_of_a_valid_config_repeat_nothing(rows: int, keys: int, warps: int, tmp_path: Path) -> None:
    it = backward(512)
    config = it.default.with_({"block:tile_m@2": rows, "block:block_n": keys, "num_warps@2": warps})
    it.space.check(config)
    found = repeated(it, config, 2, tmp_path)
    assert len(found) == 3
    assert not any(found)


def test_more_warps_than_rows_are_no_config(tmp_path: Path) -> None:
    """The one that ptxas 12.8 built wrongly. Some groups do compute the same in it."""
    it = backward(33)
    config = it.default.with_(
        {"block:tile_m@2": 64, "block:block_n": 16, "num_warps@2": 16, "num_stages@2": 1, "loop:tile_n@2@2.unroll": 2}
    )
    assert [c.name for c in it.space.violations(config)] == ["warp groups share dot#1@2"]
    assert it.space.repair(config)["num_warps@2"] == 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(it, "space", ConfigSpace(it.space.knobs, (), it.space.environment))
        assert any(repeated(it, config, 2, tmp_path))


@pytest.mark.parametrize(("rows", "columns", "warps"), [(64, 128, 16), (64, 64, 8), (128, 256, 8), (256, 64, 16)])
def test_a_product_that_nothing_follows_may_be_dealt_out_by_columns(rows: int, columns: int, warps: int) -> None:
    it = lowered("matmul:matmul", m=4096, n=4096, k=4096)
    it.space.check(it.default.with_({"block:tile_m": rows, "block:tile_n": columns, "num_warps": warps}))


def test_less_than_an_instruction_for_each_warp_group_is_no_config() -> None:
    it = lowered("matmul:matmul", m=4096, n=4096, k=4096)
    config = it.default.with_({"block:tile_m": 64, "block:tile_n": 16, "num_warps": 16})
    assert [c.name for c in it.space.violations(config)] == ["warp groups share dot#0"]


def test_single_warps_share_as_they_like() -> None:
    """Products of fewer rows are theirs, on Hopper too; Ampere has no others."""
    it = lowered("matmul:matmul", m=4096, n=4096, k=4096)
    it.space.check(it.default.with_({"block:tile_m": 32, "block:tile_n": 16, "num_warps": 16, "block:tile_k": 64}))
    kernel = load_kernel("examples.matmul:matmul")
    other = kernel.lower(kernel.inputs(device="meta", m=4096, n=4096, k=4096), target("nvidia-a100"))
    assert not any(c.name.startswith("warp groups") for c in other.space.constraints)


def test_warps_that_another_tile_needs_leave_a_product_to_full_precision() -> None:
    """Of one loop more warps were wanted, of the products fewer, and there was no default config."""
    one = ALL["differential_attention"]
    it = one.kernel.lower(one.make(h=2, t=37, d=3), H200)
    assert it.space.is_valid(it.default)
    assert it.default["num_warps"] <= 8
