"""Ranges of a few turns: written out, unless the text would be so long that it compiles for minutes; where a size says
how few, a loop of the kernel, unless they are for Python alone.

The first turn is traced as it would be written out. Where it costs much, the loop is tried as one of the kernel, and
kept if nobody can tell the difference: it can be recorded, what it gives has the types that written-out turns give, and
its counter, which is a Python int there, is nowhere computed with as a Python int alone could be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InternalError
from ..ir.attributes import AxisAttrs, LoopAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, Op, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value, is_float
from .carried_pytrees import flatten_all, tree_spec
from .changed_containers import ChangedContainers
from .counted_turns import CountedTurns
from .trace import Tracer
from .values import TileValue

LONG = 1500  # of what all turns cost, in plain operations
# What compiles for longer than an addition: range reductions of circular functions, exchanges between lanes, products,
# of which 64 in one text took a minute and 32 a quarter of one, as 16 with a softmax each did
_COSTS = {"sin": 20, "cos": 20, "tan": 40, "erf": 5, "pow": 10}
_COSTS_OF_KINDS = {OpKind.GATHER: 8, OpKind.SORT: 40, OpKind.SCAN: 8, **dict.fromkeys(PRODUCTS, 40)}
_REDUCTION_BESIDE_PRODUCTS = 30  # of tiles as large as theirs
_REDUCTION_OF_A_LONG_ROW = 50  # which has many elements a thread, and in most configs a loop over the row, of its own
_LONG_ROW = 1 << 13  # elements
_OF_COUNTERS = frozenset({
    "add", "sub", "mul", "floordiv", "remainder", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_not", "minimum", "maximum", "where", "neg",
})  # fmt: skip
_NOT_BY_COUNTERS = frozenset({"pow", "shift_left", "shift_right"})
_SMALL = 1 << 20  # of a number that meets a counter: their product has 32 bits

Values = tuple[Any, ...]


def few_turns(
    t: Tracer,
    turns: CountedTurns,
    body: Callable[..., Values],
    values: Values,
    names: tuple[str, ...],
    containers: ChangedContainers,
    as_loop: Callable[[], Values],
) -> Values:
    """The values of ``names`` after all turns. ``as_loop`` records them as a loop of the kernel."""
    start = t.checkpoint()
    before = len(t.builder.ops)
    after = body(turns.at(0), *values)
    count = len(turns.numbers)
    if count > 1 and _cost(t.builder.ops[before:], t.hints) * count > LONG:
        first, parts = after, containers.parts()
        t.restore(start)
        containers.restore()
        found = _tried(t, as_loop, lambda looped: _is_alike(names, first, looped, parts, containers.parts()))
        if found is not None:
            return found
        t.restore(start)
        containers.restore()
        after = body(turns.at(0), *values)
    for turn in range(1, count):
        after = body(turns.at(turn), *after)
    return after


def loop_or_turns(
    t: Tracer, containers: ChangedContainers, as_loop: Callable[[], Values], written_out: Callable[[], Values]
) -> Values:
    """The values after a range over a size that is small in the call that is traced: a loop of the kernel, where its
    turns can be recorded as one. Else they are written out, which makes a constant of the size: a turn may index a list
    of Python's. What stands in the way of the loop is said where neither can be."""
    start = t.checkpoint()
    try:
        return as_loop()
    except InternalError:
        raise
    except Exception as error:  # whatever a Python int can do and a scalar cannot
        t.restore(start)
        containers.restore()
        try:
            return written_out()
        except InternalError:
            raise
        except Exception:
            raise error from None


def _tried(t: Tracer, as_loop: Callable[[], Values], fits: Callable[[Values], bool]) -> Values | None:
    """What the loop gives, None where it is none of the kernel's or does not fit."""
    try:
        found = as_loop()
        return found if fits(found) and _counts_alone(t.builder.ops[-1]) else None
    except InternalError:
        raise
    except Exception:  # whatever a Python int can do and a scalar cannot: written out, as shorter loops are
        return None


def _cost(ops: Sequence[Op], hints: Mapping[str, int]) -> int:
    found = [*walk(Block((), tuple(ops), ()))]
    reductions = [op for op in found if op.kind is OpKind.REDUCE]
    beside = len(reductions) if any(op.kind in PRODUCTS for op in found) else 0
    long = sum(_row(op, hints) >= _LONG_ROW for op in reductions)
    return sum(map(_cost_of, found)) + beside * _REDUCTION_BESIDE_PRODUCTS + long * _REDUCTION_OF_A_LONG_ROW


def _row(op: Op, hints: Mapping[str, int]) -> int:
    """Elements of the whole dimension that an op reduces; 1 of a block."""
    extent = op.values[0].dims[AxisAttrs.of(op).axis].extent
    return extent.evaluate(hints) if extent.symbols() <= hints.keys() else 1


def _cost_of(op: Op) -> int:
    if isinstance(op.attrs, PointwiseAttrs):
        return _COSTS.get(op.attrs.fn, 1)
    return _COSTS_OF_KINDS.get(op.kind, 1)


def _is_alike(names: tuple[str, ...], first: Values, looped: Values, parts: Any, looped_parts: Any) -> bool:
    """Whether values and parts of containers after a loop are of the types that they have after a written-out turn."""
    one, other = (_leaves(names, values) for values in (first, looped))
    return (
        [n for n, _ in one] == [n for n, _ in other]
        and all(_is_one_type(a, b) for (_, a), (_, b) in zip(one, other, strict=True))
        and parts.keys() == looped_parts.keys()
        and all(_is_one_type(item, looped_parts[key]) for key, item in parts.items())
    )


def _leaves(names: tuple[str, ...], values: Values) -> list[tuple[str, Any]]:
    return flatten_all([tree_spec(v) for v in values], values, names)


def _is_one_type(a: Any, b: Any) -> bool:
    if isinstance(a, TileValue) and isinstance(b, TileValue):
        x, y = a.value.type, b.value.type
        return x.dtype == y.dtype and [d.extent for d in x.dims] == [d.extent for d in y.dims]
    return a is b or (type(a) is type(b) and isinstance(a, (list, tuple, dict)))  # whose parts are compared


def _counts_alone(loop: Op) -> bool:
    """Whether nothing but small ints and places follow from a loop's counter: no floats, which Python would compute in
    64 bits, no powers and no shifts."""
    assert isinstance(loop.attrs, LoopAttrs)
    counters: set[Value] = set()
    for op in walk(loop.regions[0]):
        if op.kind is OpKind.TILE_BEGIN and isinstance(op.attrs, TileAttrs) and op.attrs.tile == loop.attrs.tile:
            counters.update(op.outputs)
        elif any(isinstance(v, Value) and v in counters for v in op.inputs) and not _is_fine(op, counters):
            return False
    return True


def _is_fine(op: Op, counters: set[Value]) -> bool:
    """Whether an op with a counter among its operands may have one; notes those that it computes."""
    fn = op.attrs.fn if isinstance(op.attrs, PointwiseAttrs) else ""
    if fn in _NOT_BY_COUNTERS:
        return False
    scalars = [v for v in op.outputs if not v.dims]
    if not scalars or op.kind in (OpKind.LOAD, OpKind.FOR, OpKind.WHILE):
        return True
    numbers = [v for v in op.inputs if isinstance(v, (int, float))]
    counters.update(scalars)
    return (
        (fn in _OF_COUNTERS or op.kind in (OpKind.CAST, OpKind.IF))
        and all(not is_float(v.type.dtype) for v in scalars)
        and all(isinstance(v, int) and abs(v) < _SMALL for v in numbers)
    )
