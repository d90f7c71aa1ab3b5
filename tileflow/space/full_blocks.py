"""Masks of what a turn's products gave: which they are, and under which configs a loop has any.

Only the last block of a loop can be partial, but a mask costs a comparison and a selection an element in every turn: 96
selections and 100 permutations a thread in the gradients of keys and values, 128 queries by 64 keys, where the products
leave 500 other instructions. A branch asks one number of all threads in its place. It is offered for masks behind a
product alone: what stands before the first one feeds it, and Triton loads it ahead of its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from ..config import Knob
from ..expr import FALSE, Expr, all_of, any_of
from ..ir.attributes import PointwiseAttrs, SizeAttrs, TileAttrs, WhereMaskAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, Tile, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value
from ..passes.masks import place_masks
from ..target import Target
from .extents import Extents
from .knobs import FULL_BLOCKS
from .loops import grouped
from .names import loop_site

_DIVIDES_EACH = frozenset({"add", "sub", "minimum", "maximum"})  # what divides both operands divides the result


def masks_behind_products(ir: KernelIR) -> dict[int, Tile]:
    """The ids (Python's) of masks that only a partial block of an innermost loop needs, and that loop's tile."""
    return {id(mask): tile for tile, body in turns(ir) for mask in _masks(body.ops, tile)}


def turns(ir: KernelIR) -> Iterator[tuple[Tile, Block]]:
    """The innermost loops' tiles, and what a turn of each does."""
    for op in ir.walk():
        if op.kind is OpKind.FOR and not any(inner.kind is OpKind.FOR for inner in walk(op.regions[0])):
            yield ir.tiles[TileAttrs.of(op).tile], op.regions[0]


def _masks(turn: Iterable[Op], tile: Tile) -> Iterator[Op]:
    """The masks of ``tile``'s lanes, of more than one dimension, on values that come from a product of this turn."""
    behind: set[Value] = set()
    for op in turn:
        if op.kind not in PRODUCTS and behind.isdisjoint(op.values) and behind.isdisjoint(_inner_values(op)):
            continue
        behind.update(op.outputs)
        if op.kind is OpKind.WHERE_MASK and len(op.output.dims) > 1:
            axes = WhereMaskAttrs.of(op).axes
            if tile.lengths is None and any(op.output.dims[axis] == tile.dim for axis in axes):
                yield op


def _inner_values(op: Op) -> Iterator[Value]:
    """What the sides of a branch read, and what they result in."""
    for region in op.regions:
        for inner in walk(region):
            yield from inner.values
        yield from (v for v in region.results if isinstance(v, Value))


def full_block_knobs(ir: KernelIR, extents: Extents, known: Mapping[str, Knob], target: Target) -> Iterator[Knob]:
    """Whether a turn of a full block jumps over its masks, on Hopper: products of warp groups have one layout on both
    sides of a branch. ``known``: the knobs of block sizes; a loop that all of them divide has none."""
    products = [op for op in ir.walk() if op.kind in PRODUCTS]
    if not target.has_wgmma or not products:
        return
    by_groups = all_of(grouped(ir, op, extents) for op in products)
    for tile in dict.fromkeys(t.name for t in masks_behind_products(place_masks(ir)).values()):
        even = _only_full(ir, ir.tiles[tile])
        if not _always(even, known):
            yield FULL_BLOCKS.at(loop_site(ir, tile), by_groups.and_(even.eq(0)))


def _always(condition: Expr, known: Mapping[str, Knob]) -> bool:
    """Whether a condition on blocks holds for each of their choices."""
    names = sorted(condition.symbols())
    if not known.keys() >= set(names):
        return False
    choices = ([int(c) for c in known[n].choices] for n in names)
    return all(condition.evaluate(dict(zip(names, c, strict=True))) for c in product(*choices))


def _only_full(ir: KernelIR, tile: Tile) -> Expr:
    """Whether a config's blocks come out even, so that there is no mask."""
    if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
        return _divides(ir, tile.block, tile.end - tile.begin)
    return _divides(ir, tile.block, tile.begin).and_(_divides(ir, tile.block, tile.end))


def _divides(ir: KernelIR, block: Expr, bound: Expr | Operand) -> Expr:
    """Whether ``block`` divides a bound whatever the program, as :class:`~tileflow.emit.divisors.Divisors` finds it."""
    if isinstance(bound, Expr):
        return FALSE if bound.symbols() & ir.hints.keys() else (bound % block).eq(0)
    op = ir.definitions.get(bound) if isinstance(bound, Value) else None
    if op is None:
        return FALSE
    match op.kind:
        case OpKind.SIZE:
            return _divides(ir, block, SizeAttrs.of(op).value)
        case OpKind.TILE_BEGIN | OpKind.TILE_END:
            tile = ir.tiles[TileAttrs.of(op).tile]
            begins = _divides(ir, block, tile.begin).and_(_divides(ir, block, tile.block))
            return begins if op.kind is OpKind.TILE_BEGIN else begins.and_(_divides(ir, block, tile.end))
        case OpKind.CAST:
            return _divides(ir, block, op.inputs[0]) if op.output.type.dtype in ("int32", "int64") else FALSE
        case OpKind.POINTWISE if PointwiseAttrs.of(op).fn in _DIVIDES_EACH:
            return all_of(_divides(ir, block, v) for v in op.inputs)
        case OpKind.POINTWISE if PointwiseAttrs.of(op).fn == "mul":
            return any_of(_divides(ir, block, v) for v in op.inputs)
    return FALSE
