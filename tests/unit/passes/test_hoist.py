"""What is the same in each turn is read once, before the loop (passes/hoist.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels.rolled_kernels import attended_in_a_grid, projected_around_a_range, projected_in_a_grid
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")


def read_in_loops(ir: KernelIR) -> list[str]:
    """The sites of the loads that stand in a loop's turn or in one within."""
    loops = [op for op in ir.body.ops if op.kind is OpKind.FOR]
    inner = [load for op in loops for block in op.regions for load in block.ops if load.kind is OpKind.LOAD]
    return sorted(AccessAttrs.of(load).site.removeprefix("load:") for load in inner)


def in_the_loop(q, k):
    out = torch.empty(q.size(0), k.size(0))
    for rows in tfl.tile(q.size(0)):
        for others in tfl.tile(k.size(0)):
            out[rows, others] = tfl.dot(q[rows, :] * 0.5, k[others, :].T)
    return out


def of_no_product(q, k):
    """A matrix that is only added would fill registers for nothing."""
    out = torch.empty(q.size(0), k.size(0))
    for rows in tfl.tile(q.size(0)):
        for others in tfl.tile(k.size(0)):
            out[rows, others] = (q[rows, :][:, None, :] + k[others, :][None, :, :]).sum(2)
    return out


def of_vectors(q, k):
    """A column leaves the loop, a number of the tensor's stays, as does what the loop's own tile says."""
    out = torch.empty(q.size(0), k.size(0))
    for rows in tfl.tile(q.size(0)):
        for others in tfl.tile(k.size(0)):
            out[rows, others] = (q[rows, 0] * q[0, 1])[:, None] + k[others, 0][None, :] * k[others.begin, 1]
    return out


def written_between(q, k):
    """The second turn reads what the first one wrote."""
    for rows in tfl.tile(q.size(0)):
        for _others in tfl.tile(k.size(0)):
            q[rows, :] = tfl.dot(q[rows, :], k[:16, :16])
    return q


def where_memory_says(q, k, places):
    """With no turn, the place may be none of the tensor's."""
    out = torch.zeros(places.size(0), 16, k.size(1))
    for each in tfl.tile(places.size(0), block_size=1):
        place = places[each.begin]
        acc = tfl.zeros([16, k.size(1)])
        for others in tfl.tile(place):
            acc += tfl.dot(q[place, :16, :16], k[:16, :]) * others.begin
        out[each.begin, :, :] = acc
    return out


def by_keys(q, k):
    """Of two loops, what both find the same leaves both; the keys leave the inner one."""
    out = torch.zeros(q.size(0), k.size(0))
    for rows in tfl.tile(q.size(0)):
        for others in tfl.tile(k.size(0)):
            acc = tfl.zeros([rows, others])
            for _again in tfl.tile(4, block_size=1):
                acc = tfl.dot(q[rows, :], k[others, :].T, acc=acc)
            out[rows, others] = acc
    return out


Q, K = torch.randn(48, 16), torch.randn(33, 16)
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], list[str]]] = {
    "what a product takes": (in_the_loop, (Q, K), ["k#0"]),
    "no product": (of_no_product, (Q, K), ["k#0", "q#0"]),
    "vectors": (of_vectors, (Q, K), ["k#0", "k#1", "q#1"]),
    "written": (written_between, (Q, K), ["q#0"]),
    "named by memory": (where_memory_says, (torch.randn(5, 16, 16), K, torch.tensor([0, 2, 4])), ["q#0"]),
    "two loops": (by_keys, (Q, K), ["k#0"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_stays_in_the_loop(case: str) -> None:
    function, args, stays = CASES[case]
    kernel = tileflow.kernel(function)
    (ir,) = kernel.lower(args, H200).regions
    assert read_in_loops(ir) == stays


@pytest.mark.parametrize("case", CASES)
def test_values_are_the_text_s(case: str) -> None:
    """In the interpreter, at sizes that blocks do not divide."""
    function, args, _ = CASES[case]
    kernel = tileflow.kernel(function)
    wanted = kernel.run_eagerly(*(a.clone() for a in args))
    torch.testing.assert_close(kernel(*(a.clone() for a in args)), wanted)


@pytest.mark.parametrize(
    ("kernel", "shapes", "stays"),
    [
        (attended_in_a_grid, [(64, 4096, 128), (64, 512, 128), (64, 512, 128)], True),
        (attended_in_a_grid, [(64, 4096, 128), (64, 4096, 128), (64, 4096, 128)], True),
        (attended_in_a_grid, [(64, 4096, 64), (64, 256, 64), (64, 256, 64)], False),
        (projected_in_a_grid, [(24, 2048, 384), (384, 384)], True),
        (projected_in_a_grid, [(24, 2048, 4096), (4096, 4096)], True),
        (projected_around_a_range, [(24, 2048, 512), (512, 512)], True),
        (projected_in_a_grid, [(24, 2048, 128), (128, 128)], False),
    ],
)
def test_a_large_matrix_is_read_in_the_loop_block_by_block(
    kernel: Any, shapes: list[tuple[int, ...]], stays: bool
) -> None:
    """In front of the loop all of it was held: no config fitted from 384 columns, or 512 keys, on."""
    args = tuple(torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)
    lowered = kernel.lower(args, H200)
    (ir,) = lowered.regions
    outside = {AccessAttrs.of(op).tensor for op in ir.body.ops if op.kind is OpKind.LOAD}
    assert outside.isdisjoint({"k", "v", "w"}) is stays
    assert lowered.space.is_valid(lowered.default) and lowered.emit(lowered.default)


def test_matrices_that_together_are_large_stay_in_the_loop() -> None:
    """In front of it eight of 64 KB waited side by side, and no config held them; a column still leaves it."""

    @tileflow.kernel
    def layered(x, w, bias):
        out = torch.empty(x.size(0), x.size(1), w.size(2), device=x.device)
        seen = torch.empty(x.size(0), device=x.device)
        for b in tfl.grid(x.size(0)):
            seen[b] = 1.0  # what is stored beside the loop, which is no axis of the grid then
            for t in tfl.tile(x.size(1)):
                total = tfl.zeros([t, w.size(2)]) + bias[:]
                for i in tfl.static_range(w.size(0)):
                    total += x[b, t, :] @ w[i, :, :]
                out[b, t, :] = total
        return out

    def left(count: int) -> list[str]:
        shapes = (24, 2048, 128), (count, 128, 256), (256,)
        args = tuple(torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)
        lowered = layered.lower(args, H200)
        assert lowered.emit(lowered.default)
        return sorted(AccessAttrs.of(op).tensor for op in lowered.regions[0].body.ops if op.kind is OpKind.LOAD)

    assert left(2) == ["bias", "w", "w"] and left(8) == ["bias"]


def test_queries_that_are_read_in_the_loop_have_a_schedule() -> None:
    """Before, the schedule of attention refused it: 1711 us of 988 with it, on an H200."""
    one = ALL["sigmoid_attention"]
    q, k, v = (torch.empty(64, 4096, 128, dtype=torch.bfloat16, device="meta") for _ in range(3))
    lowered = one.kernel.lower((q, k, v), H200)
    assert lowered.default["schedule"] == "warp_specialised"
