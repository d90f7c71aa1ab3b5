"""Carried values of a device loop: their types are a fixpoint of the body.

The body is traced with the types at entry; where it yields others (a number became a tile, a dtype was promoted, a
dimension of size 1 grew) the entry is widened and the body traced again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import ShapeError, TraceError
from ..ir.attributes import NO_ATTRS, LoopAttrs, WhereMaskAttrs
from ..ir.graph import Block, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.types import Dim, TileType
from .changed_tiles import ones, related
from .dimensions import show
from .joined import joined_type
from .trace import Tracer
from .values import UNDEFINED, SymInt, TileValue, is_number

Run = Callable[[tuple[Any, ...]], tuple[Any, ...]]
_TRIES = 6


@dataclass(slots=True)
class Known:
    """What traces of a loop's body found out for the next one. ``typed``: of the names that have a number of Python's
    before, those that a turn gives a scalar with a dtype. ``together``: of a name's place those of others that have the
    same tile in later turns; ``later``: the tiles from outside the loop that it has there."""

    typed: set[str] = field(default_factory=set)
    together: dict[int, tuple[int, ...]] = field(default_factory=dict)
    later: dict[int, tuple[TileValue, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Carried:
    """The names that a loop carries and their values at entry."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


def is_one_number(a: Any, b: Any) -> bool:
    """Whether two values are one number of Python's: 0.0 and -0.0 are equal and are two, and so are 1 and 1.0."""
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or a != b:
        return False
    if isinstance(a, float) and isinstance(b, float):
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return isinstance(a, float) is isinstance(b, float) and isinstance(a, bool) is isinstance(b, bool)


def trace_to_fixpoint(t: Tracer, tile: Tile | None, run: Run, carried: Carried) -> tuple[Any, ...]:
    """Trace a loop over ``tile`` until the carried types hold, record it, and return the values after it. Without a
    tile it goes on as long as the first of the carried values is true."""
    entry, known, since = list(carried.values), Known(), t.opened
    for _ in range(_TRIES):
        attempt = _Attempt(t, tile, run, carried.names, entry, known)
        if attempt.wider is None:
            after = attempt.finish()
            t.changes.hand_on(since)
            return after
        entry = attempt.wider
    raise TraceError(
        "the types of a loop's variables reach a fixpoint",
        got=", ".join(carried.names),
        where=t.location(),
        hint="give the variable its final dtype and shape before the loop",
    )


class _Attempt:
    """One trace of the body. What is ``known`` gets more. ``wider``: the entry values to try next, or None where the
    types hold."""

    def __init__(
        self, t: Tracer, tile: Tile | None, run: Run, names: tuple[str, ...], entry: list[Any], known: Known
    ) -> None:
        self.t, self.tile, self.names, self.entry, self.known = t, tile, names, entry, known
        saved_names = t.names.snapshot()
        for value in entry:
            if isinstance(value, TileValue):
                t.changes.use(value)
        t.open_scope()
        t.loops.add(t.scopes[-1])
        self.params = [self._param(n, v) for n, v in zip(names, entry, strict=True)]
        self._relate()
        self.results = run(tuple(self.params))
        self.wider = self._compare(self.results)
        if self.wider is None and self._are_more_together():
            self.wider = entry
        self.yields = [] if self.wider is not None else self._yields(self.results)
        self.ops = t.close_scope()
        if self.wider is not None:
            t.names.restore(saved_names)

    def _param(self, name: str, value: Any) -> Any:
        if not isinstance(value, TileValue):
            return value
        type_ = value.value.type
        param = self.t.builder.value(TileType(type_.dtype, type_.dims), value.value.loc)
        self.t.name_value(param, name)
        if value.is_number and name not in self.known.typed:
            return self.t.number(self.t.wrap(param))
        wrapped = self.t.wrap(param)
        wrapped.entry = value
        return wrapped

    def _relate(self) -> None:
        """Say of the parameters what they are beside what the first turn has in them."""
        for place, param in enumerate(self.params):
            if isinstance(param, TileValue):
                others = (self.params[other] for other in self.known.together.get(place, ()))
                param.same = tuple(other for other in others if isinstance(other, TileValue))
                param.later = self.known.later.get(place, ())

    def _are_more_together(self) -> bool:
        """Note what the next turn has under two names, or from outside, where a turn changes it in place. Returns
        whether there was more than what was known."""
        t, before = self.t, (dict(self.known.together), dict(self.known.later))
        places = [
            (n, p, r)
            for n, (p, r) in enumerate(zip(self.params, self.results, strict=True))
            if isinstance(p, TileValue) and isinstance(r, TileValue) and not r.is_number
        ]
        if not any(t.changes.was_changed(p) for _, p, _ in places):
            return False
        for n, param, result in places:
            reached = {id(one): one for one in related(result)}
            if result is not param and t.changes.was_changed(param):
                own = {id(one) for one in related(param)}
                outer = [one for key, one in reached.items() if key not in own and one.scope in t.scopes[:-1]]
                if outer and n not in self.known.later:
                    self.known.later[n] = tuple(outer)
            others = {
                other
                for other, its, makes in places
                if other != n
                and (result is not param or makes is not its)
                and any(id(one) in reached for one in ones(makes))
                and (t.changes.was_changed(param) or t.changes.was_changed(its))
            }
            if others:
                self.known.together[n] = tuple(sorted(others | {*self.known.together.get(n, ())}))
        return before != (self.known.together, self.known.later)

    def _compare(self, results: tuple[Any, ...]) -> list[Any] | None:
        widened = [self._widen(n, e, r) for n, e, r in zip(self.names, self.entry, results, strict=True)]
        changed = any(w is not e for w, e in zip(widened, self.entry, strict=True))
        pairs = zip(self.names, self.params, results, strict=True)
        typed = {n for n, p, r in pairs if isinstance(p, TileValue) and p.is_number and not is_number(r)}
        self.known.typed |= typed
        return widened if changed or typed else None

    def _widen(self, name: str, entry: Any, result: Any) -> Any:
        """The entry under a type that holds both it and what the body yields; ``entry`` itself where its own does."""
        if entry is UNDEFINED or result is UNDEFINED or entry is result:
            return entry
        if not isinstance(result, (TileValue, SymInt, int, float)):
            raise TraceError(
                "a loop carries tiles and numbers",
                got=f"{name} = {result!r}"[:200],
                where=self.t.location(),
                hint="tuples and lists of tiles are carried too; keep what does not change outside the loop",
            )
        if not isinstance(entry, (TileValue, SymInt, int, float)):
            raise TraceError(
                "a loop carries tiles and numbers",
                got=f"{name} = {entry!r} before the loop"[:200],
                where=self.t.location(),
                hint=f"give {name} a tile or a number before the loop: tfl.zeros([tile])",
            )
        if not isinstance(entry, TileValue):
            if is_one_number(entry, result):
                return entry
            return self._outside(lambda: self._as_tile(name, entry, result))  # a number has any number of dimensions
        target = self._target(name, entry, result)
        if target == TileType(entry.value.type.dtype, entry.value.dims):
            return entry
        widened = self._outside(lambda: self.t.expand(self.t.cast(entry, target.dtype), target.dims))
        widened.same = (entry,)  # which the first turn has
        return widened

    def _as_tile(self, name: str, entry: Any, result: Any) -> Any:
        common = joined_type(self.t, name, entry, result)
        made = self.t.full(tuple(self._leave(d) for d in common.dims), entry, common.dtype)
        return self.t.number(made) if is_number(result) else made

    def _target(self, name: str, entry: TileValue, result: Any) -> TileType:
        own = entry.value.dims
        if isinstance(result, TileValue) and len(result.value.dims) > len(own):
            raise TraceError(
                "a loop's variable keeps its number of dimensions",
                where=self.t.location(),
                got=f"{name}: {show(own)} before, {show(result.value.dims)} after",
                hint=f"give {name} its final shape before the loop, or use another name",
            )
        try:
            common = joined_type(self.t, name, entry, result)
        except ShapeError as error:
            raise ShapeError(
                "a loop's variable keeps its shape",
                got=f"{name}: {error.got} meet",
                where=error.where,
                hint=f"give {name} its final shape before the loop, or the new value another name",
            ) from error
        dims = tuple(self._leave(d) for d in common.dims)
        # an entry with this loop's own lanes cannot be; a bare block stays bare
        kept = tuple(o if o.extent == d.extent else d for o, d in zip(own, dims, strict=True))
        return TileType(common.dtype, kept)

    def _leave(self, d: Dim) -> Dim:
        return d.bare() if self._is_own(d) else d

    def _is_own(self, d: Dim) -> bool:
        """Whether it is a dimension of this loop's own lanes."""
        return self.tile is not None and d.tile == self.tile.name

    def _outside(self, make: Callable[[], Any]) -> Any:
        """Record ops in the block around the loop."""
        t = self.t
        body, scope = t.builder._open.pop(), t.scopes.pop()
        try:
            return make()
        finally:
            t.builder._open.append(body)
            t.scopes.append(scope)

    def _yields(self, results: tuple[Any, ...]) -> list[Operand]:
        """What the body yields, in the params' types: lanes outside the tile keep their old value."""
        t = self.t
        yields: list[Operand] = []
        for param, result in zip(self.params, results, strict=True):
            if not isinstance(param, TileValue):
                continue
            target = param.value.type
            value = t.cast(result, target.dtype)
            axes = tuple(n for n, d in enumerate(value.value.dims) if self._is_own(d))
            if axes:
                kept = t.emit(OpKind.WHERE_MASK, (value.value, param.value), target, WhereMaskAttrs(axes))
                yields.append(kept.value)
            else:
                yields.append(t.expand(value, target.dims).value)
        return yields

    def finish(self) -> tuple[Any, ...]:
        """Record the loop; the values after it."""
        t, tile = self.t, self.tile
        params = tuple(p.value for p in self.params if isinstance(p, TileValue))
        entry = tuple(e.value for e in self.entry if isinstance(e, TileValue))
        bounds = () if tile is None else tile.bounds
        outputs = tuple(t.builder.value(p.type, t.location()) for p in params)
        named = [n for n, p in zip(self.names, self.params, strict=True) if isinstance(p, TileValue)]
        for name, out in zip(named, outputs, strict=True):
            t.name_value(out, name)
        body = Block(params, self.ops, tuple(self.yields))
        attrs = NO_ATTRS if tile is None else LoopAttrs(tile.name, len(bounds))
        kind = OpKind.WHILE if tile is None else OpKind.FOR
        t.builder.append(Op(kind, (*bounds, *entry), outputs, attrs, (body,), t.location()))
        found = iter(outputs)
        after = [t.wrap(next(found)) if isinstance(e, TileValue) else e for e in self.entry]
        for value, result in zip(after, self.results, strict=True):
            if isinstance(value, TileValue) and isinstance(result, TileValue):
                value.same = (result,)
        return tuple(
            t.number(a) if is_number(p) and isinstance(a, TileValue) else a
            for a, p in zip(after, self.params, strict=True)
        )
