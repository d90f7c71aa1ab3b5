"""Rolling: a whole dimension that is reduced, or stored, in one piece becomes a loop over blocks of it.

The ops of the block are sorted into phases. A reduction over the dimension ends one: what reads its result can only run
in a later loop, where everything it needs of the dimension is computed again from memory. Softmax over a row is three
phases: the maximum; the sum; the quotient. Where a phase would do nothing but sum exponentials less a maximum, it joins
the one before (:mod:`online`). A row that is stored and nowhere reduced is one phase.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..expr import Expr, is_knob
from ..ir.analysis import in_full_precision
from ..ir.attributes import NO_ATTRS, AccessAttrs, ArangeAttrs, LoopAttrs, SizeAttrs, TileAttrs, site_of
from ..ir.graph import Block, KernelIR, Op, Operand, SliceIndex, Tile, TileIndex, ValueIndex, once, walk
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import INT32_MAX, ONE, Dim, TileType, Value
from .folds import Carried, Fold, Ops, fold_of, folded
from .online import OnlineFold, OnlineSum, online_sums
from .online_products import OnlineProduct, online_products
from .online_rows import Online, OnlineRows, have_one_base
from .rewrite import Fresh, with_body
from .write_order import Phases, has, reads_what_it_writes

_ELEMENTWISE = having(Trait.BY_BLOCKS)
_BROADCASTS = having(Trait.BROADCASTS)
ROW = "row:"
PRODUCT = "reduce:"  # before the site of a product, whose inner dimension it sums over
LEAST = 128  # elements above which the dimensions of products and consecutive ints may be loops
OPERAND = 256  # of an inner dimension, up to which it stays whole beside other products, which take it again
LEAST_PRECISE = 32  # of products in full precision: the matrix units take operands of more elements in no parts


@once
def rollable(ir: KernelIR) -> dict[str, Dim]:
    """The dimensions that can be rolled: the site of the first reduction over each, of one that none is over that of
    the first product that sums over it, or else of the first store."""
    found: dict[str, Dim] = {}
    blocks = _blocks(ir.body)
    for kind in (OpKind.REDUCE, OpKind.DOT, OpKind.STORE):
        for block in blocks:
            for site, dim in _rolled_by(op for op in block.ops if op.kind is kind):
                if dim in found.values() or not _can_roll(ir, block, dim):
                    continue
                if kind is not OpKind.STORE or _everywhere(ir, blocks, dim):
                    found[site] = dim
    return found


def _rolled_by(ops: Iterable[Op]) -> Iterator[tuple[str, Dim]]:
    """The whole dimensions that loops can be made for: those that the reductions, the products and the stores among
    ``ops`` are over, with the sites that name them."""
    for op in ops:
        dim = folded(op)
        if dim is not None and is_whole(dim):
            yield f"{PRODUCT if op.kind is OpKind.DOT else ''}{site_of(op)}", dim
        elif op.kind is OpKind.STORE and isinstance(op.inputs[0], Value):
            dims = op.inputs[0].dims
            yield from ((row_site(site_of(op), axis), dim) for axis, dim in enumerate(dims) if is_whole(dim))


def row_site(store: str, axis: int) -> str:
    """The site of a dimension that is stored alone: ``row:out#0:1``, of the store and the axis of what it stores."""
    return f"{ROW}{store.removeprefix('store:')}:{axis}"


def _everywhere(ir: KernelIR, blocks: Iterable[Block], dim: Dim) -> bool:
    """Whether each block of operations that has the dimension can be rolled: else registers hold all of it there."""
    return all(
        _can_roll(ir, block, dim)
        for block in blocks
        if any(has(v, dim) for op in block.ops for v in (*op.inputs, *op.outputs))
    )


def roll_all(ir: KernelIR, sites: Iterable[str]) -> KernelIR | None:
    """The region with each of ``sites`` rolled, in the first order in which each can be after those before it; None
    where there is none. An outer dimension goes before one that is reduced within each of its blocks."""
    wanted = tuple(sites)
    if not wanted:
        return ir
    possible = rollable(ir)
    for site in wanted:
        if site in possible:
            others = [other for other in wanted if other != site]
            rolled = roll_all(roll(ir, site, others), others)
            if rolled is not None:
                return rolled
    return None


@once
def apart(ir: KernelIR) -> tuple[tuple[str, str], ...]:
    """The pairs of reductions that cannot be loops both: in each of one's loops the other is needed in one piece."""
    dims = rollable(ir)
    together = {frozenset(v.dims) for op in ir.walk() for v in op.outputs}
    return tuple(
        (one, other)
        for one, other in itertools.combinations(dims, 2)
        if any({dims[one], dims[other]} <= met for met in together) and roll_all(ir, (one, other)) is None
    )


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of a dimension's loops: the first has ``tile``, further ones a number behind it. ``block``: the size of
    their blocks."""

    tile: str
    block: Expr

    def of(self, number: int) -> str:
        """The tile of the loop of that number."""
        return f"{self.tile}.{number}" if number else self.tile


@dataclass(frozen=True, slots=True)
class _Numbered(Naming):
    """Names of loops that are knobs' choice: all have a number."""

    def of(self, number: int) -> str:
        return f"{self.tile}.{number}"


def roll(ir: KernelIR, site: str, later: Collection[str] = (), naming: Naming | None = None) -> KernelIR:
    """The region with the dimension of ``site`` as loops over blocks of the knob ``site``, or of what ``naming`` says:
    in every block of operations that reduces or stores it, since registers would hold all of it in the others.
    ``later``: the sites that will be rolled next; each turn reads what it needs of their dimensions itself, so that its
    own loops can."""
    naming = naming or _Numbered(site, Expr.sym(site))
    tiles = dict(ir.tiles)
    fresh = Fresh(ir)
    dims = dict(reversed([*_rolled_by(ir.walk())]))
    dim, inner = dims[site], frozenset(dims[name] for name in later if name in dims)
    is_wide = ir.shape_mode.is_wide or ir.hint(dim.extent) > INT32_MAX

    def visit(block: Block) -> Block:
        is_alone = _can_roll(ir, block, dim)
        # inner blocks first: beside a loop that has the dimension whole, what is around it could not be one
        ops = tuple(op.with_(regions=tuple(visit(r) for r in op.regions)) if op.regions else op for op in block.ops)
        block = Block(block.params, ops, block.results)
        may_be = is_alone or (ir.hint(dim.extent) > LEAST and _can_roll(ir, block, dim))  # registers have short ones
        if may_be and any(its == dim for _, its in _rolled_by(block.ops)):
            return _Roller(Phases(ir, block, dim), inner, naming, tiles, fresh, is_wide).run()
        return block

    return replace(with_body(ir, visit(ir.body)), tiles=tiles)


def _blocks(block: Block) -> list[Block]:
    return [block, *(b for op in block.ops for r in op.regions for b in _blocks(r))]


def is_whole(dim: Dim) -> bool:
    """A size of the problem, not a block size and not 1."""
    return dim.tile is None and dim.extent.constant != 1 and not any(map(is_knob, dim.extent.symbols()))


def _can_roll(ir: KernelIR, block: Block, dim: Dim) -> bool:
    return why_whole(ir, block, dim) is None


@dataclass(frozen=True, slots=True)
class InOnePiece:
    """Why a dimension is no loop: what ``op`` does with all of it, in words for people."""

    op: Op
    text: str

    def __str__(self) -> str:
        return f"this line {self.text} all of it{_INSTEAD.get(self.op.kind, '')}"


def kept_whole(ir: KernelIR, dim: Dim) -> InOnePiece | None:
    """The first reason why a dimension is no loop in a region; None where there is none that can be named."""
    if dim in rollable(ir).values():
        return None
    reasons = (why_whole(ir, block, dim) for block in _blocks(ir.body) if any(has(v, dim) for v in _made_in(block)))
    found = next(filter(None, reasons), None)
    if found is None or found.op.kind is not OpKind.FOR:
        return found
    # a product's own loop carries what is gathered out of, and is nothing that its author wrote
    gathers = (op for op in ir.walk() if op.kind is OpKind.GATHER and dim in op.values[0].dims)
    return next((InOnePiece(op, _WHOLE[op.kind]) for op in gathers if not takes_blocks(ir, op, dim)), found)


def _made_in(block: Block) -> Iterator[Value]:
    return (v for op in block.ops for v in op.outputs)


def why_whole(ir: KernelIR, block: Block, dim: Dim) -> InOnePiece | None:
    """Why a block of operations cannot take a dimension by blocks; None where it can."""
    # what comes into the block or leaves it in one piece would need all of the dimension at once
    defined = {v: op for op in block.ops for v in op.outputs}
    for v in block.results:
        if isinstance(v, Value) and has(v, dim):
            return InOnePiece(defined.get(v, block.ops[-1]), "hands on, to the next turn or out of a branch,")
    for op in block.ops:
        if any(has(v, dim) and v not in defined for v in op.inputs):
            return InOnePiece(op, "takes into a loop or a branch")
        if any(has(v, dim) for v in (*op.inputs, *op.outputs)):
            if not takes_blocks(ir, op, dim):
                return InOnePiece(op, _WHOLE.get(op.kind, "takes"))
        elif any(has(v, dim) for r in op.regions for inner in walk(r) for v in (*inner.inputs, *inner.outputs)):
            return InOnePiece(op, "has a loop or a branch with")
    again = reads_what_it_writes(ir, block)
    return None if again is None else InOnePiece(again, "loads, beside a store into the same tensor,")


# what an op does that takes no blocks of a dimension: "... all of it"
_WHOLE = {
    OpKind.GATHER: "gathers out of",
    OpKind.SORT: "sorts",
    OpKind.SCAN: "adds up, step by step,",
    OpKind.COMBINE_SCAN: "scans",
    OpKind.COMBINE: "reduces by a function",
    OpKind.RESHAPE: "reshapes",
    OpKind.FOR: "carries, from turn to turn,",
    OpKind.IF: "chooses, by a branch,",
    OpKind.LOAD: "loads",
    OpKind.STORE: "stores, to places that were computed,",
}
_INSTEAD = {OpKind.GATHER: " (store it into a tensor in a tile loop before this one, and index that)"}


def takes_blocks(ir: KernelIR, op: Op, dim: Dim) -> bool:
    """Whether an op that has a dimension can do with blocks of it, one after the other."""
    if any(v.dims.count(dim) > 1 for v in (*op.values, *op.outputs)):
        return False
    match op.kind:
        case OpKind.REDUCE:
            return folded(op) != dim or fold_of(op) is not None
        case OpKind.ARANGE:
            return ir.hint(dim.extent) > LEAST
        case OpKind.DOT:
            return ir.hint(dim.extent) > least_of_product(op) and _multiplies_by_blocks(op, dim)
        case OpKind.JOIN | OpKind.SPLIT:
            return dim != (op.output if op.kind is OpKind.JOIN else op.values[0]).dims[-1]  # the pair itself
    return op.kind in _ELEMENTWISE and _from_memory(ir, op, dim) and _meets_itself(op, dim)


def _meets_itself(op: Op, dim: Dim) -> bool:
    """Whether each operand has the dimension, or 1, where another one or the result has it: a size that only a guard
    says is the same stays in one piece."""
    if op.kind not in _BROADCASTS:
        return True
    values = [v for v in (*op.values, *op.outputs) if v.dims]
    aligned = itertools.zip_longest(*(reversed(v.dims) for v in values), fillvalue=ONE)
    return all(dim not in met or {*met} <= {dim, ONE} for met in aligned)


def least_of_product(op: Op) -> int:
    """Elements up to which a product has the whole of each dimension at once."""
    return LEAST_PRECISE if in_full_precision(op) else LEAST


def _multiplies_by_blocks(op: Op, dim: Dim) -> bool:
    """Whether a product takes blocks of a dimension: both sides have it as the inner one, or one side as its rows or
    columns. Where only a guard says that the inner sizes are the same, they stay in one piece."""
    a, b = op.values[:2]
    if dim in (a.dims[-1], b.dims[-2]):
        return a.dims[-1] == b.dims[-2] and dim not in op.output.dims
    return dim in (a.dims[-2], b.dims[-1])


def _from_memory(ir: KernelIR, op: Op, dim: Dim) -> bool:
    """Loads and stores take the dimension by a slice, loads also by numbers that the kernel has for each element of it:
    a block has its own."""
    if op.kind not in (OpKind.LOAD, OpKind.STORE):
        return True
    dims = op.output.dims if op.kind is OpKind.LOAD else op.values[0].dims
    index = AccessAttrs.of(op).index
    slices = [i for i in index if isinstance(i, SliceIndex) and dims[i.axis] == dim]
    counted = [i.axis for i in slices]
    if op.kind is OpKind.LOAD:
        counted += {axis for i in index if isinstance(i, ValueIndex) for axis in _lanes_of(op, i) if dims[axis] == dim}
    # numbers of 32 bits name the elements of a slice that starts later
    are_near = all(i.start.constant == 0 or ir.hint(i.start + dim.extent) <= INT32_MAX for i in slices)
    return are_near and all(i.dim == dim for i in slices) and len(counted) == dims.count(dim)


def _lanes_of(op: Op, item: ValueIndex) -> Iterator[int]:
    """The axes of what is loaded whose lanes an index has numbers for, each its own."""
    index = op.inputs[item.input]
    dims = index.dims if isinstance(index, Value) else ()
    return (axis for own, axis in enumerate(item.axes) if dims[own] == op.output.dims[axis])


class _Roller:
    """Rewrites one block."""

    def __init__(
        self,
        phases: Phases,
        inner: frozenset[Dim],
        naming: Naming,
        tiles: dict[str, Tile],
        fresh: Fresh,
        is_wide: bool,
    ) -> None:
        self.inner, self.is_wide = inner, is_wide
        self.block, self.dim, self._in_phases = phases.block, phases.dim, phases
        self.naming, self.tiles, self.fresh = naming, tiles, fresh
        self.definitions = {v: op for op in self.block.ops for v in op.outputs}
        self.phases: Mapping[Value, int] = {}
        self.online: dict[Value, Online] = {}  # by what is summed
        self.carried: dict[Value, tuple[Fold, Carried]] = {}  # out of the loop, by what is folded
        self.ops: list[Op] = []

    def run(self) -> Block:
        self.online = self._joined(self._phases())
        phases = self._phases()
        for phase in range(max(phases, default=0) + 1):
            here = [op for op, its in zip(self.block.ops, phases, strict=True) if its == phase]
            for op in here:
                if op.outputs and op.outputs[0] in self.online:
                    self._settle(self.online[op.output])
                elif not any(has(v, self.dim) for v in (*op.inputs, *op.outputs)):
                    self.ops.append(op)
            roots = [op for op in here if self._is_root(op)]
            if roots:
                self._loop(phase, roots)
        return Block(self.block.params, tuple(self.ops), self.block.results)

    def _phases(self) -> list[int]:
        """The phase of each op of the block."""
        found, self.phases = self._in_phases.of(self.online)
        return found

    def _joined(self, phases: list[int]) -> dict[Value, Online]:
        """The sums and products that are found along with a maximum: their phases, those after its, do nothing else."""
        folding = [op for op in self.block.ops if folded(op) == self.dim]
        reductions = [op for op in folding if op.kind is OpKind.REDUCE]
        sums = {s.total.output: s for s in online_sums(reductions, self.definitions)}
        sums = {v: s for v, s in sums.items() if not has(s.shift, self.dim)}
        products = {p.total.output: p for p in online_products(self.dim, folding, self.definitions)}
        self.online = self._next_to_peaks(phases, sums, {*sums, *products})
        later = self._phases()
        products = {v: p for v, p in products.items() if self._needs_no_more(p, later)}
        found = self._next_to_peaks(later, products, {*products})
        along, self.online = self.online | found, {}
        if found and have_one_base(along.values()):
            return along
        return self._next_to_peaks(phases, sums, {*sums})

    def _next_to_peaks(
        self, phases: list[int], candidates: Mapping[Value, Online], known: Collection[Value]
    ) -> dict[Value, Online]:
        """Those of the candidates whose phase, the one after their maximum's, has no roots but ``known`` ones."""
        phase_of = {id(op): phase for op, phase in zip(self.block.ops, phases, strict=True)}
        others = {phase_of[id(op)] for op in self.block.ops if self._is_root(op) and not {*op.outputs} & {*known}}
        return {
            v: s
            for v, s in candidates.items()
            if phase_of[id(s.total)] == phase_of[id(s.peak)] + 1 and phase_of[id(s.total)] not in others
        }

    def _needs_no_more(self, product: OnlineProduct, phases: list[int]) -> bool:
        """Whether the loop that finds the maximum has all that the product takes besides."""
        phase_of = {id(op): phase for op, phase in zip(self.block.ops, phases, strict=True)}
        return all(self.phases.get(v, 0) <= phase_of[id(product.peak)] for v in product.taken)

    def _is_root(self, op: Op) -> bool:
        """What a loop is made for."""
        if op.kind is OpKind.STORE:
            return has(op.inputs[0], self.dim)
        return self._reduces(op) and op.output not in self.online

    def _reduces(self, op: Op) -> bool:
        return folded(op) == self.dim

    def _loop(self, phase: int, roots: list[Op]) -> None:
        """One loop: what folds the dimension up in this phase, its stores, and what they need of the dimension."""
        name = next(name for name in map(self.naming.of, itertools.count()) if name not in self.tiles)
        tile = Tile(name, self.naming.block, Expr.of(0), self.dim.extent, False, self.is_wide)
        folds = [self._fold(op) for op in roots if op.kind is not OpKind.STORE]
        match folds:
            case [OnlineRows() as rows] if len(roots) == 1:
                tile = rows.narrowed(Ops(self.fresh, self.ops, rows.op), tile)
        self.tiles[name] = tile
        body = _Body(self, tile)
        entry = [fold.start(Ops(self.fresh, self.ops, fold.op), tile) for fold in folds]
        params = [tuple(self.fresh.value(v.type, v) for v in group) for group in entry]
        turns = [
            fold.turn(Ops(self.fresh, body.ops, fold.op), tile, group, body.value)
            for fold, group in zip(folds, params, strict=True)
        ]
        stores = [op for op in roots if op.kind is OpKind.STORE]
        for op in stores:
            body.value(op.inputs[0])  # the loads of all of them first: behind a store they would wait for it
        for op in stores:
            body.clone(op)
        outputs = [tuple(self.fresh.value(v.type, v) for v in group) for group in entry]
        block = Block(_flat(params), tuple(body.ops), _flat(turns))
        self.ops.append(
            Op(
                OpKind.FOR,
                (*tile.bounds, *_flat(entry)),
                _flat(outputs),
                LoopAttrs(name, len(tile.bounds)),
                (block,),
                roots[0].loc,
            )
        )
        for fold, group in zip(folds, outputs, strict=True):
            fold.finish(Ops(self.fresh, self.ops, fold.op), group)
            self.carried[fold.op.output] = fold, group

    def _fold(self, op: Op) -> Fold:
        """How an op of this phase is carried, with the sums that are found along with it."""
        along = [s for s in self.online.values() if s.peak is op]
        if any(isinstance(s, OnlineProduct) for s in along):
            return OnlineRows.of(op, along, self.definitions, self.tiles)
        sums = tuple(s for s in along if isinstance(s, OnlineSum))
        fold = OnlineFold(op, sums) if sums else fold_of(op)
        assert fold is not None  # _can_roll
        return fold

    def _settle(self, s: Online) -> None:
        """Emit, behind the loop, what was found along with a maximum."""
        fold, carried = self.carried[s.peak.output]
        at = Ops(self.fresh, self.ops, s.total)
        if isinstance(fold, OnlineRows):
            fold.settle(at, carried, s, s.shift)
        else:
            assert isinstance(fold, OnlineFold) and isinstance(s, OnlineSum)
            fold.settle(at, carried, s, s.shift)


def by_tile(
    at: Ops, op: Op, inputs: tuple[Operand, ...], dim: Dim, tile: Tile
) -> tuple[tuple[Operand, ...], AccessAttrs]:
    """The inputs and the attributes of a load or a store that takes a tile of the dimension: by the tile, or where its
    slice starts later by numbers, which come before a mask."""
    attrs, items = AccessAttrs.of(op), []
    own = op.output.dims if op.kind is OpKind.LOAD else op.values[0].dims
    for item in attrs.index:
        if not isinstance(item, SliceIndex) or own[item.axis] != dim:
            items.append(item)
        elif item.start.constant == 0:
            items.append(TileIndex(tile.name, item.axis))
        else:
            before = len(inputs) - attrs.has_mask
            items.append(ValueIndex(before, (item.axis,)))
            inputs = (*inputs[:before], consecutive(at, tile, (tile.dim,), item.start), *inputs[before:])
    return inputs, replace(attrs, index=tuple(items))


def consecutive(at: Ops, tile: Tile, dims: tuple[Dim, ...], start: Expr) -> Value:
    """The numbers of a tile's elements, counted from ``start``."""
    index = at.emit(OpKind.TILE_INDEX, (), TileType(tile.index_dtype, dims), TileAttrs(tile.name))
    if start.constant == 0:
        return index
    first = at.emit(OpKind.SIZE, (), TileType(tile.index_dtype, ()), SizeAttrs(start))
    return at.compute("add", index, first, like=index)


def numbered(fresh: Fresh, op: Op, out: Value, tile: Tile) -> list[Op]:
    """What gives ``out``, the block of the consecutive ints of ``op`` that is a tile's."""
    ops: list[Op] = []
    index = consecutive(Ops(fresh, ops, op), tile, out.dims, ArangeAttrs.of(op).start)
    return [*ops, Op(OpKind.CAST, (index,), (out,), NO_ATTRS, (), op.loc)]


def _flat(groups: Iterable[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(itertools.chain.from_iterable(groups))


class _Body:
    """The body of one rolled loop: ops of the dimension cloned over a tile of it, each once."""

    def __init__(self, roller: _Roller, tile: Tile) -> None:
        self.roller, self.tile, self.dim = roller, tile, tile.dim
        self.ops: list[Op] = []
        self.cloned: dict[Value, Operand] = {}

    def value(self, operand: Operand) -> Operand:
        if not isinstance(operand, Value) or not (has(operand, self.roller.dim) or self._is_read_again(operand)):
            return operand
        if operand not in self.cloned:
            self.clone(self.roller.definitions[operand])
        return self.cloned[operand]

    def _is_read_again(self, value: Value) -> bool:
        """Whether a turn makes something itself that is the same in each, since loops of its own are over that."""
        op = self.roller.definitions.get(value)
        may_be = op is not None and op.kind in (*_ELEMENTWISE, OpKind.ARANGE)
        return may_be and not self.roller.inner.isdisjoint(value.dims)

    def clone(self, op: Op) -> None:
        for total in op.inputs[2:] if op.kind is OpKind.DOT else ():
            self.value(total)  # earlier products before this one's operands: theirs need not wait together
        inputs = tuple(self.value(v) for v in op.inputs)
        outputs = tuple(self.roller.fresh.value(self._type(v.type), v) for v in op.outputs)
        attrs = op.attrs
        if isinstance(attrs, AccessAttrs):
            inputs, attrs = by_tile(Ops(self.roller.fresh, self.ops, op), op, inputs, self.roller.dim, self.tile)
        if isinstance(attrs, ArangeAttrs) and has(op.output, self.roller.dim):
            self.ops += numbered(self.roller.fresh, op, outputs[0], self.tile)
        else:
            self.ops.append(op.with_(inputs=inputs, outputs=outputs, attrs=attrs))
        self.cloned.update(zip(op.outputs, outputs, strict=True))

    def _type(self, type_: TileType) -> TileType:
        return replace(type_, dims=tuple(self.dim if d == self.roller.dim else d for d in type_.dims))
