"""Loops that put what they reduce of each block to what they carry: right, and reduced behind the loop."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module

from tileflow.ir.attributes import LoopAttrs
from tileflow.ir.graph import KernelIR, walk
from tileflow.ir.kinds import OpKind
from tileflow.target import target

KERNELS = path_of("lane_sum_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


def region(name: str) -> KernelIR:
    case = CASES[name]
    args = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in case.args)
    (ir,) = case.kernel.lower(args, target("nvidia-h200")).regions
    return ir


@pytest.mark.parametrize("name", CASES)
def test_no_turn_reduces_what_is_only_carried(name: str) -> None:
    """On the code before, each turn of each of these loops did. A loop over rows has such loops inside."""
    loops = [op for op in region(name).walk() if op.kind is OpKind.FOR and LoopAttrs.of(op).tile != "r"]
    reduced = [op for loop in loops for op in walk(loop.regions[0]) if op.kind is OpKind.REDUCE]
    assert bool(reduced) == (name in ("read_between", "short_integers"))


def test_counts_are_carried_in_32_bits() -> None:
    """Lanes of 64 bits would take twice the registers for what no lane's number of turns needs."""
    (loop,) = [op for op in region("counted").walk() if op.kind is OpKind.FOR]
    assert [v.type.dtype for v in loop.outputs] == ["int32"]
