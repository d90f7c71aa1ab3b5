"""Two chained products in a loop, found in a region: what attention is made of, whatever the author's body does
between them.

The loop's turns are cut into parts, each of the author's own operations in the author's order:

    weigh    from the scores to the weights of the second product, and all that is carried but its sums
    rescale  what a turn does to the sums of the turns before it
    narrow   the last conversions and masks of the weights, which only the second product reads

Between turn ``t`` and ``t + 1`` a schedule may put the second product of ``t`` beside the first one of ``t + 1``, since
``weigh`` and ``narrow`` read nothing of its result. What ``weigh`` loads for its keys, a number each, a schedule may
load before the first product, which nothing of it waits for. What is not of this form is refused by name
(:class:`Refusal`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..ir.access import describable
from ..ir.attributes import (
    AccessAttrs,
    AtomicAttrs,
    AxisAttrs,
    DotAttrs,
    LoadAttrs,
    LoopAttrs,
    PermuteAttrs,
    ReduceAttrs,
    TileAttrs,
)
from ..ir.graph import KernelIR, Op, Operand, TileIndex, once, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Dim, Value

K = OpKind
_OPERANDS = ("bfloat16", "float16")
_SCALAR = (K.POINTWISE, K.CAST, K.BITCAST, K.FULL, K.SIZE, K.SCALAR, K.TILE_BEGIN, K.TILE_END, K.TILE_ID, K.LOAD)
# what consumers compute: each lane by itself, or a row at a time
CONSUMED = frozenset({*_SCALAR, K.TILE_INDEX, K.ARANGE, K.UNSQUEEZE, K.SQUEEZE, K.EXPAND, K.REDUCE, K.WHERE_MASK, K.IF})
_REDUCED = ("max", "min", "sum")
_WRITTEN = frozenset({K.STORE})
_NARROWS = (K.CAST, K.WHERE_MASK)
LARGEST_WIDTH = 256  # columns of one instruction of the matrix units


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a region has no such schedule. ``where``: the line of the author's."""

    reason: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.where})" if self.where else self.reason


@dataclass(frozen=True, slots=True)
class Chained:
    """A region of two chained products. ``rows``: the grid's tile of queries; ``before``, ``after``: the operations
    around the loop, in order. ``saved``: the store that the copy engine can do. ``weights``: what ``narrow`` begins
    with. ``sums_at``: the place of the second product's sums among what the loop carries."""

    loop: Op
    rows: str
    query: Op
    key: Op
    value: Op
    key_transposed: bool
    value_transposed: bool
    scores: Op
    sums: Op
    sums_at: int
    before: tuple[Op, ...]
    weigh: tuple[Op, ...]
    rescale: tuple[Op, ...]
    narrow: tuple[Op, ...]
    after: tuple[Op, ...]
    saved: Op | None
    weights: Value

    @property
    def keys(self) -> str:
        """The loop's tile."""
        return TileAttrs.of(self.loop).tile

    @property
    def columns(self) -> Dim:
        """The columns of the scores: the keys of one turn."""
        return self.scores.output.dims[1]

    @property
    def carried(self) -> tuple[tuple[Value, Operand, Value], ...]:
        """The values that the loop carries besides the sums: each as its parameter, a turn's result, and the loop's
        output."""
        (body,) = self.loop.regions
        every = zip(body.params, body.results, self.loop.outputs, strict=True)
        return tuple(found for n, found in enumerate(every) if n != self.sums_at)

    @property
    def entry(self) -> tuple[Operand, ...]:
        """What the loop begins with."""
        return self.loop.inputs[LoopAttrs.of(self.loop).bounds :]

    @property
    def sums_param(self) -> Value:
        """The second product's sums as a turn of the loop finds them."""
        return self.loop.regions[0].params[self.sums_at]

    @property
    def factors(self) -> tuple[Value, ...]:
        """What ``rescale`` and ``narrow`` read of ``weigh``, the weights left out."""
        made = set(results_of(self.weigh))
        return tuple(v for v in read_by((*self.rescale, *self.narrow)) if v in made and v != self.weights)

    @property
    def loaded(self) -> tuple[Value, ...]:
        """The vectors over a turn's keys that ``weigh`` loads from places which follow from nothing that it computes of
        the scores, nor from what turns carry: biases, scales, what masks are made of."""
        waiting = {self.scores.output, *self.loop.regions[0].params}
        for op in self.weigh:
            if op.regions or not waiting.isdisjoint(op.values):
                waiting.update(op.outputs)
        loads = (op for op in self.weigh if op.kind is K.LOAD and op.output.dims == self.scores.output.dims[1:])
        return tuple(op.output for op in loads if op.output not in waiting)

    @property
    def ahead(self) -> tuple[Op, ...]:
        """Those operations of ``weigh`` that the loaded vectors need, their loads among them."""
        return needed(self.weigh, set(self.loaded))

    @property
    def behind_ahead(self) -> tuple[Op, ...]:
        """Those of ``weigh`` that are left where the vectors are loaded ahead."""
        (body,) = self.loop.regions
        carried = {v for v in body.results if isinstance(v, Value)}
        left = tuple(op for op in self.weigh if op.kind is not K.LOAD or op.output not in self.loaded)
        return needed(left, {self.weights, *self.factors, *carried})


class Refused(Exception):
    """Raised while a structure is looked for: what the region lacks of it, and the op where that shows."""

    def __init__(self, reason: str, op: Op | None = None) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, str(op.loc) if op is not None and op.loc is not None else "")


@once
def find_chained(ir: KernelIR) -> Chained | Refusal:
    """The structure of a region, before or after its masks were placed, or why it has none."""
    try:
        return _find(ir)
    except Refused as error:
        return error.refusal


def read_by(ops: Iterable[Op]) -> tuple[Value, ...]:
    """The values that operations read, regions within counted, each once."""
    found: dict[Value, None] = {}
    for op in ops:
        found.update(dict.fromkeys(op.values))
        for block in op.regions:
            found.update(dict.fromkeys(read_by(block.ops)))
            found.update(dict.fromkeys(v for v in block.results if isinstance(v, Value)))
    return tuple(found)


def results_of(ops: Iterable[Op]) -> tuple[Value, ...]:
    """All outputs of ``ops``, in order."""
    return tuple(v for op in ops for v in op.outputs)


def _find(ir: KernelIR) -> Chained:
    loop = the_loop(ir)
    (body,) = loop.regions
    if len(products_of(ir)) != 2 or any(op not in body.ops for op in products_of(ir)):
        raise Refused("its loop has two products, and there is none elsewhere", loop)
    first, second = (op for op in body.ops if op.kind in PRODUCTS)
    made = {v: op for op in (*ir.body.ops, *body.ops) for v in op.outputs}
    _check_products(first, second)
    query = box(ir, made, first.inputs[0], "the queries")
    key, key_path, key_transposed = box_path(ir, made, first.inputs[1], "the keys")
    value, value_path, value_transposed = box_path(ir, made, second.inputs[1], "the values")
    rows = rows_tile(ir, query, "the queries")
    check_stream(loop, key, 0 if key_transposed else 1, "keys and values")
    check_stream(loop, value, 1 if value_transposed else 0, "keys and values")
    sums_at = _sums_at(loop, second)
    rest = [op for op in body.ops if op not in (first, second, *key_path, *value_path)]
    rescale = _after_value(rest, body.params[sums_at])
    narrow, weights = _narrow(ir, rest, second)
    weigh = [op for op in rest if op not in rescale and op not in narrow]
    others = [result for n, result in enumerate(body.results) if n != sums_at]
    _check_parts(second, body.params[sums_at], weigh, rescale, [weights, *others])
    before, after = around(ir, loop, (query,))
    saved = next(iter(saved_rows(ir, after, rows)), None)
    found = Chained(
        loop,
        rows,
        query,
        key,
        value,
        key_transposed,
        value_transposed,
        first,
        second,
        sums_at,
        before,
        tuple(weigh),
        tuple(rescale),
        tuple(narrow),
        after,
        saved,
        weights,
    )
    inside = (*found.weigh, *found.rescale, *found.narrow)
    check_operations(ir, rows, (*in_front(ir, loop), *inside), after)
    return found


def in_front(ir: KernelIR, loop: Op) -> tuple[Op, ...]:
    """The operations in front of a loop of the region."""
    return ir.body.ops[: ir.body.ops.index(loop)]


def around(ir: KernelIR, loop: Op, boxes: Collection[Op]) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """What consumers compute before a loop and after it. What the loop does not need waits until it is over, when
    registers are free. ``boxes``: the loads in front of it that the copy engine does for its products; where anything
    else reads one of them, consumers load it again, by pointers."""
    outside = in_front(ir, loop)
    behind = ir.body.ops[len(outside) + 1 :]
    inside = [op for op in loop.regions[0].ops if op.kind not in PRODUCTS]
    before = needed(outside, {*loop.values, *read_by(inside)}, scalars=True)  # each role computes numbers for itself
    waiting = [op for op in outside if op not in before and op not in boxes]
    read = set(read_by((*waiting, *behind)))
    after = (op for op in outside if op in waiting or (op in boxes and op.output in read))
    return before, (*after, *behind)


def needed(ops: tuple[Op, ...], values: Collection[Value], scalars: bool = False) -> tuple[Op, ...]:
    """The operations that ``values`` follow from. ``scalars``: the numbers among them too, whoever reads them."""
    known, found = set(values), list[Op]()
    for op in reversed(ops):
        if known & {*op.outputs} or (scalars and is_scalar(op)):
            known |= {*read_by([op])}
            found.insert(0, op)
    return tuple(found)


def is_scalar(op: Op) -> bool:
    """Whether an operation is a number of the tile's, or of the turn's, which roles compute each for themselves."""
    return not op.regions and not any(v.dims for v in (*op.values, *op.outputs))


def products_of(ir: KernelIR) -> tuple[Op, ...]:
    """The region's products, also the ones in loops and branches, in order."""
    return tuple(op for op in ir.walk() if op.kind in PRODUCTS)


def the_loop(ir: KernelIR) -> Op:
    """The only loop of a region, as long for every row."""
    loops = [op for op in ir.body.ops if op.kind is K.FOR]
    if any(op.kind in LOOPS and op not in loops for op in ir.walk()):
        raise Refused("its loop of keys has no loop in it or around it")
    if len(loops) != 1:
        raise Refused(f"it has one loop, over keys, and this has {len(loops)}")
    (loop,) = loops
    tile = ir.tiles[TileAttrs.of(loop).tile]
    if tile.lengths is not None or tile.wide or ir.shape_mode.is_wide:
        raise Refused("its loop is as long for every row, and counts in 32 bits", loop)
    return loop


def _check_products(first: Op, second: Op) -> None:
    check_products((first, second))
    if len(first.values) != 2:
        raise Refused("its first product adds to nothing", first)
    if len(second.values) != 3:
        raise Refused("its second product adds to the sums that the loop carries", second)


def check_products(products: Iterable[Op]) -> None:
    """Raises Refused unless each product is a plain one of bfloat16 or float16 matrices, summed in float32."""
    for op in products:
        if op.kind is not K.DOT:
            raise Refused("its products are plain ones, without scales of their own", op)
        dtypes = {v.type.dtype for v in op.values[:2]}
        if len(dtypes) != 1 or not dtypes <= set(_OPERANDS) or DotAttrs.of(op).acc != "float32":
            raise Refused("its products are of bfloat16 or float16, summed in float32", op)
        if any(len(v.dims) != 2 for v in op.values[:2]):
            raise Refused("its products are of matrices, a head at a time", op)


def box(ir: KernelIR, made: dict[Value, Op], operand: Operand, what: str) -> Op:
    """The load of an operand that lies in memory as the product takes it."""
    op = made.get(operand) if isinstance(operand, Value) else None
    if op is None or op.kind is not K.LOAD:
        raise Refused(f"{what} are loaded as the product takes them, without operations in between", op)
    if not describable(ir, op) or LoadAttrs.of(op).other != 0:
        raise Refused(f"{what} lie in memory as the copy engine takes them: in rows of aligned bytes", op)
    return op


def box_path(ir: KernelIR, made: dict[Value, Op], operand: Operand, what: str) -> tuple[Op, tuple[Op, ...], bool]:
    """The load of a right operand, all operations on the way to it, and whether its dimensions are swapped on it."""
    op = made.get(operand) if isinstance(operand, Value) else None
    if op is not None and op.kind is K.PERMUTE and PermuteAttrs.of(op).order == (1, 0):
        load = box(ir, made, op.inputs[0], what)
        return load, (load, op), True
    load = box(ir, made, operand, what)
    return load, (load,), False


def rows_tile(ir: KernelIR, op: Op, what: str) -> str:
    """The tile of the grid whose rows a load in front of the loop brings."""
    tile = op.output.dims[0].tile
    if op not in ir.body.ops or tile is None or tile not in ir.grid:
        raise Refused(f"{what} are loaded before the loop, a tile of the grid's rows", op)
    return tile


def check_stream(loop: Op, op: Op, axis: int, what: str) -> None:
    """A load is of one block a turn of the loop, along an axis of its box."""
    items = [i for i in AccessAttrs.of(op).index if isinstance(i, TileIndex)]
    along = [(i.tile, i.axis) for i in items]
    if op not in loop.regions[0].ops or along != [(TileAttrs.of(loop).tile, axis)]:
        raise Refused(f"{what} are read in the loop, by its own tile", op)


def _sums_at(loop: Op, second: Op) -> int:
    (body,) = loop.regions
    places = [n for n, result in enumerate(body.results) if result == second.output]
    if len(places) != 1 or second.output in read_by(body.ops):
        raise Refused("the second product's sums go to the next turn, and nothing in this one reads them", second)
    return places[0]


def _after_value(ops: list[Op], value: Value) -> list[Op]:
    """Those of the operations that follow from a value, in order."""
    known, found = {value}, []
    for op in ops:
        if known & set(read_by([op])):
            known |= set(op.outputs)
            found.append(op)
    return found


def _narrow(ir: KernelIR, rest: list[Op], second: Op) -> tuple[list[Op], Value]:
    """The conversions at the end of the way to the second product's left operand, and what they begin with."""
    made = {v: op for op in rest for v in op.outputs}
    chain: list[Op] = []
    value = second.inputs[0]
    while isinstance(value, Value) and value in made and made[value].kind in _NARROWS and ir.uses[value] == 1:
        chain.insert(0, made[value])
        value = made[value].inputs[0]
    if not isinstance(value, Value) or value not in made or len(value.dims) != 2:
        raise Refused("the second product's left operand is computed in the turn, from the first one's result", second)
    return chain, value


def _check_parts(second: Op, sums: Value, weigh: list[Op], rescale: list[Op], kept: list[Operand]) -> None:
    """``kept``: the weights, and what else goes to the next turn."""
    made = set(results_of(rescale))
    if second.inputs[2] != sums and second.inputs[2] not in made:
        raise Refused("the second product adds to the carried sums, rescaled", second)
    reads = {v for op in (second, *weigh) for v in read_by([op]) if v != second.inputs[2]} | {*kept}
    if reads & (made | {sums}):
        raise Refused("nothing but the second product reads the sums of the turns before", second)


def saved_rows(ir: KernelIR, after: tuple[Op, ...], rows: str) -> tuple[Op, ...]:
    """The stores of whole rows that the copy engine can do."""
    stores = [op for op in after if op.kind is K.STORE and describable(ir, op)]
    items = {op: [i for i in AccessAttrs.of(op).index if isinstance(i, TileIndex)] for op in stores}
    return tuple(op for op in stores if [(i.tile, i.axis) for i in items[op]] == [(rows, 0)])


def check_operations(
    ir: KernelIR, tile: str, computed: Iterable[Op], after: Iterable[Op], written: frozenset[OpKind] = _WRITTEN
) -> None:
    """All that consumers compute is done lane by lane, or a row of the ``tile`` at a time: a group has a part of the
    rows. ``after`` the loop memory is ``written`` too."""
    rows = ir.tiles[tile].dim
    for op, allowed in (
        *((op, CONSUMED) for op in each_op(computed)),
        *((op, CONSUMED | written) for op in each_op(after)),
    ):
        if op.kind not in allowed:
            raise Refused(f"consumers compute what is done lane by lane or row by row, and no {op.kind}", op)
        if op.kind is K.REDUCE:
            _check_reduction(op, rows)
        if op.kind is K.ATOMIC:
            _check_atomic(ir, op)
        if op.kind is K.UNSQUEEZE:
            _check_unsqueeze(op, rows)
        if op.kind is K.SQUEEZE and (op.output.dims != (rows,) or op.output.type.dtype == "bool"):
            raise Refused("what loses a dimension is a column of numbers, one a row", op)
        for value in (*op.values, *op.outputs):
            if len(value.dims) > 2 or rows in value.dims[1:]:
                raise Refused("tiles are of rows by columns, the queries' rows first", op)


def each_op(ops: Iterable[Op]) -> Iterator[Op]:
    """The operations, and those of their branches."""
    for op in ops:
        yield op
        for block in op.regions:
            yield from walk(block)


def _check_reduction(op: Op, rows: Dim) -> None:
    (value,) = op.values
    if ReduceAttrs.of(op).fn not in _REDUCED or len(value.dims) != 2 or value.dims[0] != rows:
        raise Refused(f"reductions are the {', '.join(_REDUCED)} of a row", op)
    if AxisAttrs.of(op).axis != 1:
        raise Refused("no reduction goes over the queries' rows, of which a group has a part", op)


def _check_atomic(ir: KernelIR, op: Op) -> None:
    if AtomicAttrs.of(op).fn != "add" or ir.uses.get(op.output) or len(op.output.dims) != 2:
        raise Refused("atomics are additions of tiles, whose old values nobody reads", op)


def _check_unsqueeze(op: Op, rows: Dim) -> None:
    (value,) = op.values
    wanted = 1 if value.dims == (rows,) else 0
    if len(value.dims) != 1 or AxisAttrs.of(op).axis != wanted:
        raise Refused("a vector of the queries' rows is a column, any other one a row", op)
