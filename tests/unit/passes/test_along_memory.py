"""Tiles that are loaded and stored with the dimension first that lies nearest in memory, for Triton up to 3.6."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow import lowered as lowering
from tileflow.build.compat import lanes_follow_rows
from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import KernelIR, SliceIndex, TileIndex
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.passes import along_memory
from tileflow.target import target

H200 = target("nvidia-h200")


def first_of_three(x):
    out = torch.empty_like(x)
    for ty, tx in tfl.tile([x.size(0), x.size(1)]):
        out[ty, tx, 0] = 2 * x[ty, tx, 1]
        out[ty, tx, 1] = x[ty, tx, 2]
        out[ty, tx, 2] = x[ty, tx, 0]
    return out


def contiguous(x):
    out = torch.empty_like(x)
    for ty, tx in tfl.tile([x.size(0), x.size(1)]):
        out[ty, tx] = 2 * x[ty, tx]
    return out


def row_sums(x):
    out = torch.empty(x.size(0), device=x.device)
    for ty in tfl.tile(x.size(0)):
        out[ty] = (x[ty, :, 0] + x[ty, :, 1] * x[ty, :, 2]).sum(1)
    return out


def turned(function: Any, *args: torch.Tensor) -> KernelIR:
    (ir,) = tileflow.kernel(function).lower(args, H200).regions
    ir = along_memory(ir)
    verify(ir)
    return ir


def axes(ir: KernelIR) -> set[tuple[int, ...]]:
    """The axes of tiles in the order of the tensors' dimensions, of all accesses."""
    found = set()
    for op in ir.walk():
        if op.kind in (OpKind.LOAD, OpKind.STORE):
            items = AccessAttrs.of(op).index
            found.add(tuple(i.axis for i in items if isinstance(i, TileIndex | SliceIndex)))
    return found


def test_rows_come_last_where_nothing_runs_on() -> None:
    assert axes(turned(first_of_three, torch.empty(64, 48, 3))) == {(1, 0)}


def test_what_runs_on_stays() -> None:
    ir = turned(contiguous, torch.empty(64, 48))
    assert axes(ir) == {(0, 1)} and not any(op.kind is OpKind.PERMUTE for op in ir.walk())


def test_rows_that_lanes_sum_stay() -> None:
    """Whole small matrices of a lane took 21 us, and 32 with lanes along them (H100)."""
    assert axes(turned(row_sums, torch.empty(64, 48, 3))) == {(0, 1), (0,)}


def test_regions_of_pairs_are_turned_where_lanes_exchange_too() -> None:
    """As pairs by rows 152 us, by neighbours 92, by pairs alone turned 144 (H100)."""
    one = ALL["clamped_swiglu_fp8"]
    (ir,) = one.kernel.lower(one.arguments("large", "meta"), H200).regions
    assert any(op.kind is OpKind.SPLIT for op in ir.walk())
    ir = along_memory(ir)
    verify(ir)
    turned_ones = sum(op.kind is OpKind.PERMUTE for op in ir.walk())
    assert turned_ones > sum(op.kind is OpKind.SPLIT for op in ir.walk())


@pytest.mark.parametrize("old", [False, True])
def test_the_text_is_for_the_triton_that_compiles_it(old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "lanes_follow_rows", lambda: old)
    low = tileflow.kernel(first_of_three).lower((torch.empty(64, 48, 3),), H200)
    assert ("tl.permute" in low.emit(low.default)[0].text) is old


@pytest.mark.parametrize(
    ("version", "old"), [("3.6.0", True), ("3.7.1", False), ("3.10.0+git", False), ("4.0.0", False)]
)
def test_versions(version: str, old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    assert lanes_follow_rows.__wrapped__() is old
