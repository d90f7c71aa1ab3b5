"""Which loops the blocks of a cluster may share, why others' may not, and what becomes of the region."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import summing_kernels as kernels

from examples.matmul import matmul
from tileflow.api import Kernel
from tileflow.errors import InternalError
from tileflow.ir.attributes import ClusterReduceAttrs, PointwiseAttrs, TileAttrs
from tileflow.ir.graph import KernelIR, Op
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.passes.cluster_loops import plan, shared_loops
from tileflow.passes.share_loops import share_in_cluster
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.empty(50, 4000, device="meta")
KEPT = torch.empty(4000, device="meta")


def region(kernel: Kernel, *args: torch.Tensor) -> KernelIR:
    (ir,) = kernel.lower(args, H200).regions
    return ir


def loop_of(ir: KernelIR) -> Op:
    return next(op for op in ir.walk() if op.kind is OpKind.FOR)


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (kernels.row_sums, (X,)),
        (kernels.row_sums, (X.double(),)),
        (kernels.row_sums, (X.long(),)),
        (kernels.column_sums, (X,)),
        (kernels.continued, (X, X[:, 0])),
        (kernels.column_extrema, (X, X[0])),
        (kernels.column_extrema, (X.int(), X[0].int())),
        (kernels.row_products, (X,)),
        (kernels.loops_in_turns, (X,)),
        (matmul, (X, X.T)),
    ],
)
def test_sums_products_and_extrema_are_shared(kernel: Kernel, args: tuple[torch.Tensor, ...]) -> None:
    ir = region(kernel, *args)
    found = shared_loops(ir)
    assert found is not None and found.tile == "tile_k" and not found.rolled
    shared = share_in_cluster(ir, "tile_k", 4)
    verify(shared)
    *_, last = shared.body.ops
    assert last.kind is OpKind.IF and not last.regions[1].ops
    assert shared.tiles["tile_k"].dealt == "tile_k.part" and shared.cluster == ("tile_k.part",)
    assert shared.grid == ir.grid
    outside = [op.kind for op in shared.body.ops]
    assert outside.count(OpKind.CLUSTER_REDUCE) == len(loop_of(ir).outputs) and OpKind.STORE not in outside
    assert any(op.kind is OpKind.STORE for op in last.regions[0].ops)


def test_what_is_written_whole_is_shared_where_it_is_a_loop() -> None:
    for kernel in (kernels.whole_rows, kernels.whole_columns):
        ir = region(kernel, X)
        found = shared_loops(ir)
        assert found is not None and found.rolled == "reduce:sum#0" and found.region is not ir
        verify(share_in_cluster(found.region, found.tile, 8))


@pytest.mark.parametrize(
    ("kernel", "to_all"),
    [
        (kernels.whole_softmax, [True, True]),
        (kernels.column_softmax, [True, True]),
        (kernels.column_variances, [True, False]),
        (kernels.column_facts, [True, True, True, True, False, False, False]),
    ],
)
def test_lanes_are_reduced_before_blocks_put_together_what_they_have(kernel: Kernel, to_all: list[bool]) -> None:
    """All blocks get what a further loop, or another reduction, goes on with."""
    found = shared_loops(region(kernel, X))
    assert found is not None and found.rolled
    shared = share_in_cluster(found.region, found.tile, 4)
    verify(shared)
    put = [op for op in shared.body.ops if op.kind is OpKind.CLUSTER_REDUCE]
    assert [ClusterReduceAttrs.of(op).to_all for op in put] == to_all
    assert all(not {d for d in op.output.dims if found.rolled in d.extent.symbols()} for op in put)
    assert all(shared.tiles[tile].dealt == f"{found.tile}.part" for tile in found.tiles)


def test_every_loop_of_several_is_shared() -> None:
    """A last one that writes, each turn its own elements, needs no branch behind it."""
    for kernel, loops in ((kernels.looped_variances, 2), (kernels.two_loops, 2)):
        ir = region(kernel, X)
        found = shared_loops(ir)
        assert found is not None and len(found.tiles) == loops and not found.rolled
        shared = share_in_cluster(ir, found.tile, 2)
        verify(shared)
        *_, last = shared.body.ops
        assert last.kind is (OpKind.IF if kernel is kernels.looped_variances else OpKind.FOR)
        assert next(ClusterReduceAttrs.of(op).to_all for op in shared.walk() if op.kind is OpKind.CLUSTER_REDUCE)


def test_a_number_that_is_stored_between_loops_is_stored_once() -> None:
    """By the first block, behind the last loop."""
    ir = region(kernels.column_variances, X)
    found = shared_loops(ir)
    assert found is not None
    *outside, last = share_in_cluster(found.region, found.tile, 4).body.ops
    assert not any(op.kind is OpKind.STORE for op in outside)
    assert [op.kind for op in last.regions[0].ops].count(OpKind.STORE) == 2


def test_a_number_that_is_read_again_behind_its_store_is_not_put_off() -> None:
    """Behind the last loop the first block would store it after it has read what was there before."""
    assert shared_loops(region(kernels.kept_between, X, KEPT)) is None
    assert shared_loops(region(kernels.moved_behind, X, KEPT)) is not None


def test_what_a_branch_does_before_the_loop_would_be_done_by_every_block() -> None:
    """8 of them added 8 where the author adds 1."""
    for kernel in (kernels.stored_in_a_branch_before, kernels.whole_with_a_branch_behind):
        assert shared_loops(region(kernel, X, X[:, 0])) is None


def test_extrema_of_float64_are_not_shared() -> None:
    assert "float64" in str(plan(region(kernels.column_extrema, X.double(), X[0].double())))


def test_what_an_extremum_begins_with_is_put_to_it_once() -> None:
    """Every block begins with what bounds nothing."""
    shared = share_in_cluster(region(kernels.column_extrema, X.int(), X[0].int()), "tile_k", 2)
    started = [shared.definitions[v] for v in loop_of(shared).values]
    assert sorted(op.inputs for op in started) == [(-(2**31),), (2**31 - 1,)]
    *_, last = shared.body.ops
    put = [PointwiseAttrs.of(op).fn for op in last.regions[0].ops if op.kind is OpKind.POINTWISE]
    assert sorted(put) == ["maximum", "minimum"]


def test_what_a_sum_begins_with_is_added_once() -> None:
    """Every block begins with zero; the first one adds the author's number behind the loop."""
    shared = share_in_cluster(region(kernels.continued, X, X[:, 0]), "tile_k", 2)
    started = [shared.definitions[v] for v in loop_of(shared).values]
    assert [op.kind for op in started] == [OpKind.FULL] * len(started)
    assert all(op.inputs == (0.0,) for op in started)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.bounded, "more than add"),
        (kernels.in_halves, "more than add"),
        (kernels.decayed, "more than add"),
        (kernels.read_again, "more than add"),
        (kernels.stored_each_turn, "store before its end would be done by every block"),
        (kernels.stored_before, "atomic before its end would be done by every block"),
        (kernels.written_in_place, "load of x names elements that another turn writes"),
        (kernels.written_behind, "store behind it, of what other blocks' turns may still read"),
        (kernels.read_behind, "store of out names elements that another turn writes, or may"),
        (kernels.written_before, "store before its end would be done by every block"),
        (kernels.loop_in_a_branch, "loops in branches"),
    ],
)
def test_refusals_say_why(kernel: Kernel, reason: str) -> None:
    ir = region(kernel, X)
    assert reason in str(plan(ir))
    assert shared_loops(ir) is None
    with pytest.raises(InternalError, match=reason):
        share_in_cluster(ir, TileAttrs.of(loop_of(ir)).tile, 2)
