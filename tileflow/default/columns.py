"""Whole columns of matrices that lie by rows: in pieces, so that a program has neighbours of each row."""

from __future__ import annotations

from math import prod

from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, TileIndex
from ..ir.kinds import OpKind
from ..ir.types import Dim, itemsize
from .sizes import block_symbols, pow2

SECTOR = 32  # bytes that memory moves at least


def tall_dims(ir: KernelIR, live: int, most: int) -> set[Dim]:
    """The whole dimensions that meet a block in register tiles, where that block takes neighbours of a matrix whose
    whole columns would leave it less than a sector of memory: the largest of each of 4096 columns of 32768 numbers took
    1025 us by columns, and 140 by 16 of them in pieces (bfloat16, H100, 2026-11-26). ``live``: tiles at a time.
    ``most``: elements of them all."""
    crowded: set[str] = set()
    for op in ir.walk():
        if op.kind is not OpKind.LOAD or len(op.output.dims) < 2:
            continue
        access = AccessAttrs.of(op)
        tensor = ir.tensor(access.tensor)
        whole = prod(pow2(ir.hint(d.extent)) for d in op.output.dims if _is_whole(ir, d))
        if whole * live * max(SECTOR // itemsize(tensor.dtype), 1) <= most:
            continue
        for item, stride in zip(access.index, tensor.strides, strict=True):
            block = ir.tiles[item.tile].block if isinstance(item, TileIndex) else None
            if block is not None and block.op == "sym" and stride.constant == 1:
                crowded.add(block.args[0])
    tiles = [v.dims for op in ir.walk() for v in op.outputs if not block_symbols(ir, v).isdisjoint(crowded)]
    return {d for dims in tiles for d in dims if _is_whole(ir, d)}


def _is_whole(ir: KernelIR, dim: Dim) -> bool:
    return dim.tile is None and dim.extent.symbols() <= ir.hints.keys()
