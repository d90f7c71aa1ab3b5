"""Shared memory by which tiles of sums leave a program: results that are stored, and what is added to memory.

After Triton: the elements of a product lie as the matrix units left them, and go to memory in its own order. The copy
engine takes a tile from shared memory; threads exchange what they hold there, a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..config import Direction, Knob
from ..expr import FALSE, Expr
from ..ir.analysis import in_full_precision
from ..ir.attributes import AccessAttrs, site_of
from ..ir.graph import Block, KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value, itemsize
from .extents import Extents
from .knobs import FLATTEN, NUM_WARPS, PERSISTENT, PRECISION, STORE_ACCESS, SUBTILE

_ROWS_OF_A_WARP = 16
_WHOLE = 4  # bytes of an element from which on a tile is exchanged whole; of shorter ones a part at a time, as a rule


def leaving(ir: KernelIR, block: Block, extents: Extents, knobs: Mapping[str, Knob]) -> tuple[Expr, Expr]:
    """What a turn of a loop needs for what leaves it: bytes in which the largest tile of sums that is stored or added
    to memory changes its order; and bytes of what the copy engine stores, which are there all the time."""
    turned = boxed = Expr.of(0)
    summed = _of_products(ir)
    for op in block.ops:
        if op.kind not in (OpKind.STORE, OpKind.ATOMIC) or not op.values or op.values[0] not in summed:
            continue
        value, by_box, site = op.values[0], FALSE, site_of(op)
        width = itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
        if op.kind is OpKind.STORE and STORE_ACCESS.name(site) in knobs:
            by_box = STORE_ACCESS.symbol(site).ne(0)
            boxed = boxed + extents.elements(value.dims) * width * by_box
        turned = turned.max(_turned_elements(ir, extents, value) * width * by_box.eq(0))
    return turned, boxed


def stored_beside(
    ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob]
) -> tuple[Expr, list[tuple[str, Direction]]]:
    """The bytes by which a persistent program's largest store waits beside the next tile's operands, and the steps by
    which it becomes smaller: a store by descriptor from where it was put for the copy engine, another where one loop
    does all tiles, on the way from the matrix units' order to memory's."""
    most, steps = Expr.of(0), list[tuple[str, Direction]]()
    summed = _of_products(ir)
    for op in ir.body.ops:
        site = site_of(op)
        if op.kind is not OpKind.STORE or not op.values:
            continue
        value, by_box = op.values[0], FALSE
        width = itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
        if STORE_ACCESS.name(site) in knobs:
            by_box = STORE_ACCESS.symbol(site).ne(0)
            size = extents.elements(value.dims) * width * by_box
            if SUBTILE.name(site) in knobs:
                size = size // SUBTILE.symbol(site)
                steps.append((SUBTILE.name(site), "up"))
            most = most.max(size)
        if value in summed and FLATTEN.name(ir) in knobs and width >= _WHOLE:
            most = most.max(_turned_elements(ir, extents, value) * width * FLATTEN.symbol(ir) * by_box.eq(0))
    return most * PERSISTENT.symbol(ir).ne(0), steps


def handed_on(ir: KernelIR, block: Block, extents: Extents, knobs: Mapping[str, Knob]) -> Expr:
    """Bytes in which sums of the matrix units change their order all at once, for a product by multiply-adds that adds
    to them: as a part in full precision behind a product of ints does."""
    most, summed = Expr.of(0), _of_products(ir, in_full_precision)
    for op in block.ops:
        if op.kind is OpKind.DOT and in_full_precision(op) and not summed.isdisjoint(op.values[2:]):
            name = PRECISION.name(site_of(op))
            by_threads = Expr.sym(name).eq(0) if name in knobs else Expr.of(1)
            size = extents.elements(op.output.dims) * itemsize(op.output.type.dtype)
            most = most.max(size * by_threads)
    return most


def _of_products(ir: KernelIR, but: Callable[[Op], bool] = lambda _: False) -> set[Value]:
    """The tiles that are made of what products gave, in which elements lie as the matrix units left them; ``but``: the
    products that do not count."""
    found = set[Value]()

    def visit(block: Block) -> None:
        for op in block.ops:
            for region in op.regions:
                visit(region)
            inside = (v for region in op.regions for v in region.results)
            if (op.kind in PRODUCTS and not but(op)) or not found.isdisjoint((*op.values, *inside)):
                found.update(v for v in op.outputs if len(v.dims) > 1)

    visit(ir.body)
    return found


def _turned_elements(ir: KernelIR, extents: Extents, value: Value) -> Expr:
    """Elements that go from the matrix units' order to memory's at once: of as many rows as all warps have in one of
    their instructions. They have the type of what is stored, as a rule; where other tiles come in, Triton may choose a
    wider one."""
    *others, rows, columns = value.dims
    at_once = extents.of(rows).min(NUM_WARPS.symbol(ir) * _ROWS_OF_A_WARP)
    return extents.elements((*others, columns)) * at_once
