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
    kind = w.draws.weighted([(5, _tiles), (2, _range), (2, _grid), (1, _static), (1, _while)])
    one, starts, heading = kind(w, size)
    _carried(w, one, starts, heading, body)


Heading = tuple[Loop, list[str], str]  # lines before the loop, and its own


def _tiles(w: Writer, size: int) -> Heading:
    """Over a whole axis, a part of it, as far as a tile around, up to a number that was loaded."""
    one = Loop(w.name("k"), size, True)
    ends = [(6, w.size(size)), (1, f"{w.draws.between(0, min(size, 3))}, {w.size(size)}")]
    for other in w.loops:
        if other.is_tile and other.size == size:
            t = other.variable
            ends += [(3, f"{t}.end"), (1, f"{t}.begin, {t}.end"), (1, f"{t}.begin, {w.size(size)}")]
        elif not other.is_tile and other.size <= size:
            ends += [(2, other.variable), (1, f"{other.variable}, {w.size(size)}")]
    for value in w.values[-6:]:
        if value.is_int and not value.dims and value.is_exact and value.range.low >= 0 and value.range.high <= size:
            ends += [(6, value.text)]
    end = w.draws.weighted(ends)
    one.is_partial = end != ends[0][1]
    block = w.draws.weighted([(8, ""), (1, ", block_size=4"), (1, ", block_size=1"), (1, ", block_size=16")])
    return one, [], f"for {one.variable} in tfl.tile({end}{block}):"


def _range(w: Writer, size: int) -> Heading:
    one = Loop(w.name("i"), size, False)
    n, step = w.size(size), w.draws.between(1, 3)
    first = w.draws.between(0, min(size, 2))
    over = w.draws.of(
        [f"range({n})", f"range({first}, {n}, {step})", f"range({n} - 1, -1, -1)", f"reversed(range({n}))"]
    )
    one.is_partial = "," in over
    return one, [], f"for {one.variable} in {over}:"


def _grid(w: Writer, size: int) -> Heading:
    one = Loop(w.name("i"), size, False)
    over = w.draws.of([w.size(size), f"{min(size, 1)}, {w.size(size)}", f"0, {w.size(size)}, 2"])
    one.is_partial = "," in over
    return one, [], f"for {one.variable} in tfl.grid({over}):"


def _static(w: Writer, size: int) -> Heading:
    one = Loop(w.name("i"), min(size, 6), False)
    return one, [], f"for {one.variable} in tfl.static_range({one.size}):"


def _while(w: Writer, size: int) -> Heading:
    """Up to a number that was loaded."""
    bounds = [v for v in w.values if v.is_int and not v.dims and v.is_exact and v.number is None and v.range.high <= 12]
    if not bounds:
        return _range(w, size)
    bound = w.draws.of(bounds)
    one = Loop(w.name("j"), max(int(bound.range.high), 0), False, is_partial=True)
    return one, [f"{one.variable} = 0"], f"while {one.variable} < {bound.text}:"


def _carried(w: Writer, one: Loop, starts: list[str], heading: str, body: Body) -> None:
    """The body is written first, to know what there is to carry; what it starts from is put before the loop."""
    at, names = len(w.lines), [w.name("c") for _ in range(w.draws.between(1, 2))]
    made = list[Value]()
    w.partial += one.is_partial
    with w.block(heading):
        w.loops.append(one)
        if not one.is_tile and not heading.startswith("while") and w.draws.chance(10):
            w.line(f"if {one.variable} {w.draws.of(('%', '>', '<='))} 2:")
            w.line("    continue")
            w.partial += 1
            one.is_partial, before = True, one.is_partial
            w.partial -= before
        load(w)
        body(w, 4)
        for name in names:
            update = w.draws.weighted([(5, _sum), (2, _extremum), (2, _previous), (1, _decayed), (1, _last)])
            if (found := update(w, one, name)) is not None:
                start, value = found
                starts.append(start)
                made.append(value)
        if heading.startswith("while"):
            w.line(f"{one.variable} = {one.variable} + 1")
        w.loops.pop()
    w.partial -= one.is_partial
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
