"""Facts of a region that hold for every config: bytes it must move, arithmetic it must do, which axis is contiguous."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ..expr import Expr
from .attributes import AccessAttrs, DotAttrs, PointwiseAttrs, TileAttrs
from .graph import Block, IndexItem, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, once_each
from .kinds import OpKind
from .op_table import ACCESSES, OPS
from .traffic import Traffic
from .types import Dim, Value, itemsize

_LEAVES_STEPS = frozenset({OpKind.CAST, OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.PERMUTE})


def traffic(regions: Iterable[KernelIR]) -> Traffic:
    """What the launches of one call must move and compute."""
    moved, flops = 0, {"dot": 0, "other": 0}
    dtype = "float32"
    for ir in regions:
        moved += _bytes(ir)
        for op, executions in _with_counts(ir):
            work = OPS[op.kind].work(op)
            if op.kind is OpKind.DOT:
                flops["dot"] += work.flops * executions * _product_size(ir, work.dims)
                operand = op.inputs[0]
                assert isinstance(operand, Value)
                dtype = operand.type.dtype
            else:
                flops["other"] += executions * work.flops * _size(ir, work.dims)
    return Traffic(moved, flops["dot"] + flops["other"], dtype if flops["dot"] > flops["other"] else "float32")


def contiguous_tiles(ir: KernelIR) -> set[str]:
    """The tiles that index a dimension of stride 1 in some load, store or atomic."""
    found = set()
    for op in ir.walk():
        if op.kind in ACCESSES:
            strides = ir.tensor(AccessAttrs.of(op).tensor).strides
            for item, stride in zip(AccessAttrs.of(op).index, strides, strict=True):
                if isinstance(item, TileIndex) and stride.constant == 1:
                    found.add(item.tile)
    return found


def tile_length(ir: KernelIR, name: str) -> int:
    """How many indices a loop runs over in the traced example. Where only the device knows, at most: the size of the
    smallest dimension that the tile indexes, and 1 where it indexes none."""
    tile = ir.tiles[name]
    if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
        length = tile.end - tile.begin
        if length.symbols() <= ir.hints.keys():
            return max(ir.hint(length), 0)
    indexed = [
        ir.hint(size)
        for op in ir.walk()
        if op.kind in ACCESSES
        for item, size in zip(AccessAttrs.of(op).index, ir.tensor(AccessAttrs.of(op).tensor).shape, strict=True)
        if name in stepped_tiles(ir, op, item)
    ]
    return min(indexed, default=1)


def stepped_tiles(ir: KernelIR, access: Op, item: IndexItem) -> frozenset[str]:
    """The tiles whose next lane is the next element of a dimension that ``item`` of an access indexes: a tile of its
    own, or a part of the index that something else is added to, as where a row begins."""
    if isinstance(item, TileIndex):
        return frozenset({item.tile})
    return steps_of(ir, access.inputs[item.input]) if isinstance(item, ValueIndex) and item.axes else frozenset()


@once_each
def steps_of(ir: KernelIR, value: Operand) -> frozenset[str]:
    """The tiles along whose lanes a value counts by one."""
    op = ir.definitions.get(value) if isinstance(value, Value) else None
    if op is None:
        return frozenset()
    if op.kind is OpKind.TILE_INDEX:
        return frozenset({TileAttrs.of(op).tile})
    if op.kind in _LEAVES_STEPS:
        return steps_of(ir, op.inputs[0])
    fn = PointwiseAttrs.of(op).fn if op.kind is OpKind.POINTWISE else ""
    if fn not in ("add", "sub") or len(op.inputs) != 2:
        return frozenset()
    one, other = op.inputs
    found = steps_of(ir, one) - _tiles_of(other)
    return found | (steps_of(ir, other) - _tiles_of(one)) if fn == "add" else found


def _tiles_of(operand: Operand) -> frozenset[str]:
    dims = operand.dims if isinstance(operand, Value) else ()
    return frozenset(d.tile for d in dims if d.tile is not None)


def likely_length(ir: KernelIR, name: str) -> int:
    """How many indices most runs of a loop have at the most: all of them, but where both bounds are loaded (rows of a
    ragged tensor), twice as many as the mean. Of a jagged tile, the mean: rows lie beside each other, and lanes that
    most of them lack wait in every turn."""
    most = tile_length(ir, name)
    if _parent(ir, name):
        return mean_length(ir, name)
    return min(most, 2 * mean_length(ir, name)) if is_ragged(ir, name) else most


def likely_turns(ir: KernelIR, name: str) -> int:
    """How many turns most runs of a loop have at the most; one where its block is yet to be chosen."""
    block = ir.tiles[name].block.constant
    return max(likely_length(ir, name) // block, 1) if block else 1


def is_ragged(ir: KernelIR, name: str) -> bool:
    """Whether a loop goes over a row of a ragged tensor: both bounds are loaded, and no tile's."""
    bounds = _loaded_bounds(ir, name)
    return len(bounds) == 2 and not _is_of_a_tile(ir, bounds)


def is_of_loaded_length(ir: KernelIR, name: str) -> bool:
    """Whether a loop goes over a row whose length is loaded: of a ragged tensor, or of one that is filled up."""
    bounds = _loaded_bounds(ir, name)
    return is_ragged(ir, name) or (len(bounds) == 1 and follows_a_load(ir, bounds[0]))


def mean_length(ir: KernelIR, name: str) -> int:
    """How many indices a loop runs over, over all its runs in the mean: half of what it could where one bound is the
    device's (a causal loop), a share of it for each of the grid's own indices where both are (ragged groups), or of the
    parent's of a jagged tile, and next to none from a tile's begin to its end."""
    most, bounds = tile_length(ir, name), _loaded_bounds(ir, name)
    if parent := _parent(ir, name):
        return max(most // max(tile_length(ir, parent), 1), 1)
    if len(bounds) < 2:
        return max(most // 2, 1) if bounds else most
    if _is_of_a_tile(ir, bounds):
        return 1
    rows = prod(tile_length(ir, t) for t in ir.grid if ir.tiles[t].block.constant == 1)
    return max(most // max(rows, 1), 1)  # a grid may be empty


def _parent(ir: KernelIR, name: str) -> str:
    """The tile whose lanes have rows of their own in a jagged one; empty for others."""
    lengths = ir.tiles[name].lengths
    return next((d.tile for d in lengths.dims if d.tile is not None), "") if isinstance(lengths, Value) else ""


def _loaded_bounds(ir: KernelIR, name: str) -> list[Value]:
    """The bounds of a loop that only the device knows."""
    return [b for b in (ir.tiles[name].begin, ir.tiles[name].end) if isinstance(b, Value)]


_ELEMENT_BY_ELEMENT = frozenset({
    OpKind.POINTWISE, OpKind.CAST, OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.PERMUTE
})  # fmt: skip


@once_each
def follows_a_load(ir: KernelIR, value: Operand) -> bool:
    """Whether a value was loaded, or made of one that was by pointwise arithmetic, with its dimensions anywhere."""
    op = ir.definitions.get(value) if isinstance(value, Value) else None
    if op is None or op.kind is OpKind.LOAD:
        return op is not None
    return op.kind in _ELEMENT_BY_ELEMENT and any(follows_a_load(ir, operand) for operand in op.inputs)


def _is_of_a_tile(ir: KernelIR, bounds: Iterable[Value]) -> bool:
    """Whether a loop goes from or to where a tile begins or ends."""
    makers = [ir.definitions.get(b) for b in bounds]
    return any(op is not None and op.kind in (OpKind.TILE_BEGIN, OpKind.TILE_END) for op in makers)


def _bytes(ir: KernelIR) -> int:
    """Each tensor's elements once for reading and once for writing, broadcast dimensions not counted; no more of them
    than its accesses name, as few of a large tensor may be gathered."""
    total = 0
    for kinds in ((OpKind.LOAD, OpKind.ATOMIC), (OpKind.STORE, OpKind.ATOMIC)):
        named: dict[str, int] = {}
        for op, executions in _with_counts(ir):
            if op.kind in kinds:
                path = AccessAttrs.of(op).tensor
                named[path] = named.get(path, 0) + _asked(ir, op, executions)
        for path, asked in named.items():
            tensor = ir.tensor(path)
            sizes = [ir.hint(n) for n, s in zip(tensor.shape, tensor.strides, strict=True) if s.constant != 0]
            total += min(prod(sizes), asked) * itemsize(tensor.dtype)
    return total


def moved(regions: Iterable[KernelIR]) -> int:
    """Bytes that the launches of one call ask for, access by access: what two loops read counts twice, of a gather what
    its lanes name. Programs that read the same elements count once."""
    return sum(
        _asked(ir, op) * itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype) * (2 if op.kind is OpKind.ATOMIC else 1)
        for ir in regions
        for op in ir.walk()
        if op.kind in ACCESSES
    )


def reduced(regions: Iterable[KernelIR]) -> int:
    """Elements that the launches of one call reduce, reduction by reduction."""
    found = 0
    for ir in regions:
        lengths = {d.tile: tile_length(ir, d.tile) for op in ir.walk() for v in op.values for d in v.dims if d.tile}
        for op in ir.walk():
            if op.kind is OpKind.REDUCE:
                found += prod(lengths[d.tile] if d.tile else _size(ir, (d,)) for d in op.values[0].dims)
    return found


def _asked(ir: KernelIR, op: Op, executions: int = 1) -> int:
    """The elements of its tensor that an access names, over all programs and turns of loops; of a gather those of as
    many ``executions``, over whose tiles its indices have no lanes."""
    attrs = AccessAttrs.of(op)
    tensor = ir.tensor(attrs.tensor)
    named, scattered, lanes = 1, 1, 1
    axes: set[int] = set()
    for size, stride, item in zip(tensor.shape, tensor.strides, attrs.index, strict=True):
        if stride.constant == 0:
            continue
        if isinstance(item, ValueIndex) and item.axes:
            scattered *= ir.hint(size)
            index = op.inputs[item.input]
            dims = index.dims if isinstance(index, Value) else ()
            fresh = [d for a, d in zip(item.axes, dims, strict=False) if a not in axes]
            lanes *= prod(tile_length(ir, d.tile) if d.tile else _size(ir, (d,)) for d in fresh)
            axes.update(item.axes)
        elif isinstance(item, TileIndex):
            named *= min(tile_length(ir, item.tile), ir.hint(size))
        elif isinstance(item, SliceIndex):
            named *= min(_size(ir, (item.dim,)), ir.hint(size))
        elif isinstance(item, ValueIndex):
            named *= ir.hint(size)
    return named * min(scattered, lanes * executions)


def _with_counts(ir: KernelIR) -> Iterable[tuple[Op, int]]:
    """Every op with how often it must run over all programs, tiles in its dims not counted (they are in its size), nor
    those whose block a config chooses: by the largest there is one run; nor loops in each of whose turns it computes
    the same, which a compiler may do once."""
    varies: dict[Value, frozenset[str]] = {}  # the loops of whose turn a value depends

    def visit(block: Block, loops: frozenset[str]) -> Iterable[tuple[Op, int]]:
        for op in block.ops:
            given = frozenset[str]().union(*(varies.get(v, frozenset()) for v in op.values))
            inner = loops | {TileAttrs.of(op).tile} if op.kind is OpKind.FOR else loops
            own = given | (_named(op) & loops)
            for region in op.regions:
                varies.update(dict.fromkeys(region.params, given | (inner - loops)))
                yield from visit(region, inner)
                own = own.union(*(varies.get(r, own) & loops for r in region.results if isinstance(r, Value)))
            varies.update(dict.fromkeys(op.outputs, own))
            dims = {d.tile for some in _dims_of_work(op) for d in some}
            yield op, prod(_blocks(ir, name) for name in (*ir.grid, *sorted(own)) if name not in dims)

    return visit(ir.body, frozenset())


def _named(op: Op) -> frozenset[str]:
    """The tiles that an op names itself, beside what it is given."""
    if isinstance(op.attrs, TileAttrs):
        return frozenset({op.attrs.tile})
    items = AccessAttrs.of(op).index if op.kind in ACCESSES else ()
    return frozenset(item.tile for item in items if isinstance(item, TileIndex))


def _dims_of_work(op: Op) -> list[tuple[Dim, ...]]:
    """The dimensions that an op's size has. Of a product's inner dimension one operand may be a slice, which names no
    tile."""
    if op.kind is OpKind.DOT:
        return [OPS[op.kind].work(op).dims]
    return [v.dims for v in (*op.inputs, *op.outputs) if isinstance(v, Value)]


def _blocks(ir: KernelIR, name: str) -> int:
    """How many blocks of a tile there are, of a length that the author chose; else one."""
    length = ir.tiles[name].block.constant
    return -(-mean_length(ir, name) // length) if length else 1


def _size(ir: KernelIR, dims: Iterable[Dim]) -> int:
    total = 1
    for dim in dims:
        if dim.tile is not None:
            total *= mean_length(ir, dim.tile) * _lanes_of_an_index(ir, dim)
        elif dim.extent.symbols() <= ir.hints.keys():
            total *= ir.hint(dim.extent)
    return total


def _lanes_of_an_index(ir: KernelIR, dim: Dim) -> int:
    """How many lanes a dimension has for each index of its tile: two where bytes were unpacked into halves."""
    assert dim.tile is not None
    block = ir.tiles[dim.tile].block
    if block.symbols() != dim.extent.symbols():
        return 1
    ones = {**ir.hints, **dict.fromkeys(block.symbols() - ir.hints.keys(), 1)}
    return max(dim.extent.evaluate(ones) // max(block.evaluate(ones), 1), 1)


def in_full_precision(op: Op) -> bool:
    """Whether a product takes 32 or 64 bits as they are. NVIDIA's matrix units would round them, so that it becomes
    multiply-adds of each thread."""
    dtype = op.values[0].type.dtype
    return dtype == "float64" or (dtype == "float32" and DotAttrs.of(op).precision == "ieee")


def _product_size(ir: KernelIR, dims: Iterable[Dim]) -> int:
    """Multiplications of a product over all its runs; a dimension of a bare block goes as far as the loops over it."""
    total = 1
    for dim in dims:
        blocks = dim.extent.symbols() - ir.hints.keys()
        loops = [n for n, t in ir.tiles.items() if t.block.symbols() & blocks] if dim.tile is None else []
        times = dim.extent.evaluate({**ir.hints, **dict.fromkeys(blocks, 1)}) if loops else 1
        total *= times * max(mean_length(ir, n) for n in loops) if loops else _size(ir, (dim,))
    return total
