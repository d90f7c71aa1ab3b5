"""Products of operands whose rows begin at any element, on a Hopper card: boxes of copies that each launch makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from examples.matmul import matmul, matmul_epilogue
from tileflow.config import Choice
from tileflow.portable import portable_config, portable_sources
from tileflow.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]


def operands(layout: str, m: int, n: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    args = (torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype))
    return tuple(a if kind == "N" else a.T.contiguous().T for a, kind in zip(args, layout, strict=True))


def odd_product(args: tuple[torch.Tensor, ...], card: Target, mode: str = "static") -> Any:
    """The call under a config that copies operands."""
    lowered = matmul.lower(args, card, mode=mode)
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": 128, "consumers": 2, "group": 4,
    }  # fmt: skip
    if args[0].dtype is torch.float32:
        parts = {k.name: "tf32x3" for k in lowered.space.knobs if k.name.endswith(".precision")}
        choices |= {"block:tile_k": 32, "num_stages": 2, "ping_pong": False, **parts}
    else:
        choices |= {"block:tile_k": 64, "num_stages": 4, "ping_pong": True}
    return matmul.compile(lowered, lowered.space.complete(choices), "cuda")


def check_product(call: Any, args: tuple[torch.Tensor, ...]) -> None:
    wanted = args[0].double() @ args[1].double()
    of_torch = (args[0] @ args[1]).double()
    error, torchs = (float((out - wanted).square().mean().sqrt()) for out in (call(*args).double(), of_torch))
    assert error <= 2 * torchs


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("sizes", [(1001, 1003, 777), (1000, 259, 1025)], ids=str)
def test_operands_whose_rows_begin_at_any_element(
    card: Target, sizes: tuple[int, int, int], dtype: torch.dtype, layout: str, mode: str
) -> None:
    args = operands(layout, *sizes, dtype)
    call = odd_product(args, card, mode)
    check_product(call, args)
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(20))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_operands_that_lie_apart_or_aside(card: Target, dtype: torch.dtype) -> None:
    apart = torch.randn(1000, 2048, device="cuda", dtype=dtype)[:, ::2]
    aside = torch.randn(1024 * 1000 + 1, device="cuda", dtype=dtype)[1:].view(1024, 1000)
    check_product(odd_product((apart, aside), card), (apart, aside))


def test_a_copy_is_made_by_each_launch(card: Target) -> None:
    """Of what the operand holds then, in a graph too, and for autograd's leaves."""
    x, y = (torch.randn(1001, 1001, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    call = odd_product((x, y), card)
    call(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x, y)
    for _ in range(3):
        x.normal_()
        y.normal_()
        graph.replay()
        torch.testing.assert_close(out, x @ y, atol=0.5, rtol=2e-2)
        torch.testing.assert_close(call(x, y), x @ y, atol=0.5, rtol=2e-2)
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(call(leaf, y), call(x, y))


def test_copies_of_other_streams(card: Target) -> None:
    """Each is made on the stream of its launch, whose order its memory is handed out in."""
    x, y = (torch.randn(2049, 2049, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    call, wanted = odd_product((x, y), card), x @ y
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    outs = []
    for n in range(30):
        with torch.cuda.stream(streams[n % 3]):
            outs.append(call(x, y))
    torch.cuda.synchronize()
    assert all(torch.equal(out, outs[0]) for out in outs)
    torch.testing.assert_close(outs[0], wanted, atol=0.7, rtol=2e-2)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_any_rows_by_variants_of_an_example_with_boxes(card: Target, dtype: torch.dtype, layout: str) -> None:
    """The variant that copies, and of float32 both of its tiles."""
    example = operands(layout, 2048, 2048, 2048, dtype)
    lowered = matmul.lower(example, card, mode="dynamic")
    config = portable_config(lowered, lowered.default)
    device, sources = torch.device("cuda", 0), portable_sources(lowered, lowered.default)
    call = matmul.bind(config, {0: [matmul.launcher(source, card, device) for source in sources]})
    for sizes in ((2049, 2047, 1023), (1001, 1001, 1001), (4097, 1111, 777), (2048, 1024, 512), (100, 33, 257)):
        check_product(call, operands(layout, *sizes, dtype))


@pytest.mark.parametrize("n", [1001, 1003])
def test_results_in_rows_that_begin_at_any_element(card: Target, n: int) -> None:
    """With an epilogue whose vectors have a product's layout."""
    x, y = (torch.randn(*sides, device="cuda", dtype=torch.bfloat16) for sides in ((999, 1000), (1000, n)))
    bias = torch.randn(n, device="cuda")
    args = (x, y, lambda acc, tile_m, tile_n: torch.relu(acc + bias[tile_n]))
    lowered = matmul_epilogue.lower(args, card)
    choices: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": 128, "block:tile_k": 64,
        "num_stages": 4, "consumers": 2, "ping_pong": False, "group": 4,
    }  # fmt: skip
    call = matmul_epilogue.compile(lowered, lowered.space.complete(choices), "cuda")
    wanted = torch.relu(x.float() @ y.float() + bias)
    torch.testing.assert_close(call(*args).float(), wanted, atol=0.6, rtol=2e-2)
