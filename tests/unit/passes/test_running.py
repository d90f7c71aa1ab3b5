"""What blocks may put together of a softmax that its author makes block by block, and what only looks like one."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import running_kernels as kernels

from tileflow.api import Kernel
from tileflow.ir.attributes import ClusterReduceAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.passes.cluster_loops import plan, shared_loops
from tileflow.passes.share_loops import share_in_cluster
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.empty(50, 4000, device="meta")
Q, KEYS = torch.empty(64, 64, device="meta").bfloat16(), torch.empty(4000, 64, device="meta").bfloat16()


def region(kernel: Kernel, *args: torch.Tensor | float) -> KernelIR:
    (ir,) = kernel.lower(args, H200).regions
    return ir


@pytest.mark.parametrize(
    ("kernel", "args", "reductions"),
    [
        (kernels.log_sums, (X,), ["max", "sum"]),
        (kernels.guarded, (X, 0.7), ["max", "sum", "sum", "sum"]),
        (kernels.sunk, (X, X[:, 0]), ["max", "sum"]),
        (kernels.attention, (Q, KEYS, KEYS), ["max", "sum", "sum"]),
        (kernels.two_softmaxes, (X, X), ["max", "max", "sum", "sum"]),
    ],
)
def test_sums_relative_to_a_running_maximum_are_shared(
    kernel: Kernel, args: tuple[torch.Tensor | float, ...], reductions: list[str]
) -> None:
    ir = region(kernel, *args)
    found = shared_loops(ir)
    assert found is not None and sorted(joined.fn for joined in found.joined) == reductions
    shared = share_in_cluster(ir, found.tile, 4)
    verify(shared)
    joined = [ClusterReduceAttrs.of(op) for op in shared.body.ops if op.kind is OpKind.CLUSTER_REDUCE]
    assert sorted(attrs.fn for attrs in joined) == reductions
    assert all(attrs.to_all for attrs in joined if attrs.fn == "max")  # which every block scales its sums by


@pytest.mark.parametrize("name", kernels.UNLIKE)
def test_what_the_factor_does_not_put_right_is_not_shared(name: str) -> None:
    ir = region(kernels.UNLIKE[name], X)
    assert "raise a maximum with what is relative to it" in str(plan(ir))
    assert shared_loops(ir) is None


@pytest.mark.parametrize(("columns", "is_cut"), [(256, False), (512, True)])
def test_rows_too_long_to_stay_are_summed_over_by_parts_in_a_shared_loop(columns: int, is_cut: bool) -> None:
    """Loaded before the loop over classes, rows of 2048 bfloat16 left no room for more than 16 classes a turn."""
    x, w = (torch.empty(n, columns, device="meta").bfloat16() for n in (1024, 32000))
    lowered = kernels.class_sums.lower((x, w), H200)
    default = lowered.default.to_dict()
    assert ("cut:dot#0" in default) == is_cut
    assert default["loop:tile_k.ctas"] == 4
    if is_cut:
        assert (default["block:tile_r"], default["block:tile_k"], default["cut:dot#0"]) == (64, 256, 64)
    (ir,) = lowered.regions
    verify(share_in_cluster(ir, "tile_k", 4))
