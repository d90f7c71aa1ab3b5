"""Random tiles: Triton's Philox over the elements' positions, once for four elements where they are aligned."""

from __future__ import annotations

from ..expr import Expr
from ..ir.attributes import RandomAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from .context import Context
from .dtypes import literal
from .table import TRITON

_INT32_MAX = 2**31 - 1
_UNIT = 2.0**-24


@TRITON.emits(OpKind.RANDOM)
def random(e: Context, op: Op) -> None:
    """Write random bits as floats of their upper 24, or as ints by the upper half of a product with the span."""
    bits = e.fresh("bits")
    e.writer.line(f"{bits} = {_words(e, op)}")
    if op.output.type.dtype == "float32":
        e.define(op.output, f"({bits} >> 8).to(tl.float32) * {_UNIT!r}", "float32")
        return
    low, high = op.inputs[1:]
    if isinstance(low, Value) or isinstance(high, Value):
        span = f"({_int(e, high)} - {_int(e, low)}).to(tl.uint32)"
    else:
        span = f"tl.full([], {high - low}, tl.uint32)"
    e.define(op.output, f"{_int(e, low)} + tl.umulhi({bits}, {span}).to(tl.int32)", "int32")


def _int(e: Context, operand: object) -> str:
    return e.as_dtype(operand, "int32") if isinstance(operand, Value) else literal(operand, "int32")  # type: ignore[arg-type]


def _words(e: Context, op: Op) -> str:
    """The text of a word of 32 bits for each element."""
    wide = _is_wide(e, op)
    quads = _has_quads(e, op)
    position = e.fresh("position")
    e.writer.line(f"{position} = {_position(e, op, wide, quads)}")
    counter = position if quads else f"({position} >> 2)"
    upper = f"({counter} >> 32).to(tl.uint32)" if wide else "0"
    stream = ", ".join(map(str, RandomAttrs.of(op).stream))
    words = [e.fresh("word") for _ in range(4)]
    e.writer.line(f"{', '.join(words)} = tl.philox({_seed(e, op)}, {counter}.to(tl.uint32), {upper}, {stream})")
    shape = e.shape(op.output.dims)
    if quads:  # element 4 q + 2 u + v is word 2 u + v of counter q
        pairs = f"tl.join(tl.join({words[0]}, {words[2]}), tl.join({words[1]}, {words[3]}))"
        return f"tl.reshape({pairs}, {shape})"
    first, second = (f"tl.where({position} & 1 == 0, {a}, {b})" for a, b in (words[:2], words[2:]))
    return f"tl.where({position} & 2 == 0, {first}, {second})"


def _seed(e: Context, op: Op) -> str:
    seed = op.inputs[0]
    return e.as_dtype(seed, "int64") if isinstance(seed, Value) else f"tl.full([], {int(seed)}, tl.int64)"


def _is_wide(e: Context, op: Op) -> bool:
    """Whether positions need 64 bits; where 32 suffice for the example, launches check that."""
    total = Expr.of(1)
    for size in RandomAttrs.of(op).sizes:
        if size is None:
            return True
        total = total * size
    total = total.substitute(e.plan.environment())
    if e.plan.is_open(total):
        return True
    if total.evaluate(e.plan.ir.hints) > _INT32_MAX:
        return True
    e.plan.guard(total.le(_INT32_MAX))
    return False


def _has_quads(e: Context, op: Op) -> bool:
    """Whether the last dimension's lanes are whole groups of four, and each row begins at one."""
    dims, sizes = op.output.dims, RandomAttrs.of(op).sizes
    if not dims or e.plan.extent(dims[-1].extent) % 4:
        return False
    begins = [RandomAttrs.of(op).offsets[-1]]
    if dims[-1].tile is not None:
        tile = e.plan.ir.tiles[dims[-1].tile]
        if isinstance(tile.begin, Value):
            return False
        begins += [tile.begin, tile.block]
    steps = [None if b is None else e.plan.number(b) for b in (*begins, *sizes[-1:] * (len(dims) > 1))]
    return all(s is not None and s % 4 == 0 for s in steps)


def _position(e: Context, op: Op, wide: bool, quads: bool) -> str:
    """The text of the elements' positions, row by row; of the groups of four with ``quads``."""
    dims, sizes, offsets = op.output.dims, RandomAttrs.of(op).sizes, RandomAttrs.of(op).offsets
    if not dims:
        return f"tl.full([], 0, tl.{'int64' if wide else 'int32'})"
    rank, terms, stride = len(dims), [], Expr.of(1)
    for axis in reversed(range(rank)):
        last = axis == rank - 1
        text = _lanes(e, op, 4 if quads and last else 1, axis)
        if offsets[axis] != Expr.of(0):
            text = f"({text} + {e.plan.text(offsets[axis] // 4 if quads and last else offsets[axis])})"
        text = e.lanes(text, axis, rank)
        if wide:
            text = f"{text}.to(tl.int64)"
        terms.append(text if last else f"{text} * {e.plan.text(stride)}")
        if axis:
            size = sizes[axis]
            assert size is not None  # the first one only
            stride = stride * (Expr.of((e.plan.number(size) or 0) // 4) if quads and last else size)
    return " + ".join(reversed(terms))


def _lanes(e: Context, op: Op, group: int, axis: int) -> str:
    """The 1-D indices of an axis, or of its groups."""
    dim = op.output.dims[axis]
    if group > 1:
        lanes = e.arange(dim.extent, group)
        return lanes if dim.tile is None else f"({e.tile(dim.tile)}_begin // {group} + {lanes})"
    return f"{e.tile(dim.tile)}_idx" if dim.tile is not None else e.arange(dim.extent)
