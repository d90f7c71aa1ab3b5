"""Affine forms: an int that device code computed, as a polynomial over sizes, block sizes and what only the device has.

``x[tile.begin * 2 : tile.begin * 2 + 2 * b]`` has a length, ``2 * b``, although where it starts is known on the device
only. The forms are derived from the ops when an index asks for them; values carry nothing. An atom, whose symbol starts
with ``%``, stands for the number of a tile in its loop, or for a value that is no sum or product of others.
"""

from __future__ import annotations

from typing import Any

from ..expr import FALSE, TRUE, Expr
from ..ir.attributes import AccessAttrs, PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import Inside, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.signs import is_nonnegative, sign_of
from ..ir.types import Value
from .trace import Tracer
from .values import SymInt, TileValue

_ID, _END = "%id:", "%end:"


def affine(t: Tracer, x: Any) -> Expr:
    """The form of an int, a size or a scalar of the kernel."""
    if isinstance(x, SymInt):
        return x.expr
    if isinstance(x, TileValue):
        return _form(t, t.operand(x))
    return Expr.of(int(x))


def is_known(e: Expr) -> bool:
    """Whether a form has no atoms: a size."""
    return not any(s.startswith("%") for s in e.symbols())


def is_negative(e: Expr) -> bool:
    """Whether a form is the opposite of a sum of sizes and block sizes."""
    terms = e.args if e.op == "sum" else (e,)
    return is_known(e) and e != Expr.of(0) and all(sign_of(term) < 0 for term in terms)


def tile_between(t: Tracer, start: Expr, length: Expr) -> tuple[str, Expr] | None:
    """The tile and the offset that ``tile.begin + offset`` to ``tile.end + offset`` is; None where no tile is it."""
    for name in (s.removeprefix(_END) for s in length.symbols() if s.startswith(_END)):
        begin = _begin(t, name)
        if length == Expr.sym(_END + name) - begin and is_known(start - begin):
            return name, start - begin
    return None


def inside(t: Tracer, start: Expr, length: Expr, size: Expr) -> Inside:
    """Whether ``start`` up to ``start + length`` lies inside ``[0, size)``: what the config must settle."""
    return between(t, _extreme(t, start, -1), _extreme(t, start + length, 1), size)


def between(t: Tracer, least: Expr | None, end: Expr | None, size: Expr, unless: Expr = FALSE) -> Inside:
    """Whether ``least`` up to ``end`` lies inside ``[0, size)``; None where it is not known. ``unless``: no program
    comes by where this holds."""
    return Inside(
        FALSE if least is None else _as_guard(t, Expr.of(0).le(least), unless),
        FALSE if end is None else _as_guard(t, end.le(size), unless),
    )


def extremes(t: Tracer, x: Value) -> tuple[Expr | None, Expr | None]:
    """The least and the largest number that a scalar is, by its form; None where not known."""
    form = _form(t, x)
    return _extreme(t, form, -1), _extreme(t, form, 1)


def _as_guard(t: Tracer, condition: Expr, unless: Expr) -> Expr:
    """A condition over launch symbols alone becomes a guard where the example fulfils it.

    An extremum may be wrong of a loop without tiles, whose last index is said to be before its first; sums are not.
    """
    if condition.symbols() <= t.hints.keys() and condition.evaluate(t.hints):
        t.guard(condition.or_(unless) if _has_extremum(condition) else condition)
        return TRUE
    return condition


def _has_extremum(e: Expr) -> bool:
    return e.op in ("min", "max") or any(isinstance(part, Expr) and _has_extremum(part) for part in e.args)


def _form(t: Tracer, x: Operand) -> Expr:
    if not isinstance(x, Value):
        return Expr.of(int(x))
    op = t.builder.definitions.get(x)
    form = None if op is None else _of_op(t, op)
    return Expr.sym(f"%{x.id}") if form is None else form


def _of_op(t: Tracer, op: Op) -> Expr | None:
    """The form of an op's result; None where it is an atom."""
    match op.kind:
        case OpKind.SIZE:
            return SizeAttrs.of(op).value
        case OpKind.CAST | OpKind.FULL if op.output.type.dtype in ("int32", "int64") and not op.output.dims:
            return _form(t, op.inputs[0])
        case OpKind.TILE_ID:
            return Expr.sym(_ID + TileAttrs.of(op).tile)
        case OpKind.TILE_BEGIN:
            return _begin(t, TileAttrs.of(op).tile)
        case OpKind.TILE_END:
            return Expr.sym(_END + TileAttrs.of(op).tile)
        case OpKind.LOAD if not op.output.dims and not AccessAttrs.of(op).has_mask:
            return _loaded(t, op)
        case OpKind.POINTWISE if PointwiseAttrs.of(op).operand in ("int32", "int64") and not op.output.dims:
            return _arithmetic(t, op)
    return None


def _arithmetic(t: Tracer, op: Op) -> Expr | None:
    fn = PointwiseAttrs.of(op).fn
    if fn not in ("add", "sub", "mul", "neg"):
        return None
    forms = [_form(t, v) for v in op.inputs]
    match fn:
        case "add":
            return forms[0] + forms[1]
        case "sub":
            return forms[0] - forms[1]
        case "mul":
            return forms[0] * forms[1]
    return -forms[0]


def _loaded(t: Tracer, op: Op) -> Expr | None:
    """Loads of one element that no store of the kernel stands between are one atom."""
    tensor = AccessAttrs.of(op).tensor
    sharing = t.sharing(tensor)
    writes = sum(path in sharing and first <= op.output.id for first, path in t.builder.writes)
    places = ",".join(str(_form(t, v)) for v in op.inputs)
    return Expr.sym(f"%load:{tensor}{AccessAttrs.of(op).index}({places})@{writes}")


def _begin(t: Tracer, name: str) -> Expr:
    """The first index of a tile: the loop's begin and as many blocks as there were tiles before."""
    tile = t.tiles[name]
    begin = tile.begin if isinstance(tile.begin, Expr) else _form(t, tile.begin)
    return begin + tile.block * Expr.sym(_ID + name)


def _extreme(t: Tracer, form: Expr, sign: int) -> Expr | None:
    """The largest (``sign`` 1) or least (-1) value of a form over all tiles of its loops; None where not known."""
    total = Expr.of(0)
    for term in form.args if form.op == "sum" else (form,):
        atoms = [s for s in term.symbols() if s.startswith("%")]
        if not atoms:
            total = total + term
            continue
        last = _last_id(t.tiles, atoms[0])
        factor = term.substitute({atoms[0]: 1})
        if last is None or not is_known(factor) or not is_nonnegative(factor * (positive := sign_of(factor))):
            return None
        if term != factor * Expr.sym(atoms[0]):
            return None
        total = total + (factor * last if positive == sign else 0)
    return total


def _last_id(tiles: dict[str, Tile], atom: str) -> Expr | None:
    tile = tiles.get(atom.removeprefix(_ID)) if atom.startswith(_ID) else None
    if tile is None or not isinstance(tile.begin, Expr) or not isinstance(tile.end, Expr):
        return None
    return (tile.end - tile.begin).cdiv(tile.block) - 1
