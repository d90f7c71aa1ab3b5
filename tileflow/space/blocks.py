"""Knobs of sizes: the blocks of loops, and how much of a reduced dimension is held at once."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Knob
from ..expr import Expr
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value, itemsize
from .extents import block_of
from .knobs import BLOCK, REDUCTION, ROW
from .names import powers

MAX_BLOCK = 1 << 14
MIN_REDUCTION_BLOCK = 128


def block_knobs(ir: KernelIR) -> list[Knob]:
    """Block sizes: powers of two up to what covers the loop, with the floor that products need."""
    floors = _floors(ir)
    knobs = []
    for block in ir.blocks:
        low = max(block.low, floors.get(block.name, 1))
        choices = powers(low, min(max(block.high, low), MAX_BLOCK))
        middle = choices[min(len(choices) - 1, 5)]
        knobs.append(BLOCK.named(block.name, choices, middle))
    return knobs


def reduction_knob(ir: KernelIR, site: str, extent: Expr) -> Knob:
    """Of a dimension that is reduced, or only stored. 0: in one piece. Else the block of a loop."""
    knob = ROW if ROW.matches(site) else REDUCTION
    size = ir.hint(extent)
    blocks = [b for b in powers(MIN_REDUCTION_BLOCK, MAX_BLOCK) if b < size]
    one_by_one = [1] if size > 1 and _is_of_pairs(ir, site) else []
    return knob.named(site, (0, *reversed(blocks), *one_by_one), knob.default)


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
