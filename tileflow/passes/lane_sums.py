"""Lane sums: what the turns of a loop sum up of a block is summed lane by lane, and reduced once behind the loop.

``total += x[t].sum()`` in a loop over ``t`` has the warps of a program meet in each turn. Lanes that each hold a part
of the sum need not, as in the loops that the compiler makes (:mod:`folds`), for one more tile in registers. A loop with
products stays as it is: its registers are the matrix units'.

A loop without turns leaves what it carries as it is. So do its neutral lanes, unless something is made of their
reduction: the largest of no bytes, 0, is more than -1, and a sum of nothing over a count of 0 is NaN. Then a loop that
may have no turn keeps what was carried by a choice behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

from ..expr import Expr, is_knob
from ..ir.attributes import AxisAttrs, LoopAttrs, PointwiseAttrs, ReduceAttrs, SizeAttrs, WhereMaskAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, Tile, uses, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.ops import neutral
from ..ir.types import Dim, TileType, Value, is_float, itemsize
from .folds import COMBINE, HALVES, Ops
from .makers import function_of
from .rewrite import Fresh, map_ops, rename

# the reduction that goes with a turn's function
_REDUCED_BY = {put: fn for fn, put in COMBINE.items()} | {"sub": "sum", "bitwise_or": "any", "bitwise_and": "all"}
_LONG = 8  # bytes of the integers that no sum is too large for
_COUNT = "int32"  # of turns, which the indices of a loop that is not wide hold as well


def carry_lanes(ir: KernelIR) -> KernelIR:
    """Every loop's running reductions by lanes, inner loops first."""
    if not any(map(_may_carry, ir.walk())):
        return ir
    carrier = _Carrier(ir)
    body = map_ops(ir.body, carrier.rewrite)
    return replace(ir, body=body, value_names=carrier.names)


def _may_carry(op: Op) -> bool:
    return op.kind is OpKind.FOR and not any(inner.kind in PRODUCTS for inner in walk(op.regions[0]))


@dataclass(frozen=True, slots=True)
class _Term:
    """What each turn puts, by ``put``, to ``rest``, which leads to the carried value number ``place``: a reduction, and
    the ops that make the term of its result."""

    place: int
    put: Op
    rest: Value
    reduction: Op
    shapes: tuple[Op, ...]

    @property
    def fn(self) -> str:
        """The reduction's function."""
        return ReduceAttrs.of(self.reduction).fn

    @property
    def ops(self) -> tuple[Op, ...]:
        """All that a turn need not do."""
        return (self.reduction, *self.shapes, self.put)


class _Turn:
    """A loop's body, as what it carries goes through it."""

    def __init__(self, body: Block, counts: dict[Value, int]) -> None:
        self._body, self._counts = body, counts
        self._makers = {v: op for op in body.ops for v in op.outputs}
        self._readers = {v: op for op in body.ops for v in op.values}

    def terms(self) -> Iterator[_Term]:
        """The running reductions, in the order in which a turn adds them."""
        for place, (param, result) in enumerate(zip(self._body.params, self._body.results, strict=True)):
            spine = self._spine(param, result)
            functions = {_REDUCED_BY[function_of(put)] for put, _, _ in spine}
            for put, rest, added in spine if len(functions) == 1 else ():
                chain = self._chain(added, *functions)
                if chain and _is_as_exact(chain, PointwiseAttrs.of(put).operand):
                    yield _Term(place, put, rest, chain[0], tuple(chain[1:]))

    def _spine(self, param: Value, result: Operand) -> list[tuple[Op, Value, Operand]]:
        """The ops that lead from what is carried in to what is carried on, each with the operand that leads to it and
        the other one; empty where anything else reads what is between."""
        found, value = list[tuple[Op, Value, Operand]](), param
        while value != result:
            op = self._readers.get(value)
            if op is None or self._counts.get(value) != 1 or function_of(op) not in _REDUCED_BY:
                return []
            left, right = op.inputs
            if left != value and function_of(op) == "sub":
                return []
            found.append((op, value, right if left == value else left))
            value = op.output
        return found if self._counts.get(value) == 1 else []

    def _chain(self, added: Operand, fn: str) -> list[Op]:
        """The first reduction that a term is made of, and all that is made of its result; empty where there is none."""
        behind, length = list[Op](), 0
        while isinstance(added, Value) and self._counts.get(added) == 1 and added in self._makers:
            op = self._makers[added]
            source = self._source(op, fn)
            if source is None:
                break
            behind.append(op)
            added, length = source, len(behind) if _folds_lanes(op) else length
        return behind[:length][::-1]

    def _source(self, op: Op, fn: str) -> Operand | None:
        """What an op is made of, where reductions may be made before as well as after it; None of others."""
        operand = op.inputs[0] if op.inputs else None
        match op.kind:
            case OpKind.REDUCE if ReduceAttrs.of(op).fn == fn:
                return operand
            case OpKind.UNSQUEEZE:
                return operand
            case OpKind.CAST:
                return operand
            case OpKind.POINTWISE if fn == "sum" and PointwiseAttrs.of(op).operand != "bool":
                return self._scaled(op)
        return None

    def _scaled(self, op: Op) -> Operand | None:
        """What an op multiplies or divides by what is the same in each turn."""
        sides = {"mul": ((0, 1), (1, 0)), "div": ((0, 1),)}.get(function_of(op), ())
        return next((op.inputs[its] for its, other in sides if self._is_fixed(op.inputs[other])), None)

    def _is_fixed(self, operand: Operand) -> bool:
        return not isinstance(operand, Value) or (operand not in self._makers and operand not in self._body.params)


def _folds_lanes(op: Op) -> bool:
    """Whether an op reduces what lanes lie along: the last dimension of a tile; along the others each lane has elements
    of its own to sum. A whole dimension is one that may become a loop, with what is around."""
    if op.kind is not OpKind.REDUCE or AxisAttrs.of(op).axis < len(op.values[0].dims) - 1:
        return False
    dim = op.values[0].dims[-1]
    return dim.tile is not None or any(map(is_knob, dim.extent.symbols()))


def _is_as_exact(chain: list[Op], carried: str) -> bool:
    """Whether reducing all turns' numbers before what a chain makes of them is as exact as reducing each turn's.
    ``carried``: the dtype that they are put to the rest in. Integers of one turn may be few enough for a dtype that
    those of all are not, and what truncates is no sum."""
    fn, dtype = ReduceAttrs.of(chain[0]).fn, chain[0].values[0].type.dtype
    later = [*(op.output.type.dtype for op in chain), carried]
    if is_float(dtype):
        return all(map(is_float, later))
    if dtype == "bool" or {*later} == {dtype}:
        return True
    if fn == "sum":
        return itemsize(dtype) == _LONG and "bool" not in later
    return fn in ("max", "min") and all(is_float(t) or itemsize(t) >= itemsize(dtype) for t in later)


def _is_neutral(term: _Term) -> bool:
    """Whether what a term makes of neutral lanes leaves what it is put to unchanged."""
    *chain, put = term.ops
    dtypes = {op.output.type.dtype for op in chain} | {PointwiseAttrs.of(put).operand}
    if term.fn == "sum":
        return all(map(_keeps_zero, chain))
    # an infinity is one in every float that has infinities; the last of the integers of a width is none of wider ones
    wide_floats = all(is_float(t) and itemsize(t) > 1 for t in dtypes)
    return wide_floats or dtypes == {term.reduction.values[0].type.dtype}


def _keeps_zero(op: Op) -> bool:
    """Whether an op makes a zero of a zero: a product with an infinity and a quotient by zero are NaN."""
    if op.kind is not OpKind.POINTWISE or not is_float(PointwiseAttrs.of(op).operand):
        return True
    numbers = [float(n) for n in op.inputs if not isinstance(n, Value)]
    return len(numbers) == 1 and isfinite(numbers[0]) and (numbers[0] != 0 or function_of(op) == "mul")


class _Carrier:
    """Loops rewritten one by one. ``counts``: how often each value is read. ``names``: what values are called."""

    def __init__(self, ir: KernelIR) -> None:
        self.ir, self.fresh, self.counts, self.names = ir, Fresh(ir), uses(ir.body), dict(ir.value_names)

    def rewrite(self, loop: Op) -> list[Op]:
        """The loop with lanes of its running reductions, what it begins with before it and what becomes of it behind;
        any other op alone."""
        terms = list(_Turn(loop.regions[0], self.counts).terms()) if _may_carry(loop) else []
        return _Rewritten(self, loop, terms).ops() if terms else [loop]

    def name(self, value: Value, after: Value, suffix: str = "") -> None:
        """Call a value after another one."""
        if after.id in self.names:
            self.names[value.id] = self.names[after.id] + suffix


class _Rewritten:
    """One loop, whose ``terms`` lanes carry."""

    def __init__(self, its: _Carrier, loop: Op, terms: list[_Term]) -> None:
        self._its, self._fresh, self._makers, self._loop, self._terms = its, its.fresh, its.ir.definitions, loop, terms
        self._tile: Tile = its.ir.tiles[LoopAttrs.of(loop).tile]

    def ops(self) -> list[Op]:
        """What begins, the loop, what ends."""
        attrs, (turn,) = LoopAttrs.of(self._loop), self._loop.regions
        ops: list[Op] = []
        starts = [self._start(Ops(self._fresh, ops, t.reduction), t) for t in self._terms]
        lanes = [self._fresh.value(v.type, v) for v in starts]
        body, renamed, sums = self._body(turn, lanes)
        results = [rename(r, renamed) for r in turn.results]
        kept = [i for i, (p, r) in enumerate(zip(turn.params, results, strict=True)) if p != r or not self._ends(i)]
        entries = self._loop.inputs[attrs.bounds :]
        outputs = {i: self._other(self._loop.outputs[i]) if self._ends(i) else self._loop.outputs[i] for i in kept}
        totals = [self._fresh.value(v.type, v) for v in starts]
        block = Block((*(turn.params[i] for i in kept), *lanes), tuple(body), (*(results[i] for i in kept), *sums))
        for term, *own in zip(self._terms, starts, lanes, sums, totals, strict=True):
            for value in own:
                self._its.name(value, self._loop.outputs[term.place], "_lanes")
        for place, value in outputs.items():
            self._its.name(value, self._loop.outputs[place])
        inputs = (*self._loop.inputs[: attrs.bounds], *(entries[i] for i in kept), *starts)
        ops.append(self._loop.with_(inputs=inputs, outputs=(*outputs.values(), *totals), regions=(block,)))
        for place in dict.fromkeys(t.place for t in self._terms):
            found = [(t, total) for t, total in zip(self._terms, totals, strict=True) if t.place == place]
            self._end(ops, outputs.get(place, entries[place]), found, self._loop.outputs[place])
        return ops

    def _may_be_empty(self) -> bool:
        """Whether the loop may have no turn."""
        begin, end = self._tile.begin, self._tile.end
        if isinstance(begin, Value) or isinstance(end, Value):
            return True
        length = (end - begin).constant
        return length is None or length <= 0

    def _has_turns(self, at: Ops) -> Value:
        """Whether the loop has a turn, as a value of the kernel."""
        given = (self._tile.begin, self._tile.end)
        is_long = any(isinstance(bound, Value) and bound.type.dtype == "int64" for bound in given)
        dtype = "int64" if is_long else self._tile.index_dtype
        return at.test("lt", *(self._bound(at, bound, dtype) for bound in given))

    def _bound(self, at: Ops, bound: Expr | Value, dtype: str) -> Value:
        if isinstance(bound, Value):
            return bound if bound.type.dtype == dtype else at.emit(OpKind.CAST, (bound,), TileType(dtype))
        return at.emit(OpKind.SIZE, (), TileType(dtype), SizeAttrs(bound))

    def _ends(self, place: int) -> bool:
        """Whether what is carried is whole behind the loop only."""
        return any(t.place == place for t in self._terms)

    def _start(self, at: Ops, term: _Term) -> Value:
        """Neutral lanes: floats of 32 bits for half types, as the reduction itself would have them; counts of truths as
        wide as the loop's own."""
        (value,) = term.reduction.values
        dtype = "float32" if value.type.dtype in HALVES else _COUNT if self._counted(term) else value.type.dtype
        return at.emit(OpKind.FULL, (neutral(term.fn, dtype),), TileType(dtype, self._bare(value.dims)))

    def _bare(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Dimensions outside the loop: all lanes of its tile count there."""
        return tuple(d.bare() if d.tile == self._tile.name else d for d in dims)

    def _counted(self, term: _Term) -> Value | None:
        """The truths that a term counts, where that many turns are no more than 32 bits hold."""
        maker = self._makers.get(term.reduction.values[0])
        source = maker.inputs[0] if maker is not None and maker.kind is OpKind.CAST else None
        is_count = isinstance(source, Value) and source.type.dtype == "bool" and term.fn == "sum"
        is_long = term.reduction.values[0].type.dtype == "int64"
        return source if isinstance(source, Value) and is_count and is_long and not self._tile.wide else None

    def _body(self, turn: Block, lanes: list[Value]) -> tuple[list[Op], dict[Value, Operand], list[Value]]:
        """A turn's ops, its values that are others now, and the lanes with one more block."""
        first = {id(t.reduction): (t, lane) for t, lane in zip(self._terms, lanes, strict=True)}
        gone = {id(op) for t in self._terms for op in t.ops}
        renamed: dict[Value, Operand] = {t.put.output: t.rest for t in self._terms}
        ops, sums = list[Op](), dict[int, Value]()
        for op in turn.ops:
            if id(op) in first:
                sums[id(op)] = self._sum(Ops(self._fresh, ops, op), *first[id(op)])
            elif id(op) not in gone:
                ops.append(op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs)))
        return ops, renamed, [sums[id(t.reduction)] for t in self._terms]

    def _sum(self, at: Ops, term: _Term, lane: Value) -> Value:
        (value,) = term.reduction.values
        if (truths := self._counted(term)) is not None:
            value = at.emit(OpKind.CAST, (truths,), replace(value.type, dtype=_COUNT))
        axes = tuple(axis for axis, dim in enumerate(value.dims) if dim.tile == self._tile.name)
        if axes:
            others = (value, neutral(term.fn, value.type.dtype))
            value = at.emit(OpKind.WHERE_MASK, others, value.type, WhereMaskAttrs(axes))
        return at.compute(COMBINE[term.fn], lane, value, like=lane)

    def _end(self, ops: list[Op], value: Operand, terms: list[tuple[_Term, Value]], output: Value) -> None:
        """What was carried, with the lanes' reductions put to it one by one."""
        is_kept = self._may_be_empty() and not all(_is_neutral(term) for term, _ in terms)
        before = value
        for number, (term, total) in enumerate(terms, 1):
            at = Ops(self._fresh, ops, term.reduction)
            if self._counted(term) is not None:
                total = at.emit(OpKind.CAST, (total,), replace(total.type, dtype="int64"))
            renamed: dict[Value, Operand] = {term.reduction.values[0]: total, term.rest: value}
            for op in term.ops:
                is_last = op is term.put and number == len(terms) and not is_kept
                again = output if is_last else self._other(op.output)
                ops.append(op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs), outputs=(again,)))
                renamed[op.output] = value = again
        if is_kept:
            at = Ops(self._fresh, ops, terms[-1][0].put)
            at.compute("where", self._has_turns(at), value, before, like=output)
            ops[-1] = ops[-1].with_(outputs=(output,))

    def _other(self, value: Value) -> Value:
        """A value in the place of one that a turn had; one op reads it."""
        found = self._fresh.value(replace(value.type, dims=self._bare(value.dims)), value)
        self._its.counts[found] = 1
        return found
