"""Warp-specialised products whose turns the blocks of a cluster share, on a Hopper card."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from examples.matmul import matmul, matmul_epilogue
from tileflow.config import Choice
from tileflow.lowered import Lowered
from tileflow.portable import portable_sources
from tileflow.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

KNOB = "loop:tile_k.ctas"
TILES = [(128, 128, 2), (128, 64, 2), (64, 128, 1), (64, 64, 1)]


def operands(layout: str, m: int, n: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    args = (torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype))
    return tuple(a if kind == "N" else a.T.contiguous().T for a, kind in zip(args, layout, strict=True))


def shared(lowered: Lowered, tile: tuple[int, int, int], blocks: int, dtype: torch.dtype) -> dict[str, Choice]:
    """What so many blocks of a tile choose."""
    rows, columns, groups = tile
    parts = {k.name: "tf32x3" for k in lowered.space.knobs if k.name.endswith(".precision")}
    inner: dict[str, Choice] = {"block:tile_k": 32, **parts} if dtype is torch.float32 else {"block:tile_k": 64}
    return {
        "schedule": "warp_specialised", "block:tile_m": rows, "block:tile_n": columns, "consumers": groups,
        "ping_pong": False, "num_stages": 2, KNOB: blocks, **inner,
    }  # fmt: skip


def check(call: Any, args: tuple[Any, ...], wanted: torch.Tensor, torchs: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = call(*args)
    error, others = (float((found.double() - wanted).square().mean().sqrt()) for found in (out, torchs))
    assert error <= 2 * others
    assert all(torch.equal(call(*args), out) for _ in range(20))
    return out


@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_products(card: Target, dtype: torch.dtype, layout: str, tile: tuple[int, int, int], blocks: int) -> None:
    """Of tiles that reach past the result, with a last turn that reaches past the inner dimension, and of few turns."""
    for m, n, k in ((200, 320, 4128), (128, 128, 264), (328, 200, 1000)):
        args = operands(layout, m, n, k, dtype)
        lowered = matmul.lower(args, card)
        config = lowered.space.complete(shared(lowered, tile, blocks, dtype))
        if lowered.space.violations(config):
            pytest.skip("does not fit shared memory")
        wanted = args[0].double() @ args[1].double()
        check(matmul.compile(lowered, config, "cuda"), args, wanted, args[0] @ args[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("blocks", [2, 8])
def test_operands_that_are_copied(card: Target, dtype: torch.dtype, blocks: int) -> None:
    args = operands("NN", 301, 259, 2049, dtype)
    lowered = matmul.lower(args, card)
    config = lowered.space.complete(shared(lowered, TILES[2], blocks, dtype))
    assert not lowered.space.violations(config)
    wanted = args[0].double() @ args[1].double()
    check(matmul.compile(lowered, config, "cuda"), args, wanted, args[0] @ args[1])


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_an_epilogue_of_a_piece(card: Target, dtype: torch.dtype, blocks: int) -> None:
    """What it loads beside the sums has the columns of the block's piece."""
    x, w = operands("NT", 200, 384, 2048, dtype)
    bias, beside = torch.randn(384, device="cuda"), torch.randn(200, 384, device="cuda")
    args = x, w, lambda acc, tile_m, tile_n: torch.sigmoid(acc + bias[tile_n]) * beside[tile_m, tile_n]
    lowered = matmul_epilogue.lower(args, card)
    config = lowered.space.complete(shared(lowered, TILES[0], blocks, dtype))
    assert not lowered.space.violations(config)
    wanted = torch.sigmoid(x.double() @ w.double() + bias.double()) * beside.double()
    torchs = (torch.sigmoid((x @ w).float() + bias) * beside).to(dtype)
    check(matmul_epilogue.compile(lowered, config, "cuda"), args, wanted, torchs)


def test_in_a_graph(card: Target) -> None:
    args = operands("NN", 128, 512, 4096, torch.float32)
    lowered = matmul.lower(args, card)
    assert lowered.default[KNOB] == 8 and lowered.default["schedule"] == "warp_specialised"
    call = matmul.compile(lowered, lowered.default, "cuda")
    call(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(*args)
    args[0].normal_()
    graph.replay()
    assert torch.equal(out, call(*args))


def test_infinities_and_what_is_no_number(card: Target) -> None:
    x, w = operands("NN", 128, 128, 1024, torch.float32)
    x[3, 5], x[7, 1000], x[9, 2], w[2, 9] = torch.inf, torch.nan, torch.inf, 0.0
    lowered = matmul.lower((x, w), card)
    out = matmul.compile(lowered, lowered.space.complete(shared(lowered, TILES[2], 8, torch.float32)), "cuda")(x, w)
    assert out[3].isinf().all() and out[7].isnan().all() and out[9, 9].isnan() and out[0].isfinite().all()


@pytest.mark.parametrize("example", [(4096, 4096, 4096), (128, 512, 4096), (513, 513, 4097)], ids=str)
def test_variants_serve_calls_of_few_and_of_many_tiles(card: Target, example: tuple[int, int, int]) -> None:
    """One set of variants, whichever call it was made for."""
    m, n, k = example
    args = operands("NN", m, n, k, torch.float32)
    lowered = matmul.lower(args, card, mode="dynamic")
    sources = portable_sources(lowered, lowered.default)
    assert {8, 4, 2, 1} <= {source.cluster for source in sources}
    launchers = [matmul.launcher(source, card, torch.device("cuda", 0)) for source in sources]
    call = matmul.bind(lowered.default, {0: launchers})
    for sizes in ((128, 512, 4096), (512, 512, 4096), (768, 1024, 1024), (2048, 1024, 512), (301, 259, 2049)):
        now = operands("NN", *sizes, torch.float32)
        check(call, now, now[0].double() @ now[1].double(), now[0] @ now[1])
