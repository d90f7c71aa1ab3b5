"""Columns that a loop's sums of products are wide in, cut into blocks, each of which has programs of its own.

``total = torch.addmm(total, x[t, k], w[k, :])`` in a loop over ``k`` carries as many sums as ``w`` has columns. A
product has 16 rows at least, and 16 rows of 4096 sums are all of a GPU's registers, so that there was no config at all.
Where all that the region does with the columns is done column by column, a block of them is as good as the whole: they
become one more axis of the grid, as in :mod:`cut_products`, and every program goes through the loops for its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..expr import Expr
from ..ir.attributes import AccessAttrs, ArangeAttrs, site_of
from ..ir.graph import CUT, Block, BlockSymbol, KernelIR, Op, Operand, Tile
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import effects_of
from ..ir.types import INT32_MAX, Dim, Value
from .folds import Ops, folded
from .rewrite import Fresh, with_body
from .roll import ROW, by_tile, is_whole, numbered, row_site, takes_blocks
from .write_order import has

WIDE = 512  # columns beyond which a product's rows are few, whatever the config
_AROUND = frozenset({*LOOPS, OpKind.IF})  # which carry or give what their regions compute


def cut_columns(ir: KernelIR) -> KernelIR:
    """Cut each dimension that loops carry sums of products in, that is wide, and that nothing needs whole."""
    while (found := next(_wide(ir), None)) is not None:
        site, dim = found
        ir = _Cut(ir, site.removeprefix(ROW), dim).region()
    return ir


def _wide(ir: KernelIR) -> Iterator[tuple[str, Dim]]:
    """Dimensions to cut, each with the site of a store of it."""
    products = [op for op in ir.walk() if op.kind is OpKind.DOT]
    carried = {dim for op in ir.walk() if op.kind in LOOPS for out in op.outputs for dim in out.dims}
    stores = [op for op in ir.walk() if not effects_of(op).is_pure]
    if not products or not carried or any(op.kind is not OpKind.STORE for op in stores):
        return
    if _reads_what_it_writes(ir):  # perhaps columns of others, which their programs may have written
        return
    lengths = [tile.lengths for tile in ir.tiles.values() if tile.lengths is not None]
    for op in stores:
        for axis, dim in enumerate(op.values[0].dims if op.values else ()):
            is_given = all(has(store.inputs[0], dim) for store in stores)
            is_multiplied = all(dim in product.output.dims[-2:] for product in products)
            if not is_whole(dim) or dim not in carried or ir.hint(dim.extent) <= WIDE or not is_given:
                continue
            is_length = any(has(v, dim) for v in lengths)
            if is_multiplied and not is_length and all(_takes_part(ir, other, dim) for other in ir.walk()):
                yield row_site(site_of(op), axis), dim


def _reads_what_it_writes(ir: KernelIR) -> bool:
    effects = [effects_of(op) for op in ir.walk()]
    written = {path for effect in effects for own in effect.writes for path in ir.sharing(own)}
    return any(not written.isdisjoint(effect.reads) for effect in effects)


def _takes_part(ir: KernelIR, op: Op, dim: Dim) -> bool:
    """Whether an op does a block of the dimension as it does all of it."""
    if op.kind in _AROUND or not any(has(v, dim) for v in (*op.inputs, *op.outputs)):
        return True
    return folded(op) != dim and takes_blocks(ir, op, dim)


class _Cut:
    """The region with the dimension ``dim`` as an axis of the grid over tiles of the name ``name``."""

    def __init__(self, ir: KernelIR, name: str, dim: Dim) -> None:
        self._ir, self._dim, self._fresh = ir, dim, Fresh(ir)
        self._block_size = BlockSymbol(f"{CUT}{name}", 1, 1 << (ir.hint(dim.extent) - 1).bit_length())
        is_wide = ir.shape_mode.is_wide or ir.hint(dim.extent) > INT32_MAX
        self._tile = Tile(name, Expr.sym(self._block_size.name), Expr.of(0), dim.extent, is_grid=True, wide=is_wide)

    def region(self) -> KernelIR:
        """All of it."""
        ir = with_body(self._ir, self._block(self._ir.body))
        tiles = {**ir.tiles, self._tile.name: self._tile}
        return replace(ir, tiles=tiles, grid=(*ir.grid, self._tile.name), blocks=(*ir.blocks, self._block_size))

    def _block(self, block: Block) -> Block:
        ops = tuple(made for op in block.ops for made in self._op(op))
        params, results = map(self._value, block.params), map(self._operand, block.results)
        return Block(tuple(params), ops, tuple(results))

    def _op(self, op: Op) -> list[Op]:
        inputs, outputs = tuple(map(self._operand, op.inputs)), tuple(map(self._value, op.outputs))
        attrs = op.attrs
        if isinstance(attrs, ArangeAttrs) and has(op.output, self._dim):
            return numbered(self._fresh, op, outputs[0], self._tile)
        ops: list[Op] = []
        if isinstance(attrs, AccessAttrs):
            inputs, attrs = by_tile(Ops(self._fresh, ops, op), op, inputs, self._dim, self._tile)
        regions = tuple(map(self._block, op.regions))
        return [*ops, op.with_(inputs=inputs, outputs=outputs, regions=regions, attrs=attrs)]

    def _operand(self, operand: Operand) -> Operand:
        return self._value(operand) if isinstance(operand, Value) else operand

    def _value(self, value: Value) -> Value:
        dims = tuple(self._tile.dim if d == self._dim else d for d in value.dims)
        return Value(value.id, replace(value.type, dims=dims), value.loc)
