"""Which products of a loop a turn waits for before it ends (passes/await_dot.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.ir.graph import KernelIR
from tileflow.ir.types import Value
from tileflow.passes import specialise
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.passes.transpose import transposable
from tileflow.target import target

H200 = target("nvidia-h200")


def awaited(ir: KernelIR, transposed: Iterable[str] = ()) -> list[str]:
    """The names of the sums that are waited for."""
    found = []
    for op in specialise(ir, StructuralChoice(transposed_products=tuple(transposed))).walk():
        if op.kind == "await_dot":
            assert isinstance(op.inputs[0], Value) and op.loc is not None
            found.append(op.loc.text.strip().partition(" = ")[0])
    return found


def of_gallery(name: str, **sizes: Any) -> tuple[KernelIR, ...]:
    kernel = load_kernel(f"examples.{name}")
    return kernel.lower(kernel.inputs(device="meta", **sizes), H200).regions


def test_what_is_unpacked_is_waited_for_where_it_is_the_left_operand() -> None:
    """Right operands are in shared memory, whose buffers no turn shares with the next."""
    (ir,) = of_gallery("int4_matmul:int4_matmul", m=512, n=512, k=512)
    assert [len(awaited(ir, sites)) for sites in ((), transposable(ir))] == [0, 1]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_waits_for_no_sum(causal: bool) -> None:
    for name in ("attention", "attention_backward"):
        for ir in of_gallery(f"attention:{name}", batch=1, heads=2, m=512, d=64, causal=causal):
            assert not awaited(ir), name


# ---- one rule at a time --------------------------------------------------------------------------


def unpacked(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(x.size(1)):
            acc = tfl.dot(x[tm, tk] * 2, y[tk, :], acc=acc)
        out[tm, :] = acc
    return out


def chained(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(y.size(0)):
            scores = tfl.dot(x[tm, :], w[:, tk])
            acc = tfl.dot(torch.exp(scores).to(y.dtype), y[tk, :], acc=acc)
        out[tm, :] = acc
    return out


def chained_by_a_branch(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(y.size(0)):
            scores = tfl.dot(x[tm, :], w[:, tk])
            if tk.end > tm.begin:
                scores = torch.where(tm.index[:, None] >= tk.index[None, :], scores, 0.0)
            acc = tfl.dot(scores.to(y.dtype), y[tk, :], acc=acc)
        out[tm, :] = acc
    return out


def chained_on_one_side(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(y.size(0)):
            scores = (x[tm, tk] * 2).float()
            if tk.end > tm.begin:
                scores = tfl.dot(x[tm, :], w[:, tk])
            acc = tfl.dot(scores.to(y.dtype), y[tk, :], acc=acc)
        out[tm, :] = acc
    return out


def side_by_side(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        most = tfl.zeros([tm])
        for tk in tfl.tile(y.size(0)):
            acc = tfl.dot(x[tm, tk] * 2, y[tk, :], acc=acc)
            most = torch.maximum(most, torch.amax(tfl.dot(x[tm, :], w[:, tk]), dim=1))
        out[tm, :] = acc * most[:, None]
    return out


def from_the_turn_before(x, y, w):
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc, scores = tfl.zeros([tm, y.size(1)]), tfl.zeros([tm, 64])
        for tk in tfl.tile(y.size(0), block_size=64):
            acc = tfl.dot(scores.to(y.dtype), y[tk, :], acc=acc)
            scores = tfl.dot(x[tm, :], w[:, tk])
        out[tm, :] = acc
    return out


def of_fewer_rows(x, y, w):
    """Warp groups do no product of 16 rows, and nothing that is not theirs is in their order."""
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc = tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(y.size(0), block_size=16):
            scores = tfl.dot(w[tk, :], x[tm, :].T)
            acc = tfl.dot(scores.T.to(y.dtype), y[tk, :], acc=acc)
        out[tm, :] = acc
    return out


def two_sums(x, y, w):
    """Of the two, one is of what another product made."""
    out = torch.empty(x.size(0), y.size(1))
    for tm in tfl.tile(x.size(0)):
        acc, beside = tfl.zeros([tm, y.size(1)]), tfl.zeros([tm, y.size(1)])
        for tk in tfl.tile(y.size(0)):
            beside = tfl.dot(x[tm, tk] * 2, y[tk, :], acc=beside)
            acc = tfl.dot(tfl.dot(x[tm, :], w[:, tk]).to(y.dtype), y[tk, :], acc=acc)
        out[tm, :] = acc + beside
    return out


@pytest.mark.parametrize(
    ("function", "waited"),
    [(unpacked, ["acc"]), (chained, []), (chained_by_a_branch, []), (chained_on_one_side, ["acc"]),
     (side_by_side, ["acc"]), (from_the_turn_before, ["acc"]), (of_fewer_rows, ["acc"]), (two_sums, ["beside"])],
)  # fmt: skip
def test_what_a_turn_waits_for(function: Callable[..., Any], waited: list[str]) -> None:
    half = torch.empty(512, 512, dtype=torch.bfloat16, device="meta")
    (ir,) = tileflow.kernel(function).lower((half, half, half), H200).regions
    assert awaited(ir) == waited


def test_full_precision_is_not_in_the_order_of_warp_groups() -> None:
    half, full = (torch.empty(512, 512, dtype=t, device="meta") for t in (torch.bfloat16, torch.float32))
    (ir,) = tileflow.kernel(chained).lower((full, half, full), H200).regions
    assert awaited(ir) == ["acc"]
