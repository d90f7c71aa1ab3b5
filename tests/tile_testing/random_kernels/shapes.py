"""The same elements in other shapes and orders: transposes, parts, joins, sorts."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .values import Dim, Range, Value
from .writer import Writer

Pick = Callable[[], Value | None]


def shape(w: Writer, pick: Pick) -> Value | None:
    a = pick()
    if a is None or not a.dims:
        return None
    return w.draws.weighted([(2, _permuted), (3, _part), (2, _moved), (2, _joined), (2, _reshaped), (2, _ordered),
                             (1, _expanded), (1, _triangle), (2, _picked)])(w, a)  # fmt: skip


def _whole(w: Writer, a: Value, least: int = 1) -> int | None:
    """A dimension of constant size."""
    found = [n for n, d in enumerate(a.dims) if not d.tile and d.size >= least]
    return w.draws.of(found) if found else None


def _with(dims: tuple[Dim, ...], at: int, *new: Dim) -> tuple[Dim, ...] | None:
    """The dimensions with that one replaced; None where one would be there twice."""
    made = dims[:at] + new + dims[at + 1 :]
    return made if len(set(made)) == len(made) else None


def _permuted(w: Writer, a: Value) -> Value | None:
    if len(a.dims) < 2:
        return None
    order = w.draws.order(range(len(a.dims)))[::-1]
    dims = tuple(a.dims[n] for n in order)
    if len(order) == 2 and order == [1, 0]:
        return w.keep(w.draws.of([f"{a.text}.T", f"{a.text}.transpose(0, 1)", f"{a.text}.mT"]), (a,), dims, a.range)
    return w.keep(f"{a.text}.permute({', '.join(map(str, order))})", (a,), dims, a.range)


def _part(w: Writer, a: Value) -> Value | None:
    at = _whole(w, a, 2)
    if at is None:
        return None
    size = a.dims[at].size
    begin = w.draws.below(size)
    end = w.draws.between(begin + 1, size)
    colons = ":, " * at
    if w.draws.chance(30):
        text = f"{a.text}[{colons}{begin}]" if w.draws.chance(50) else f"{a.text}.select({at}, {begin})"
        return w.keep(text, (a,), a.dims[:at] + a.dims[at + 1 :], a.range)
    step = w.draws.between(1, 3)
    dims = _with(a.dims, at, Dim(-(-(end - begin) // step)))
    if dims is None:
        return None
    if step == 1 and w.draws.chance(50):
        return w.keep(f"{a.text}.narrow({at}, {begin}, {end - begin})", (a,), dims, a.range)
    return w.keep(f"{a.text}[{colons}{begin}:{end}{f':{step}' if step > 1 else ''}]", (a,), dims, a.range)


def _moved(w: Writer, a: Value) -> Value | None:
    at = _whole(w, a)
    if at is None:
        return None
    shift = w.draws.between(1, 3)
    return w.keep(w.draws.of([f"{a.text}.flip({at})", f"torch.roll({a.text}, {shift}, {at})"]), (a,), a.dims, a.range)


def _joined(w: Writer, a: Value) -> Value | None:
    others = [b for b in w.values if b.dims == a.dims and b.dtype == a.dtype]
    at = _whole(w, a)
    b = w.draws.of(others)
    values = a.range.hull(b.range)
    if at is None or w.draws.chance(30):
        place = w.draws.between(0, len(a.dims))
        made = (*a.dims[:place], Dim(2), *a.dims[place:])
        if Dim(2) in a.dims or len(made) > 4:
            return None
        return w.keep(f"torch.stack([{a.text}, {b.text}], {place})", (a, b), made, values)
    dims = _with(a.dims, at, Dim(2 * a.dims[at].size))
    return None if dims is None else w.keep(f"torch.cat([{a.text}, {b.text}], {at})", (a, b), dims, values)


def _reshaped(w: Writer, a: Value) -> Value | None:
    at = _whole(w, a, 4)
    if at is not None and w.draws.chance(60):
        size = a.dims[at].size
        parts = [n for n in range(2, size) if size % n == 0]
        if not parts:
            return None
        first = w.draws.of(parts)
        dims = _with(a.dims, at, Dim(first), Dim(size // first))
        if dims is None or len(dims) > 4:
            return None
        text = f"{a.text}.unflatten({at}, ({first}, {size // first}))"
        if w.draws.chance(50):
            text = f"{a.text}.reshape({', '.join(d.text for d in dims)})"
        return w.keep(text, (a,), dims, a.range)
    for n in range(len(a.dims) - 1):
        pair = a.dims[n : n + 2]
        if not pair[0].tile and not pair[1].tile:
            dims = (*a.dims[:n], Dim(pair[0].size * pair[1].size), *a.dims[n + 2 :])
            if len(set(dims)) == len(dims):
                return w.keep(f"{a.text}.flatten({n}, {n + 1})", (a,), dims, a.range)
    return None


def _ordered(w: Writer, a: Value) -> Value | None:
    at = _whole(w, a, 2)
    if at is None or not a.is_exact or a.dtype in (torch.bool, torch.int64):
        return None
    n = a.dims[at].size
    more = ", descending=True" if w.draws.chance(40) else ""
    if w.draws.chance(40):
        return w.keep(f"torch.argsort({a.text}, {at}{more})", (a,), a.dims, Range(0, n - 1, 1))
    if w.draws.chance(30):
        k = w.draws.between(1, n)
        dims = _with(a.dims, at, Dim(k))
        return None if dims is None else w.keep(f"torch.topk({a.text}, {k}, {at})[0]", (a,), dims, a.range)
    return w.keep(f"torch.sort({a.text}, {at}{more})[0]", (a,), a.dims, a.range)


def _expanded(w: Writer, a: Value) -> Value | None:
    size = w.draws.between(2, 5)
    if Dim(size) in a.dims or len(a.dims) > 3:
        return None
    dims = (Dim(size), *a.dims)
    if w.draws.chance(50):
        return w.keep(f"{a.text}[None].expand({', '.join(d.text for d in dims)})", (a,), dims, a.range)
    dims = (*a.dims, Dim(size))
    return w.keep(f"{a.text}.unsqueeze(-1).expand({', '.join(d.text for d in dims)})", (a,), dims, a.range)


def _triangle(w: Writer, a: Value) -> Value | None:
    if len(a.dims) < 2 or a.dims[-1].tile or a.dims[-2].tile:
        return None
    shift = w.draws.between(0, 2) - 1
    text = f"torch.{w.draws.of(('tril', 'triu'))}({a.text}, {shift})"
    return w.keep(text, (a,), a.dims, a.range.hull(Range(0, 0, 1)))


def _picked(w: Writer, a: Value) -> Value | None:
    """Elements along a dimension, by a tile of ints."""
    at = _whole(w, a, 2)
    if at is None:
        return None
    size = a.dims[at].size
    ints = [
        v for v in w.values
        if v.dtype in (torch.int32, torch.int64) and v.is_exact and v.range.low >= 0 and v.range.high < size
        and len(v.dims) == 1 and v.dims[0] not in a.dims
    ]  # fmt: skip
    if not ints:
        return None
    index = w.draws.of(ints)
    dims = _with(a.dims, at, index.dims[0])
    return None if dims is None else w.keep(f"{a.text}[{':, ' * at}{index.text}]", (a, index), dims, a.range)
