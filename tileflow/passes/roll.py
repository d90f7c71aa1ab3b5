"""Rolling: a whole dimension that is reduced, or stored, in one piece becomes a loop over blocks of it.

The ops of the block are sorted into phases. A reduction over the dimension ends one: what reads its result can only run
in a later loop, where everything it needs of the dimension is computed again from memory. Softmax over a row is three
phases: the maximum; the sum; the quotient. Where a phase would do nothing but sum exponentials less a maximum, it joins
the one before (:mod:`online`). A row that is stored and nowhere reduced is one phase.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..expr import Expr, is_knob
from ..ir.attributes import (
    NO_ATTRS,
    AccessAttrs,
    AxisAttrs,
    LoopAttrs,
    PointwiseAttrs,
    ReduceAttrs,
    WhereMaskAttrs,
    site_of,
)
from ..ir.graph import Block, IndexItem, KernelIR, Op, Operand, SliceIndex, Tile, TileIndex, once, walk
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.ops import neutral
from ..ir.types import INT32_MAX, ONE, Dim, TileType, Value
from .online import Lanes, OnlineSum, online_sums
from .rewrite import Fresh, rename, with_body

_COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and"}
_ELEMENTWISE = having(Trait.BY_BLOCKS)
_BROADCASTS = having(Trait.BROADCASTS)
ROW = "row:"


@once
def rollable(ir: KernelIR) -> dict[str, Expr]:
    """The dimensions that can be rolled: the site of the first reduction over each, of one that none is over that of
    the first store, and its extent."""
    found: dict[str, Expr] = {}
    blocks = _blocks(ir.body)
    for kind in (OpKind.REDUCE, OpKind.STORE):
        for block in blocks:
            for site, dim in _rolled_by(op for op in block.ops if op.kind is kind):
                if dim.extent in found.values() or not _can_roll(ir, block, dim):
                    continue
                if kind is OpKind.REDUCE or _everywhere(ir, blocks, dim):
                    found[site] = dim.extent
    return found


def _rolled_by(ops: Iterable[Op]) -> Iterator[tuple[str, Dim]]:
    """The whole dimensions that loops can be made for: those that the reductions and the stores among ``ops`` are over,
    with the sites that name them."""
    for op in ops:
        if op.kind is OpKind.REDUCE and _is_whole(_reduced(op)):
            yield site_of(op), _reduced(op)
        elif op.kind is OpKind.STORE and isinstance(op.inputs[0], Value):
            dims = op.inputs[0].dims
            yield from ((row_site(site_of(op), axis), dim) for axis, dim in enumerate(dims) if _is_whole(dim))


def row_site(store: str, axis: int) -> str:
    """The site of a dimension that is stored alone: ``row:out#0:1``, of the store and the axis of what it stores."""
    return f"{ROW}{store.removeprefix('store:')}:{axis}"


def _everywhere(ir: KernelIR, blocks: Iterable[Block], dim: Dim) -> bool:
    """Whether each block of operations that has the dimension can be rolled: else registers hold all of it there."""
    return all(
        _can_roll(ir, block, dim)
        for block in blocks
        if any(_has(v, dim) for op in block.ops for v in (*op.inputs, *op.outputs))
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
            rolled = roll_all(roll(ir, site), [other for other in wanted if other != site])
            if rolled is not None:
                return rolled
    return None


@once
def apart(ir: KernelIR) -> tuple[tuple[str, str], ...]:
    """The pairs of reductions that cannot be loops both: in each of one's loops the other is needed in one piece."""
    extents = rollable(ir)
    together = {frozenset(d.extent for d in v.dims) for op in ir.walk() for v in op.outputs}
    return tuple(
        (one, other)
        for one, other in itertools.combinations(extents, 2)
        if any({extents[one], extents[other]} <= dims for dims in together) and roll_all(ir, (one, other)) is None
    )


def roll(ir: KernelIR, site: str) -> KernelIR:
    """The region with the dimension of ``site`` as loops over blocks of the knob ``site``: in every block of operations
    that reduces or stores it, since registers would hold all of it in the others."""
    tiles = dict(ir.tiles)
    fresh = Fresh(ir)
    dim = next(dim for name, dim in _rolled_by(ir.walk()) if name == site)
    is_wide = ir.shape_mode.is_wide or ir.hint(dim.extent) > INT32_MAX

    def visit(block: Block) -> Block:
        if any(its == dim for _, its in _rolled_by(block.ops)) and _can_roll(ir, block, dim):
            return _Roller(block, dim, site, tiles, fresh, is_wide).run()
        ops = tuple(op.with_(regions=tuple(visit(r) for r in op.regions)) if op.regions else op for op in block.ops)
        return Block(block.params, ops, block.results)

    return replace(with_body(ir, visit(ir.body)), tiles=tiles)


def _blocks(block: Block) -> list[Block]:
    return [block, *(b for op in block.ops for r in op.regions for b in _blocks(r))]


def _is_whole(dim: Dim) -> bool:
    """A size of the problem, not a block size and not 1."""
    return dim.tile is None and dim.extent.constant != 1 and not any(map(is_knob, dim.extent.symbols()))


def _reduced(op: Op) -> Dim:
    """The dimension that a reduction is over."""
    (value,) = op.inputs
    assert isinstance(value, Value)
    return value.dims[AxisAttrs.of(op).axis]


def _has(value: Operand, dim: Dim) -> bool:
    return isinstance(value, Value) and dim in value.dims


def _can_roll(ir: KernelIR, block: Block, dim: Dim) -> bool:
    # what comes into the block or leaves it in one piece would need all of the dimension at once
    defined = {v for op in block.ops for v in op.outputs}
    if any(_has(v, dim) for v in block.results):
        return False
    for op in block.ops:
        if any(_has(v, dim) and v not in defined for v in op.inputs):
            return False
        touched = [v for v in (*op.inputs, *op.outputs) if _has(v, dim)]
        if not touched:
            if any(_has(v, dim) for r in op.regions for inner in r.ops for v in (*inner.inputs, *inner.outputs)):
                return False
            continue
        if any(isinstance(v, Value) and v.dims.count(dim) > 1 for v in touched):
            return False
        if op.kind is OpKind.REDUCE:
            (value,) = op.inputs
            assert isinstance(value, Value)
            if value.dims[AxisAttrs.of(op).axis] == dim and ReduceAttrs.of(op).fn not in _COMBINE:
                return False
        elif op.kind not in _ELEMENTWISE or not _from_memory(op, dim) or not _meets_itself(op, dim):
            return False
    # what is written may not be read again by a later phase, nor updated in another order
    stored = [AccessAttrs.of(op).tensor for op in walk(block) if op.kind is OpKind.STORE]
    updated = [AccessAttrs.of(op).tensor for op in walk(block) if op.kind is OpKind.ATOMIC]
    if any(len(ir.sharing(tensor) & {*stored, *updated}) > 1 for tensor in {*stored, *updated}):
        return False  # two names of one memory
    if len(set(updated)) < len(updated) or set(updated) & set(stored):
        return False
    written = {path for tensor in (*stored, *updated) for path in ir.sharing(tensor)}
    return not any(op.kind is OpKind.LOAD and AccessAttrs.of(op).tensor in written for op in walk(block))


def _meets_itself(op: Op, dim: Dim) -> bool:
    """Whether each operand has the dimension, or 1, where another one or the result has it: a size that only a guard
    says is the same stays in one piece."""
    if op.kind not in _BROADCASTS:
        return True
    values = [v for v in (*op.values, *op.outputs) if v.dims]
    aligned = itertools.zip_longest(*(reversed(v.dims) for v in values), fillvalue=ONE)
    return all(dim not in met or {*met} <= {dim, ONE} for met in aligned)


def _from_memory(op: Op, dim: Dim) -> bool:
    """Loads and stores take the dimension by a slice that starts at 0."""
    if op.kind not in (OpKind.LOAD, OpKind.STORE):
        return True
    dims = op.output.dims if op.kind is OpKind.LOAD else op.values[0].dims
    slices = [i for i in AccessAttrs.of(op).index if isinstance(i, SliceIndex) and dims[i.axis] == dim]
    return all(i.start.constant == 0 and i.dim == dim for i in slices) and len(slices) == dims.count(dim)


class _Roller:
    """Rewrites one block."""

    def __init__(self, block: Block, dim: Dim, site: str, tiles: dict[str, Tile], fresh: Fresh, is_wide: bool) -> None:
        self.is_wide = is_wide
        self.block, self.dim, self.site, self.tiles, self.fresh = block, dim, site, tiles, fresh
        self.definitions = {v: op for op in block.ops for v in op.outputs}
        self.phases: dict[Value, int] = {}
        self.renamed: dict[Value, Operand] = {}
        self.online: dict[Value, OnlineSum] = {}  # by what is summed
        self.running: dict[Value, Value] = {}  # by reduction: its accumulator after the loop
        self.ops: list[Op] = []

    def run(self) -> Block:
        self.online = self._joined(self._phases())
        phases = self._phases()
        for phase in range(max(phases, default=0) + 1):
            here = [op for op, its in zip(self.block.ops, phases, strict=True) if its == phase]
            for op in here:
                if op.outputs and op.outputs[0] in self.online:
                    self._settle(self.online[op.output])
                elif not any(_has(v, self.dim) for v in (*op.inputs, *op.outputs)):
                    self.ops.append(self._renamed(op))
            roots = [op for op in here if self._is_root(op)]
            if roots:
                self._loop(phase, roots)
        return Block(self.block.params, tuple(self.ops), tuple(rename(v, self.renamed) for v in self.block.results))

    def _phases(self) -> list[int]:
        """The phase of each op of the block."""
        self.phases, found = {}, list[int]()
        for op in self.block.ops:
            phase = max((self.phases.get(v, 0) for v in op.values), default=0)
            found.append(phase)
            for v in op.outputs:
                self.phases[v] = phase + (self._reduces(op) and v not in self.online)
        return found

    def _joined(self, phases: list[int]) -> dict[Value, OnlineSum]:
        """The sums whose phase, the one after their maximum's, does nothing else."""
        reductions = [op for op in self.block.ops if self._reduces(op)]
        sums = {s.total.output: s for s in online_sums(reductions, self.definitions)}
        sums = {v: s for v, s in sums.items() if not _has(s.shift, self.dim)}
        phase_of = {id(op): phase for op, phase in zip(self.block.ops, phases, strict=True)}
        others = {phase_of[id(op)] for op in self.block.ops if self._is_root(op) and not set(op.outputs) & sums.keys()}
        return {
            v: s
            for v, s in sums.items()
            if phase_of[id(s.total)] == phase_of[id(s.peak)] + 1 and phase_of[id(s.total)] not in others
        }

    def _is_root(self, op: Op) -> bool:
        """What a loop is made for."""
        if op.kind is OpKind.STORE:
            return _has(op.inputs[0], self.dim)
        return self._reduces(op) and op.output not in self.online

    def _reduces(self, op: Op) -> bool:
        if op.kind is not OpKind.REDUCE:
            return False
        (value,) = op.inputs
        assert isinstance(value, Value)
        return bool(value.dims[AxisAttrs.of(op).axis] == self.dim)

    def _renamed(self, op: Op) -> Op:
        return op.with_(inputs=tuple(rename(v, self.renamed) for v in op.inputs))

    def _loop(self, phase: int, roots: list[Op]) -> None:
        """One loop: the reductions of this phase as accumulators, its stores, and what they need of the dimension."""
        number = sum(tile.startswith(f"{self.site}.") for tile in self.tiles)
        name = f"{self.site}.{number}"
        self.tiles[name] = Tile(name, Expr.sym(self.site), Expr.of(0), self.dim.extent, False, self.is_wide)
        body = _Body(self, self.tiles[name].dim)
        reductions = [op for op in roots if self._reduces(op)]
        sums = [s for op in reductions for s in self.online.values() if s.peak is op]
        entry = [self._accumulator(op) for op in (*reductions, *(s.total for s in sums))]
        params = tuple(self.fresh.value(v.type, v) for v in entry)
        of = dict(zip((*(op.output for op in reductions), *(s.total.output for s in sums)), params, strict=True))
        results = {op.output: body.accumulate(op, of[op.output]) for op in reductions if op.output not in self._peaks}
        for s in sums:
            peak, total = s.peak.output, s.total.output
            results[peak], results[total] = body.absorb(s, of[peak], of[total])
        stores = [op for op in roots if op.kind is OpKind.STORE]
        for op in stores:
            body.value(op.inputs[0])  # the loads of all of them first: behind a store they would wait for it
        for op in stores:
            body.clone(op)
        outputs = tuple(self.fresh.value(v.type, v) for v in entry)
        loop = Block(params, tuple(body.ops), tuple(results[v] for v in of))
        self.ops.append(Op(OpKind.FOR, tuple(entry), outputs, LoopAttrs(name, 0), (loop,), roots[0].loc))
        self.running |= dict(zip(of, outputs, strict=True))
        for op in reductions:
            self.ops.append(op.with_(inputs=(self.running[op.output],)))

    @property
    def _peaks(self) -> set[Value]:
        """The maxima that a sum is found along with."""
        return {s.peak.output for s in self.online.values()}

    def _settle(self, s: OnlineSum) -> None:
        """Emit, behind the loop, the sum over all lanes, relative to the shift that its readers expect."""
        peak, total = self.running[s.peak.output], self.running[s.total.output]
        lanes = Lanes(self.fresh, self.ops, total, s).lane_sums(peak, total, rename(s.shift, self.renamed))
        self.ops.append(s.total.with_(inputs=(lanes,)))

    def _accumulator(self, op: Op) -> Value:
        """A block of neutral values: half types accumulate in float32, as the reduction itself would."""
        (value,) = op.inputs
        assert isinstance(value, Value)
        bare = Dim(Expr.sym(self.site))
        shared = [s.shared for s in self.online.values() if op.output in (s.peak.output, s.total.output)]
        if shared:
            bare = Dim(Expr.sym(self.site) // shared[0])
        dims = tuple(bare if d == self.dim else d for d in value.dims)
        dtype = "float32" if value.type.dtype in ("float16", "bfloat16") else value.type.dtype
        out = self.fresh.value(TileType(dtype, dims), value)
        self.ops.append(Op(OpKind.FULL, (neutral(ReduceAttrs.of(op).fn, dtype),), (out,), NO_ATTRS, (), op.loc))
        return out


class _Body:
    """The body of one rolled loop: ops of the dimension cloned over a tile of it, each once."""

    def __init__(self, roller: _Roller, dim: Dim) -> None:
        self.roller, self.dim = roller, dim
        self.ops: list[Op] = []
        self.cloned: dict[Value, Operand] = {}

    def value(self, operand: Operand) -> Operand:
        if not _has(operand, self.roller.dim):
            return rename(operand, self.roller.renamed)
        assert isinstance(operand, Value)
        if operand not in self.cloned:
            self.clone(self.roller.definitions[operand])
        return self.cloned[operand]

    def clone(self, op: Op) -> None:
        inputs = tuple(self.value(v) for v in op.inputs)
        outputs = tuple(self.roller.fresh.value(self._type(v.type), v) for v in op.outputs)
        attrs = op.attrs
        if isinstance(attrs, AccessAttrs):
            attrs = replace(attrs, index=tuple(self._item(i) for i in attrs.index))
        self.ops.append(op.with_(inputs=inputs, outputs=outputs, attrs=attrs))
        self.cloned.update(zip(op.outputs, outputs, strict=True))

    def accumulate(self, op: Op, total: Value) -> Value:
        masked = self._masked(op)
        out = self.roller.fresh.value(total.type, masked)
        attrs = PointwiseAttrs(_COMBINE[ReduceAttrs.of(op).fn], total.type.dtype)
        self.ops.append(Op(OpKind.POINTWISE, (total, masked), (out,), attrs, (), op.loc))
        return out

    def absorb(self, s: OnlineSum, peak: Value, total: Value) -> tuple[Value, Value]:
        """The running maximum and sum of exponentials, with this block added."""
        return Lanes(self.roller.fresh, self.ops, total, s).absorb(peak, total, self._masked(s.peak))

    def _masked(self, op: Op) -> Value:
        """What a reduction takes of this block."""
        value = self.value(op.inputs[0])
        assert isinstance(value, Value)
        masked = self.roller.fresh.value(value.type, value)
        fill = neutral(ReduceAttrs.of(op).fn, value.type.dtype)
        self.ops.append(
            Op(OpKind.WHERE_MASK, (value, fill), (masked,), WhereMaskAttrs((AxisAttrs.of(op).axis,)), (), op.loc)
        )
        return masked

    def _type(self, type_: TileType) -> TileType:
        return replace(type_, dims=tuple(self.dim if d == self.roller.dim else d for d in type_.dims))

    def _item(self, item: IndexItem) -> IndexItem:
        if isinstance(item, SliceIndex) and item.dim == self.roller.dim:
            assert self.dim.tile is not None
            return TileIndex(self.dim.tile, item.axis)
        return item
