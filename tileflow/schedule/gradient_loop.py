"""The loop of attention's gradients, found in a region: products from boxes, the author's body, products into sums.

A program holds rows of one or two tensors (keys and values, say) and walks along blocks of others. In each turn up to
two *scores* are products of what it holds with a block, and one or two *sums* are products of what the author computes
from the scores with a block, added over the loop. The left operand of a sum is in registers already where its rows are
the program's own: the author who writes the gradient of keys computes ``dot(key, query.T)``, and not its transpose.

A turn is cut into parts, each of the author's own operations in the author's order:

A turn may add one more product to memory: what it computed for a sum, with its dimensions swapped, times rows that the
program holds. So one launch has all gradients of attention: ``atomic_add(grad_q, [tile_m, :], dot(inner.T, key))``.

    scalars    what follows from the turn alone, a number each
    vectors    a number for each row of a block, by the copy engine, for the part of one number
    ahead      loads beside the boxes, by pointers, for the part of one number
    parts      what follows from the scores up to that number, from the sums' operands to what later parts read

What is not of this form is refused by name (:class:`~tileflow.schedule.chained.Refusal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..expr import Expr
from ..ir.access import added_box, vector_box
from ..ir.attributes import AccessAttrs, AtomicAttrs, LoopAttrs, PermuteAttrs, TileAttrs, WhereMaskAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, TileIndex, once
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value
from .chained import (
    Refusal,
    Refused,
    around,
    box,
    box_path,
    check_operations,
    check_products,
    check_stream,
    in_front,
    products_of,
    read_by,
    results_of,
    rows_tile,
    saved_rows,
    the_loop,
)

MOST_SCORES = 2
MOST_SUMS = 2
_HELD, _BLOCKS = "the rows that a program holds", "the blocks of a turn"


@dataclass(frozen=True, slots=True)
class Score:
    """A product of what the program holds with a block of the turn. ``held``, ``block``: their numbers in the loop's;
    ``transposed``: the product reads the block with its dimensions swapped."""

    product: Op
    held: int
    block: int
    transposed: bool


@dataclass(frozen=True, slots=True)
class Sum:
    """A product of what a part computes with a block, added over the loop. ``at``: its place among what the loop
    carries; ``part``: after which its operand is there."""

    product: Op
    block: int
    transposed: bool
    at: int
    part: int

    @property
    def operand(self) -> Operand:
        """The product's left operand, which the part computes."""
        return self.product.inputs[0]


@dataclass(frozen=True, slots=True)
class Added:
    """A product of ``operand`` with its dimensions swapped and what the program holds of number ``held``, which
    ``atomic`` adds to the turn's rows of a tensor. ``part``: after which the operand is there."""

    product: Op
    operand: Value
    held: int
    part: int
    atomic: Op


@dataclass(frozen=True, slots=True)
class GradientLoop:
    """A region with such a loop. ``rows``: the grid's tile that the program holds; ``held``, ``blocks``: the loads of
    boxes, each once; ``before``, ``after``: the operations around the loop, in order; ``saved``: the stores that the
    copy engine can do; ``added``: the product that each turn adds to memory, where it has one."""

    loop: Op
    rows: str
    held: tuple[Op, ...]
    blocks: tuple[Op, ...]
    scores: tuple[Score, ...]
    sums: tuple[Sum, ...]
    before: tuple[Op, ...]
    scalars: tuple[Op, ...]
    vectors: tuple[Op | None, ...]
    ahead: tuple[tuple[Op, ...], ...]
    parts: tuple[tuple[Op, ...], ...]
    after: tuple[Op, ...]
    saved: tuple[Op, ...]
    added: Added | None

    @property
    def keys(self) -> str:
        """The loop's tile."""
        return TileAttrs.of(self.loop).tile

    @property
    def columns(self) -> Dim:
        """The columns of the scores: how far a turn goes."""
        return self.scores[0].product.output.dims[1]

    def entry(self, sum_: Sum) -> Operand:
        """What a sum begins with."""
        return self.loop.inputs[LoopAttrs.of(self.loop).bounds + sum_.at]

    def total(self, sum_: Sum) -> Value:
        """A sum after the loop."""
        return self.loop.outputs[sum_.at]

    def loaded(self, part: int) -> tuple[Value, ...]:
        """What is loaded ahead for a part."""
        return tuple(op.output for op in self.ahead[part] if op.kind is OpKind.LOAD)

    def kept(self, part: int) -> tuple[Value, ...]:
        """What later parts read of a part, its score among it."""
        later = set(read_by(op for ops in self.parts[part + 1 :] for op in ops))
        made_again = set(results_of(op for ops in self.parts[part + 1 :] for op in ops))
        there = (self.scores[part].product.output, *results_of(self.parts[part]))
        return tuple(v for v in there if v in later - made_again)


@once
def find_gradient_loop(ir: KernelIR) -> GradientLoop | Refusal:
    """The structure of a region, before or after its masks were placed, or why it has none."""
    try:
        return _find(ir)
    except Refused as error:
        return error.refusal


def _find(ir: KernelIR) -> GradientLoop:
    loop = the_loop(ir)
    (body,) = loop.regions
    products = products_of(ir)
    check_products(products)
    if any(op not in body.ops for op in products):
        raise Refused("its products are all in the loop", loop)
    passed = [op for op in products if _to_memory(body, op)]
    first = [op for op in products if len(op.values) == 2 and op not in passed]
    second = [op for op in products if len(op.values) == 3]
    if not (1 <= len(first) <= MOST_SCORES and 1 <= len(second) <= MOST_SUMS):
        raise Refused(f"a turn has up to {MOST_SCORES} products of boxes, and up to {MOST_SUMS} that add to sums", loop)
    if len(passed) > 1:
        raise Refused("a turn adds one product to memory", passed[1])
    found = _Boxes(ir, loop)
    held_and_blocks = [found.score(op) for op in first]
    in_sums = [found.summed(op) for op in second]
    swapped = [_swapped(ir, op) for op in passed]
    aside = {*products, *found.on_the_way, *(other for op in passed for other in _to_memory(body, op))}
    aside |= {op for on_the_way, _ in swapped for op in on_the_way}
    masks = tuple(mask for _, mask in swapped if mask is not None)
    rest = (*(op for op in body.ops if op not in aside), *masks)
    turn = _Turn(rest, tuple(op.output for op in first))
    scores = tuple(Score(op, *places) for op, places in zip(first, held_and_blocks, strict=True))
    sums = tuple(
        Sum(op, *place, _carried_at(loop, op), turn.part_of(op.inputs[0], op))
        for op, place in zip(second, in_sums, strict=True)
    )
    if len(body.results) != len(sums):
        raise Refused("its loop carries the sums alone", loop)
    rows = found.rows()
    before, after = around(ir, loop, found.held)
    check_operations(ir, rows, (*in_front(ir, loop), *rest), after)
    return GradientLoop(
        loop,
        rows,
        tuple(found.held),
        tuple(found.blocks),
        scores,
        sums,
        before,
        turn.scalars,
        tuple(_vector(ir, loop, ops) for ops in turn.ahead),
        tuple(() if _vector(ir, loop, ops) is not None else ops for ops in turn.ahead),
        turn.parts,
        after,
        saved_rows(ir, after, rows),
        _added(ir, loop, passed[0], found, turn) if passed else None,
    )


def _vector(ir: KernelIR, loop: Op, ahead: tuple[Op, ...]) -> Op | None:
    """The vector beside a turn's blocks that is all that is loaded for a part, where the copy engine can bring it: of
    sizes that are known, whatever the strides, and from a place that is a multiple of the program's rows."""
    load = ahead[0] if len(ahead) == 1 else None
    if load is None or not ir.shape_mode.is_static or vector_box(ir, load) is None:
        return None
    tile = ir.tiles[TileAttrs.of(loop).tile]
    along = [i.tile for i in AccessAttrs.of(load).index if isinstance(i, TileIndex)]
    begin = ir.definitions.get(tile.begin) if isinstance(tile.begin, Value) else None
    if begin is not None and begin.kind is OpKind.TILE_BEGIN:
        first: Expr | Value = ir.tiles[TileAttrs.of(begin).tile].begin
    else:
        first = tile.begin
    return load if along == [tile.name] and isinstance(first, Expr) and first.constant == 0 else None


def _to_memory(body: Block, product: Op) -> tuple[Op, ...]:
    """What stands between a product and the addition to memory that it is made for, with that at the end: broadcasts to
    dimensions that are told to be as long, in dynamic mode. Empty where something else reads it."""
    found: list[Op] = []
    value = product.output
    while True:
        readers = [op for op in body.ops if value in op.values]
        if len(readers) != 1 or readers[0].kind not in (OpKind.ATOMIC, OpKind.EXPAND):
            return ()
        found.append(readers[0])
        if readers[0].kind is OpKind.ATOMIC:
            return tuple(found)
        value = readers[0].output


def _swapped(ir: KernelIR, product: Op) -> tuple[tuple[Op, ...], Op | None]:
    """What swaps the dimensions of the left operand of a product that is added to memory, and masks its lanes; and such
    a mask of what has not been swapped, where there is one."""
    op = _maker(ir, product.inputs[0])
    mask = op if op is not None and op.kind is OpKind.WHERE_MASK else None
    swap = _maker(ir, mask.inputs[0]) if mask is not None else op
    if swap is None or swap.kind is not OpKind.PERMUTE or PermuteAttrs.of(swap).order != (1, 0):
        raise Refused("what is added to memory is a product of a sum's operand with its dimensions swapped", product)
    value = swap.inputs[0]
    assert isinstance(value, Value)
    if mask is None:
        return (swap,), None
    axes = tuple(sorted(1 - axis for axis in WhereMaskAttrs.of(mask).axes))
    output = Value(ir.next_id, value.type, value.loc)
    own = replace(mask, inputs=(value, *mask.inputs[1:]), outputs=(output,), attrs=WhereMaskAttrs(axes))
    return (swap, mask), own


def _maker(ir: KernelIR, operand: Operand) -> Op | None:
    """The operation that makes an operand which nothing else reads."""
    return ir.definitions.get(operand) if isinstance(operand, Value) and ir.uses[operand] == 1 else None


def _added(ir: KernelIR, loop: Op, product: Op, boxes: _Boxes, turn: _Turn) -> Added:
    atomic = _to_memory(loop.regions[0], product)[-1]
    (swap, *_), mask = _swapped(ir, product)
    operand = swap.inputs[0] if mask is None else mask.output
    assert isinstance(operand, Value)
    attrs = AtomicAttrs.of(atomic)
    if attrs.fn != "add" or attrs.sem != "relaxed" or ir.uses.get(atomic.output):
        raise Refused("what a turn adds to memory is added in any order, and nobody reads the old values", atomic)
    along = [(i.tile, i.axis) for i in attrs.index if isinstance(i, TileIndex)]
    if ir.tensor(attrs.tensor).dtype != "float32" or along != [(TileAttrs.of(loop).tile, 0)]:
        raise Refused("a turn adds its own rows to a tensor of float32", atomic)
    if added_box(ir, atomic) is None:
        raise Refused(
            "what a turn adds to lies in memory as the copy engine takes it: in rows of aligned bytes", atomic
        )
    return Added(
        product, operand, boxes.number_held(product.inputs[1], product), turn.part_of(operand, product), atomic
    )


class _Boxes:
    """The boxes of a loop's products, each load once, in the order of the products."""

    def __init__(self, ir: KernelIR, loop: Op) -> None:
        self._ir, self._loop = ir, loop
        self._made = {v: op for op in (*ir.body.ops, *loop.regions[0].ops) for v in op.outputs}
        self._rows: dict[str, Op] = {}
        self.held: list[Op] = []
        self.blocks: list[Op] = []
        self.on_the_way: set[Op] = set()

    def score(self, product: Op) -> tuple[int, int, bool]:
        """Which of ``held`` and ``blocks`` a score multiplies, and whether it swaps the block's dimensions."""
        held = box(self._ir, self._made, product.inputs[0], _HELD)
        self._rows.setdefault(rows_tile(self._ir, held, _HELD), held)
        return _place(self.held, held), *self._block(product, swapped=0)

    def summed(self, product: Op) -> tuple[int, bool]:
        """The same of a sum's block."""
        return self._block(product, swapped=1)

    def number_held(self, operand: Operand, product: Op) -> int:
        """The number of what the program holds that is also a product's right operand."""
        held = box(self._ir, self._made, operand, _HELD)
        if held not in self.held:
            raise Refused("what is added to memory is a product with rows that scores are made of", product)
        return self.held.index(held)

    def rows(self) -> str:
        """The tile that all that is held has rows of."""
        rows, *others = self._rows
        if others:
            raise Refused("a program holds rows of one tile of the grid", self._rows[others[0]])
        return rows

    def _block(self, product: Op, swapped: int) -> tuple[int, bool]:
        """``swapped``: the axis of the loop's tile in a block that the product reads with its dimensions swapped."""
        load, path, transposed = box_path(self._ir, self._made, product.inputs[1], _BLOCKS)
        check_stream(self._loop, load, swapped if transposed else 1 - swapped, _BLOCKS)
        self.on_the_way |= {*path}
        return _place(self.blocks, load), transposed


def _place(ops: list[Op], op: Op) -> int:
    """The place of an operation in a list that it is added to."""
    if op not in ops:
        ops.append(op)
    return ops.index(op)


def _carried_at(loop: Op, product: Op) -> int:
    """The place of a sum among what the loop carries. Nothing else reads it."""
    (body,) = loop.regions
    places = [n for n, result in enumerate(body.results) if result == product.output]
    if len(places) != 1 or product.output in read_by(body.ops):
        raise Refused("sums go to the next turn, and nothing in this one reads them", product)
    (at,) = places
    others = (op for op in body.ops if op is not product)
    if product.inputs[2] != body.params[at] or body.params[at] in read_by(others):
        raise Refused("nothing but its product adds to a sum or reads it", product)
    return at


class _Turn:
    """The operations of a turn besides its products and their boxes, by what they wait for."""

    def __init__(self, ops: tuple[Op, ...], scores: tuple[Value, ...]) -> None:
        self._level = {score: n for n, score in enumerate(scores)}  # of what follows from a score, the last it needs
        self._made = {v: op for op in ops for v in op.outputs}
        self._ops = ops
        for op in ops:
            known = [self._level[v] for v in read_by([op]) if v in self._level]
            if known:
                self._level.update(dict.fromkeys(op.outputs, max(known)))
        free = [op for op in ops if not set(op.outputs) & self._level.keys()]
        self.scalars = tuple(op for op in free if not any(v.dims for v in (*op.values, *op.outputs)) and not op.regions)
        self._tiles = [op for op in free if op not in self.scalars]
        numbers = range(len(scores))
        own = [[op for op in ops if {self._level.get(v) for v in op.outputs} == {n}] for n in numbers]
        loads = self._loads(own)
        self.ahead = tuple(self._with_inputs(loads[n], ()) for n in numbers)
        brought = {op for group in loads for op in group}
        self.parts = tuple(self._with_inputs(own[n], brought) for n in numbers)

    def part_of(self, operand: Operand, product: Op) -> int:
        """The part after which a product's left operand is there."""
        level = self._level.get(operand) if isinstance(operand, Value) else None
        if level is None:
            raise Refused("a sum's left operand is computed in the turn, from its scores", product)
        return level

    def _loads(self, own: list[list[Op]]) -> list[list[Op]]:
        """The loads of tiles that follow from no score, by the first part that needs them."""
        left = [op for op in self._tiles if op.kind is OpKind.LOAD]
        found = []
        for ops in own:
            needed = set(self._with_inputs(ops, ()))
            found.append([op for op in left if op in needed])
            left = [op for op in left if op not in needed]
        return found

    def _with_inputs(self, ops: Iterable[Op], brought: Iterable[Op]) -> tuple[Op, ...]:
        """Operations with the ones that they read and that follow from no score, in order: those are done wherever
        they are needed. ``brought``: their results are there."""
        chosen, there = set(ops), set(brought)
        waiting = list(chosen)
        while waiting:
            for value in read_by([waiting.pop()]):
                op = self._made.get(value)
                if op is not None and op in self._tiles and op not in chosen | there:
                    chosen.add(op)
                    waiting.append(op)
        return tuple(op for op in self._ops if op in chosen)
