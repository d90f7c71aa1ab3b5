"""Masks by position: which become branches that full blocks do not take, and which stay, each for a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels.masked_kernels import ARGS, CASES, MASKS

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import IfAttrs, PointwiseAttrs, WhereMaskAttrs
from tileflow.ir.graph import KernelIR, Op
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.passes.masks import place_masks
from tileflow.target import target

H200, A100 = target("nvidia-h200"), target("nvidia-a100")


def region(kernel: Any, *args: Any, mode: str = "static") -> KernelIR:
    (ir,) = kernel.lower(args, H200, mode=mode).regions
    verify(ir, "the passes")
    return ir


def branches(ir: KernelIR) -> list[Op]:
    return [op for op in ir.walk() if op.kind is OpKind.IF]


def functions(block: Any) -> list[str]:
    return [PointwiseAttrs.of(op).fn for op in block.ops if op.kind is OpKind.POINTWISE]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", [f"{name}{kind}_16x16" for name in MASKS for kind in ("", "_filled")])
def test_a_mask_by_position_is_a_branch(name: str, mode: str) -> None:
    """All of its work is in the branch, and the turn has no comparison of tiles."""
    ir = region(CASES[name].kernel, *ARGS, mode=mode)
    (branch,) = branches(ir)
    assert IfAttrs.of(branch).first_holds
    assert functions(branch.regions[0])[-1] == "where" and not branch.regions[1].ops
    (loop,) = (op for op in ir.walk() if op.kind is OpKind.FOR)
    assert not any(op.output.dims and op.output.type.dtype == "bool" for op in loop.regions[0].ops if op.outputs)


def masked(mask: Callable[..., Any]) -> Any:
    @tileflow.kernel
    def product_of_masked(q, k, v):
        out = torch.empty(q.size(0), v.size(1), device=q.device)
        limit = torch.zeros(q.size(0), dtype=torch.int32, device=q.device)
        for tm in tfl.tile(q.size(0)):
            acc = tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(k.size(0)):
                scores = tfl.dot(q[tm, :], k[tn, :].T)
                acc = tfl.dot(mask(scores, tm, tn, limit).to(v.dtype), v[tn, :], acc=acc)
            out[tm, :] = acc
        return out

    return product_of_masked


STAY = {
    "of rows alone, the same in each turn": lambda s, m, n, _: torch.where((m.index < 40)[:, None], s, 0.0),
    "of two tiles": lambda s, m, n, _: torch.where(m.index[:, None] >= n.index[None, :], s, s * 2),
    "of parity": lambda s, m, n, _: torch.where((m.index[:, None] + n.index[None, :]) % 2 == 0, s, 0.0),
    "of equality, which few elements have": lambda s, m, n, _: torch.where(
        m.index[:, None] == n.index[None, :], s, 0.0
    ),
    "of numbers in memory": lambda s, m, n, limit: torch.where(n.index[None, :] < limit[m][:, None], s, 0.0),
    "of the scores": lambda s, m, n, _: torch.where(s > 0, s, 0.0),
    "one part of which is of the scores": lambda s, m, n, _: torch.where(
        (m.index[:, None] >= n.index[None, :]) & (s > 0), s, 0.0
    ),
    "of one tile's own positions": lambda s, m, n, _: torch.where(
        (n.index[None, :] + m.index[:, None]) >= n.index[None, :], s, 0.0
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_others_stay(name: str) -> None:
    assert not branches(region(masked(STAY[name]), *ARGS))


def test_a_mask_in_front_of_the_products_stays() -> None:
    @tileflow.kernel
    def lower_triangle_times(a, b):
        out = torch.empty(a.size(0), b.size(1), device=a.device)
        for tm, tn in tfl.tile([a.size(0), b.size(1)]):
            acc = tfl.zeros([tm, tn])
            for tk in tfl.tile(a.size(1)):
                left = torch.where(tm.index[:, None] >= tk.index[None, :], a[tm, tk], 0.0)
                acc = tfl.dot(left.to(b.dtype), b[tk, tn], acc=acc)
            out[tm, tn] = acc
        return out

    assert not branches(region(lower_triangle_times, *ARGS[:2][:1], ARGS[1].T.contiguous().T[:16]))


def test_a_mask_that_another_operation_reads_is_computed_for_it_too() -> None:
    def twice(scores: Any, tm: Any, tn: Any, _: Any) -> Any:
        mask = tm.index[:, None] >= tn.index[None, :]
        return torch.where(mask, scores, 0.0) + mask.float()

    ir = region(masked(twice), *ARGS)
    (branch,) = branches(ir)
    assert functions(branch.regions[0]) == ["ge", "where"]
    assert sum(op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn == "ge" for op in ir.walk()) == 2


def test_single_warps_compute_the_mask_in_each_block() -> None:
    """Their products have one layout only without a branch; both sides and a choice would be more than the mask."""
    kernel = CASES["causal_16x16"].kernel
    lowered = kernel.lower(ARGS, A100)
    text = lowered.emit(lowered.default)[0].code
    assert text.count(", 0.5)") == 1 and not any(line.strip().startswith("if") for line in text.splitlines())


@tileflow.kernel
def causal(q, k, v):
    """As most write it: the mask in each turn."""
    out = torch.empty_like(q)
    for h, tm in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        at = h.begin
        top, total = tfl.full([tm], float("-inf")), tfl.zeros([tm])
        acc = tfl.zeros([tm, q.size(2)])
        for tn in tfl.tile(tm.end):
            s = tfl.dot(q[at, tm, :], k[at, tn, :].T) / math.sqrt(q.size(2))
            s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
            new = torch.maximum(top, s.amax(1))
            p, shrink = torch.exp(s - new[:, None]), torch.exp(top - new)
            total = total * shrink + p.sum(1)
            acc = tfl.dot(p.to(v.dtype), v[at, tn, :], acc=acc * shrink[:, None])
            top = new
        out[at, tm, :] = (acc / total[:, None]).to(out.dtype)
    return out


@tileflow.kernel
def causal_by_branch(q, k, v):
    """The author's own branch."""
    out = torch.empty_like(q)
    for h, tm in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        at = h.begin
        top, total = tfl.full([tm], float("-inf")), tfl.zeros([tm])
        acc = tfl.zeros([tm, q.size(2)])
        for tn in tfl.tile(tm.end):
            s = tfl.dot(q[at, tm, :], k[at, tn, :].T) / math.sqrt(q.size(2))
            if tn.end > tm.begin:
                s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
            new = torch.maximum(top, s.amax(1))
            p, shrink = torch.exp(s - new[:, None]), torch.exp(top - new)
            total = total * shrink + p.sum(1)
            acc = tfl.dot(p.to(v.dtype), v[at, tn, :], acc=acc * shrink[:, None])
            top = new
        out[at, tm, :] = (acc / total[:, None]).to(out.dtype)
    return out


@pytest.mark.parametrize(("length", "d"), [(3000, 64), (4096, 64), (4096, 128), (1111, 128), (2600, 80)])
def test_causal_attention_has_the_first_config_of_an_authors_own_branch(length: int, d: int) -> None:
    """Two groups of 64 rows where there were four had 0.82 of the speed of torch's (32 x 3000 x 64)."""
    args = tuple(torch.empty(32, length, d, dtype=torch.bfloat16, device="meta") for _ in range(3))
    assert causal.lower(args, H200).default == causal_by_branch.lower(args, H200).default


# ---- the end of a causal loop --------------------------------------------------------------------


def masks(ir: KernelIR) -> int:
    """Masks of the keys that do not count, which reductions and products ask for."""
    found = [op for op in place_masks(ir).walk() if op.kind is OpKind.WHERE_MASK]
    return sum(op.output.dims[axis].tile == "tn" for op in found for axis in WhereMaskAttrs.of(op).axes)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("kernel", [causal, causal_by_branch])
def test_a_causal_mask_leaves_out_the_keys_past_the_loops_end(kernel: Any, mode: str) -> None:
    """3000 rows had three masks a turn beside the author's: 121 us in place of 104 (32 heads, H100)."""
    args = tuple(torch.empty(32, 3000, 64, dtype=torch.bfloat16, device="meta") for _ in range(3))
    assert masks(region(kernel, *args, mode=mode)) == 0


@pytest.mark.parametrize("name", ["causal", "strictly_causal", "window", "not_above", "neither"])
def test_other_masks_that_end_at_the_diagonal_leave_them_out(name: str) -> None:
    assert masks(region(CASES[f"{name}_softmax_16x16"].kernel, *ARGS)) == 0


def ending(end: Callable[..., Any], mask: Callable[..., Any]) -> int:
    @tileflow.kernel
    def attend(q, k, v):
        out = torch.empty_like(q)
        for tm in tfl.tile(q.size(0)):
            top, total, acc = tfl.full([tm], float("-inf")), tfl.zeros([tm]), tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(end(tm, k)):
                s = torch.where(
                    mask(tm.index[:, None], tn.index[None, :]), tfl.dot(q[tm, :], k[tn, :].T), float("-inf")
                )
                new = torch.maximum(top, s.amax(1))
                p, shrink = torch.exp(s - new[:, None]), torch.exp(top - new)
                total = total * shrink + p.sum(1)
                acc = tfl.dot(p.to(v.dtype), v[tn, :], acc=acc * shrink[:, None])
                top = new
            out[tm, :] = (acc / total[:, None]).to(out.dtype)
        return out

    return masks(region(attend, *ARGS))


@pytest.mark.parametrize(
    ("end", "mask"),
    [
        (lambda tm, k: k.size(0), lambda i, j: i >= j),  # a row may be as far as the last key
        (lambda tm, k: tm.end, lambda i, j: i + 1 >= j),  # the row before the end keeps one key more
        (lambda tm, k: tm.end, lambda i, j: i - 3 <= j),  # keeps what comes later
        (lambda tm, k: tm.end, lambda i, j: (i >= j) | (j < 4)),
        (lambda tm, k: tm.end, lambda i, j: i % 8 >= j),
    ],
)
def test_masks_that_may_keep_such_keys_do_not(end: Any, mask: Any) -> None:
    assert ending(end, mask) == 3


def test_a_number_that_is_no_maximum_of_its_row_says_nothing() -> None:
    """Exponentials of scores less a number from memory, which is minus infinity for a row without any key."""

    @tileflow.kernel
    def weights_again(q, k, v, lse):
        out = torch.empty_like(q)
        for tm in tfl.tile(q.size(0)):
            acc = tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(tm.end):
                s = tfl.dot(q[tm, :], k[tn, :].T)
                s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
                acc = tfl.dot(torch.exp(s - lse[tm][:, None]).to(v.dtype), v[tn, :], acc=acc)
            out[tm, :] = acc.to(out.dtype)
        return out

    assert masks(region(weights_again, *ARGS, torch.empty(70, device="meta"))) == 1
