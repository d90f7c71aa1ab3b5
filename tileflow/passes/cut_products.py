"""Products of whole dimensions, cut into blocks: as if their author had written the loops.

``out[t, :] = x[t, :] @ w[:, :]`` has one axis of tiles. The columns of such a result become another one, whose programs
each have a block of them; what the products sum over becomes a loop. Block sizes are knobs of their own then, and all
that is known of an author's loops holds: schedules, persistent programs, stores by halves.

Columns are cut where a program would repeat no product for it, and where no reduction needs them together. Those that
stay whole, or rows and keys of an attention without loops, may still become loops within a program
(:mod:`roll`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..expr import Expr
from ..ir.graph import CUT, Block, BlockSymbol, KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import Dim
from .dead_code import remove_dead_code
from .rewrite import with_body
from .roll import LEAST, OPERAND, PRODUCT, ROW, Naming, least_of_product, roll, rollable


def cut_products(ir: KernelIR) -> KernelIR:
    """Cut the columns of products, then what they sum over."""
    if not any(op.kind is OpKind.DOT for op in ir.walk()):
        return ir
    while site := next(_columns(ir), ""):
        ir = _over_programs(_cut(ir, site), _name(site))
    while site := next(_inner(ir), ""):
        ir = remove_dead_code(_cut(ir, site))  # of attention, queries that were multiplied by a number
    return ir


def _products(ir: KernelIR) -> list[Op]:
    return [op for op in ir.walk() if op.kind is OpKind.DOT]


def _columns(ir: KernelIR) -> Iterator[str]:
    """The sites of whole dimensions that all of the region's results have."""
    products = _products(ir)
    if any(op.regions for op in ir.body.ops):
        return
    seen = [op for op in ir.walk() if not effects_of(op).is_pure]
    if any(op.kind is not OpKind.STORE for op in seen):
        return
    for site, dim in rollable(ir).items():
        is_given = all(dim in op.output.dims[-2:] for op in products)
        is_stored = all(op.values and dim in op.values[0].dims for op in seen)
        if site.startswith(ROW) and is_given and is_stored and ir.hint(dim.extent) > LEAST:
            yield site


def _inner(ir: KernelIR) -> Iterator[str]:
    """The sites of what products alone sum over, where their results have no other long dimension that may be a loop
    within the program: of the two, the loop over the inner one is inside. What an author's loop takes a chunk of at a
    time is as long as an operand may be: weights that are unpacked 256 at a time took 143 us, 182 by halves of them
    (H200, 2026-11-30)."""
    dims, products = rollable(ir), _products(ir)
    is_alone = len(products) == 1 and products[0] in ir.body.ops
    open_ = {dim for dim in dims.values() if ir.hint(dim.extent) > OPERAND}
    for site, dim in dims.items():
        own = [op for op in products if op.values[0].dims[-1] == dim]
        is_long = ir.hint(dim.extent) > (least_of_product(products[0]) if is_alone else OPERAND)
        if site.startswith(PRODUCT) and own and is_long and not any(_has(op, open_ - {dim}) for op in own):
            yield site


def _has(product: Op, dims: set[Dim]) -> bool:
    return not dims.isdisjoint(product.output.dims)


def _name(site: str) -> str:
    """The name of the tiles: ``dot#0``, ``out#0:1``."""
    return site.removeprefix(PRODUCT).removeprefix(ROW)


def _cut(ir: KernelIR, site: str) -> KernelIR:
    """The dimension as loops over blocks of a knob of their own."""
    name = _name(site)
    block = BlockSymbol(f"{CUT}{name}", 1, _power(ir, rollable(ir)[site]))  # the site says which region it is of
    cut = roll(ir, site, naming=Naming(name, Expr.sym(block.name)))
    return replace(cut, blocks=(*ir.blocks, block))


def _power(ir: KernelIR, dim: Dim) -> int:
    return 1 << (ir.hint(dim.extent) - 1).bit_length()


def _over_programs(ir: KernelIR, name: str) -> KernelIR:
    """The one loop over ``name``, which carries nothing, as an axis of the grid."""
    ops: list[Op] = []
    for op in ir.body.ops:
        ops += op.regions[0].ops if op.kind is OpKind.FOR else (op,)
    tiles = {n: replace(tile, is_grid=True) if n == name else tile for n, tile in ir.tiles.items()}
    ir = replace(ir, tiles=tiles, grid=(*ir.grid, name))
    return with_body(ir, Block(ir.body.params, tuple(ops), ir.body.results))
