"""One product in a loop, found in a region: a tile of the result with whatever the author's body does to it afterwards.

Two products of one left operand, whose right operands have as many columns, are one of right operands that lie beside
each other, as those of a gate are.

Both operands are boxes as they lie in memory, each row by row or column by column, or as they lie in a copy that a
launch makes because rows begin at any element; the sums begin at zero and nothing reads them before the loop is over.
Float32 operands in full precision are split into parts (:mod:`tileflow.schedule.split_product`). Rows are those of a
tile of the grid, or of a ragged group (:mod:`tileflow.schedule.groups`); the inner dimension is summed by one tile, or
in parts (:mod:`tileflow.schedule.parts`). What is not of this form is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..expr import Expr, is_knob
from ..ir.access import box_anywhere, box_order, copied_order, describable, scattered_along
from ..ir.analysis import in_full_precision
from ..ir.attributes import AccessAttrs, DotAttrs, LoadAttrs, PermuteAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, SliceIndex, TileIndex, once
from ..ir.kinds import LOOPS, OpKind
from ..ir.types import Dim, Value, itemsize
from .chained import Refusal, Refused, check_operations, is_scalar, products_of, read_by, results_of
from .groups import Frame, frame_of, stored_by_blocks
from .parts import Parts, parts_of, reads_to_end

K = OpKind
_HALVES = ("bfloat16", "float16")
_OF_TILE = (K.TILE_BEGIN, K.TILE_END, K.TILE_ID)
_WRITTEN = frozenset({K.STORE, K.ATOMIC})
_EIGHTS = ("float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, slots=True)
class Single:
    """A region of one product, or of ``products`` of one left operand with the ``rights``. ``rows``: the grid's tile of
    the left operand's rows, or that of a group's; ``before``: numbers in front of the loop; ``inside``: numbers in it,
    which the operands' places follow from; ``after``: all else around it, in order; ``saved``: the store of the result
    that the copy engine can do, of a group's rows in whole blocks; ``frame``: where the loop stands; ``parts``: of the
    inner dimension, where a tile sums one of several; ``copied``: the operands whose boxes are those of a copy."""

    loop: Op
    rows: str
    left: Op
    rights: tuple[Op, ...]
    left_transposed: bool
    right_transposed: bool
    products: tuple[Op, ...]
    before: tuple[Op, ...]
    inside: tuple[Op, ...]
    after: tuple[Op, ...]
    saved: Op | None
    frame: Frame
    parts: Parts | None
    copied: tuple[Op, ...]

    @property
    def right(self) -> Op:
        """The right operand, the first of them."""
        return self.rights[0]

    @property
    def product(self) -> Op:
        """The product, the first of them: all are alike."""
        return self.products[0]

    @property
    def is_split(self) -> bool:
        """Whether the operands are float32, which the matrix units take in parts."""
        return self.product.values[0].type.dtype == "float32"

    @property
    def is_ragged(self) -> bool:
        """Whether rows are those of groups, whose bounds the program reads."""
        return self.frame.rows is not None

    @property
    def keys(self) -> str:
        """The loop's tile: what the product sums over."""
        return TileAttrs.of(self.loop).tile

    @property
    def columns(self) -> Dim:
        """The columns of the result, of each product."""
        return self.product.output.dims[1]

    @property
    def inner(self) -> Dim:
        """What the product sums over, in a turn."""
        return self.product.values[0].dims[1]

    @property
    def by_columns(self) -> bool:
        """Whether what is computed behind the loop may be computed of some columns at a time: no row as a whole is
        looked at, and nothing is written but elements of the columns, which would be done once for each piece."""
        kinds = {K.REDUCE, K.ARANGE}
        if not all(self._goes_by_columns(op) for op in self.after if op.kind in _WRITTEN):
            return False
        if self.columns.tile is None or any(op.kind in kinds or op.regions for op in self.after):
            return False
        if any(op.kind in _OF_TILE and TileAttrs.of(op).tile == self.columns.tile for op in self.after):
            return False
        dims = {d for op in self.after for v in (*op.values, *op.outputs) for d in v.dims}
        return all(d.tile in (self.rows, self.columns.tile) or d.extent.constant == 1 for d in dims)

    def _goes_by_columns(self, op: Op) -> bool:
        """Whether each column that is computed writes elements of its own."""
        items = AccessAttrs.of(op).index
        is_indexed = any(isinstance(i, TileIndex) and i.tile == self.columns.tile for i in items)
        return is_indexed or any(self.columns in value.dims for value in op.values)

    @property
    def totals(self) -> tuple[Value, ...]:
        """What the loop leaves, of each product."""
        return self.loop.outputs


@once
def find_single(ir: KernelIR) -> Single | Refusal:
    """The structure of a region, before or after its masks were placed, or why it has none."""
    try:
        return _find(ir)
    except Refused as error:
        return error.refusal


def _find(ir: KernelIR) -> Single:
    frame = frame_of(ir)
    loop = the_product_loop(ir, frame)
    (body,) = loop.regions
    products = _in_order(products_of(ir), body)
    product = products[0]
    check_products(ir, loop, products)
    parts = _parts(ir, loop, frame)
    if product.values[0].type.dtype == "float32" and (len(products) > 1 or parts is not None or frame.rows is not None):
        raise Refused("a float32 product is alone, and sums the whole inner dimension of a tile of the grid", product)
    if len(products) > 1 and (parts is not None or frame.rows is not None):
        raise Refused("two products sum over the whole inner dimension, of the rows of a tile of the grid", product)
    made = {v: op for op in (*ir.body.ops, *frame.block.ops, *body.ops) for v in op.outputs}
    left_paths = [_path(ir, made, op.inputs[0]) for op in products]
    right_paths = [_path(ir, made, op.inputs[1]) for op in products]
    left, *left_turns = left_paths[0]
    _check_stream(ir, loop, left, 0 if left_turns else 1, parts, frame.tile)
    left_transposed = bool(left_turns) != is_turned(ir, left)
    rights_transposed = [_right_transposed(ir, loop, path, parts) for path in right_paths]
    right_transposed = rights_transposed[0]
    if len(set(rights_transposed)) > 1:
        raise Refused("right operands that lie beside each other have their dimensions in one order", products[1])
    if product.values[0].type.dtype in _EIGHTS and (left_transposed or not right_transposed):
        raise Refused("operands of 8 bits lie in memory with the inner dimension last", product)
    on_the_way = {op for path in (*left_paths, *right_paths) for op in path}
    inside = tuple(op for op in body.ops if op not in products and op not in on_the_way)
    others = [op for op in inside if not is_scalar(op)]
    if others:
        raise Refused("its loop has nothing but the product, its operands' loads and their places", others[0])
    rows = product.output.dims[0].tile
    if rows is None or rows not in ((frame.tile,) if frame.tile else ir.grid):
        raise Refused("the result's rows are those of a tile of the grid, or of a group", product)
    ops = frame.block.ops
    position = ops.index(loop)
    zeros = [op for v in loop.inputs[-len(products) :] for op in zeros_of(ir, v) or () if not _reads_more(ir, op, loop)]
    outside = [op for op in ops[:position] if op not in zeros]
    before = tuple(op for op in outside if is_scalar(op))
    rights = tuple(path[0] for path in right_paths)
    _check_places(ir, (rows, TileAttrs.of(loop).tile), (*frame.numbers, *before, *inside), (left, *rights))
    after = (*frame.others, *(op for op in outside if not is_scalar(op)), *ops[position + 1 :])
    check_operations(ir, rows, (*frame.others, *outside, *inside), after, _WRITTEN)
    return Single(
        loop,
        rows,
        left,
        rights,
        left_transposed,
        right_transposed,
        products,
        before,
        inside,
        after,
        saved_result(ir, after, product, frame.tile),
        frame,
        parts,
        _copied(ir, (left, *rights), frame, parts),
    )


def the_product_loop(ir: KernelIR, frame: Frame) -> Op:
    """The only loop of a region of one product, which stands in ``frame``."""
    loops = [op for op in frame.block.ops if op.kind is K.FOR]
    if any(op.kind in LOOPS and op not in (*loops, frame.rows) for op in ir.walk()):
        raise Refused("its loop over the inner dimension has no loop in it or around it")
    if len(loops) != 1:
        raise Refused(f"it has one loop, over the inner dimension, and this has {len(loops)}")
    (loop,) = loops
    if any(op not in loop.regions[0].ops for op in products_of(ir)):
        raise Refused("its product is in the loop", loop)
    if any(ir.tiles[name].lengths is not None or ir.tiles[name].wide for name in (TileAttrs.of(loop).tile, *ir.grid)):
        raise Refused("its tiles are as long for every program, and count in 32 bits", loop)
    if ir.shape_mode.is_wide:
        raise Refused("its sizes count in 32 bits", loop)
    blocks = (ir.tiles[name].block for name in (TileAttrs.of(loop).tile, *ir.grid))
    if any(not is_knob(symbol) for block in blocks for symbol in block.symbols()):
        raise Refused("its blocks are of sizes that a config settles, and no number of a call's", loop)
    return loop


def shares_left(ir: KernelIR) -> bool:
    """Whether the region has two products of one left operand, which the author may have loaded for each."""
    products = products_of(ir)
    return len(products) == 2 and _are_one(ir, products[0].inputs[0], products[1].inputs[0])


def _are_one(ir: KernelIR, first: Operand, second: Operand) -> bool:
    """Whether two operands are one value, or loads of one box: a loop of products alone writes nothing in between."""
    if first == second:
        return True
    a, b = (ir.definitions.get(v) if isinstance(v, Value) else None for v in (first, second))
    if a is None or b is None or a.kind is not b.kind:
        return False
    if a.kind is K.PERMUTE:
        return a.attrs == b.attrs and _are_one(ir, a.inputs[0], b.inputs[0])
    if a.kind is not K.LOAD or a.inputs != b.inputs:
        return False
    return replace(LoadAttrs.of(a), site="") == replace(LoadAttrs.of(b), site="")


def _in_order(products: tuple[Op, ...], body: Block) -> tuple[Op, ...]:
    """Products in the order of the sums that they add to, as the loop carries them."""
    places = {param: n for n, param in enumerate(body.params)}
    return tuple(sorted(products, key=lambda op: places.get(op.values[-1], len(places))))


def check_products(ir: KernelIR, loop: Op, products: tuple[Op, ...]) -> None:
    """Raises Refused unless the products are of matrices, all alike, summed in float32 from zero, and all that the loop
    carries."""
    for product in products:
        _check_product(product)
        if product.output.dims != products[0].output.dims:
            raise Refused("right operands that lie beside each other have the same tile of columns", product)
        if product.values[1].type.dtype != products[0].values[1].type.dtype:
            raise Refused("right operands that lie beside each other have one dtype", product)
    (body,) = loop.regions
    sums = [v for op in products for v in op.values[2:]]
    if sums != list(body.params) or list(body.results) != [op.output for op in products]:
        raise Refused("its product adds to the sums, which are all that the loop carries", products[0])
    if any(zeros_of(ir, v) is None for v in loop.inputs[-len(products) :]):
        raise Refused("its sums begin at zero", loop)


def _check_product(product: Op) -> None:
    if product.kind is not K.DOT:
        raise Refused("its product is a plain one, without scales of its own", product)
    dtypes = {v.type.dtype for v in product.values[:2]}
    if len(dtypes) != 1 or not dtypes <= {*_HALVES, *_EIGHTS, "float32"} or DotAttrs.of(product).acc != "float32":
        raise Refused("its product is of bfloat16, float16, fp8 or float32, summed in float32", product)
    if dtypes == {"float32"} and not in_full_precision(product):
        raise Refused("its product of float32 is in full precision, no rounded one of tf32", product)
    if any(len(v.dims) != 2 for v in product.values[:2]):
        raise Refused("its product is of matrices", product)


def _check_places(ir: KernelIR, tiles: tuple[str, ...], numbers: tuple[Op, ...], loads: tuple[Op, ...]) -> None:
    """Where boxes lie, and how many there are, follows from numbers that every role computes for itself."""
    known = set(results_of(numbers))
    for op in (*numbers, *loads):
        if not set(read_by([op])) <= known:
            raise Refused("where a tile's boxes are follows from numbers alone", op)
    for name in tiles:
        bounds = {v for v in (ir.tiles[name].begin, ir.tiles[name].end) if isinstance(v, Value)}
        if not bounds <= known:
            raise Refused("where a tile's boxes are follows from numbers alone", loads[0])


def _parts(ir: KernelIR, loop: Op, frame: Frame) -> Parts | None:
    """The division of the inner dimension; None where each tile sums all of it."""
    begin = ir.tiles[TileAttrs.of(loop).tile].begin
    parts = parts_of(ir, TileAttrs.of(loop).tile)
    if parts is None and not (isinstance(begin, Expr) and begin.constant == 0):
        raise Refused("its loop begins where the inner dimension does, or where one of its equal parts does", loop)
    if parts is not None and frame.rows is not None:
        raise Refused("a group's product is summed by one tile", loop)
    return parts


def zeros_of(ir: KernelIR, value: Operand) -> tuple[Op, ...] | None:
    """What makes the zeros of a value, a broadcast of them included; None where it is none of them."""
    if not isinstance(value, Value):
        return () if value == 0 else None
    maker = ir.definitions.get(value)
    if maker is not None and maker.kind is K.FULL and maker.inputs[0] == 0:
        return (maker,)
    if maker is not None and maker.kind is K.EXPAND:  # as dimensions of one length are told to be, in dynamic mode
        rest = zeros_of(ir, maker.inputs[0])
        return None if rest is None else (*rest, maker)
    return None


def _path(ir: KernelIR, made: Mapping[Value, Op], operand: Operand) -> tuple[Op, ...]:
    """The load of an operand that lies in memory as the copy engine takes it, and the permutation of it that the
    product reads, if any: shared memory is read either way."""
    op = made.get(operand) if isinstance(operand, Value) else None
    if op is not None and op.kind is K.PERMUTE and PermuteAttrs.of(op).order == (1, 0):
        load, *others = _path(ir, made, op.inputs[0])
        if not others:
            return load, op
    if op is None or op.kind is not K.LOAD:
        raise Refused("operands are loaded as the product takes them, without operations in between", op)
    if _order(ir, op) is None or LoadAttrs.of(op).other != 0:
        raise Refused("operands are boxes of their tensors, or of copies whose rows begin at aligned bytes", op)
    return (op,)


def _copied(ir: KernelIR, operands: tuple[Op, ...], frame: Frame, parts: Parts | None) -> tuple[Op, ...]:
    """Those that have boxes of a copy alone. Raises Refused where a program reads a small part of a tensor."""
    found = tuple(op for op in operands if not is_box(ir, op))
    if found and (frame.rows is not None or parts is not None):
        raise Refused("operands of ragged groups and of parts lie in memory in runs of aligned bytes", found[0])
    return found


def _order(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The tensor's dimensions in the order of an access's box, of the tensor or of a copy."""
    return box_anywhere(ir, op) if is_box(ir, op) else copied_order(ir, op)


def _right_transposed(ir: KernelIR, loop: Op, path: tuple[Op, ...], parts: Parts | None) -> bool:
    """Whether the product reads the box of a right operand with its dimensions swapped."""
    right, *turns = path
    _check_stream(ir, loop, right, 1 if turns else 0, parts)
    return bool(turns) != is_turned(ir, right)


def _reads_more(ir: KernelIR, op: Op, loop: Op) -> bool:
    """Whether anything but what the loop begins with reads a value."""
    return ir.uses[op.output] > max(sum(v == op.output for v in loop.inputs), 1)


def is_box(ir: KernelIR, op: Op) -> bool:
    """Whether a load is of boxes. Turns of a part begin at aligned bytes, as those of the whole do."""
    parts = [i for i in AccessAttrs.of(op).index if isinstance(i, TileIndex) and parts_of(ir, i.tile) is not None]
    return (box_anywhere if parts else box_order)(ir, op) is not None


def all_copied(found: Single) -> Single:
    """The structure for tensors whose rows begin at any element: both operands have boxes of copies alone, and no box
    takes the result."""
    return replace(found, copied=(found.left, *found.rights), saved=None)


def scattered_element(ir: KernelIR, found: Single, always: bool = False) -> int:
    """Bytes of an element of the largest result whose rows begin at any element, or may (``always``), so that a group's
    lanes exchange it before they store it by pointers; 0 where there is none."""
    stores = [op for op in found.after if op.kind is K.STORE and op is not found.saved]
    scattered = [op for op in stores if scattered_along(ir, op, always) is not None]
    return max((itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype) for op in scattered), default=0)


def is_turned(ir: KernelIR, op: Op) -> bool:
    """Whether the box of an access has its dimensions in another order than the tile."""
    order = _order(ir, op)
    axes = [i.axis for i in (AccessAttrs.of(op).index[n] for n in order or ()) if isinstance(i, TileIndex | SliceIndex)]
    return axes != sorted(axes)


def _check_stream(
    ir: KernelIR, loop: Op, load: Op, axis: int, parts: Parts | None, thrown_away: str | None = None
) -> None:
    """An operand is read along the loop, over the whole of a dimension, past whose end the copy engine reads zeros.
    ``thrown_away``: the tile of rows past whose end anything may be read."""
    tile = TileAttrs.of(loop).tile
    sizes = ir.tensor(AccessAttrs.of(load).tensor).shape
    pairs = list(zip(AccessAttrs.of(load).index, sizes, strict=True))
    along = [(i.axis, i, size) for i, size in pairs if isinstance(i, TileIndex) and i.tile == tile]
    if load not in loop.regions[0].ops or [a for a, _, _ in along] != [axis]:
        raise Refused("operands are read in the loop, by its own tile", load)
    read = [(i, size) for i, size in pairs if not (isinstance(i, TileIndex) and i.tile == thrown_away)]
    if not all(reads_to_end(ir, i, size, tile, parts) for i, size in read):
        raise Refused("operands are read to the ends of their dimensions, past which there are zeros", load)


def saved_result(
    ir: KernelIR, after: tuple[Op, ...], product: Op, group: str | None = None, turned_too: bool = False
) -> Op | None:
    """The first store of the result's shape that the copy engine can do. ``group``: the tile of a group's rows;
    ``turned_too``: by columns as well as by rows."""
    for op in after:
        if op.kind is not K.STORE:
            continue
        is_box = describable(ir, op) if group is None else stored_by_blocks(ir, op, group)
        if is_box and (turned_too or not is_turned(ir, op)):
            value = op.inputs[0]
            if isinstance(value, Value) and value.dims == product.output.dims:
                return op
    return None
