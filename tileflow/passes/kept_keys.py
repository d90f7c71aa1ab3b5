"""Which keys of a loop a mask keeps: those up to a number of each row, or from one on.

``torch.where(t.index[:, None] >= keys[None, :], scores, -inf)`` keeps the keys up to a row's own. A loop over blocks of
keys ends behind the last one that any of its rows keeps, and in a block of which all rows keep all there is nothing to
mask. So does a loop of an author who wrote ``for keys in tfl.tile(t.end)`` with a branch in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from ..expr import Expr
from ..ir.attributes import ArangeAttrs, AxisAttrs, PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import Block, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, TileType, Value
from .folds import Ops
from .makers import Makers, function_of

_NEGATED = {"le": "gt", "lt": "ge", "ge": "lt", "gt": "le"}
_SWAPPED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
_BOTH, _EITHER = ("logical_and", "bitwise_and"), ("logical_or", "bitwise_or")


@dataclass(frozen=True, slots=True)
class Bound:
    """A key is kept where ``fn(key, row + offset)``, the ``terms`` added to that: numbers of the kernel, with their
    signs. ``row``: a column of the indices of ``tile``, each of them ``shift`` higher, or where ``tile`` is empty one
    number for all rows."""

    fn: str
    row: Operand
    offset: int = 0
    terms: tuple[tuple[int, Value], ...] = ()
    tile: str = ""
    shift: int = 0

    @property
    def is_upper(self) -> bool:
        """Whether it is the later keys that are not kept."""
        return self.fn in ("le", "lt")

    def plus(self, number: Operand, sign: int = 1) -> Bound:
        """The same of keys that are so much lower."""
        if isinstance(number, Value):
            return replace(self, terms=(*self.terms, (sign, number)))
        return replace(self, offset=self.offset + sign * int(number))


@dataclass(frozen=True, slots=True)
class Kept:
    """What a condition says of keys: ``bounds`` that all hold where it does, and, if ``is_all``, nowhere else."""

    bounds: tuple[Bound, ...]
    is_all: bool


def kept_by(condition: Operand, dim: Dim, makers: Makers, *, is_negated: bool = False) -> Kept:
    """What a condition over keys along ``dim`` says of them. ``is_negated``: where it does not hold."""
    op = makers.get(condition) if isinstance(condition, Value) else None
    fn = function_of(op)
    if op is None or not fn or op.output.type.dtype != "bool":
        return Kept((), False)
    if fn in ("logical_not", "bitwise_not"):
        return kept_by(op.inputs[0], dim, makers, is_negated=not is_negated)
    if fn in (_EITHER if is_negated else _BOTH):
        sides = [kept_by(side, dim, makers, is_negated=is_negated) for side in op.inputs]
        return Kept(sides[0].bounds + sides[1].bounds, all(side.is_all for side in sides))
    if fn not in _NEGATED:
        return Kept((), False)
    fn = _NEGATED[fn] if is_negated else fn
    one, other = op.inputs
    found = _bound(fn, one, other, dim, makers) or _bound(_SWAPPED[fn], other, one, dim, makers)
    return Kept((found,) if found else (), found is not None)


def _bound(fn: str, key: Operand, row: Operand, dim: Dim, makers: Makers) -> Bound | None:
    """Of ``fn(key, row)``, or of ``fn`` of their difference and a number."""
    base, place = _counted(key, makers)
    if base is not None and base.kind is OpKind.ARANGE and dim in base.output.dims:
        start, found = ArangeAttrs.of(base).start.constant, _of_rows(fn, row, makers)
        return found.plus(-place - start) if found and isinstance(start, int) else None
    if base is not None and function_of(base) == "sub" and place == 0 and _is_one(row):
        one, other = base.inputs
        if found := _bound(fn, one, other, dim, makers):
            return found.plus(row)
        found = _bound(_SWAPPED[fn], other, one, dim, makers)
        return found and found.plus(row, -1)
    return None


def _of_rows(fn: str, row: Operand, makers: Makers) -> Bound | None:
    """The bound that a number is, or a column of a tile's indices."""
    if _is_one(row):
        return Bound(fn, row)
    base, shift = _counted(row, makers)
    if not isinstance(row, Value) or base is None or base.kind is not OpKind.TILE_INDEX or row.dims[-1] != ONE:
        return None
    return Bound(fn, row, tile=TileAttrs.of(base).tile, shift=shift)


def _counted(value: Operand, makers: Makers) -> tuple[Op | None, int]:
    """The op whose numbers a value has, and what is added to all of them."""
    op = makers.get(value) if isinstance(value, Value) else None
    if op is None or not isinstance(value, Value) or not _is_whole(value):
        return None, 0
    if op.kind in (OpKind.UNSQUEEZE, OpKind.CAST):
        return _counted(op.inputs[0], makers)
    if function_of(op) in ("add", "sub") and _is_number(op.inputs[1]):
        base, shift = _counted(op.inputs[0], makers)
        return base, shift + (op.inputs[1] if function_of(op) == "add" else -op.inputs[1])
    return op, 0


def _is_one(operand: Operand) -> bool:
    """A whole number that is the same for all rows."""
    return _is_number(operand) or (isinstance(operand, Value) and _is_whole(operand) and not operand.dims)


def _is_number(operand: Operand) -> TypeGuard[int]:
    return isinstance(operand, int) and not isinstance(operand, bool)


def _is_whole(value: Value) -> bool:
    return value.type.dtype in ("int32", "int64")


def narrowed(at: Ops, tile: Tile, bounds: Iterable[Bound], tiles: Mapping[str, Tile]) -> Tile:
    """A loop's tile without the blocks in front of and behind the keys that its rows keep. What says where those are
    is appended to the ops. The loop begins and ends with whole blocks, so that no lane needs a mask of its own."""
    whole = tile.end
    assert isinstance(whole, Expr)
    for bound in bounds:
        if bound.is_upper:
            more = bound.offset + (bound.fn == "le") - 1
            end = _edge(at, bound, tiles, OpKind.TILE_END, more)
            is_own = bound.tile and not bound.terms and bound.shift + more == 0 and tiles[bound.tile].end == whole
            end = end if is_own else _between(at, tile, end, 0, whole, round_up=True)
            tile = replace(tile, end=_nearer(at, "minimum", tile.end, end))
        else:
            begin = _edge(at, bound, tiles, OpKind.TILE_BEGIN, bound.offset + (bound.fn == "gt"))
            begin = _between(at, tile, begin, 0, whole, round_up=False)
            tile = replace(tile, begin=_nearer(at, "maximum", tile.begin, begin))
    if isinstance(tile.begin, Value) and isinstance(tile.end, Value):  # no less than no turns
        tile = replace(tile, begin=at.compute("minimum", tile.begin, tile.end, like=tile.begin))
    return tile


def _nearer(at: Ops, fn: str, known: Expr | Value, found: Value) -> Value:
    """Of two masks' bounds the one that leaves out more."""
    return at.compute(fn, known, found, like=found) if isinstance(known, Value) else found


def _edge(at: Ops, bound: Bound, tiles: Mapping[str, Tile], kind: OpKind, more: int) -> Value:
    """``more`` than the least number of the rows (TILE_BEGIN), or than what follows the largest one (TILE_END)."""
    if not bound.tile:
        return _sum(at, bound.row, more + (kind is OpKind.TILE_END), bound.terms)
    row = at.emit(kind, (), TileType(tiles[bound.tile].index_dtype, ()), TileAttrs(bound.tile))
    return _sum(at, row, more + bound.shift, bound.terms)


def _sum(at: Ops, row: Operand, more: int, terms: Iterable[tuple[int, Value]]) -> Value:
    """A row's number and what is added to it, in 64 bits unless that is nothing that another has made."""
    if isinstance(row, Value) and more == 0 and not terms:
        return row
    dims = row.dims if isinstance(row, Value) else ()
    numbers: tuple[tuple[int, Operand], ...] = (*terms, (1, more))
    for sign, number in numbers:
        fn = "add" if sign > 0 else "sub"
        row = at.emit(OpKind.POINTWISE, (row, number), TileType("int64", dims), PointwiseAttrs(fn, "int64"))
    assert isinstance(row, Value)
    return row


def _between(at: Ops, tile: Tile, found: Value, least: int, end: Expr, round_up: bool | None = None) -> Value:
    """What is found among all numbers, as an index of the loop's or as ``least`` or ``end``. ``round_up``: to the next
    block's begin, or, if False, to this one's."""
    size, block = (at.emit(OpKind.SIZE, (), TileType(tile.index_dtype, ()), SizeAttrs(e)) for e in (end, tile.block))
    found = at.compute("maximum", at.compute("minimum", found, size, like=found), least, like=found)
    found = at.emit(OpKind.CAST, (found,), TileType(tile.index_dtype, found.dims))
    if round_up is None:
        return found
    if round_up:
        found = at.compute("add", at.compute("add", found, block, like=found), -1, like=found)
    found = at.compute("mul", at.compute("floordiv", found, block, like=found), block, like=found)
    return at.compute("minimum", found, size, like=found) if round_up else found


def kept_where(
    at: Ops, tile: Tile, bounds: Iterable[Bound], tiles: Mapping[str, Tile], scores: Value, end: Expr
) -> Value:
    """The scores of a block, -inf where a bound does not hold, which is asked in blocks alone where some row's may
    not. ``end``: of all keys."""
    for bound in bounds:
        is_cut = _is_cut(at, tile, bound, tiles)
        ops = list[Op]()
        within = at.within(ops)
        places = within.emit(OpKind.TILE_INDEX, (), TileType(tile.index_dtype, (tile.dim,)), TileAttrs(tile.name))
        keys = within.emit(OpKind.UNSQUEEZE, (places,), TileType(tile.index_dtype, (ONE, tile.dim)), AxisAttrs(0))
        row = _sum(within, bound.row, bound.offset, bound.terms)
        if row.type.dtype != tile.index_dtype:
            row = _between(within, tile, row, -1, end)
        is_kept = TileType("bool", (*(row.dims[:-1] or (ONE,)), tile.dim))
        attrs = PointwiseAttrs(bound.fn, tile.index_dtype)
        kept = within.emit(OpKind.POINTWISE, (keys, row), is_kept, attrs)
        masked = within.compute("where", kept, scores, -math.inf, like=scores)
        scores = at.branch(is_cut, Block((), tuple(ops), (masked,)), Block((), (), (scores,)), like=scores)
    return scores


def _is_cut(at: Ops, tile: Tile, bound: Bound, tiles: Mapping[str, Tile]) -> Value:
    """Whether a block may have keys that some row does not keep."""
    index = TileType(tile.index_dtype, ())
    if bound.is_upper:
        own, fn, kind = at.emit(OpKind.TILE_END, (), index, TileAttrs(tile.name)), "gt", OpKind.TILE_BEGIN
    else:
        own, fn, kind = at.emit(OpKind.TILE_BEGIN, (), index, TileAttrs(tile.name)), "lt", OpKind.TILE_END
    edge = _edge(at, bound, tiles, kind, bound.offset)
    return at.emit(OpKind.POINTWISE, (own, edge), TileType("bool", ()), PointwiseAttrs(fn, "int64"))
