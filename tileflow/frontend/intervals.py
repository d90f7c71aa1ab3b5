"""Intervals: the least and the largest number that an index of the kernel can be, as sizes.

They follow from how an index was computed: from tiles, whose loops have bounds, by arithmetic that keeps order. A
number that is loaded, or carried by a loop, can be any. What an index has in lanes past a loop's end does not count,
for such lanes are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

from ..errors import TraceError
from ..expr import Expr, any_of
from ..ir.attributes import ArangeAttrs, FoldAttrs, PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.signs import is_nonnegative
from ..ir.types import INT32_MAX, INT_BITS, Value, is_float

if TYPE_CHECKING:
    from .trace import Tracer

_KEPT = frozenset({OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.RESHAPE, OpKind.PERMUTE, OpKind.FULL})
_TILES = frozenset({OpKind.TILE_BEGIN, OpKind.TILE_END, OpKind.TILE_ID})
_OF_INDICES = frozenset({OpKind.TILE_INDEX, OpKind.SIZE, OpKind.POINTWISE, OpKind.CAST})
# whose results have the bits of their operands; the least int of 32, whose opposite has more, is no number of theirs
_NOT_GROWING = frozenset(
    {"abs", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "floordiv", "fmod", "maximum", "minimum", "neg",
     "remainder", "shift_right", "sign", "truncdiv", "where"}
)  # fmt: skip
_MOST_BLOCKS = 3  # of which an end is looked at with each at both of its extremes
_HELD = {"uint8": 255, "bool": 1}  # by dtype, the largest number of those that are never negative


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from ``least`` to ``most``, both inclusive; None where an end is not known."""

    least: Expr | None
    most: Expr | None


ANY = Interval(None, None)


def interval(t: Tracer, x: Operand | Expr) -> Interval:
    """The interval of the numbers that an integer value takes in lanes that count."""
    return _Intervals(t).of(x)


def reach(t: Tracer, x: Operand) -> int:
    """The largest magnitude of an integer value in the example, as far as it is known."""
    return max((abs(e.evaluate(t.hints)) for e in _known(t, interval(t, x))), default=0)


def result_fits(t: Tracer, fn: str, operands: Sequence[Operand]) -> bool:
    """Whether the result of a row of POINTWISE over ints of 32 bits is known to have as many, before it is computed, in
    every config. Where it has them in the example, each launch checks that it does in its own sizes and ints."""
    if fn in _NOT_GROWING:
        return True
    compute, found = _POINTWISE.get(fn), _Intervals(t, by_tensors=True)
    if compute is None:
        return False
    made = compute(*map(found.of, operands))
    ends = [_at_extremes(t, end) for end in (made.least, made.most)]
    return all(ends) and _have_32_bits(t, [e for extremes in ends for e in extremes])


def int_dtype(t: Tracer, e: Expr) -> str:
    """int32, or int64 where the example's value does not fit with some block sizes, or no example counts."""
    if t.is_open(e):
        return "int64"
    return "int64" if any(abs(x.evaluate(t.hints)) > INT32_MAX for x in _at_extremes(t, e)) else "int32"


def fits(t: Tracer, x: Operand) -> bool:
    """Whether an integer value has 32 bits, as far as it is known. Where it does in the example, each launch checks
    that it does in its own sizes and ints."""
    return _have_32_bits(t, _known(t, interval(t, x)))


def check_widened(t: Tracer, x: Operand, dtype: str) -> None:
    """Raises TraceError where a tile of int32 that passed its bits on the way is converted to a dtype that has the
    numbers meant: of indices, whose ends are known. What is loaded may be any number, and wraps as it does in torch."""
    is_tile = isinstance(x, Value) and bool(x.dims) and x.type.dtype == "int32"
    if not is_tile or not (is_float(dtype) or dtype == "int64") or fits(t, x):
        return
    raise TraceError(
        "a tile of ints is computed in as many bits as its numbers have",
        got=f"one of int32 up to {reach(t, x)}, which becomes {dtype}",
        where=t.location(),
        hint="compute it in 64 bits: tile.index.long() * n; to keep the lower 32 bits, (tile.index * n) & -1",
    )


def _have_32_bits(t: Tracer, ends: Sequence[Expr]) -> bool:
    if any(abs(end.evaluate(t.hints)) > INT32_MAX for end in ends):
        return False
    for end in ends:
        t.guard(end.le(INT32_MAX))
        if not is_nonnegative(end):
            t.guard(Expr.of(-INT32_MAX).le(end))
    return True


def _known(t: Tracer, found: Interval) -> list[Expr]:
    return [e for e in (found.least, found.most) if e is not None and e.symbols() <= t.hints.keys()]


def _at_extremes(t: Tracer, end: Expr | None) -> list[Expr]:
    """The end of an interval as sizes, with the least and the largest block sizes; none where it is not known."""
    if end is None:
        return []
    end = end.substitute(t.chosen)
    knobs = sorted(end.symbols() - t.hints.keys())
    if len(knobs) > _MOST_BLOCKS or not t.blocks.keys() >= {*knobs}:
        return []
    return [
        end.substitute(dict(zip(knobs, sizes, strict=True))) for sizes in product(*map(t.blocks.__getitem__, knobs))
    ]


def is_of_tiles(t: Tracer, x: Value) -> bool:
    """Whether a scalar is computed from where tiles begin, end or stand in their loops, sizes and numbers alone."""
    if x.dims:
        return False
    kinds = {None if op is None else op.kind for op in _ancestors(t, x)}
    return kinds <= _TILES | {OpKind.SIZE, OpKind.POINTWISE, OpKind.CAST} and bool(kinds & _TILES)


def are_longer(t: Tracer, x: Value) -> bool:
    """Whether one of the loops whose tiles a scalar is computed from is over more than one element, or over as many as
    only the device knows; or it makes no difference, since of loops over one element each the scalar is 0."""
    names = dict.fromkeys(TileAttrs.of(op).tile for op in _ancestors(t, x) if op is not None and op.kind in _TILES)
    bounds = [(tile.begin, tile.end) for tile in map(t.tiles.__getitem__, names)]
    known = [(b, e) for b, e in bounds if isinstance(b, Expr) and isinstance(e, Expr)]
    lengths = [end - begin for begin, end in known]
    if len(known) < len(bounds) or any(n.symbols() - t.hints.keys() for n in lengths):
        return True
    of_one = {end.args[0]: begin + 1 for begin, end in known if end.op == "sym"}
    found = interval(t, x)
    ends = {None if end is None else end.substitute(of_one).constant for end in (found.least, found.most)}
    return ends == {0} or not all(t.decide(n.eq(1)) for n in lengths)


def is_of_indices(t: Tracer, x: Value) -> bool:
    """Whether a tile of ints is computed from the indices of loops' tiles, sizes and numbers alone."""
    kinds = {None if op is None else op.kind for op in _ancestors(t, x)}
    return OpKind.TILE_INDEX in kinds and kinds <= _TILES | _KEPT | _OF_INDICES


def is_of_ranges(t: Tracer, x: Value) -> bool:
    """Whether a scalar is computed from the variables of Python's ranges, sizes and numbers alone, so that it is an int
    to whoever reads the kernel as Python."""
    if x.dims:
        return False
    made = list(_ancestors(t, x))
    begins = [op for op in made if op is not None and op.kind is OpKind.TILE_BEGIN]
    rest = {None if op is None else op.kind for op in made} - {OpKind.TILE_BEGIN}
    are_ranges = all(TileAttrs.of(op).tile in t.ranges for op in begins)
    return bool(begins) and are_ranges and rest <= {OpKind.SIZE, OpKind.POINTWISE, OpKind.CAST}


def is_of_tile_ends(t: Tracer, x: Value) -> bool:
    """Whether a scalar is computed from where a tile ends."""
    return not x.dims and any(op is not None and op.kind is OpKind.TILE_END for op in _ancestors(t, x))


def without_lanes(t: Tracer, x: Value) -> Expr:
    """The condition under which no lane of an index counts: a loop that it is computed from has no tiles, as far as
    sizes say."""
    of_tiles = _TILES | {OpKind.TILE_INDEX}
    loops = {TileAttrs.of(op).tile for op in _ancestors(t, x) if op is not None and op.kind in of_tiles}
    bounds = [(t.tiles[name].begin, t.tiles[name].end) for name in sorted(loops)]
    known = [end.le(begin) for begin, end in bounds if isinstance(begin, Expr) and isinstance(end, Expr)]
    return any_of(e for e in known if e.symbols() <= t.hints.keys())


def _ancestors(t: Tracer, x: Value) -> Iterator[Op | None]:
    """What an index is computed from: each value's op once, None for a value that no op of the trace makes."""
    pending: list[Operand] = [x]
    seen: set[Value] = set()
    while pending:
        v = pending.pop()
        if isinstance(v, Value) and v not in seen:
            seen.add(v)
            op = t.builder.definitions.get(v)
            yield op
            pending += op.inputs if op is not None else ()


class _Intervals:
    """``by_tensors``: indices of loops whose bounds the kernel computes are of the tensors that there are, as
    :meth:`Tracer.is_wide` has it. No mask is settled by that."""

    def __init__(self, t: Tracer, by_tensors: bool = False) -> None:
        self.t = t
        self.by_tensors = by_tensors
        self._found: dict[Value, Interval] = {}

    def of(self, x: Operand | Expr) -> Interval:
        if isinstance(x, Expr):
            return Interval(x, x)
        if not isinstance(x, Value):
            return Interval(Expr.of(int(x)), Expr.of(int(x))) if isinstance(x, int) else ANY
        if x not in self._found:
            op = self.t.builder.definitions.get(x)
            self._found[x] = ANY if op is None else self._of_op(op, x)
        return self._found[x]

    def _of_op(self, op: Op, x: Value) -> Interval:
        match op.kind:
            case OpKind.SIZE:
                return self.of(SizeAttrs.of(op).value)
            case OpKind.ARANGE:
                start: Expr = ArangeAttrs.of(op).start
                return Interval(start, start + x.dims[0].extent - 1)
            case OpKind.TILE_INDEX | OpKind.TILE_BEGIN:
                begin, end = self._bounds(TileAttrs.of(op).tile)
                return Interval(begin, _plus(end, -1))
            case OpKind.TILE_END:
                begin, end = self._bounds(TileAttrs.of(op).tile)
                return Interval(_plus(begin, 1), end)
            case OpKind.TILE_ID:
                return Interval(Expr.of(0), self._last(TileAttrs.of(op).tile))
            case OpKind.IF:
                place = op.outputs.index(x)
                return _hull([self.of(region.results[place]) for region in op.regions])
            case OpKind.REDUCE if FoldAttrs.of(op).fn in ("argmax", "argmin"):
                return Interval(Expr.of(0), op.values[0].dims[FoldAttrs.of(op).axis].extent - 1)
            case OpKind.CAST if x.type.dtype in INT_BITS:
                return _held(self.of(op.inputs[0]), x.type.dtype)
            case OpKind.POINTWISE if PointwiseAttrs.of(op).operand in INT_BITS:
                return _held(self._pointwise(op), x.type.dtype)
        if op.kind in _KEPT:
            return self.of(op.inputs[0])
        return _held(ANY, x.type.dtype)

    def _bounds(self, name: str) -> tuple[Expr | None, Expr | None]:
        """Where a loop begins at least, and ends at most."""
        tile = self.t.tiles[name]
        begin, end = self.of(tile.begin).least, self.of(tile.end).most
        if not self.by_tensors or (begin is not None and end is not None) or tile.index_dtype != "int32":
            return begin, end
        sizes = [size for tensor in self.t.tensors.values() for size in tensor.shape]
        return Expr.of(0), reduce(Expr.max, sizes, Expr.of(1))

    def _last(self, name: str) -> Expr | None:
        """The number of a loop's last tile."""
        begin, end = self._bounds(name)
        return None if begin is None or end is None else (end - begin).cdiv(self.t.tiles[name].block) - 1

    def _pointwise(self, op: Op) -> Interval:
        compute = _POINTWISE.get(PointwiseAttrs.of(op).fn)
        return ANY if compute is None else compute(*map(self.of, op.inputs))


def _held(found: Interval, dtype: str) -> Interval:
    """What a dtype has of an interval. Ints of fewer than 32 bits wrap around where it has numbers that they lack."""
    if dtype in ("int32", "int64"):
        return found
    if dtype in INT_BITS and found.least is not None and found.most is not None:
        signed = not dtype.startswith("uint")
        ends = -(1 << INT_BITS[dtype] - 1) * signed, (1 << INT_BITS[dtype] - signed) - 1
        given = found.least.constant, found.most.constant
        if given[0] is not None and given[1] is not None and ends[0] <= given[0] and given[1] <= ends[1]:
            return found
    most = _HELD.get(dtype)
    return ANY if most is None else Interval(Expr.of(0), Expr.of(most))


def _plus(a: Expr | None, b: Expr | int | None) -> Expr | None:
    return None if a is None or b is None else a + b


def _minus(a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else a - b


def _times(a: Interval, b: Interval) -> Interval:
    """The product, of numbers of either sign; with a factor that is one size, of which one end may be unknown."""
    for factor, other in ((a, b), (b, a)):
        if factor.least is not None and factor.least == factor.most and is_nonnegative(factor.least):
            return Interval(*(None if e is None else e * factor.least for e in (other.least, other.most)))
    if a.least is None or a.most is None or b.least is None or b.most is None:
        return ANY
    if is_nonnegative(a.least) and is_nonnegative(b.least):
        return Interval(a.least * b.least, a.most * b.most)
    ends = [x * y for x in dict.fromkeys((a.least, a.most)) for y in dict.fromkeys((b.least, b.most))]
    return Interval(reduce(Expr.min, ends), reduce(Expr.max, ends))


def _floordiv(a: Interval, b: Interval) -> Interval:
    if b.least is None or b.least != b.most or not is_nonnegative(b.least):
        return ANY
    return Interval(*(None if e is None else e // b.least for e in (a.least, a.most)))


def _remainder(a: Interval, b: Interval) -> Interval:
    """Torch's, which has the divisor's sign."""
    if b.least is None or b.least != b.most or not is_nonnegative(b.least):
        return ANY
    return Interval(Expr.of(0), (b.least - 1).max(0))  # that by 0, of no elements, is no index: -1 would admit any


def _minimum(a: Interval, b: Interval) -> Interval:
    least = None if a.least is None or b.least is None else a.least.min(b.least)
    most = b.most if a.most is None else a.most if b.most is None else a.most.min(b.most)
    return Interval(least, most)


def _maximum(a: Interval, b: Interval) -> Interval:
    least = b.least if a.least is None else a.least if b.least is None else a.least.max(b.least)
    most = None if a.most is None or b.most is None else a.most.max(b.most)
    return Interval(least, most)


def _hull(found: Sequence[Interval]) -> Interval:
    """What lies in any of several intervals."""
    least, most = [x.least for x in found], [x.most for x in found]
    return Interval(
        None if None in least else reduce(Expr.min, (e for e in least if e is not None)),
        None if None in most else reduce(Expr.max, (e for e in most if e is not None)),
    )


def _either(condition: Interval, a: Interval, b: Interval) -> Interval:
    return _hull([a, b])


def _magnitude(a: Interval) -> Interval:
    if a.least is not None and is_nonnegative(a.least):
        return a
    return Interval(Expr.of(0), None if a.least is None or a.most is None else a.most.max(Expr.of(0) - a.least))


def _opposite_bits(a: Interval) -> Interval:
    """``~a``, which is ``-a - 1``."""
    return Interval(_minus(Expr.of(-1), a.most), _minus(Expr.of(-1), a.least))


def _shifted_right(a: Interval, bits: Interval) -> Interval:
    amount = bits.least.constant if bits.least is not None and bits.least == bits.most else None
    return ANY if amount is None or amount < 0 else _floordiv(a, Interval(*[Expr.of(1 << min(amount, 63))] * 2))


def _sign(a: Interval) -> Interval:
    return Interval(Expr.of(-1), Expr.of(1))


def _and(a: Interval, b: Interval) -> Interval:
    """The bitwise and with numbers that are not negative: at most the least of them."""
    masks = [x.most for x in (a, b) if x.least is not None and x.most is not None and is_nonnegative(x.least)]
    return Interval(Expr.of(0), reduce(Expr.min, masks)) if masks else ANY


def _bits(a: Interval, b: Interval) -> Interval:
    """The bitwise or, and the exclusive one, of numbers that are not negative: no bit is higher than theirs."""
    most = [
        None if x.least is None or not is_nonnegative(x.least) or x.most is None else x.most.constant for x in (a, b)
    ]
    if most[0] is None or most[1] is None:
        return ANY
    return Interval(Expr.of(0), Expr.of((1 << max(most[0], most[1], 0).bit_length()) - 1))


def _of_positives(compute: Callable[[Interval, Interval], Interval]) -> Callable[[Interval, Interval], Interval]:
    """A quotient or a remainder toward zero: that toward the floor, of numbers that are not negative."""
    return lambda a, b: compute(a, b) if a.least is not None and is_nonnegative(a.least) else ANY


_POINTWISE: dict[str, Callable[..., Interval]] = {
    "add": lambda a, b: Interval(_plus(a.least, b.least), _plus(a.most, b.most)),
    "sub": lambda a, b: Interval(_minus(a.least, b.most), _minus(a.most, b.least)),
    "abs": _magnitude,
    "sign": _sign,
    "bitwise_not": _opposite_bits,
    "shift_right": _shifted_right,
    "neg": lambda a: Interval(_minus(Expr.of(0), a.most), _minus(Expr.of(0), a.least)),
    "mul": _times,
    "floordiv": _floordiv,
    "remainder": _remainder,
    "truncdiv": _of_positives(_floordiv),
    "fmod": _of_positives(_remainder),
    "minimum": _minimum,
    "maximum": _maximum,
    "where": _either,
    "bitwise_and": _and,
    "bitwise_or": _bits,
    "bitwise_xor": _bits,
}
