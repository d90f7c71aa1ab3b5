"""The rules of the verifier for single ops: what the operands, attributes and outputs of each kind are to each other.

The numbers of inputs, outputs and regions, and the class of the attributes, are checked before by the table's columns.
"""

from __future__ import annotations

import re
from functools import cache

from .attributes import (
    AccessAttrs,
    AtomicAttrs,
    AxisAttrs,
    CombineAttrs,
    CombineScanAttrs,
    DotAttrs,
    DotScaledAttrs,
    FoldAttrs,
    ForeignAttrs,
    IfAttrs,
    LoopAttrs,
    PermuteAttrs,
    PointwiseAttrs,
    RandomAttrs,
    ScalarAttrs,
    ScanAttrs,
    SizeAttrs,
    TileAttrs,
    TilePartAttrs,
    WhereMaskAttrs,
)
from .checking import Checker
from .graph import Block, Op, Operand, SliceIndex, TileIndex, ValueIndex
from .ops import NEUTRAL, POINTWISE
from .types import FLOAT_BITS, INT_BITS, Dim, Value, is_float, itemsize

_INDICES = ("int32", "int64")


def _value(c: Checker, op: Op, position: int = 0) -> Value:
    operand = op.inputs[position]
    if not isinstance(operand, Value):
        c.refuse(op, f"input {position} is a value", operand)
    return operand


def _dtype(operand: Operand) -> str:
    return operand.type.dtype if isinstance(operand, Value) else type(operand).__name__


# ---- memory -------------------------------------------------------------------------------------


def load(c: Checker, op: Op) -> None:
    dtype = _access(c, op, op.output.dims, 0)
    c.require(op.output.type.dtype == dtype, op, "a load gives the tensor's dtype", op.output.type, dtype)


def store(c: Checker, op: Op) -> None:
    _access(c, op, _value(c, op).dims, 1)


def atomic(c: Checker, op: Op) -> None:
    values = 2 if AtomicAttrs.of(op).fn == "cas" else 1
    c.require(len(op.inputs) >= values, op, f"an atomic takes {values} values", len(op.inputs))
    for operand in op.inputs[:values]:
        c.require(
            c.broadcasts(operand, op.output.dims),
            op,
            "an atomic's values have the lanes of the old ones",
            operand,
            op.output.dims,
        )
    dtype = _access(c, op, op.output.dims, values)
    c.require(op.output.type.dtype == dtype, op, "an atomic gives the tensor's dtype", op.output.type, dtype)


def _access(c: Checker, op: Op, dims: tuple[Dim, ...], values: int) -> str:
    """Checks the index of an access of ``dims``, whose first ``values`` inputs it writes; the tensor's dtype."""
    attrs = AccessAttrs.of(op)
    tensor = c.tensors.get(attrs.tensor)
    if tensor is None:
        c.refuse(op, "an access names a tensor of the region", attrs.tensor, sorted(c.tensors))
    rank = len(tensor.shape)
    c.require(len(attrs.index) == rank, op, "an index has an item for each dimension of the tensor", attrs.index, rank)
    used = set(range(values))
    for item in attrs.index:
        if isinstance(item, TileIndex):
            _tile_item(c, op, item, dims)
        elif isinstance(item, SliceIndex):
            c.require(0 <= item.axis < len(dims), op, "a slice's axis is one of the lanes'", item.axis, dims)
            c.require(
                c.same_sizes((item.dim,), (dims[item.axis],)),
                op,
                "a slice has the lanes of its axis",
                item.dim,
                dims[item.axis],
            )
        elif isinstance(item, ValueIndex):
            c.require(
                values <= item.input < len(op.inputs),
                op,
                "an index value is an input after the written ones",
                item.input,
                len(op.inputs),
            )
            used.add(item.input)
            _value_item(c, op, item, dims)
    if attrs.has_mask:
        used.add(len(op.inputs) - 1)
        mask = _value(c, op, len(op.inputs) - 1)
        c.require(mask.type.dtype == "bool", op, "a mask is of bools", mask.type)
        c.require(c.broadcasts(mask, dims), op, "a mask has the lanes of what is accessed", mask.dims, dims)
    c.require(
        used == set(range(len(op.inputs))),
        op,
        "every input is a written value, an index value or the mask",
        sorted(used),
        len(op.inputs),
    )
    return tensor.dtype


def _tile_item(c: Checker, op: Op, item: TileIndex, dims: tuple[Dim, ...]) -> None:
    tile = c.ir.tiles.get(item.tile)
    if tile is None:
        c.refuse(op, "an index names a tile of the region", item.tile, sorted(c.ir.tiles))
    c.require(0 <= item.axis < len(dims), op, "a tile's axis is one of the lanes'", item.axis, dims)
    c.require(
        c.same_size(tile.block, dims[item.axis].extent),
        op,
        "a tile has the lanes of its axis",
        tile.block,
        dims[item.axis],
    )


def _value_item(c: Checker, op: Op, item: ValueIndex, dims: tuple[Dim, ...]) -> None:
    operand = op.inputs[item.input]
    c.require(
        _dtype(operand) in (*INT_BITS, "int") and _dtype(operand) != "bool", op, "an index value is of ints", operand
    )
    c.require(
        all(0 <= a < len(dims) for a in item.axes), op, "an index value's axes are among the lanes'", item.axes, dims
    )
    if isinstance(operand, Value) and operand.dims:
        c.require(
            len(operand.dims) == len(item.axes),
            op,
            "an index value has an axis for each of its dimensions",
            operand.dims,
            item.axes,
        )


# ---- lane by lane -------------------------------------------------------------------------------


@cache
def _arity(fn: str) -> int:
    """The operands that a pointwise row's text has."""
    return 1 + max(int(n) for n in re.findall(r"\{(\d)\}", POINTWISE[fn].triton))


def pointwise(c: Checker, op: Op) -> None:
    attrs = PointwiseAttrs.of(op)
    c.require(attrs.fn in POINTWISE, op, "a pointwise op is a row of POINTWISE", attrs.fn)
    arity = _arity(attrs.fn)
    c.require(len(op.inputs) == arity, op, f"{attrs.fn} takes {arity} operands", len(op.inputs))
    c.require(attrs.operand in FLOAT_BITS or attrs.operand in INT_BITS, op, "operands meet in a dtype", attrs.operand)
    if POINTWISE[attrs.fn].boolean:
        c.require(op.output.type.dtype == "bool", op, f"{attrs.fn} gives bools", op.output.type)
    for operand in op.inputs:
        c.require(
            c.broadcasts(operand, op.output.dims),
            op,
            "operands broadcast to the output's dimensions",
            operand,
            op.output.dims,
        )


def same_dims(c: Checker, op: Op) -> None:
    value = _value(c, op)
    c.require(
        c.same_sizes(value.dims, op.output.dims),
        op,
        "the output has the input's dimensions",
        value.dims,
        op.output.dims,
    )


def same_type(c: Checker, op: Op) -> None:
    same_dims(c, op)
    _same_dtype(c, op)


def _same_dtype(c: Checker, op: Op) -> None:
    for output in op.outputs:
        c.require(
            output.type.dtype == _value(c, op).type.dtype,
            op,
            "the output has the input's dtype",
            _value(c, op).type,
            output.type,
        )


def bitcast(c: Checker, op: Op) -> None:
    same_dims(c, op)
    sizes = [itemsize(v.type.dtype) for v in (_value(c, op), op.output)]
    c.require(
        sizes[0] == sizes[1], op, "a dtype is reinterpreted as one of its width", _value(c, op).type, op.output.type
    )


def full(c: Checker, op: Op) -> None:
    operand = op.inputs[0]
    c.require(not isinstance(operand, Value) or not operand.dims, op, "a tile is filled with a scalar", operand)


# ---- scalars and indices ------------------------------------------------------------------------


def scalar_int(c: Checker, op: Op) -> None:
    c.require(
        not op.output.dims and op.output.type.dtype in (*_INDICES, "bool"),
        op,
        "a size is an int",
        op.output.type,
        SizeAttrs.of(op).value,
    )


def captured(c: Checker, op: Op) -> None:
    path = ScalarAttrs.of(op).path
    c.require(path in c.scalars, op, "a scalar is a captured number of the region", path, sorted(c.scalars))
    c.require(not op.output.dims, op, "a captured number has no dimensions", op.output.type)


def tile_scalar(c: Checker, op: Op) -> None:
    _of_tile(c, op)
    c.require(not op.output.dims, op, "a scalar of a tile has no dimensions", op.output.type)


def tile_index(c: Checker, op: Op) -> None:
    _of_tile(c, op)
    block = c.ir.tiles[TileAttrs.of(op).tile].block
    fits = len(op.output.dims) == 1 and c.same_size(op.output.dims[0].extent, block)
    c.require(fits, op, "a tile's indices have its lanes", op.output.type, block)


def _of_tile(c: Checker, op: Op) -> None:
    name = TileAttrs.of(op).tile
    c.require(name in c.ir.tiles, op, "an op of a tile names one of the region", name, sorted(c.ir.tiles))
    dtype = c.ir.tiles[name].index_dtype
    if op.outputs:
        c.require(op.output.type.dtype == dtype, op, "a tile's numbers are of its index dtype", op.output.type, dtype)


def tile_part(c: Checker, op: Op) -> None:
    _of_tile(c, op)
    attrs, tiles = TilePartAttrs.of(op), c.ir.tiles
    c.require(attrs.whole in tiles, op, "a part is of a tile of the region", attrs.whole, sorted(tiles))
    c.require(attrs.part in (0, 1), op, "a tile has a left half, 0, and a right one, 1", attrs.part)
    c.require(
        c.same_size(tiles[attrs.tile].block * 2, tiles[attrs.whole].block),
        op,
        "a half is half of its tile",
        tiles[attrs.tile].block,
        tiles[attrs.whole].block,
    )


def arange(c: Checker, op: Op) -> None:
    type_ = op.output.type
    c.require(len(type_.dims) == 1 and type_.dtype in _INDICES, op, "arange gives one dimension of ints", type_)


def random(c: Checker, op: Op) -> None:
    attrs, dims = RandomAttrs.of(op), op.output.dims
    inputs = 1 if op.output.type.dtype == "float32" else 3
    c.require(
        len(op.inputs) == inputs,
        op,
        f"random numbers of this dtype take {inputs} operands",
        op.output.type,
        len(op.inputs),
    )
    c.require(
        len(attrs.sizes) == len(attrs.offsets) == len(dims),
        op,
        "the whole has a size and an offset for each dimension",
        attrs.sizes,
        attrs.offsets,
        dims,
    )
    c.require(None not in attrs.sizes[1:], op, "the sizes of the whole after the first are known", attrs.sizes)


# ---- dimensions ---------------------------------------------------------------------------------


def _axis(c: Checker, op: Op, dims: tuple[Dim, ...]) -> int:
    axis = AxisAttrs.of(op).axis
    c.require(0 <= axis < len(dims), op, "the axis is one of the dimensions", axis, dims)
    return axis


def unsqueeze(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    dims = op.output.dims
    axis = _axis(c, op, dims)
    c.require(c.number(dims[axis].extent) == 1, op, "the inserted dimension has the extent 1", axis, dims)
    c.require(
        c.same_sizes(_value(c, op).dims, _without(dims, axis)),
        op,
        "the other dimensions are the input's",
        _value(c, op).dims,
        dims,
    )


def squeeze(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    dims = _value(c, op).dims
    axis = _axis(c, op, dims)
    c.require(c.number(dims[axis].extent) == 1, op, "the dropped dimension has the extent 1", axis, dims)
    c.require(
        c.same_sizes(op.output.dims, _without(dims, axis)),
        op,
        "the other dimensions are the input's",
        dims,
        op.output.dims,
    )


def _without(dims: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    return dims[:axis] + dims[axis + 1 :]


def permute(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    order, dims = PermuteAttrs.of(op).order, _value(c, op).dims
    c.require(sorted(order) == list(range(len(dims))), op, "an order names each dimension once", order, dims)
    c.require(
        c.same_sizes(op.output.dims, (dims[a] for a in order)),
        op,
        "the output has the input's dimensions in that order",
        dims,
        order,
        op.output.dims,
    )


def expand(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    value = _value(c, op)
    fits = len(value.dims) == len(op.output.dims) and c.broadcasts(value, op.output.dims)
    c.require(fits, op, "the input broadcasts to the output's dimensions", value.dims, op.output.dims)


def reshape(c: Checker, op: Op) -> None:
    """What becomes of batches of blocks that are 1 leaves their dimensions out."""
    _same_dtype(c, op)
    dims, found = list(_value(c, op).dims), list(op.output.dims)
    if not c.same_count(dims, found):
        for dim in [d for d in dims if d in found]:
            dims.remove(dim)
            found.remove(dim)
        alone = all(d.extent.op == "sym" or c.number(d.extent) == 1 for d in (*dims, *found))
        c.require(
            alone and not (dims and found),
            op,
            "a reshape keeps the number of elements",
            _value(c, op).dims,
            op.output.dims,
        )


def narrow(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    dims, found = _value(c, op).dims, op.output.dims
    c.require(len(dims) == len(found), op, "a narrowed tile keeps its dimensions", dims, found)
    changed = [(a, b) for a, b in zip(dims, found, strict=True) if not c.same_size(a.extent, b.extent)]
    fits = all(_registers(c.number(a.extent)) == _registers(c.number(b.extent)) for a, b in changed)
    c.require(fits, op, "other lanes of a dimension count, of as many registers", dims, found)


def _registers(size: int) -> int:
    """The lanes that registers hold of a dimension: a power of two."""
    return 1 << max(size - 1, 0).bit_length()


def join(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    first, second = _value(c, op), _value(c, op, 1)
    c.require(
        first.type.dtype == second.type.dtype and c.same_sizes(first.dims, second.dims),
        op,
        "both sides have one type",
        first.type,
        second.type,
    )
    _pairs(c, op, op.output.dims, first.dims)


def split(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    for half in op.outputs:
        _pairs(c, op, _value(c, op).dims, half.dims)


def _pairs(c: Checker, op: Op, both: tuple[Dim, ...], one: tuple[Dim, ...]) -> None:
    fits = bool(both) and c.number(both[-1].extent) == 2 and c.same_sizes(both[:-1], one)
    c.require(fits, op, "both stand in a last dimension of 2", both, one)


def nibbles(c: Checker, op: Op) -> None:
    value = _value(c, op)
    c.require(value.type.dtype in ("int8", "uint8"), op, "nibbles are of bytes", value.type)
    for half in op.outputs:
        fits = is_float(half.type.dtype) and c.same_sizes(half.dims, value.dims)
        c.require(fits, op, "each nibble is a float where its byte is", value.type, half.type)


def gather(c: Checker, op: Op) -> None:
    _same_dtype(c, op)
    value, places = _value(c, op), _value(c, op, 1)
    axis = _axis(c, op, value.dims)
    c.require(places.type.dtype in INT_BITS and places.type.dtype != "bool", op, "indices are ints", places.type)
    c.require(
        len(places.dims) == len(value.dims) and c.same_sizes(_without(places.dims, axis), _without(value.dims, axis)),
        op,
        "the indices have the tile's other dimensions",
        value.dims,
        places.dims,
    )
    c.require(
        c.same_sizes(places.dims, op.output.dims),
        op,
        "the output has the indices' dimensions",
        places.dims,
        op.output.dims,
    )


def sort(c: Checker, op: Op) -> None:
    same_type(c, op)
    last = _axis(c, op, op.output.dims) == len(op.output.dims) - 1
    c.require(last, op, "the last dimension is sorted", AxisAttrs.of(op).axis, op.output.dims)
    c.require(not is_float(op.output.type.dtype), op, "what is sorted is of ints", op.output.type)


# ---- reductions, scans, products ----------------------------------------------------------------


def reduce(c: Checker, op: Op) -> None:
    fn = FoldAttrs.of(op).fn
    c.require(fn in NEUTRAL, op, "a reduction is a row of NEUTRAL", fn)
    _dropped(c, op)


def _dropped(c: Checker, op: Op) -> None:
    for n, output in enumerate(op.outputs):
        dims = _value(c, op, n).dims
        rest = _without(dims, _axis(c, op, dims))
        c.require(
            c.same_sizes(output.dims, rest), op, "the output has the dimensions but the reduced one", dims, output.dims
        )


def scan(c: Checker, op: Op) -> None:
    same_type(c, op)
    _axis(c, op, op.output.dims)
    c.require(ScanAttrs.of(op).fn in ("sum", "prod"), op, "a scan adds or multiplies", ScanAttrs.of(op).fn)


def combine(c: Checker, op: Op) -> None:
    _combining(c, op)
    _dropped(c, op)
    other = CombineAttrs.of(op).other
    c.require(
        other is None or len(other) == len(op.inputs),
        op,
        "each input has a neutral value, or none has",
        other,
        len(op.inputs),
    )


def combine_scan(c: Checker, op: Op) -> None:
    _combining(c, op)
    for n, output in enumerate(op.outputs):
        dims = _value(c, op, n).dims
        c.require(c.same_sizes(dims, output.dims), op, "a scan keeps the dimensions", dims, output.dims)
        _axis(c, op, dims)
    c.require(isinstance(CombineScanAttrs.of(op).reverse, bool), op, "a scan goes one way or the other", op.attrs)


def _combining(c: Checker, op: Op) -> None:
    """The region is a function of two scalars for each input, and gives one for each."""
    (block,) = op.regions
    count = len(op.inputs)
    c.require(len(op.outputs) == count, op, "there is an output for each input", len(op.outputs), count)
    wanted = [_value(c, op, n).type.dtype for n in range(count)]
    found = [p.type.dtype for p in block.params]
    c.require(found == 2 * wanted, op, "the region takes two scalars of each input's dtype", found, wanted)
    given = [v.type.dtype if isinstance(v, Value) else dtype for v, dtype in zip(block.results, wanted, strict=False)]
    c.require(
        given == wanted and len(block.results) == count,
        op,
        "the region gives a scalar of each input's dtype",
        given,
        wanted,
    )
    for output, dtype in zip(op.outputs, wanted, strict=True):
        c.require(output.type.dtype == dtype, op, "each output has its input's dtype", output.type, dtype)


def dot(c: Checker, op: Op) -> None:
    a, b = _value(c, op), _value(c, op, 1)
    out = op.output
    c.require(min(len(a.dims), len(b.dims)) >= 2, op, "a product is of matrices", a.type, b.type)
    _multiplied(c, op, a.dims[-1], b.dims[-2])
    matrix = (a.dims[-2], b.dims[-1])
    c.require(
        c.same_sizes(matrix, out.dims[-2:]),
        op,
        "a product has the rows of a and the columns of b",
        a.dims,
        b.dims,
        out.dims,
    )
    for side in (a, b):
        c.require(
            _spreads(c, side.dims[:-2], out.dims[:-2]),
            op,
            "each side's batches broadcast to the product's",
            side.dims,
            out.dims,
        )
    c.require(
        DotAttrs.of(op).acc in (*FLOAT_BITS, *INT_BITS), op, "a product is summed in a dtype", DotAttrs.of(op).acc
    )
    if len(op.inputs) == 3:
        _accumulator(c, op)


def _spreads(c: Checker, own: tuple[Dim, ...], dims: tuple[Dim, ...]) -> bool:
    """Whether dimensions, aligned at the last ones, are each as long as those of ``dims``, or 1."""
    pairs = zip(reversed(own), reversed(dims), strict=False)
    return len(own) <= len(dims) and all(c.same_size(a.extent, b.extent) or c.number(a.extent) == 1 for a, b in pairs)


def dot_scaled(c: Checker, op: Op) -> None:
    attrs, out = DotScaledAttrs.of(op), op.output
    a, b = _value(c, op), _value(c, op, 1)
    scales = sum(attrs.scaled)
    c.require(
        len(op.inputs) in (2 + scales, 3 + scales),
        op,
        "each side that is scaled has its scale",
        attrs.scaled,
        len(op.inputs),
    )
    c.require(len(a.dims) == len(b.dims) == 2 == len(out.dims), op, "a scaled product is of matrices", a.type, b.type)
    c.require(
        c.same_sizes((a.dims[0], b.dims[1]), out.dims),
        op,
        "a product has the rows of a and the columns of b",
        a.dims,
        b.dims,
        out.dims,
    )
    if len(op.inputs) == 3 + scales:
        _accumulator(c, op)


def _multiplied(c: Checker, op: Op, left: Dim, right: Dim) -> None:
    c.require(c.same_size(left.extent, right.extent), op, "a's columns are as many as b's rows", left, right)


def _accumulator(c: Checker, op: Op) -> None:
    acc = _value(c, op, len(op.inputs) - 1)
    fits = acc.type.dtype == op.output.type.dtype and c.same_sizes(acc.dims, op.output.dims)
    c.require(fits, op, "the accumulator has the product's type", acc.type, op.output.type)


def where_mask(c: Checker, op: Op) -> None:
    same_type(c, op)
    axes = WhereMaskAttrs.of(op).axes
    c.require(
        bool(axes) and all(0 <= a < len(op.output.dims) for a in axes),
        op,
        "the axes are among the dimensions",
        axes,
        op.output.dims,
    )
    c.require(
        c.broadcasts(op.inputs[1], op.output.dims),
        op,
        "the other value has the same dimensions",
        op.inputs[1],
        op.output.dims,
    )


# ---- escapes ------------------------------------------------------------------------------------


def anything(c: Checker, op: Op) -> None:
    """Any operands."""


def inline_asm(c: Checker, op: Op) -> None:
    dims = op.outputs[0].dims if op.outputs else ()
    for v in (*op.values, *op.outputs):
        c.require(c.same_sizes(v.dims, dims), op, "operands and results have one shape", v.type, dims)
    for block in op.regions:
        c.require(not block.params, op, "the reference reads the operands themselves", block.params)
        _yields(c, op, block, op.outputs)


def foreign(c: Checker, op: Op) -> None:
    unknown = [path for path in ForeignAttrs.of(op).tensors if path not in c.tensors]
    c.require(not unknown, op, "the text is given tensors of the region", unknown, sorted(c.tensors))


# ---- loops and branches -------------------------------------------------------------------------


def loop(c: Checker, op: Op) -> None:
    attrs, (body,) = LoopAttrs.of(op), op.regions
    tile = c.ir.tiles.get(attrs.tile)
    if tile is None:
        c.refuse(op, "a loop is over a tile of the region", attrs.tile, sorted(c.ir.tiles))
    c.require(attrs.tile not in c.ir.grid, op, "a loop's tile is none of the grid's", attrs.tile, c.ir.grid)
    c.require(
        op.inputs[: attrs.bounds] == tile.bounds,
        op,
        "a loop reads its tile's bounds first",
        op.inputs[: attrs.bounds],
        tile.bounds,
    )
    _carries(c, op, op.inputs[attrs.bounds :], body)


def turns(c: Checker, op: Op) -> None:
    (body,) = op.regions
    _carries(c, op, op.inputs, body)
    goes_on = op.inputs[0]
    is_bool = isinstance(goes_on, Value) and goes_on.type.dtype == "bool"
    c.require(is_bool, op, "a bool of the kernel says whether there is another turn", goes_on)
    for value in op.outputs:
        c.require(not value.dims, op, "turns carry scalars", value.type)


def _carries(c: Checker, op: Op, carried: tuple[Operand, ...], body: Block) -> None:
    counts = len(carried), len(body.params), len(op.outputs)
    c.require(len(set(counts)) == 1, op, "a loop carries as many values in, around and out", *counts)
    for entry, param in zip(carried, body.params, strict=True):
        fits = not isinstance(entry, Value) or _fits(c, entry, param)
        c.require(fits, op, "what a loop carries enters with its type", entry, param.type)
    _yields(c, op, body, body.params)
    _yields(c, op, body, op.outputs)


def branch(c: Checker, op: Op) -> None:
    test = IfAttrs.of(op).test
    c.require(
        len(op.inputs) == (test is None), op, "the kernel or the config answers a branch, one of both", test, op.inputs
    )
    for operand in op.values:
        c.require(not operand.dims, op, "a condition is a scalar", operand.type)
    for side in op.regions:
        c.require(not side.params, op, "a branch's sides take no arguments", side.params)
        _yields(c, op, side, op.outputs)


def _yields(c: Checker, op: Op, block: Block, wanted: tuple[Value, ...]) -> None:
    c.require(
        len(block.results) == len(wanted), op, "a region gives a value for each result", len(block.results), len(wanted)
    )
    for result, value in zip(block.results, wanted, strict=True):
        fits = not isinstance(result, Value) or _fits(c, result, value)
        c.require(fits, op, "what a region gives has the result's type", result, value)


def _fits(c: Checker, given: Value, wanted: Value) -> bool:
    return given.type.dtype == wanted.type.dtype and c.same_sizes(given.dims, wanted.dims)
