"""Loops of the GPU kernel, with values that they carry from one turn to the next."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .loads import load
from .values import Dim, Range, Value, held
from .writer import MOST_ELEMENTS, Loop, Writer

MOST_TURNS = 400
Body = Callable[[Writer, int], None]


def loop(w: Writer, body: Body) -> None:
    sizes = sorted({s for t in w.tensors for s in t.sizes})
    size = w.draws.of(sizes) if sizes else 3
    if w.turns * size > MOST_TURNS:
        return
    kind = w.draws.weighted([(5, "tile"), (2, "range"), (2, "grid"), (1, "static")])
    if kind == "static" and size > 8:
        kind = "range"
    one = Loop(w.name("k" if kind == "tile" else "i"), size, kind == "tile")
    function = {"tile": "tfl.tile", "range": "range", "grid": "tfl.grid", "static": "tfl.static_range"}[kind]
    heading = f"for {one.variable} in {function}({w.size(size)}):"
    _carried(w, one, heading, body)


def _carried(w: Writer, one: Loop, heading: str, body: Body) -> None:
    """The body is written first, to know what there is to carry; what it starts from is put before the loop."""
    at, names = len(w.lines), [w.name("c") for _ in range(w.draws.between(1, 2))]
    starts, made = list[str](), list[Value]()
    with w.block(heading):
        w.loops.append(one)
        try:
            load(w)
            body(w, 4)
            for name in names:
                update = w.draws.weighted([(5, _sum), (2, _extremum), (2, _previous), (1, _decayed), (1, _last)])
                if (found := update(w, one, name)) is not None:
                    start, value = found
                    starts.append(start)
                    made.append(value)
        finally:
            w.loops.pop()
    w.lines[at:at] = ["    " * w.depth + line for line in starts]
    w.values += made


def _term(w: Writer, one: Loop) -> tuple[Value, str, tuple[Dim, ...]] | None:
    """A value of the turn, and its sum over the loop's own dimension."""
    known = [v for v in w.values if v.dtype != torch.bool]
    if not known:
        return None
    value = w.draws.of(known[-4:])
    if one.is_tile and one.dim in value.dims:
        at = value.dims.index(one.dim)
        return value, f"{value.text}.sum({at})", value.dims[:at] + value.dims[at + 1 :]
    return value, value.text, value.dims


def _start(w: Writer, name: str, dims: tuple[Dim, ...], number: str, dtype: torch.dtype) -> str:
    if not dims:
        return f"{name} = {number if dtype.is_floating_point else int(float(number))}"
    shape = ", ".join(d.text for d in dims)
    more = "" if dtype == torch.float32 else f", dtype={dtype}"
    if number == "0.0":
        return f"{name} = tfl.zeros([{shape}]{more})"
    return f"{name} = tfl.full([{shape}], {number if dtype.is_floating_point else int(float(number))}{more})"


def _in_scope(w: Writer, one: Loop, dims: tuple[Dim, ...]) -> bool:
    outside = {loop.dim for loop in w.loops if loop.is_tile and loop is not one}
    return all(not d.tile or d in outside for d in dims)


def _kept(name: str, dtype: torch.dtype, dims: tuple[Dim, ...], values: Range) -> Value | None:
    found = held(values, dtype)
    made = None if found is None else Value(name, dtype, dims, found)
    return None if made is None or made.numel > MOST_ELEMENTS else made


def _carrier(value: Value) -> torch.dtype:
    """What a sum of such values is held in: a float32, an int64 or the value's own dtype."""
    if value.is_float:
        return torch.float32
    return torch.int64


Update = tuple[str, Value] | None


def _sum(w: Writer, one: Loop, name: str) -> Update:
    if (found := _term(w, one)) is None:
        return None
    value, text, dims = found
    dtype = _carrier(value)
    made = _kept(name, dtype, dims, value.range.times(w.turns))
    if made is None or not _in_scope(w, one, dims):
        return None
    w.line(w.draws.of([f"{name} += {text}", f"{name} = {name} + {text}", f"{name} = {text} + {name}"]))
    if w.draws.chance(15) and dims:
        w.values.append(made)
    return _start(w, name, dims, "0.0", dtype), made


def _extremum(w: Writer, one: Loop, name: str) -> Update:
    if (found := _term(w, one)) is None:
        return None
    value, _, dims = found
    if value.dims != dims:
        text = f"{value.text}.amax({value.dims.index(one.dim)})"
    else:
        text = value.text
    if not value.dims or not dims:
        return None
    made = _kept(name, value.dtype, dims, value.range.hull(Range(0, 0, 1)))
    if made is None or not _in_scope(w, one, dims):
        return None
    w.line(f"{name} = torch.maximum({name}, {text})")
    return _start(w, name, dims, "0.0", value.dtype), made


def _previous(w: Writer, one: Loop, name: str) -> Update:
    """What the turn before had, beside what this one has."""
    if (found := _term(w, one)) is None:
        return None
    value, text, dims = found
    last, dtype = w.name("c"), _carrier(value)
    made = _kept(name, dtype, dims, value.range.times(w.turns * w.turns + 1))
    if made is None or not dims or not _in_scope(w, one, dims):
        return None
    cast = f"{text}.to({dtype})"
    w.line(w.draws.of([f"{name}, {last} = {name} + {last}, {cast}", f"{name}, {last} = {last}, {cast}"]))
    return f"{_start(w, name, dims, '0.0', dtype)}; {_start(w, last, dims, '0.0', dtype)}", made


def _decayed(w: Writer, one: Loop, name: str) -> Update:
    if (found := _term(w, one)) is None:
        return None
    value, text, dims = found
    most = value.range.most * max(one.size, 1)
    made = _kept(name, torch.float32, dims, Range(-2 * most - 2, 2 * most + 2))
    if made is None or not dims or not value.is_float or not _in_scope(w, one, dims):
        return None
    w.line(f"{name} = {name} * 0.5 + {text}")
    return _start(w, name, dims, "1.0", torch.float32), made


def _last(w: Writer, one: Loop, name: str) -> Update:
    """What the last turn that a mask chose had."""
    if (found := _term(w, one)) is None:
        return None
    value, text, dims = found
    masks = [v for v in w.values if v.dtype == torch.bool and v.dims == dims]
    if not masks or not dims or value.dims != dims:
        return None
    made = _kept(name, value.dtype, dims, value.range.hull(Range(1, 1, 1)))
    if made is None or not _in_scope(w, one, dims):
        return None
    w.line(f"{name} = torch.where({w.draws.of(masks).text}, {text}, {name})")
    return _start(w, name, dims, "1.0", value.dtype), made
