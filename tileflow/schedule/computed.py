"""One product in a loop whose left operand is computed, found in a region: numbers that are unpacked, converted,
scaled.

The author may compute either operand. Warp groups take a left one from registers and a right one from shared memory
only, so that a product whose right operand is computed is found as the transposed product of the swapped operands, its
result turned round with it (:mod:`tileflow.passes.turn_results`).

What the operand is computed from is one box of a group's rows; what else the author loads for it goes by pointers. The
right operand is a box at the loop's tile, or at a place that the turn computes (``x[tile_m, 2 * begin : 2 * begin +
n]``). What is not of this form is refused by name (:class:`~tileflow.schedule.chained.Refusal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..expr import Expr
from ..ir.attributes import AccessAttrs, ArangeAttrs, LoadAttrs, PermuteAttrs, PointwiseAttrs, TileAttrs, site_of
from ..ir.graph import KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, once
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..passes.transpose import is_loaded, transposable, transpose
from ..passes.turn_results import turn_results
from .chained import Refusal, Refused, check_operations, is_scalar, products_of, read_by
from .groups import Frame
from .parts import Parts, parts_of, reads_to_end
from .single import Single, check_products, is_box, is_turned, saved_result, the_product_loop, zeros_of

K = OpKind
Start = tuple[int, Operand]
_HALVES = ("bfloat16", "float16")
_SWAPPED = PermuteAttrs((1, 0))
# what makes an operand: each lane by itself, and other views of the same lanes
PREPARED = frozenset({
    K.POINTWISE, K.CAST, K.BITCAST, K.FULL, K.SIZE, K.SCALAR, K.TILE_BEGIN, K.TILE_END, K.TILE_ID, K.LOAD, K.TILE_INDEX,
    K.ARANGE, K.UNSQUEEZE, K.EXPAND, K.WHERE_MASK, K.NIBBLES, K.JOIN, K.PERMUTE, K.RESHAPE,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Computed(Single):
    """A region of such a product. ``left``: the load of the box that its left operand is computed from; ``prepare``:
    the operations on the way to the operand, in order. ``right``: a load of a box; ``right_start``: a dimension of its
    tensor and the number at which the box begins in it, where the turn computes one. ``turned``: the author computes
    the right operand. ``ir``: the region as it was found, whose operations these are."""

    prepare: tuple[Op, ...]
    right_start: Start | None
    turned: bool
    ir: KernelIR


def is_computed(ir: KernelIR) -> bool:
    """Whether an operand of the region's one product is computed, and not as a load brought it."""
    makers = ir.definitions
    (product,) = products_of(ir)
    return any(not is_loaded(operand, makers) for operand in product.values[:2])


@once
def find_computed(ir: KernelIR) -> Computed | Refusal:
    """The structure of a region, before or after it was turned round for it, or why it has none."""
    try:
        (product,) = products_of(ir)
        site = site_of(product)
        if site not in transposable(ir):
            return _find(ir, turned=False)
        turned = turn_results(transpose(ir, site))
        if turned is None:
            raise Refused("what is done with a transposed result is done lane by lane or row by row", product)
        return _find(turned, turned=True)
    except Refused as error:
        return error.refusal


def _find(ir: KernelIR, turned: bool) -> Computed:
    frame = Frame(ir.body)
    loop = the_product_loop(ir, frame)
    (body,) = loop.regions
    (product,) = products_of(ir)
    check_products(ir, loop, (product,))
    if any(v.type.dtype not in _HALVES for v in product.values[:2]):
        raise Refused("an operand that is computed is bfloat16 or float16", product)
    rows = product.output.dims[0].tile
    if rows is None or rows not in ir.grid:
        raise Refused("the result's rows are those of a tile of the grid", product)
    made = {v: op for op in (*ir.body.ops, *body.ops) for v in op.outputs}
    on_the_way = _leading_to(product.values[0], made, (*ir.body.ops, *body.ops))
    parts = _parts(ir, loop)
    left = _box(ir, loop, rows, on_the_way, parts)
    right, right_path, right_start, right_transposed = _right(ir, loop, product.values[1], made, parts)
    if all(right.output not in op.outputs for op in body.ops):
        raise Refused("operands are read in the loop", right)
    inside = tuple(op for op in body.ops if is_scalar(op))
    prepare = tuple(op for op in on_the_way if op is not left and not is_scalar(op))
    _check_prepared(ir, rows, prepare)
    known = {product, left, *inside, *prepare, *right_path}
    others = [op for op in body.ops if op not in known]
    if others:
        raise Refused("its loop has nothing but the product and what makes its operands", others[0])
    position = ir.body.ops.index(loop)
    zeros = [op for op in zeros_of(ir, loop.inputs[-1]) or () if ir.uses[op.output] == 1]
    outside = [op for op in ir.body.ops[:position] if op not in zeros]
    before = tuple(op for op in outside if is_scalar(op))
    behind = ir.body.ops[position + 1 :]
    used = set(read_by(behind))
    beside = [op for op in outside if not is_scalar(op) and (op not in prepare or used & {*op.outputs})]
    after = (*beside, *behind)
    check_operations(ir, rows, (*before, *inside), after)
    return Computed(
        loop,
        rows,
        left,
        (right,),
        is_turned(ir, left),
        right_transposed,
        (product,),
        before,
        inside,
        after,
        saved_result(ir, after, product, turned_too=True),
        frame,
        parts,
        (),
        prepare,
        right_start,
        turned,
        ir,
    )


def _parts(ir: KernelIR, loop: Op) -> Parts | None:
    """The division of the inner dimension; None where the loop's bounds are sizes."""
    tile = ir.tiles[TileAttrs.of(loop).tile]
    if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
        return None
    parts = parts_of(ir, tile.name)
    if parts is None:
        raise Refused("a loop whose bounds are computed goes over one of several equal parts", loop)
    return parts


def _leading_to(value: Operand, made: dict[Value, Op], ops: Iterable[Op]) -> tuple[Op, ...]:
    """The operations that a value follows from, in order, outside the loop and in it."""
    chosen: set[Op] = set()
    waiting = [value]
    while waiting:
        op = made.get(waiting.pop())  # type: ignore[arg-type]
        if op is not None and op not in chosen:
            if op.regions:
                raise Refused("an operand is computed without loops and branches", op)
            chosen.add(op)
            waiting += op.values
    return tuple(op for op in ops if op in chosen)


def _box(ir: KernelIR, loop: Op, rows: str, on_the_way: tuple[Op, ...], parts: Parts | None) -> Op:
    """The load that brings a group's rows of the loop's tile."""
    keys = TileAttrs.of(loop).tile
    loads = [op for op in on_the_way if op.kind is K.LOAD and len(op.output.dims) == 2]
    found = [
        op for op in loads if {keys, rows} <= {i.tile for i in AccessAttrs.of(op).index if isinstance(i, TileIndex)}
    ]

    def ends_well(op: Op) -> bool:
        sizes = ir.tensor(AccessAttrs.of(op).tensor).shape
        return all(reads_to_end(ir, i, n, keys, parts) for i, n in zip(AccessAttrs.of(op).index, sizes, strict=True))

    boxes = [op for op in found if is_box(ir, op) and LoadAttrs.of(op).other == 0 and ends_well(op)]
    if not boxes or boxes[0] not in loop.regions[0].ops:
        at = found[0] if found else loop
        raise Refused("an operand is computed from a box of its rows along the loop, in runs of aligned bytes", at)
    return boxes[0]


def _right(
    ir: KernelIR, loop: Op, operand: Value, made: dict[Value, Op], parts: Parts | None
) -> tuple[Op, tuple[Op, ...], Start | None, bool]:
    """The load of the right operand as a box, all operations on the way to it, the computed place of the box, and
    whether the product reads it with its dimensions swapped."""
    op, path = made.get(operand), list[Op]()
    while op is not None and op.kind is K.PERMUTE and op.attrs == _SWAPPED:
        path.append(op)
        op = made.get(op.values[0])
    if op is None or op.kind is not K.LOAD:
        raise Refused("one operand is computed, and the other one is loaded as the product takes it", op)
    path.append(op)
    load, start, run = _placed(op, made)
    if not is_box(ir, load) or LoadAttrs.of(load).other != 0:
        raise Refused("operands lie in memory as the copy engine takes them: in runs of aligned bytes", op)
    sizes, keys = ir.tensor(AccessAttrs.of(load).tensor).shape, TileAttrs.of(loop).tile
    tiles = [(i, size) for i, size in zip(AccessAttrs.of(load).index, sizes, strict=True) if isinstance(i, TileIndex)]
    if not all(reads_to_end(ir, i, size, keys, parts) for i, size in tiles):
        raise Refused("operands are read to the ends of their dimensions, past which there are zeros", op)
    return load, (*path, *run), start, (len(path) % 2 == 0) != is_turned(ir, load)


def _placed(load: Op, made: dict[Value, Op]) -> tuple[Op, Start | None, tuple[Op, ...]]:
    """A load with an index of lanes in a row behind a number, as one of a slice, with that number and the operations
    of the index. Lanes outside the tensor are zero either way."""
    items = AccessAttrs.of(load).index
    for at, item in enumerate(items):
        if not isinstance(item, ValueIndex) or len(item.axes) != 1:
            continue
        start, ops = _run(load.inputs[item.input], made)
        if ops:
            (axis,) = item.axes
            box = SliceIndex(Expr.of(0), load.output.dims[axis], axis)
            index = (*items[:at], box, *items[at + 1 :])
            return load.with_(attrs=replace(LoadAttrs.of(load), index=index)), (at, start), ops
    return load, None, ()


def _run(value: Operand, made: dict[Value, Op]) -> tuple[Operand, tuple[Op, ...]]:
    """The number behind which an index's lanes lie in a row, and the operations that make them; none where they do
    not."""
    op = made.get(value) if isinstance(value, Value) else None
    if op is None or op.kind is not K.POINTWISE or PointwiseAttrs.of(op).fn != "add":
        return 0, ()
    for lanes, number in (op.inputs, op.inputs[::-1]):
        maker = made.get(lanes) if isinstance(lanes, Value) else None
        is_number = not isinstance(number, Value) or not number.dims
        if maker is not None and maker.kind is K.ARANGE and ArangeAttrs.of(maker).start == Expr.of(0) and is_number:
            return number, (op, maker)
    return 0, ()


def _check_prepared(ir: KernelIR, rows: str, prepare: tuple[Op, ...]) -> None:
    """An operand is computed lane by lane, of a group's rows each by itself."""
    whole = ir.tiles[rows].dim
    for op in prepare:
        if op.kind not in PREPARED:
            raise Refused(f"an operand is computed lane by lane, and by no {op.kind}", op)
        if op.kind is K.LOAD and AccessAttrs.of(op).has_mask:
            raise Refused("an operand is computed from loads without masks of their own", op)
        for value in (*op.values, *op.outputs):
            if any(d.tile == rows and d != whole for d in value.dims):
                raise Refused("a group has rows of the operand as they are, none of them packed or merged", op)
    if not prepare:
        raise Refused("an operand is computed, or its product is one of boxes", None)
