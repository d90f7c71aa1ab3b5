"""Regions of small kernels on an H200, and what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.graph import KernelIR, Op
from tileflow.lowered import Lowered
from tileflow.passes import specialise
from tileflow.passes.roll import rollable
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def lower(function: Callable[..., Any], *args: Any, mode: str = "static") -> Lowered:
    return tileflow.kernel(function).lower(args or (meta(100, 3000),), H200, mode=mode)


def region(function: Callable[..., Any], *args: Any, mode: str = "static") -> KernelIR:
    (ir,) = lower(function, *args, mode=mode).regions
    return ir


def masked(function: Callable[..., Any], *args: Any, looped: bool = False) -> KernelIR:
    """The region with its reductions in one piece, or all in loops."""
    ir = region(function, *args)
    return specialise(ir, StructuralChoice(tuple(rollable(ir)) if looped else ()))


def kinds(ir: KernelIR) -> Counter[str]:
    return Counter(op.kind for op in ir.walk())


def ops(ir: KernelIR, kind: str) -> list[Op]:
    return [op for op in ir.walk() if op.kind == kind]


def total(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(1)
    return out


def largest(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].amax(1)
    return out


def total_and_largest(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile] = row.sum(1) + row.amax(1)
    return out
