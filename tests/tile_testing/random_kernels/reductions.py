"""Reductions and scans of a dimension, and products."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .values import Dim, Range, Value, aligned, held
from .writer import Writer

Pick = Callable[[], Value | None]


def reduction(w: Writer, pick: Pick) -> Value | None:
    a = pick()
    if a is None or not a.dims:
        return None
    return w.draws.weighted([(6, _reduce), (2, _extremum), (2, _scan), (2, _centred), (2, _inexact), (1, _several)])(
        w, a
    )


def _dim(w: Writer, a: Value) -> tuple[int, str]:
    """A dimension, and how it is written: from the front or from the end."""
    at = w.draws.below(len(a.dims))
    return at, str(at if w.draws.chance(60) else at - len(a.dims))


def _reduce(w: Writer, a: Value) -> Value | None:
    at, text = _dim(w, a)
    dims, n, r = a.dims[:at] + a.dims[at + 1 :], a.dims[at].size, a.range
    kind = w.draws.of(("sum", "any", "all", "count_nonzero", "prod"))
    if kind == "sum":
        return w.keep(f"{a.text}.sum({text})", (a,), dims, r.times(n))
    if not a.is_exact:
        return None
    if kind == "count_nonzero":
        return w.keep(f"torch.count_nonzero({a.text}, {text})", (a,), dims, Range(0, n, 1))
    if kind == "prod":
        if a.is_float or r.most > 1:
            return None
        return w.keep(f"{a.text}.prod({text})", (a,), dims, Range(-1, 1, 1))
    if a.dtype != torch.bool:
        return w.keep(f"({a.text} > 0).{kind}({text})", (a,), dims, Range(0, 1, 1))
    return w.keep(f"{a.text}.{kind}({text})", (a,), dims, Range(0, 1, 1))


def _extremum(w: Writer, a: Value) -> Value | None:
    at, text = _dim(w, a)
    dims, n, r = a.dims[:at] + a.dims[at + 1 :], a.dims[at].size, a.range
    if n == 0 or a.dtype == torch.bool:
        return None
    kind = w.draws.of(("amax", "amin", "argmax", "argmin"))
    if kind in ("amax", "amin"):
        return w.keep(f"{a.text}.{kind}({text})", (a,), dims, r)
    return w.keep(f"{a.text}.{kind}({text})", (a,), dims, Range(0, n - 1, 1)) if a.is_exact else None


def _scan(w: Writer, a: Value) -> Value | None:
    at, text = _dim(w, a)
    if a.dtype == torch.bool or a.dims[at].size == 0:
        return None
    return w.keep(f"torch.cumsum({a.text}, {text})", (a,), a.dims, a.range.times(a.dims[at].size))


def _centred(w: Writer, a: Value) -> Value | None:
    """With what a kept dimension of 1 broadcasts."""
    at, text = _dim(w, a)
    n, r = a.dims[at].size, a.range
    if n == 0 or a.dtype in (torch.bool, torch.uint8):
        return None
    kind = w.draws.of(("sum", "amax", "amin"))
    of = r.times(n) if kind == "sum" else r
    values = Range(r.low - of.high, r.high - of.low, r.step)
    return w.keep(f"{a.text} - {a.text}.{kind}({text}, keepdim=True)", (a,), a.dims, values)


def _inexact(w: Writer, a: Value) -> Value | None:
    at, text = _dim(w, a)
    n, m = a.dims[at].size, min(a.range.most, 64)
    if not a.is_float or n == 0 or a.range.most > 64:
        return None
    less = a.dims[:at] + a.dims[at + 1 :]
    rows = [
        (f"{a.text}.mean({text})", less, Range(-m, m)), (f"torch.softmax({a.text}, {text})", a.dims, Range(0, 1)),
        (f"torch.logsumexp({a.text}, {text})", less, Range(-m, m + 10)),
        (f"torch.log_softmax({a.text}, {text})", a.dims, Range(-2 * m - 10, 0)),
        (f"torch.linalg.vector_norm({a.text}, dim={text})", less, Range(0, m * n)),
    ]  # fmt: skip
    if n > 1 and not a.dims[at].tile:
        rows.append((f"{a.text}.var({text})", less, Range(0, 2 * m * m)))
    chosen, dims, values = w.draws.of(rows)
    return w.keep(chosen, (a,), dims, values)


def _several(w: Writer, a: Value) -> Value | None:
    """All dimensions, or two of them."""
    if len(a.dims) < 2:
        return None
    if w.draws.chance(50):
        n = a.numel
        return w.keep(f"{a.text}.sum()", (a,), (), a.range.times(n))
    n = a.dims[0].size * a.dims[-1].size
    return w.keep(f"{a.text}.sum((0, -1))", (a,), a.dims[1:-1], a.range.times(n))


def matrix_product(w: Writer, pick: Pick) -> Value | None:
    """Of two values of one dtype that share a dimension: the columns of the first are the rows of the second."""
    a = pick()
    if a is None or len(a.dims) < 2 or not a.is_float:
        return None
    others = [b for b in w.values if b.dtype == a.dtype and len(b.dims) == 2 and b is not a]
    pairs = [(b, d) for b in others for d in b.dims if d in a.dims and len({*a.dims, *b.dims}) == len(a.dims) + 1]
    if not pairs or len(a.dims) != 2:
        return None
    b, k = w.draws.of(pairs)
    (m,), (n,) = ([d for d in x.dims if d != k] for x in (a, b))
    if k.size == 0:
        return None
    left, right = aligned(a, (m, k)), aligned(b, (k, n))
    most = a.range.most * b.range.most
    values = Range(-most, most, a.range.step * b.range.step).times(k.size)
    if w.draws.chance(40) and (found := _dot(w, a, b, left, right, (m, n), values)) is not None:
        return found
    return w.keep(w.draws.of([f"{left} @ {right}", f"torch.matmul({left}, {right})"]), (a, b), (m, n), values)


def _dot(w: Writer, a: Value, b: Value, left: str, right: str, dims: tuple[Dim, Dim], values: Range) -> Value | None:
    found = held(values, torch.float32)
    if found is None:
        return None
    made = Value(w.name("v"), torch.float32, dims, found)
    return w.given(f"tfl.dot({left}, {right}, acc=tfl.zeros([{dims[0].text}, {dims[1].text}]))", made)
