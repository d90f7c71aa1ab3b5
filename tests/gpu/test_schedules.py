"""Warp-specialised kernels on a Hopper card: their values, for the shapes that their schedule serves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.kernels import joint_kernels as joint
from tile_testing.kernels.schedule_kernels import (
    FUNCTIONS,
    grouped_queries,
    inputs,
    kept_inputs,
    of_kept_keys,
    of_kept_keys_reference,
    product_with,
    softmax_reference,
    windowed,
    windowed_reference,
)
from tile_testing.runs.on_a_card import assert_right

import examples.fp8_matmul
import examples.int4_matmul
import examples.matmul
from examples.attention import attention, attention_backward, attention_backward_fused, attention_scored
from examples.fp8_matmul import fp8_matmul
from examples.grouped_matmul import grouped_matmul, grouped_matmul_flat
from examples.matmul import matmul, matmul_epilogue
from examples.split_k import split_k_matmul
from tileflow import kernels
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.kernels.gated import gated_linear
from tileflow.kernels.residual import linear_add
from tileflow.measure.check import check_call, make_reference
from tileflow.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]


def specialised(kernel: Kernel, args: tuple[Any, ...], card: Target, keys: int, mode: str, **more: Choice) -> Any:
    """The call under a warp-specialised config of two groups."""
    lowered = kernel.lower(args, card, mode=mode)
    (block,) = (k.name for k in lowered.space.knobs if k.role == "block" and k.name != "block:tile_m")
    choices = {"schedule": "warp_specialised", "block:tile_m": 128, block: keys, "num_stages": 2, **more}
    return kernel.compile(lowered, lowered.space.complete(choices), "cuda")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 96, 128, 192, 256])
def test_attention(card: Target, d: int, causal: bool, mode: str) -> None:
    args = attention.inputs(batch=2, heads=3, m=1000, d=d, causal=causal, with_lse=True, device="cuda")
    call = specialised(attention, args, card, 64, mode)
    assert_right(call, attention, args)


@pytest.mark.parametrize("m", [1024, 1000])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "d"), [(192, 32), (192, 64), (256, 64), (192, 128)])
def test_more_groups(card: Target, rows: int, d: int, causal: bool, m: int) -> None:
    args = attention.inputs(batch=2, heads=3, m=m, d=d, causal=causal, with_lse=True, device="cuda")
    lowered = attention.lower(args, card)
    choices = {"schedule": "warp_specialised", "block:tile_m": rows, "block:block_n": 64, "num_stages": 3}
    config = lowered.space.repair(lowered.space.complete(choices))
    call = attention.compile(lowered, config, "cuda")
    assert_right(call, attention, args)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [32, 64])
def test_the_default_of_narrow_heads(card: Target, d: int, causal: bool) -> None:
    """Three and four groups; 20 launches, since a race would show as bits that change."""
    args = attention.inputs(batch=4, heads=32, m=2048, d=d, causal=causal, device="cuda")
    lowered = attention.lower(args, card)
    assert lowered.default["block:tile_m"] == (256 if causal else 192)
    call = attention.compile(lowered, lowered.default, "cuda")
    assert_right(call, attention, args)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(20))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize(("d", "keys"), [(64, 64), (64, 128), (128, 128)])
@pytest.mark.parametrize("m", [2048, 2000])
def test_programs_that_walk_along_a_triangle(
    card: Target, m: int, d: int, keys: int, ping_pong: bool, mode: str
) -> None:
    """More tiles than programs, the last row of them not full."""
    args = attention.inputs(batch=3, heads=7, m=m, d=d, causal=True, with_lse=True, device="cuda")
    call = specialised(attention, args, card, keys, mode, persistent=1, ping_pong=ping_pong)
    assert_right(call, attention, args)
    first = call(*args)
    assert all(torch.equal(a, b) for _ in range(10) for a, b in zip(call(*args), first, strict=True))


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("stages", [2, 3])
def test_rings_and_orders(card: Target, stages: int, ping_pong: bool) -> None:
    args = attention.inputs(batch=1, heads=2, m=4096, d=128, device="cuda")
    call = specialised(attention, args, card, 128, "static", num_stages=stages, ping_pong=ping_pong)
    assert_right(call, attention, args, repeats=20)


def test_scores_that_load(card: Target) -> None:
    args = attention_scored.inputs(batch=2, heads=4, m=1000, n=700, d=128, device="cuda")
    call = specialised(attention_scored, args, card, 128, "static")
    assert_right(call, attention_scored, args)


@pytest.mark.parametrize(("rows", "keys", "d"), [(64, 128, 64), (128, 128, 64), (128, 128, 128), (192, 64, 64)])
def test_what_turns_load_for_their_keys(card: Target, rows: int, keys: int, d: int) -> None:
    """Ahead of them where registers are enough; 1000 keys, the last of which are masked."""
    args = kept_inputs(6, 1000, 1000, d, device="cuda")
    call = specialised(of_kept_keys, args, card, keys, "static", **{"block:tile_m": rows})
    verdict = check_call(call, args, make_reference(of_kept_keys_reference, args), repeats=20)
    assert verdict.ok, verdict.reason


def test_heads_that_share_keys_and_windows(card: Target) -> None:
    for kernel, reference, heads in ((grouped_queries, softmax_reference, 4), (windowed, windowed_reference, 1)):
        args = inputs(4, 1100, 1100, 64, groups=heads, device="cuda")
        got = specialised(kernel, args, card, 64, "static")(*args)
        wanted = reference(*(a.cpu() for a in args)).float()
        assert math.isclose(float((got.cpu().float() - wanted).abs().max()), 0.0, abs_tol=3e-2)


def test_one_launch_after_another_is_the_same(card: Target) -> None:
    """A race would show as bits that change."""
    args = attention.inputs(batch=4, heads=16, m=2048, d=128, causal=True, device="cuda")
    call = specialised(attention, args, card, 128, "static")
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))


# of one product: rows and columns of a tile, consumer groups, whether they have tiles of their own
Tiles = tuple[int, int, int, bool]
TILES: tuple[Tiles, ...] = (
    (128, 256, 2, False), (128, 128, 2, True), (64, 64, 1, False), (256, 128, 2, False), (64, 256, 2, True),
    (64, 128, 3, True),
)  # fmt: skip


def multiplied(kernel: Kernel, args: tuple[Any, ...], card: Target, tiles: Tiles, mode: str = "static") -> Any:
    """The call under a warp-specialised config of one product."""
    lowered = kernel.lower(args, card, mode=mode)
    m, n, consumers, ping_pong = tiles
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": m, "block:tile_n": n, "num_stages": 4, "group": 4,
        "block:tile_k": 128 // args[0].element_size(), "consumers": consumers, "ping_pong": ping_pong,
    }  # fmt: skip
    return kernel.compile(lowered, lowered.space.complete(choices), "cuda")


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("tiles", TILES[:3], ids=str)
def test_products_in_every_layout(card: Target, tiles: Tiles, layout: str) -> None:
    """Of sizes that no block divides; each program has several tiles, and rings do not begin anew with them."""
    args = examples.matmul.inputs(2056, 3080, 1000, device="cuda")
    args = tuple(a if kind == "N" else a.T.contiguous().T for a, kind in zip(args, layout, strict=True))
    assert_right(multiplied(matmul, args, card, tiles), matmul, args)


@pytest.mark.parametrize("tiles", TILES, ids=str)
def test_products_of_one_turn_and_of_many(card: Target, tiles: Tiles) -> None:
    args = examples.matmul.inputs(4096, 1024, 4096, device="cuda")
    call = multiplied(matmul, args, card, tiles, "dynamic")
    for k in (16, 64, 72, 320, 4096):
        args = examples.matmul.inputs(4096, 1024, k, device="cuda")
        assert_right(call, matmul, args)


@pytest.mark.parametrize("tiles", TILES[:2], ids=str)
def test_epilogues_and_scales(card: Target, tiles: Tiles) -> None:
    args = examples.matmul.epilogue_inputs(1000, 1096, 512, device="cuda")
    assert_right(multiplied(matmul_epilogue, args, card, tiles), matmul_epilogue, args)
    args = examples.fp8_matmul.inputs(1000, 1096, 1024, device="cuda")
    assert_right(multiplied(fp8_matmul, args, card, tiles), fp8_matmul, args)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_functions_beside_a_product(card: Target, f: Callable[..., Any]) -> None:
    """Of whole numbers, whose sums are exact."""
    x, w = (torch.randint(-3, 4, size, device="cuda").bfloat16() for size in ((1000, 512), (512, 1096)))
    lowered = product_with.lower((f, x, w, 0.3), card)
    choices = {"schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": 128, "block:tile_k": 64}
    call = product_with.compile(lowered, lowered.space.complete(choices), "cuda")
    torch.testing.assert_close(call(f, x, w, 0.3), f(x.float() @ w.float(), 0.3), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("tiles", TILES[:2], ids=str)
def test_one_product_after_another_is_the_same(card: Target, tiles: Tiles) -> None:
    """A race over a ring or over a result's slot would show as bits that change."""
    args = examples.matmul.inputs(8192, 8192, 512, device="cuda")
    call = multiplied(matmul, args, card, tiles)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))


# ---- float32 products in parts ---------------------------------------------------------------------------------------


def in_parts(kernel: Kernel, args: tuple[Any, ...], card: Target, columns: int = 128, mode: str = "static") -> Any:
    """The call under a warp-specialised config of a float32 product."""
    lowered = kernel.lower(args, card, mode=mode)
    (parts,) = (k.name for k in lowered.space.knobs if k.name.endswith(".precision"))
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": columns, "block:tile_k": 32,
        "num_stages": 2, "consumers": 2, "ping_pong": False, parts: "tf32x3", "group": 4,
    }  # fmt: skip
    return kernel.compile(lowered, lowered.space.complete(choices), "cuda")


def float32_operands(layout: str, m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    args = (torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda"))
    return tuple(a if kind == "N" else a.T.contiguous().T for a, kind in zip(args, layout, strict=True))


def assert_as_exact(out: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """The error against float64 is no larger than cuBLAS's, but for its best splits of the inner dimension."""
    wanted = x.double() @ y.double()
    error, torchs = (float((o.double() - wanted).square().mean().sqrt()) for o in (out, x @ y))
    assert error <= 1.5 * torchs


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("columns", [16, 64, 128])
def test_float32_products_in_every_layout(card: Target, columns: int, layout: str, mode: str) -> None:
    """Of sizes that no block divides; each program has several tiles."""
    args = float32_operands(layout, 2056, 3080, 1000)
    assert_as_exact(in_parts(matmul, args, card, columns, mode)(*args), *args)


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_float32_products_of_one_turn_and_of_many(card: Target, layout: str) -> None:
    call = in_parts(matmul, float32_operands(layout, 4096, 1024, 4096), card, mode="dynamic")
    for k in (256, 260, 320, 4096, 20, 32):
        args = float32_operands(layout, 4096, 1024, k)
        wanted = args[0].double() @ args[1].double()
        assert float((call(*args).double() - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_what_is_infinite_hides_nothing(card: Target, layout: str) -> None:
    x, y = float32_operands(layout, 256, 256, 512)
    x[5, 7], x[9, 3], y[:] = math.inf, math.nan, 1.0
    out = in_parts(matmul, (x, y), card)(x, y)
    assert out[5].isposinf().all() and out[9].isnan().all()
    assert out.isfinite().sum() == (256 - 2) * 256


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_one_float32_product_after_another_is_the_same(card: Target, layout: str) -> None:
    """A race over a slot or its parts would show as bits that change."""
    args = float32_operands(layout, 4096, 4096, 512)
    call = in_parts(matmul, args, card)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1000, 1000, 1000), (300, 5000, 1024), (1536, 1540, 1536)])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_default_of_a_float32_product(card: Target, layout: str, sizes: tuple[int, int, int]) -> None:
    args = float32_operands(layout, *sizes)
    lowered = matmul.lower(args, card)
    assert_as_exact(matmul.compile(lowered, lowered.default, "cuda")(*args), *args)


def test_epilogues_of_float32_products(card: Target) -> None:
    x, y = float32_operands("NT", 1000, 1096, 512)
    bias = torch.randn(1096, device="cuda")
    args = (x, y, lambda acc, tile_m, tile_n: torch.sigmoid(acc + bias[tile_n]) * acc)
    wanted = x.double() @ y.double()
    wanted = torch.sigmoid(wanted + bias) * wanted
    out = in_parts(matmul_epilogue, args, card)(*args)
    assert float((out.double() - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())


# ---- two products of one left operand, epilogues that load a matrix --------------------------------------------------

# rows and columns of a tile, of each product
BESIDE: tuple[Tiles, ...] = (
    (128, 128, 2, False), (128, 64, 2, True), (64, 32, 1, False), (256, 64, 2, False), (64, 128, 2, True),
    (64, 64, 3, True),
)  # fmt: skip


def joint_args(kernel: Kernel, m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16) -> tuple[Any, ...]:
    return tuple(t.cuda() for t in joint.args_of(kernel, m, n, k, dtype))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("tiles", BESIDE[:3], ids=str)
def test_two_products_in_every_layout(card: Target, tiles: Tiles, layout: str, mode: str) -> None:
    """Of sizes that no block divides; each program has several tiles."""
    x, *rights = joint_args(joint.by_rows, 2056, 1544, 1000)
    x = x if layout[0] == "N" else x.T.contiguous().T
    args = (x, *(w if layout[1] == "N" else w.T.contiguous().T for w in rights))
    assert_right(multiplied(joint.by_rows, args, card, tiles, mode), joint.by_rows, args)


@pytest.mark.parametrize("tiles", BESIDE, ids=str)
def test_two_products_of_one_turn_and_of_many(card: Target, tiles: Tiles) -> None:
    args = joint_args(joint.once, 4096, 1024, 4096)
    call = multiplied(joint.once, args, card, tiles, "dynamic")
    for k in (16, 64, 72, 320, 4096):
        assert_right(call, joint.once, joint_args(joint.once, 4096, 1024, k))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tiles", BESIDE[:2], ids=str)
@pytest.mark.parametrize("kernel", joint.SPELLINGS, ids=lambda k: k.name.split(":")[1])
def test_two_products_as_authors_write_them(card: Target, kernel: Kernel, tiles: Tiles, dtype: torch.dtype) -> None:
    """Odd sizes; columns of whole rows have no block."""
    args = joint_args(kernel, 1000, 1096, 520, dtype)
    lowered = kernel.lower(args, card)
    m, n, consumers, ping_pong = tiles
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": m, "block:tile_n": n, "num_stages": 4, "group": 4,
        "block:tile_k": 64, "consumers": consumers, "ping_pong": ping_pong,
    }  # fmt: skip
    known = {k.name for k in lowered.space.knobs}
    config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
    assert_right(kernel.compile(lowered, config, "cuda"), kernel, args)


@pytest.mark.parametrize("tiles", BESIDE[:2], ids=str)
def test_two_products_one_after_another_are_the_same(card: Target, tiles: Tiles) -> None:
    """A race over a ring's parts or over a result's slot would show as bits that change."""
    args = joint_args(joint.once, 8192, 4096, 512)
    call = multiplied(joint.once, args, card, tiles)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize(("m", "n", "k"), [(4096, 14336, 4096), (1000, 11008, 4096), (64, 4096, 4096), (33, 136, 72)])
def test_the_default_of_a_gated_linear(card: Target, m: int, n: int, k: int, activation: str) -> None:
    args = gated_linear.inputs(m=m, n=n, k=k, activation=activation, device="cuda")
    lowered = gated_linear.lower(args, card)
    assert_right(gated_linear.compile(lowered, lowered.default, "cuda"), gated_linear, args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("tiles", TILES[:4], ids=str)
def test_epilogues_that_load_a_matrix(card: Target, tiles: Tiles, mode: str) -> None:
    for sizes in ((2056, 3080, 1000), (333, 520, 72)):
        args = linear_add.inputs(**dict(zip("mnk", sizes, strict=True)), device="cuda")
        assert_right(multiplied(linear_add, args, card, tiles, mode), linear_add, args)


def test_one_residual_after_another_is_the_same(card: Target) -> None:
    args = linear_add.inputs(m=8192, n=8192, k=512, device="cuda")
    call = multiplied(linear_add, args, card, TILES[0])
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))


# ---- ragged groups and parts of an inner dimension ------------------------------------------------------------------


def divided(kernel: Kernel, args: tuple[Any, ...], card: Target, tiles: Tiles, mode: str = "static",
            **more: Choice) -> Any:  # fmt: skip
    """The call under a warp-specialised config, whatever the knob of its rows is called."""
    lowered = kernel.lower(args, card, mode=mode)
    m, n, consumers, ping_pong = tiles
    rows = "block:block_m" if "block:block_m" in {k.name for k in lowered.space.knobs} else "block:tile_m"
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", rows: m, "block:tile_n": n, "block:tile_k": 64, "num_stages": 4, "group": 4,
        "consumers": consumers, "ping_pong": ping_pong, **more,
    }  # fmt: skip
    return kernel.compile(lowered, lowered.space.complete(choices), "cuda")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("kernel", [grouped_matmul, grouped_matmul_flat], ids=lambda k: k.name.split(":")[1])
def test_ragged_groups(card: Target, kernel: Kernel, tiles: Tiles, mode: str) -> None:
    """Groups that are empty, end inside a block, or begin there."""
    args = kernel.inputs(groups=13, m=3000, n=1096, k=1000, device="cuda")
    assert_right(divided(kernel, args, card, tiles, mode), kernel, args)


@pytest.mark.parametrize("tiles", TILES[:2], ids=str)
@pytest.mark.parametrize("kernel", [grouped_matmul, grouped_matmul_flat], ids=lambda k: k.name.split(":")[1])
def test_rows_of_another_group_are_left_alone(card: Target, kernel: Kernel, tiles: Tiles) -> None:
    """A box over the rows of the next group would show as bits that change."""
    x, y, _ = kernel.inputs(groups=64, m=4096, n=1024, k=512, device="cuda")
    offsets = torch.cat([torch.zeros(1), torch.rand(63).sort().values * 4096, torch.full((1,), 4096)]).int().cuda()
    call = divided(kernel, (x, y, offsets), card, tiles)
    assert_right(call, kernel, (x, y, offsets))
    first = call(x, y, offsets)
    assert all(torch.equal(call(x, y, offsets), first) for _ in range(50))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("parts", [1, 2, 4, 8])
@pytest.mark.parametrize("tiles", TILES[:4], ids=str)
def test_parts_of_an_inner_dimension(card: Target, tiles: Tiles, parts: int, mode: str) -> None:
    """Of an inner dimension that ends inside a part, before the last ones."""
    args = split_k_matmul.inputs(m=328, n=1096, k=1160, device="cuda")
    call = divided(split_k_matmul, args, card, tiles, mode, **{"tunable:split_k": parts})
    assert_right(call, split_k_matmul, args)


# ---- gradients ------------------------------------------------------------------------------------------------------

_ROWS = {1: ("block:tile_n@1", "block:block_m"), 2: ("block:tile_m@2", "block:block_n")}


def with_gradients(args: tuple[Any, ...], card: Target, launches: tuple[int, ...], turn: int, mode: str) -> Any:
    """The call with the launches of those numbers (1: keys and values, 2: queries) warp-specialised."""
    lowered = attention_backward.lower(args, card, mode=mode)
    choices: dict[str, Choice] = {}
    for launch in launches:
        rows, columns = _ROWS[launch]
        choices |= {f"schedule@{launch}": "warp_specialised", f"num_stages@{launch}": 2, rows: 128, columns: turn}
    config = lowered.space.normalise(lowered.default.with_(choices))
    return attention_backward.compile(lowered, config, "cuda")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 128])
def test_gradients(card: Target, d: int, causal: bool, mode: str) -> None:
    args = attention_backward.inputs(batch=2, heads=3, m=1000, d=d, causal=causal, device="cuda")
    call = with_gradients(args, card, (1, 2), 64, mode)
    assert_right(call, attention_backward, args)


@pytest.mark.parametrize(("launch", "turn", "d"), [(1, 32, 128), (1, 128, 64), (2, 128, 128)])
def test_gradients_by_other_turns(card: Target, launch: int, turn: int, d: int) -> None:
    args = attention_backward.inputs(batch=1, heads=4, m=2048, d=d, causal=True, device="cuda")
    call = with_gradients(args, card, (launch,), turn, "static")
    assert_right(call, attention_backward, args, repeats=20)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "turn"), [(32, 128), (64, 128), (80, 64), (128, 64)])
@pytest.mark.parametrize("m", [1024, 1000, 130])
def test_all_gradients_in_one_launch(card: Target, m: int, d: int, turn: int, causal: bool, mode: str) -> None:
    """What each turn adds to memory is divided by columns or by rows; turns that the end or the diagonal cuts."""
    kernel = attention_backward_fused
    args = kernel.inputs(batch=2, heads=3, m=m, d=d, causal=causal, device="cuda")
    lowered = kernel.lower(args, card, mode=mode)
    choices: dict[str, Choice] = {
        "schedule@1": "warp_specialised", "block:tile_n@1": 128, "block:block_m": turn, "num_stages@1": 2,
    }  # fmt: skip
    call = kernel.compile(lowered, lowered.space.normalise(lowered.default.with_(choices)), "cuda")
    assert_right(call, kernel, args)


def test_all_gradients_many_times(card: Target) -> None:
    """What is added in any order differs in the last bits; the gradients of keys and values do not."""
    kernel = attention_backward_fused
    args = kernel.inputs(batch=2, heads=16, m=2048, d=128, causal=True, device="cuda")
    lowered = kernel.lower(args, card)
    assert lowered.default["schedule@1"] == "warp_specialised"
    call = kernel.compile(lowered, lowered.default, "cuda")
    first, *sums = call(*args)
    for _ in range(50):
        again, *others = call(*args)
        assert all(torch.equal(a, b) for a, b in zip(others, sums, strict=True))
        torch.testing.assert_close(again, first, atol=1e-2, rtol=2e-2)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2)])
def test_attention_of_views_that_share_keys(card: Target, heads: tuple[int, int], d: int) -> None:
    """Slices of one product's result, (batch, tokens, all heads, d), under the default configs: values and gradients
    beside torch's own."""
    queries, keys = heads
    packed = torch.randn(2, 2048, queries + 2 * keys, d, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    grad = torch.randn(2, 2048, queries, d, dtype=torch.bfloat16, device="cuda").transpose(1, 2)

    def gradients(attend: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        out = attend(*(x.transpose(1, 2) for x in packed.split([queries, keys, keys], dim=2)))
        return out, torch.autograd.grad(out, packed, grad)[0]

    ours = gradients(lambda q, k, v: kernels.attention(q, k, v, causal=True, backend="tileflow"))
    theirs = gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
    assert ours[0].transpose(1, 2).is_contiguous()
    for got, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, wanted, atol=3e-2, rtol=3e-2)


def test_gradients_of_one_launch_after_another_are_the_same(card: Target) -> None:
    """A race would show as bits that change."""
    args = attention_backward.inputs(batch=2, heads=16, m=2048, d=128, causal=True, device="cuda")
    call = with_gradients(args, card, (1, 2), 64, "static")
    first = call(*args)
    assert all(torch.equal(a, b) for _ in range(50) for a, b in zip(call(*args), first, strict=True))
