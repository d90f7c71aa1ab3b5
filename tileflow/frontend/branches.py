"""Branches of the kernel: both sides are traced, and the values that they give a name get one type.

The condition is a scalar of the device, or a question about block sizes, which is answered for each config before the
text is written, so that only one side is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ShapeError, TraceError
from ..expr import TRUE, Expr
from ..ir.attributes import IfAttrs
from ..ir.graph import Block, Op
from ..ir.kinds import OpKind
from ..ir.types import TileType, Value
from .carried import is_one_number
from .carried_pytrees import common_spec, flatten_all, unflatten_all
from .changed_containers import ChangedContainers
from .dimensions import show
from .joined import joined_type
from .trace import Tracer
from .values import UNDEFINED, SymInt, TileValue, Undefined, is_number

Side = Callable[[], Sequence[Any]]
_NUMBERS = (SymInt, int)


def is_open(t: Tracer, test: Any) -> bool:
    """Whether the kernel or the config answers ``test``, and not the trace."""
    return isinstance(test, TileValue) or (isinstance(test, SymInt) and not test.expr.symbols() <= t.hints.keys())


def branch(
    t: Tracer, test: Any, sides: tuple[Side, Side], names: Sequence[str], changed: ChangedContainers
) -> tuple[Any, ...]:
    """Record both sides under an open ``test``; the values of ``names`` after it, when containers hold theirs."""
    condition = test.expr.and_(TRUE) if isinstance(test, SymInt) else None  # 0 or 1
    inputs = () if condition is not None else (_scalar(t, test),)
    own, since = len(names), t.opened
    first = [_trace(t, changed.side(side)) for side in sides]
    more, held = changed.ends()
    names = (*names, *more)
    traced = [((*results, *end), scope, ops) for (results, scope, ops), end in zip(first, held, strict=True)]
    structures = [common_spec(a, b) for a, b in zip(traced[0][0], traced[1][0], strict=True)]
    flat = [flatten_all(structures, results, names) for results, _, _ in traced]
    merged = [_merge(t, n, a, b, condition) for (n, a), (_, b) in zip(*flat, strict=True)]
    ends = zip(flat, traced, strict=True)
    blocks = tuple(_close(t, [v for _, v in side], scope, ops, merged) for side, (_, scope, ops) in ends)
    outputs = tuple(t.builder.value(m, t.location()) for m in merged if isinstance(m, TileType))
    given = [name for (name, _), m in zip(flat[0], merged, strict=True) if isinstance(m, TileType)]
    for name, out in zip(given, outputs, strict=True):
        t.name_value(out, name)
    t.builder.append(Op(OpKind.IF, inputs, outputs, IfAttrs(condition), blocks, t.location()))
    found = iter(outputs)
    leaves = [t.wrap(next(found)) if isinstance(m, TileType) else m for m in merged]
    are_numbers = [is_number(a) and is_number(b) for (_, a), (_, b) in zip(*flat, strict=True)]
    leaves = [t.number(x) if of and isinstance(x, TileValue) else x for x, of in zip(leaves, are_numbers, strict=True)]
    t.changes.hand_on(since)
    for leaf, (_, a), (_, b) in zip(leaves, *flat, strict=True):
        if isinstance(leaf, TileValue) and leaf is not a and leaf is not b:
            tiles = (x for x in (a, b) if isinstance(x, TileValue) and not is_number(x))
            leaf.same = tuple(x for x in tiles if not t.changes.is_changed(x))
    after = unflatten_all(structures, leaves)
    changed.join(after[own:])
    return after[:own]


def both(t: Tracer, fn: str, a: Any, b: Any) -> Any:
    """``a and b``, ``a or b`` with an open ``a``: of questions about block sizes another one, of conditions one, of
    numbers one of the two, as in Python. Raises TraceError for tiles, which have no truth as a whole."""
    _check_truth(t, a)
    if isinstance(b, bool) and b == (fn == "logical_or"):
        return b  # whatever ``a`` is, so that the other branch need not be there
    if isinstance(a, SymInt) and isinstance(b, (SymInt, bool)):
        other = Expr.of(b) if isinstance(b, bool) else b.expr
        return t.condition(a.expr.and_(other) if fn == "logical_and" else a.expr.or_(other))
    if _is_condition(a) and _is_condition(b):
        return t.pointwise(fn, a, b)
    if isinstance(b, TileValue) and b.value.dims:
        raise _of_tiles(t, b)
    return t.pointwise("where", t.pointwise("ne", a, 0), *((b, a) if fn == "logical_and" else (a, b)))


def _is_condition(x: Any) -> bool:
    return isinstance(x, (bool, SymInt)) or (isinstance(x, TileValue) and x.value.type.dtype == "bool")


def opposite(t: Tracer, a: Any) -> Any:
    """``not a`` of an open ``a``. Raises TraceError for tiles."""
    _check_truth(t, a)
    return t.condition(a.expr.not_()) if isinstance(a, SymInt) else t.pointwise("logical_not", a)


def _check_truth(t: Tracer, a: Any) -> None:
    if isinstance(a, TileValue) and any(d.extent.constant != 1 for d in a.value.dims):
        raise _of_tiles(t, a)


def _of_tiles(t: Tracer, tile: TileValue) -> TraceError:
    hint = "choose per element with torch.where(condition, a, b); conditions are (a) & (b), (a) | (b), ~a"
    if not _is_condition(tile):
        hint = "per element: torch.where(a != 0, b, a) is `a and b`, torch.where(a != 0, a, b) is `a or b`"
    return TraceError(
        "an if, and, or, not, while and a chained comparison in device code take scalars",
        got=repr(tile),
        where=t.location(),
        hint=hint,
    )


def _scalar(t: Tracer, test: TileValue) -> Any:
    value = t.operand(test)
    if isinstance(value, Value) and value.dims and all(d.extent.constant == 1 for d in value.dims):
        return t.operand(test.any())
    if isinstance(value, Value) and value.dims:
        raise TraceError(
            "an if in device code takes a scalar",
            got=repr(test),
            where=t.location(),
            hint="choose per element with torch.where(condition, a, b)",
        )
    return value


def _trace(t: Tracer, side: Side) -> tuple[tuple[Any, ...], int, tuple[Op, ...]]:
    t.open_scope()
    results = tuple(side())
    return results, t.scopes[-1], t.close_scope()


def _close(t: Tracer, results: Sequence[Any], scope: int, ops: tuple[Op, ...], merged: list[Any]) -> Block:
    """The block of a side, its results brought to the common types."""
    t.builder._open.append(list(ops))
    t.scopes.append(scope)
    yields = tuple(
        t.expand(t.cast(r, m.dtype), m.dims).value
        for r, m in zip(results, merged, strict=True)
        if isinstance(m, TileType)
    )
    return Block((), t.close_scope(), yields)


def _merge(t: Tracer, name: str, a: Any, b: Any, condition: Expr | None) -> Any:
    """The common type of a name's two values; or the value itself: where both are the same Python object, or where they
    are sizes and block sizes choose between them."""
    if not isinstance(a, (TileValue, SymInt, int, float)) or not isinstance(b, (TileValue, SymInt, int, float)):
        if a is b or isinstance(a, Undefined) or isinstance(b, Undefined):
            return a if a is b else UNDEFINED
        if type(a) is type(b) and isinstance(a, str) and a == b:
            return a
        raise TraceError(
            "both branches of a device if give a name a tile, or the same object",
            got=f"{name}: {a!r} and {b!r}"[:200],
            where=t.location(),
            hint="choose objects by what Python decides: a bool, None or a string",
        )
    if is_one_number(a, b):
        return a
    if condition is not None and all(isinstance(x, _NUMBERS) and not isinstance(x, bool) for x in (a, b)):
        first, second = (t.as_expr(x, name) for x in (a, b))
        return t.size(condition * first + condition.not_() * second)
    _same_shape(t, name, a, b)
    return joined_type(t, name, a, b)


def _same_shape(t: Tracer, name: str, a: Any, b: Any) -> None:
    """Raises ShapeError where two tiles have other sizes: broadcast, a sum of one of them would be another number."""
    if not isinstance(a, TileValue) or not isinstance(b, TileValue) or a.value.type.weak or b.value.type.weak:
        return
    first, second = a.value.dims, b.value.dims
    pairs = zip(first, second, strict=False)
    if len(first) == len(second) and all(t.same_size(x.extent, y.extent) for x, y in pairs):
        return
    raise ShapeError(
        "both branches of a device if give a name tiles of one shape",
        where=t.location(),
        got=f"{name}: {show(first)} and {show(second)}",
        hint="bring both to one shape before: .expand(...), [:, None], torch.full_like",
    )
