"""Left operands that all turns of a loop have in common are made anew in each, where ptxas would lose them."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.kept_kernels import all_keys, arguments, shifted_queries

from examples.attention import attention
from tileflow.api import Kernel
from tileflow.lowered import Lowered
from tileflow.target import target

CALL = tuple(x.to("meta") for x in arguments(2, 700, 4, 64))


def text_of(lowered: Lowered, **changes: object) -> str:
    config = lowered.space.normalise(lowered.default_pipelined.with_(changes))
    assert lowered.space.is_valid(config)
    return "\n".join(source.text for source in lowered.emit(config))


def lowered(kernel: Kernel, device: str = "nvidia-h200", count: int = 5) -> Lowered:
    return kernel.lower(CALL[:count], target(device))


def test_a_loop_with_a_branch_makes_its_operand_anew() -> None:
    text = text_of(lowered(shifted_queries))
    assert text.count("tl.dot(_kept_2_4(") == 1, "the weights are computed in each turn as it is"
    assert "shr.s32" in text and "or.b32" in text


def test_a_loop_without_a_branch_does_not() -> None:
    assert "_kept" not in text_of(lowered(all_keys, count=4))


def test_a_branch_around_full_blocks_counts_as_one() -> None:
    found = lowered(all_keys, count=4)
    (knob,) = [knob.name for knob in found.space.knobs if knob.name.endswith(".full_blocks")]
    assert "tl.dot(_kept_2_4(" in text_of(found, **{knob: True})


@pytest.mark.parametrize("device", ["nvidia-a100", "nvidia-b200", "amd-mi300x"])
def test_only_warp_groups_take_operands_from_registers(device: str) -> None:
    assert "_kept" not in text_of(lowered(shifted_queries, device))


def test_a_loaded_operand_stays_in_shared_memory() -> None:
    args = attention.inputs(batch=2, heads=4, m=700, d=64, causal=True, dtype=torch.bfloat16, device="meta")
    text = text_of(attention.lower(args, target("nvidia-h200")))
    assert "if " in text and "_kept" not in text
