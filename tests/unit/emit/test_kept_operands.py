"""Left operands that all turns of a loop have in common are made anew in each, since ptxas may lose them."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.kept_kernels import all_keys, arguments, shifted_queries

import tileflow
import tileflow.language as tfl
from examples.attention import attention
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.lowered import Lowered
from tileflow.target import target

CALL = tuple(x.to("meta") for x in arguments(2, 700, 4, 64))


def text_of(lowered: Lowered, **changes: object) -> str:
    config = lowered.space.normalise(lowered.default_pipelined.with_(changes))
    assert lowered.space.is_valid(config)
    return "\n".join(source.text for source in lowered.emit(config))


def lowered(kernel: Kernel, device: str = "nvidia-h200", count: int = 5) -> Lowered:
    return kernel.lower(CALL[:count], target(device))


@pytest.mark.parametrize(("kernel", "count"), [(shifted_queries, 5), (all_keys, 4)], ids=["masked", "all keys"])
def test_a_loop_makes_its_operand_anew(kernel: Kernel, count: int) -> None:
    text = text_of(lowered(kernel, count=count))
    assert text.count("tl.dot(_kept_2_4(") == 1, "the weights are computed in each turn as it is"
    assert "shr.s32" in text and "or.b32" in text


@pytest.mark.parametrize("changes", [{"block:tq": 32}, {"num_warps": 2}], ids=["few rows", "few warps"])
def test_products_without_warp_groups_do_not(changes: dict[str, int]) -> None:
    assert "_kept" not in text_of(lowered(shifted_queries), **changes)


def until_small(x, shift, y, out):
    for t in tfl.tile(x.size(0)):
        moved = x[t, :] + shift[:]
        left, turns = out[t, :], 0
        while left.sum() > 1.0:
            left = left * 0.5 + (moved @ y[turns, :, :]).float()
            turns += 1
        out[t, :] = left


def test_a_loop_without_a_counter_takes_the_clock() -> None:
    x, y = (torch.empty(*size, dtype=torch.bfloat16, device="meta") for size in ((512, 64), (9, 64, 64)))
    it = tileflow.kernel(until_small).lower((x, x[0], y, torch.empty(512, 64, device="meta")), target("nvidia-h200"))
    config = it.space.normalise(it.default.with_({"block:t": 64, "num_warps": 4}))
    (source,) = it.emit(config)
    assert "tl.dot(_kept_2_8(" in source.text and "%clock64" in source.text and build(source, it.target)


@pytest.mark.parametrize("device", ["nvidia-a100", "nvidia-b200", "amd-mi300x"])
def test_only_warp_groups_take_operands_from_registers(device: str) -> None:
    assert "_kept" not in text_of(lowered(shifted_queries, device))


def test_a_loaded_operand_stays_in_shared_memory() -> None:
    args = attention.inputs(batch=2, heads=4, m=700, d=64, causal=True, dtype=torch.bfloat16, device="meta")
    text = text_of(attention.lower(args, target("nvidia-h200")))
    assert "if " in text and "_kept" not in text
