"""Rows over clusters on a Hopper card: their values, by our own launcher."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.cluster_kernels import dropped_sums, extremes, in_a_loop, in_place, norm_gradient
from tileflow_benchmarks.clusters.soft_labels import inputs, reference, soft_cross_entropy

from examples.layer_norm import layer_norm
from examples.rms_norm import rms_norm
from examples.softmax import softmax
from tileflow.api import Kernel
from tileflow.config import Choice, Config
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.device import identity
from tileflow.target import Target, target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]
ROWS = 300  # more than two waves of clusters


@pytest.fixture
def card() -> Target:
    found = target(identity().device_class)
    if not found.has_clusters:
        pytest.skip(f"{found.name} has no clusters")
    return found


def clustered(lowered: Lowered, ctas: int, warps: int) -> Config:
    rows: dict[str, Choice] = {k.name: 0 for k in lowered.space.knobs if k.role == "reduction"}
    rows |= {k.name: 1 for k in lowered.space.knobs if k.role == "block"}
    return lowered.space.complete({**rows, "ctas": ctas, "num_warps": warps})


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("n", [131072, 100003, 65536])
@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize("kernel", [softmax, layer_norm, rms_norm], ids=lambda k: k.name)
def test_values(card: Target, kernel: Kernel, ctas: int, n: int, mode: str) -> None:
    args = kernel.inputs(device="cuda", m=ROWS, n=n, dtype=torch.float32)
    lowered = kernel.lower(args, card, mode=mode)
    call = kernel.compile(lowered, clustered(lowered, ctas, 32 if ctas == 2 else 16), "cuda")
    verdict = check_call(call, args, make_reference(kernel.reference, args), repeats=5)
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize("n", [32768, 100000])
def test_boxes_begin_where_the_part_does(card: Target, n: int) -> None:
    x = torch.randn(ROWS, n, device="cuda")
    lowered = softmax.lower((x,), card)
    boxes = {"load:x#0.access": "descriptor", "store:out#0.access": "descriptor"}
    config = lowered.space.complete({**clustered(lowered, 8, 8).to_dict(), **boxes})
    assert lowered.space.is_valid(config)
    verdict = check_call(
        softmax.compile(lowered, config, "cuda"), (x,), make_reference(softmax.reference, (x,)), repeats=5
    )
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize("n", [20000, 20001])
def test_random_numbers_are_those_of_their_places(card: Target, n: int) -> None:
    x, seed = torch.rand(ROWS, n, device="cuda"), 1234
    lowered = dropped_sums.lower((x, seed), card)
    got = [dropped_sums.compile(lowered, clustered(lowered, ctas, 8), "cuda")(x, seed) for ctas in (1, 4)]
    torch.testing.assert_close(*got)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("n", "ctas"), [(8192, 2), (15872, 2), (16384, 8), (30000, 4)])
def test_rows_of_a_loop(card: Target, n: int, ctas: int, stages: int) -> None:
    """Turns exchange two numbers at once, add up rows that are handed on, and load ahead; 8 rows, and a rest of 4."""
    grad, x = (torch.randn(ROWS, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    lowered = norm_gradient.lower((grad, x), card)
    chosen = {"block:block": 8, "block:tile": 1, "ctas": ctas, "num_warps": 8, "num_stages": stages}
    config = lowered.space.complete(chosen)
    assert lowered.space.is_valid(config)
    call = norm_gradient.compile(lowered, config, "cuda")
    out, sums = call(grad, x)
    g, row = grad.float(), x.float()
    product = g * row
    wanted = g - g.mean(1, keepdim=True) - row * product.mean(1, keepdim=True)
    torch.testing.assert_close(out.float(), wanted, rtol=1e-2, atol=1e-2)
    parts = torch.stack([part.sum(0) for part in product.split(8)])
    torch.testing.assert_close(sums, parts, rtol=1e-4, atol=1e-3)
    assert all(torch.equal(a, b) for _ in range(10) for a, b in zip(call(grad, x), (out, sums), strict=True))


def test_a_vocabularys_rows_in_place(card: Target) -> None:
    x = torch.randn(ROWS, 128256, device="cuda")
    wanted = torch.softmax(x, 1)
    assert in_place.lower((x,), card).default["ctas"] > 1
    in_place(x)
    torch.testing.assert_close(x, wanted)


def test_rows_of_loops_in_one_another(card: Target) -> None:
    x = torch.randn(40, 7, 20000, device="cuda")
    lowered = in_a_loop.lower((x,), card)
    out = in_a_loop.compile(lowered, clustered(lowered, 4, 8), "cuda")(x)
    torch.testing.assert_close(out, torch.softmax(x, 2))


def test_a_loss_and_its_gradient(card: Target) -> None:
    args = inputs(ROWS, 65536, torch.bfloat16, "cuda")
    lowered = soft_cross_entropy.lower(args, card)
    call = soft_cross_entropy.compile(lowered, clustered(lowered, 8, 8), "cuda")
    verdict = check_call(call, args, make_reference(reference, args), repeats=5)
    assert verdict.ok, verdict.reason


def test_the_default_of_a_long_row_is_a_call(card: Target) -> None:
    x = torch.randn(ROWS, 131072, device="cuda")
    lowered = softmax.lower((x,), card)
    assert lowered.default["ctas"] == 8
    torch.testing.assert_close(softmax(x), torch.softmax(x, 1))


def test_one_launch_after_another_is_the_same(card: Target) -> None:
    """A race would show as bits that change; parts differ, so that each block's number matters."""
    x = torch.randn(ROWS, 131072, device="cuda") + 4 * (torch.arange(131072, device="cuda") // 16384 % 3)
    x[1, 77777], x[2, :16384] = 200.0, -torch.inf
    lowered = softmax.lower((x,), card)
    call = softmax.compile(lowered, clustered(lowered, 8, 8), "cuda")
    first = call(x)
    torch.testing.assert_close(first, torch.softmax(x, 1))
    assert all(torch.equal(call(x), first) for _ in range(50))


def test_a_nan_of_one_part_is_the_whole_row(card: Target) -> None:
    x = torch.randn(8, 131072, device="cuda")
    x[3, 131071] = torch.nan
    lowered = softmax.lower((x,), card)
    got = softmax.compile(lowered, clustered(lowered, 8, 8), "cuda")(x)
    assert got.isnan().all(1).tolist() == [row == 3 for row in range(8)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_numbers_of_rows_by_dtype(card: Target, dtype: torch.dtype) -> None:
    x = torch.ones(ROWS, 20000, device="cuda", dtype=dtype)
    x[:, 5], x[:, 19000] = 2, -3
    lowered = extremes.lower((x,), card)
    high, low, product = extremes.compile(lowered, clustered(lowered, 4, 8), "cuda")(x)
    assert (high == 2).all() and (low == -3).all() and (product == -6).all()


def test_a_graph_replays_clusters(card: Target) -> None:
    x = torch.randn(64, 131072, device="cuda")
    lowered = softmax.lower((x,), card)
    call = softmax.compile(lowered, clustered(lowered, 8, 8), "cuda")
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(out, torch.softmax(x, 1))
