"""Knobs of sizes: the blocks of loops, and how much of a reduced dimension is held at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..config import Knob
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Dim, Value, itemsize
from .extents import block_of
from .knobs import BLOCK, CUT, REDUCTION, ROW
from .names import powers

MAX_BLOCK = 1 << 14
MIN_REDUCTION_BLOCK = 128
MIN_PRODUCT_BLOCK = 32  # of a dimension of products, which are small blocks of each operand


def block_knobs(regions: Sequence[KernelIR]) -> dict[str, Knob]:
    """Block sizes of all launches, by name: powers of two up to what covers the longest loop that has the block, from
    the highest of the floors that products need."""
    knobs: dict[str, Knob] = {}
    for ir in regions:
        floors = _floors(ir)
        for block in ir.blocks:
            low, high = max(block.low, floors.get(block.name, 1)), block.high
            if block.name in knobs:
                least, *_, most = (knobs[block.name].choices[0], *knobs[block.name].choices)
                low, high = max(low, int(least)), max(high, int(most))
            choices = powers(low, min(max(high, low), MAX_BLOCK))
            middle = choices[min(len(choices) - 1, 5)]
            knobs[block.name] = (CUT if block.is_cut else BLOCK).named(block.name, choices, middle)
    return knobs


def reduction_knob(ir: KernelIR, site: str, dim: Dim) -> Knob:
    """Of a dimension that is reduced, or only stored. 0: in one piece. Else the block of a loop."""
    knob = ROW if ROW.matches(site) else REDUCTION
    size = ir.hint(dim.extent)
    blocks = [b for b in powers(_least_block(ir, dim), MAX_BLOCK) if b < size]
    one_by_one = [1] if size > 1 and 1 not in blocks and _is_of_pairs(ir, site) else []
    return knob.named(site, (0, *reversed(blocks), *one_by_one), knob.default)


def _least_block(ir: KernelIR, dim: Dim) -> int:
    """The shortest block of a dimension: of products, whose operands are blocks of both; of a box, which has others
    beside it."""
    if any(dim in v.dims for op in ir.walk() if op.kind is OpKind.DOT for v in (*op.values, op.output)):
        return MIN_PRODUCT_BLOCK
    loads = (op.output.dims for op in ir.walk() if op.kind is OpKind.LOAD and dim in op.output.dims)
    beside = (prod(ir.hint(d.extent) for d in dims if d != dim and _is_whole(ir, d)) for dims in loads)
    return max(MIN_REDUCTION_BLOCK // max((*beside, 1)), 1)  # a dimension beside it may be empty


def _is_whole(ir: KernelIR, dim: Dim) -> bool:
    return dim.tile is None and dim.extent.symbols() <= ir.hints.keys()


def _is_of_pairs(ir: KernelIR, site: str) -> bool:
    """Whether a reduction is over a tile of three dimensions or more that no load fills, as of the distances of all
    rows to all others: one element of each after another leaves registers for many pairs."""
    loads = max((_rank(op.output) for op in ir.walk() if op.kind is OpKind.LOAD), default=0)
    reduced = (op.values[0] for op in ir.walk() if op.kind is OpKind.REDUCE and site_of(op) == site)
    return any(_rank(value) > max(loads, 2) for value in reduced)


def _rank(value: Value) -> int:
    return sum(d.extent.constant != 1 for d in value.dims)


def _floors(ir: KernelIR) -> dict[str, int]:
    """The smallest sizes of a product: 16 each way, 32 inside for scaled ones and for operands of 8 bits, also of those
    that arithmetic made of 8-bit ones: Triton keeps to the layout of what was loaded."""
    floors: dict[str, int] = {}
    makers = ir.definitions
    for op in ir.walk():
        if op.kind not in PRODUCTS:
            continue
        a, b = op.inputs[:2]
        assert isinstance(a, Value) and isinstance(b, Value)
        narrow = 1 in (_narrowest(a, makers), _narrowest(b, makers))
        inner = 32 if narrow or op.kind is OpKind.DOT_SCALED else 16
        for dim, least in ((a.dims[-2], 16), (a.dims[-1], inner), (b.dims[-1], 16)):
            name, factor = block_of(dim.extent)
            floors[name] = max(floors.get(name, 1), least // factor)
    return floors


def _narrowest(operand: Value, makers: Mapping[Value, Op]) -> int:
    """Bytes of an element of the shortest number on an operand's way from memory."""
    seen, rest = {operand}, [operand]
    while rest:
        op = makers.get(rest.pop())
        if op is not None and op.kind is not OpKind.LOAD:
            found = {v for v in op.values if v.dims and v.type.dtype != "bool"} - seen
            seen |= found
            rest += found
    return min(itemsize(v.type.dtype) for v in seen)
