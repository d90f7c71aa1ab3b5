"""Loops that the blocks of a cluster share, on a Hopper card: their values, by our own launcher."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from tile_testing.kernels import running_kernels
from tile_testing.kernels.summing_kernels import (
    column_extrema,
    column_facts,
    column_softmax,
    column_sums,
    column_variances,
    continued,
    looped_variances,
    number,
    row_products,
    row_sums,
    two_loops,
    whole_softmax,
)

from examples.matmul import bias_gelu, matmul, matmul_epilogue
from tileflow.api import Kernel
from tileflow.measure.device import identity
from tileflow.target import Target, target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]
KNOB = "loop:tile_k.ctas"
TALL = (9001, 40)
SEVERAL = {  # the kernel, the shape of what it takes, and what it gives of that
    "softmax of columns": (column_softmax, TALL, lambda x: torch.softmax(x.float(), 0).to(x.dtype)),
    "softmax of rows": (whole_softmax, (12, 70001), lambda x: torch.softmax(x.float(), 1).to(x.dtype)),
    "variances": (column_variances, TALL, lambda x: (x.float().mean(0), x.float().var(0, correction=0))),
    "variances in loops": (looped_variances, TALL, lambda x: x.float().var(0, correction=0)),
    "facts": (column_facts, TALL, lambda x: (x.argmax(0), x.argmin(0), (x > 3).any(0), (x < 3).all(0), x.sum(0))),
    "a number": (number, (100_001,), lambda x: (x.float().sum()[None], (x > 3).any()[None])),
    "a loop that writes": (two_loops, (300, 4001), lambda x: (x - x.float().sum(1, keepdim=True)).to(x.dtype)),
}


@pytest.fixture
def card() -> Target:
    found = target(identity().device_class)
    if not found.has_clusters:
        pytest.skip(f"{found.name} has no clusters")
    return found


def shared(kernel: Kernel, args: tuple[Any, ...], card: Target, ctas: int, mode: str = "static") -> Any:
    lowered = kernel.lower(args, card, mode=mode)
    config = lowered.space.repair(lowered.default_pipelined.with_({KNOB: ctas, "persistent": 0}))
    assert config[KNOB] == ctas
    return kernel.compile(lowered, config, "cuda")


@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("sizes", "mode"),
    [
        ((200, 9001, 1001), "static"),
        ((200, 9001, 301), "dynamic"),  # of which eight blocks a program run at once
        *(((128, 8192, 512), mode) for mode in ("static", "dynamic")),
        ((16, 1000, 70), "static"),
        ((7, 131, 19), "static"),  # of a turn at most for each of eight, which LLVM writes twice
        ((64, 40, 64), "static"),  # of another mode, where a variant for few turns serves it
    ],
)
def test_products(card: Target, sizes: tuple[int, int, int], dtype: torch.dtype, ctas: int, mode: str) -> None:
    """Repeated calls give the same bits; a block may have no turn."""
    m, k, n = sizes
    x, y = torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype)
    call = shared(matmul, (x, y), card, ctas, mode)
    first = call(x, y)
    worst = float((torch.matmul(x, y).double() - x.double() @ y.double()).abs().max())
    assert float((first.double() - x.double() @ y.double()).abs().max()) <= 4 * worst + 1e-6
    assert all(torch.equal(call(x, y), first) for _ in range(20))


def test_an_epilogue_runs_once(card: Target) -> None:
    x, y = torch.randn(128, 4096, device="cuda").bfloat16(), torch.randn(4096, 256, device="cuda").bfloat16()
    bias = torch.randn(256, device="cuda").bfloat16()
    call = shared(matmul_epilogue, (x, y, bias_gelu(bias)), card, 4)
    wanted = torch.nn.functional.gelu((x.float() @ y.float()) + bias.float())
    torch.testing.assert_close(call(x, y, bias_gelu(bias)).float(), wanted, rtol=2e-2, atol=1e-1)


@pytest.mark.parametrize("ctas", [2, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize(("kernel", "axis"), [(row_sums, 1), (column_sums, 0)], ids=["rows", "columns"])
def test_loops_without_products(card: Target, kernel: Kernel, axis: int, dtype: torch.dtype, ctas: int) -> None:
    x = (torch.randn(300, 4001, device="cuda") * 99).to(dtype)
    call = shared(kernel, (x,), card, ctas)
    torch.testing.assert_close(call(x), x.sum(axis), rtol=1e-4, atol=1e-1)
    assert torch.equal(call(x), call(x))


@pytest.mark.parametrize("ctas", [2, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_extrema_and_products(card: Target, dtype: torch.dtype, ctas: int) -> None:
    x = (torch.randn(4001, 300, device="cuda") * 99).to(dtype)
    if dtype.is_floating_point:
        x[3999, 7] = torch.nan
    start = x.amin(0)
    low, high = shared(column_extrema, (x, start), card, ctas)(x, start)
    torch.testing.assert_close(high, x.amax(0), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(low, torch.minimum(x.amin(0), start * 0 + 99), rtol=0, atol=0, equal_nan=True)
    y = (1 + torch.randn(300, 4001, device="cuda") / 100).to(dtype) if dtype.is_floating_point else x.T.contiguous() | 1
    torch.testing.assert_close(shared(row_products, (y,), card, ctas)(y), y.prod(1).to(dtype), rtol=1e-4, atol=0)


def test_what_sums_begin_with(card: Target) -> None:
    x, start = torch.randn(50, 4000, device="cuda"), torch.randn(50, device="cuda")
    up, down = shared(continued, (x, start), card, 4)(x, start)
    torch.testing.assert_close(up, start + x.sum(1), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(down, 2 * start - x.sum(1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("ctas", [2, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_loops_and_lanes(card: Target, name: str, dtype: torch.dtype, ctas: int) -> None:
    """What every block goes on with is the same in all; a config of any blocks and warps has the same values."""
    kernel, shape, wanted = SEVERAL[name]
    x = torch.randn(shape, device="cuda").to(dtype)
    lowered = kernel.lower((x,), card)
    (knob,) = (k.name for k in lowered.space.knobs if k.name.startswith("loop:") and k.name.endswith(".ctas"))
    chosen, near = random.Random(ctas), {torch.float32: 1e-4, torch.bfloat16: 2e-2}[dtype]
    for config in (lowered.default_pipelined, *(lowered.space.sample(chosen) for _ in range(4))):
        rolled = {k.name: k.choices[-1] for k in lowered.space.knobs if k.role == "reduction" and not config[k.name]}
        config = lowered.space.repair(config.with_({**rolled, knob: ctas, "persistent": 0}))
        call = kernel.compile(lowered, config, "cuda")
        got = call(x)
        torch.testing.assert_close(got, wanted(x), rtol=near, atol=10 * near)
        assert all(map(torch.equal, *((out if isinstance(out, tuple) else (out,)) for out in (call(x), got))))


def scores(rows: int, columns: int) -> torch.Tensor:
    """Rows of which the first blocks find nothing, one with a NaN."""
    x = torch.randn(rows, columns, device="cuda")
    x[1, : columns - 7], x[2, 65:], x[3, 100] = -torch.inf, -torch.inf, torch.nan
    return x


@pytest.mark.parametrize("ctas", [2, 4, 8])
def test_running_maxima(card: Target, ctas: int) -> None:
    """What is masked from the first turns on, what a loop begins with, and two maxima of one loop."""
    x, y, sink = scores(37, 9001), torch.randn(37, 9001, device="cuda"), torch.randn(37, device="cuda")
    sums = torch.logsumexp(x, 1)
    with_sink = torch.logsumexp(torch.cat([x, sink[:, None]], 1), 1)
    near = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True}
    found = shared(running_kernels.log_sums, (x,), card, ctas)(x)
    torch.testing.assert_close(found, sums, **near)
    found = shared(running_kernels.sunk, (x, sink), card, ctas)(x, sink)
    torch.testing.assert_close(found, with_sink, **near)
    found = shared(running_kernels.two_softmaxes, (x, y), card, ctas)(x, y)
    torch.testing.assert_close(found, sums - torch.logsumexp(y, 1), **near)
    out, tops, _ = shared(running_kernels.guarded, (x, 0.7), card, ctas)(x, 0.7)
    gapped = torch.where(torch.arange(9001, device="cuda") % 3 == 0, -torch.inf, x)
    weights = torch.softmax(gapped * math.log(2) * 0.7, 1)
    torch.testing.assert_close(out, (weights * torch.arange(9001, device="cuda") / 100).sum(1), **near)
    torch.testing.assert_close(tops, gapped.amax(1), equal_nan=True)


@pytest.mark.parametrize("columns", [512, 640, 2048])
@pytest.mark.parametrize("ctas", [2, 8])
def test_loops_in_a_shared_loop(card: Target, ctas: int, columns: int) -> None:
    x, w = (torch.randn(n, columns, device="cuda", dtype=torch.bfloat16) for n in (100, 9001))
    scores = (x @ w.T).float() / 8
    found = shared(running_kernels.class_sums, (x, w / 8), card, ctas)(x, w / 8)
    torch.testing.assert_close(found, torch.logsumexp(scores, 1), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ctas", [2, 4, 8])
def test_attention_by_blocks(card: Target, ctas: int, dtype: torch.dtype, mode: str) -> None:
    """Causal: of most rows whole blocks of a cluster find nothing."""
    q, keys = torch.randn(100, 64, device="cuda", dtype=dtype), torch.randn(2, 5000, 64, device="cuda", dtype=dtype)
    masked = (q.float() @ keys[0].float().T) / 8
    masked.masked_fill_(torch.arange(100, device="cuda")[:, None] * 3 < torch.arange(5000, device="cuda"), -torch.inf)
    kernel = running_kernels.attention
    out, lse = shared(kernel, (q, *keys), card, ctas, mode)(q, *keys)
    near = {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(out.float(), torch.softmax(masked, 1) @ keys[1].float(), **near)
    torch.testing.assert_close(lse, torch.logsumexp(masked, 1) / math.log(2), **near)


@pytest.mark.parametrize("seed", range(12))
def test_any_config(card: Target, seed: int) -> None:
    """Blocks of any size and warps, so that threads hold one register or sixty-four, alone or with others."""
    chosen = random.Random(seed)
    kernel = chosen.choice([matmul, column_sums, row_sums])
    args = tuple(torch.randn(500, 500, device="cuda") for _ in range(2 if kernel is matmul else 1))
    lowered = kernel.lower(args, card)
    config = lowered.space.sample(chosen)
    config = lowered.space.normalise(lowered.space.repair(config.with_({"persistent": 0, KNOB: chosen.choice([2, 4])})))
    got = kernel.compile(lowered, config, "cuda")(*args)
    wanted = args[0].double() @ args[1].double() if kernel is matmul else args[0].double().sum(int(kernel is row_sums))
    torch.testing.assert_close(got.double(), wanted, rtol=1e-3, atol=1e-2)


def test_a_graph_replays_shared_sums(card: Target) -> None:
    x = torch.randn(8, 1 << 20, device="cuda")
    lowered = row_sums.lower((x,), card)
    assert lowered.default[KNOB] == 8
    call = row_sums.compile(lowered, lowered.default, "cuda")
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(out, x.sum(1), rtol=1e-4, atol=1e-1)
