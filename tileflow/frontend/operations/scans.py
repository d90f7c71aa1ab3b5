"""The traced meaning of scans and of reductions by a function: the function becomes a block of scalar pointwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.attributes import Attrs, CombineAttrs, CombineScanAttrs, ScanAttrs
from ...ir.graph import Block, Op
from ...ir.kinds import OpKind
from ...ir.op_table import having
from ...ir.opdef import Trait
from ...ir.types import TileType, Value
from ...language.scans import arguments, results
from ..control import Control
from ..language_registry import QUALIFIED, register_language
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .reductions import accumulate
from .reshape import is_scalar

_SCALAR = having(Trait.ON_SCALARS)


@register_language("cumsum")
def cumsum(t: Tracer, tile: Any, dim: int, reverse: bool = False) -> TileValue:
    """Running sums along ``dim``, from its end if ``reverse``."""
    return _scan(t, "sum", accumulate(t, tile, None), dim, reverse)


@register_language("cumprod")
def cumprod(t: Tracer, tile: Any, dim: int, reverse: bool = False) -> TileValue:
    """Running products along ``dim``, from its end if ``reverse``."""
    return _scan(t, "prod", accumulate(t, tile, None), dim, reverse)


@register_torch("cumsum")
def torch_cumsum(t: Tracer, x: Any, dim: int, *, dtype: Any = None) -> TileValue:
    """Running sums along ``dim``; ints and bools add up in int64."""
    return _scan(t, "sum", accumulate(t, x, dtype), dim, False)


@register_torch("cumprod")
def torch_cumprod(t: Tracer, x: Any, dim: int, *, dtype: Any = None) -> TileValue:
    """Running products along ``dim``; ints and bools multiply in int64."""
    return _scan(t, "prod", accumulate(t, x, dtype), dim, False)


def _scan(t: Tracer, fn: str, x: TileValue, dim: int, reverse: bool) -> TileValue:
    if x.value.type.dtype == "bool":
        raise TraceError(
            "running sums and products are of numbers, as in torch",
            got="dtype=torch.bool",
            where=t.location(),
            hint="running ors and ands of bools: x.cummax(dim).values, x.cummin(dim).values",
        )
    if is_scalar(t, x, dim):
        return x
    axis = _axis(t, dim, x.value)
    return t.emit(OpKind.SCAN, (x.value,), x.value.type, ScanAttrs(axis, fn, reverse))


@register_language("associative_scan")
def associative_scan(t: Tracer, fn: Callable[..., Any], tile: Any, dim: int, reverse: bool = False) -> Any:
    """A scan along ``dim`` by the author's function, of one tile or of a tuple of tiles."""
    values = _values(t, tile)
    axis = _axis(t, dim, values[0])
    is_tuple = isinstance(tile, (tuple, list))
    block = combining(t, fn, is_tuple, values)
    outputs = _record(t, OpKind.COMBINE_SCAN, values, [v.type for v in values], block, CombineScanAttrs(axis, reverse))
    found = tuple(t.wrap(v) for v in outputs)
    return found if is_tuple else found[0]


def _of_torch(
    t: Tracer, combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """torch's associative_scan: ``combine_fn`` takes two trees of the kind that ``xs`` is. Both modes mean the same."""
    if isinstance(xs, dict):
        names = tuple(xs)

        def by_name(a: Any, b: Any) -> Any:
            return _items(dict(zip(names, a, strict=True)), dict(zip(names, b, strict=True)))

        def _items(a: Any, b: Any) -> Any:
            result = Control(t).call(combine_fn, a, b)
            return tuple(result[name] for name in names)

        return dict(zip(names, associative_scan(t, by_name, tuple(xs.values()), dim, reverse), strict=True))
    found = associative_scan(t, combine_fn, xs, dim, reverse)
    return list(found) if isinstance(xs, list) else found


QUALIFIED["torch._higher_order_ops.associative_scan", "associative_scan"] = _of_torch


@register_language("reduce")
def reduce_by(
    t: Tracer, fn: Callable[..., Any], tile: Any, dim: int | None = None, keep_dims: bool = False, other: Any = None
) -> Any:
    """A reduction by the author's function over ``dim``, or over each dimension in turn, of one tile or of a tuple of
    tiles. ``other``: the neutral value of each."""
    values = _values(t, tile)
    axes = range(len(values[0].dims)) if dim is None else [_axis(t, dim, values[0])]
    fills = None if other is None else _fills(t, len(values), other)
    for axis in reversed(axes):
        block = combining(t, fn, isinstance(tile, (tuple, list)), values)
        types = [TileType(v.type.dtype, v.dims[:axis] + v.dims[axis + 1 :]) for v in values]
        values = _record(t, OpKind.COMBINE, values, types, block, CombineAttrs(axis, fills))
    found = tuple(t.wrap(v) for v in values)
    for axis in axes if keep_dims else ():
        found = tuple(x.unsqueeze(axis) for x in found)
    return found if isinstance(tile, (tuple, list)) else found[0]


def combining(t: Tracer, fn: Callable[..., Any], is_tuple: bool, values: tuple[Value, ...]) -> Block:
    """``fn`` over scalars of the values' dtypes: its first arguments are the block's first params."""
    t.open_scope()
    params = tuple(t.builder.value(TileType(v.type.dtype), t.location()) for v in (*values, *values))
    scalars, count = [t.wrap(p) for p in params], len(values)
    result = Control(t).call(fn, *arguments(fn, is_tuple, scalars[:count], scalars[count:]))
    items = results(fn, is_tuple, result, count, t.location())
    yields = tuple(t.cast(item, v.type.dtype).value for item, v in zip(items, values, strict=True))
    block = Block(params, t.close_scope(), yields)
    _check(t, block)
    return block


def _check(t: Tracer, block: Block) -> None:
    known = set(block.params)
    for op in block.ops:
        if op.kind not in _SCALAR or op.output.dims or not known.issuperset(op.values):
            raise TraceError(
                "a combining function computes with its arguments and constants, by pointwise operations only",
                got=op.kind if op.kind not in _SCALAR else "a value from outside",
                where=op.loc or t.location(),
                hint="sizes become constants with tfl.specialize; pass what varies as one more tile of the tuple",
            )
        known.update(op.outputs)
    if not known.issuperset(v for v in block.results if isinstance(v, Value)):
        raise TraceError(
            "a combining function gives what it computes from its arguments",
            got="a value from outside",
            where=t.location(),
        )


def _values(t: Tracer, tile: Any) -> tuple[Value, ...]:
    """The tiles of an argument, broadcast to one shape."""
    parts = [t.operand(x) for x in (tile if isinstance(tile, (tuple, list)) else (tile,))]
    tiles = t.facing([t.wrap(p) for p in parts if isinstance(p, Value)])
    dims = t.broadcast([x.value.dims for x in tiles])
    if len(tiles) < len(parts) or not dims:
        raise TraceError("a scan or a reduction takes tiles with dimensions", got=f"{tile!r}"[:200], where=t.location())
    return tuple(t.expand(x, dims).value for x in tiles)


def _axis(t: Tracer, dim: int, value: Value) -> int:
    rank = len(value.dims)
    if not -rank <= dim < rank:
        raise ShapeError(
            f"dim must lie in [{-rank}, {rank - 1}]",
            got=dim,
            where=t.location(),
            hint="count dimensions from 0, or from -1 at the end",
        )
    return dim % rank


def _fills(t: Tracer, count: int, other: Any) -> tuple[int | float, ...]:
    """What stands in the lanes past a tile's end, one number for each value."""
    fills = tuple(other) if isinstance(other, (tuple, list)) else (other,) * count
    if len(fills) != count or not all(isinstance(f, (bool, int, float)) for f in fills):
        raise TraceError("other is a number, or one for each tile of the tuple", got=other, where=t.location())
    return fills


def _record(
    t: Tracer, kind: OpKind, values: tuple[Value, ...], types: list[TileType], block: Block, attrs: Attrs
) -> tuple[Value, ...]:
    outputs = tuple(t.builder.value(type_, t.location()) for type_ in types)
    t.builder.append(Op(kind, values, outputs, attrs, (block,), t.location()))
    return outputs
