"""Warp-specialised products whose operand is computed, on a Hopper card."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.computed_kernels import (
    activated,
    converted,
    every_byte,
    fp8_weights,
    inputs_of,
    int4_scaled,
    looked_up,
    shifted,
    shifted_in_parts,
)
from tile_testing.runs.on_a_card import assert_right

import examples.int4_matmul
from examples.int4_matmul import int4_matmul
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

Tiles = tuple[int, int, int, bool]  # rows and columns, consumer groups, whether they have tiles of their own
# rows of the transposed result, which are columns of the weights, and columns
COMPUTED: tuple[Tiles, ...] = ((128, 256, 2, False), (256, 128, 2, False), (128, 128, 2, True), (64, 64, 1, False))


def computed(kernel: Kernel, args: tuple[Any, ...], card: Target, tiles: Tiles, mode: str = "static",
             **more: Choice) -> Any:  # fmt: skip
    """The call under a warp-specialised config of one product with a computed right operand."""
    lowered = kernel.lower(args, card, mode=mode)
    rows, columns, consumers, ping_pong = tiles
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_n": rows, "block:tile_m": columns, "block:tile_k": 64,
        "block:block_k": 32, "num_stages": 3, "consumers": consumers, "ping_pong": ping_pong, **more,
    }  # fmt: skip
    known = {k.name for k in lowered.space.knobs}
    return kernel.compile(lowered, lowered.space.complete({n: c for n, c in choices.items() if n in known}), "cuda")


@pytest.mark.parametrize("tiles", COMPUTED, ids=str)
@pytest.mark.parametrize("k", [128, 1024, 7168])
def test_packed_weights(card: Target, tiles: Tiles, k: int) -> None:
    """Several tiles a program, of odd sizes; of one turn and of many."""
    args = examples.int4_matmul.inputs(1000, 4112, k, device="cuda")
    assert_right(computed(int4_matmul, args, card, tiles), int4_matmul, args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("k", "parts"), [(7168, 2), (7168, 4), (1280, 2), (320, 4)])
def test_packed_weights_in_parts(card: Target, k: int, parts: int, mode: str) -> None:
    """Equal parts, a shorter last one, and ones that lie past the end."""
    args = examples.int4_matmul.inputs(64, 4096, k, device="cuda")
    call = computed(int4_matmul, args, card, (128, 64, 2, False), mode, **{"tunable:split_k": parts})
    assert_right(call, int4_matmul, args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_masked_operands_in_parts(card: Target, mode: str) -> None:
    args = tuple(a.cuda() for a in inputs_of(shifted_in_parts, m=1000, n=1040, k=1000))
    choices: dict[str, Choice] = {"block:tile_m": 256, "block:tile_n": 128, "tunable:parts": 8}
    assert_right(computed(shifted_in_parts, args, card, (128, 256, 2, False), mode, **choices), shifted_in_parts, args)


@pytest.mark.parametrize("tiles", COMPUTED[:3], ids=str)
@pytest.mark.parametrize("kernel", [int4_scaled, looked_up, fp8_weights], ids=["groups", "table", "columns"])
def test_scaled_weights(card: Target, kernel: Kernel, tiles: Tiles) -> None:
    args = tuple(a.cuda() for a in inputs_of(kernel, m=1000, n=1040, k=1024))
    assert_right(computed(kernel, args, card, tiles), kernel, args)


@pytest.mark.parametrize("layout", ["N", "T"])
@pytest.mark.parametrize("number", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tiles", COMPUTED[2:], ids=str)
def test_every_byte_is_converted_exactly(
    card: Target, tiles: Tiles, dtype: torch.dtype, number: torch.dtype, layout: str
) -> None:
    """By a product with ones on the diagonal."""
    bytes_ = every_byte(512, 1040, number).cuda()
    args = torch.eye(512, dtype=dtype, device="cuda"), bytes_ if layout == "N" else bytes_.T.contiguous().T
    out = computed(converted, args, card, tiles)(*args)
    assert torch.equal(out, bytes_.to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tiles", COMPUTED[2:], ids=str)
def test_every_nibble_is_converted_exactly(card: Target, tiles: Tiles, dtype: torch.dtype) -> None:
    packed = every_byte(256, 1040).cuda()
    args = torch.eye(512, dtype=dtype, device="cuda"), packed
    out = computed(int4_matmul, args, card, tiles)(*args)
    assert torch.equal(out, examples.int4_matmul.unpacked(packed).to(dtype))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("k", "parts", "blocks"), [(7168, 1, 2), (7168, 1, 4), (4096, 1, 8), (320, 1, 4), (7168, 2, 2)]
)
@pytest.mark.parametrize("tile", [(128, 64, 2), (64, 64, 1), (128, 128, 2)], ids=str)
def test_packed_weights_whose_turns_blocks_share(
    card: Target, tile: tuple[int, int, int], k: int, parts: int, blocks: int, mode: str
) -> None:
    """Blocks with a turn less than others, and ones that have none."""
    args = examples.int4_matmul.inputs(128, 1008, k, device="cuda")
    choices: dict[str, Choice] = {"block:block_k": 64, "tunable:split_k": parts, "loop:tile_k.ctas": blocks}
    call = computed(int4_matmul, args, card, (*tile, False), mode, **{**choices, "num_stages": 2})
    assert_right(call, int4_matmul, args)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(20))


@pytest.mark.parametrize("kernel", [activated, shifted, int4_scaled, fp8_weights], ids=lambda k: k.name.split(":")[1])
@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_share_turns_of_computed_operands(card: Target, kernel: Kernel, blocks: int) -> None:
    args = tuple(a.cuda() for a in inputs_of(kernel, m=200, n=1040, k=1024))
    is_left = kernel in (activated, shifted)
    sides: dict[str, Choice] = {"block:tile_m": 128 if is_left else 64, "block:tile_n": 64 if is_left else 128}
    tiles: Tiles = (128, 64, 2, False)
    assert_right(computed(kernel, args, card, tiles, **sides, **{"loop:tile_k.ctas": blocks}), kernel, args)


@pytest.mark.parametrize("kernel", [activated, shifted], ids=["relu", "masked"])
def test_computed_left_operands(card: Target, kernel: Kernel) -> None:
    args = tuple(a.cuda() for a in inputs_of(kernel, m=1000, n=1040, k=1000))
    call = computed(kernel, args, card, (128, 256, 2, False), **{"block:tile_m": 256, "block:tile_n": 128})
    assert_right(call, kernel, args)


def test_one_computed_product_after_another_is_the_same(card: Target) -> None:
    """A race would show as results that differ."""
    args = examples.int4_matmul.inputs(1000, 4112, 2048, device="cuda")
    call = computed(int4_matmul, args, card, COMPUTED[0])
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))
