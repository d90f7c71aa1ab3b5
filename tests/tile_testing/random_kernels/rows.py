"""torch's functions of one dimension of a tile, a row each: the text, of what, and between which numbers it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .values import Range, Value, named_dims
from .writer import Writer

Pick = Callable[[], Value | None]
Bounds = Callable[[Range, int], Range]


def same(r: Range, n: int) -> Range:
    return r


def or_zero(r: Range, n: int) -> Range:
    return r.hull(Range(0, 0, 1))


def place(r: Range, n: int) -> Range:
    return Range(0, max(n - 1, 0), 1)


def count(r: Range, n: int) -> Range:
    return Range(0, n, 1)


def inexact(r: Range, n: int) -> Range:
    return Range(-r.most - n, r.most + n)


def difference(r: Range, n: int) -> Range:
    return Range(r.low - r.high, r.high - r.low, r.step)


@dataclass(frozen=True, slots=True)
class Row:
    """``text``: of ``a``, its dimension ``d`` of size ``n``, and a number ``k`` below ``n``. ``least``: of ``n``.
    ``of``: ``any``, ``float``, ``exact`` (and not bool or int64), ``number`` (no bool). ``rank``: at least."""

    text: str
    bounds: Bounds = same
    of: str = "any"
    least: int = 1
    rank: int = 1
    most: int = 40


ROWS = (
    Row("{a}.split({k1}, {d})[0]"), Row("{a}.split({k1}, {d})[-1]"), Row("{a}.chunk(2, {d})[0]"),
    Row("{a}.unbind({d})[{k}]"), Row("torch.gather({a}, {d}, torch.argsort({a}, {d}))", of="exact"),
    Row("torch.cummax({a}, {d})[0]", of="exact"), Row("torch.cummin({a}, {d})[0]", of="exact"),
    Row("torch.median({a}, {d})[0]", of="exact"), Row("torch.kthvalue({a}, {k1}, {d})[0]", of="exact"),
    Row("{a}.max({d})[0]", of="number"), Row("{a}.max({d})[1]", place, "exact"), Row("{a}.min({d})[1]", place, "exact"),
    Row("torch.diff({a}, dim={d})", difference, "number", least=2), Row("{a}.repeat_interleave(2, {d})", most=20),
    Row("torch.sum({a}, {d}, keepdim=True).squeeze({d})", lambda r, n: r.times(n)),
    Row("{a}.unsqueeze({d}).squeeze({d})"), Row("{a}.movedim({d}, 0)"), Row("{a}.swapaxes({d}, -1)"),
    Row("F.pad({a}, (1, 2))", or_zero),
    Row("F.pad({a}, (2, 1), value=1)", lambda r, n: r.hull(Range(0, 1, 1)), "number"),
    Row("torch.std({a}, {d})", inexact, "float", least=2),
    Row("torch.var_mean({a}, {d})[1]", inexact, "float", least=2),
    Row("F.normalize({a}, dim={d})", lambda r, n: Range(-1, 1), "float"),
    Row("F.layer_norm({a}, ({last},))", lambda r, n: Range(-n, n), "float", least=2),
    Row("torch.logcumsumexp({a}, {d})", inexact, "float"), Row("torch.aminmax({a}, dim={d})[1]", same, "number"),
    Row("torch.any({a} != 0, {d})", lambda r, n: Range(0, 1, 1), "exact"), Row("{a}.mT", rank=2),
    Row("torch.diagonal({a}, 0, 0, 1)", of="square", rank=2), Row("torch.tril({a})", or_zero, "whole", rank=2),
    Row("torch.triu({a}, 1)", or_zero, "whole", rank=2), Row("{a}.flatten()", rank=2),
    Row("torch.rot90({a})", of="whole", rank=2),
    Row("torch.cumsum({a}.flip({d}), {d}).flip({d})", lambda r, n: r.times(n), "number"),
    Row("torch.nansum({a}, {d})", lambda r, n: r.times(n), "number"),
    Row("torch.isin({a}, torch.tensor([1, 2]))", lambda r, n: Range(0, 1, 1), "int"),
    Row("torch.bucketize({a}, torch.tensor([-1.0, 0.0, 1.5]))", lambda r, n: Range(0, 3, 1), "exact float"),
    Row("torch.cat([{a}.narrow({d}, 0, {k1}), {a}], {d})", most=20), Row("torch.roll({a}, -{k}, {d})"),
    Row("torch.stack([{a}.select({d}, 0), {a}.select({d}, -1)], 0)"), Row("{a}.repeat(2, 1)", rank=2, most=16),
    Row("F.one_hot({a} % 3, 3)", lambda r, n: Range(0, 1, 1), "long"), Row("{a}[{colons}-1]"),
    Row("torch.where({a} == {a}.amax({d}, keepdim=True), {a}, 0)", or_zero, "exact"),
    Row("torch.tile({a}, (2,))", most=16),
    Row("torch.heaviside({a}, {a})", lambda r, n: r.hull(Range(0, 1, 1)), "exact float"),
    Row("torch.frac({a})", lambda r, n: Range(-1, 1, r.step), "exact float"),
    Row("torch.copysign({a}, {a}.flip({d}))", lambda r, n: Range(-r.most, r.most, r.step), "exact float"),
    Row("torch.atan2({a}, {a}.abs() + 1)", lambda r, n: Range(-2, 2), "float"),
    Row("torch.isfinite({a})", lambda r, n: Range(0, 1, 1), "float"),
    Row("torch.maximum({a}, {a}.amin({d}, keepdim=True))", same, "number"),
    Row("tfl.associative_scan(lambda p, q: p + q, {a}, {d}, reverse=True)", lambda r, n: r.times(n), "float number"),
    Row("tfl.associative_scan(lambda p, q: torch.maximum(p, q), {a}, {d})", same, "number"),
    Row("tfl.reduce(lambda p, q: torch.minimum(p, q), {a}, {d})", same, "number"),
    Row("tfl.cumsum({a}, {d}, reverse=True)", lambda r, n: r.times(n), "float number"),
    Row("tfl.join({a}, {a} * 2)", lambda r, n: r.hull(Range(2 * r.low, 2 * r.high, r.step)), "number"),
    Row("tfl.split(tfl.join({a}, {a} + 1))[1]", lambda r, n: Range(r.low, r.high + 1, min(r.step, 1)), "number"),
)  # fmt: skip


class _Language:
    """The shapes and dtypes of the language's own functions, as torch's."""

    @staticmethod
    def associative_scan(function: object, tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
        return tile

    @staticmethod
    def reduce(function: object, tile: torch.Tensor, dim: int) -> torch.Tensor:
        return tile.amax(dim)

    @staticmethod
    def cumsum(tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
        return torch.cumsum(tile, dim)

    @staticmethod
    def join(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.stack([a, b], -1)

    @staticmethod
    def split(tile: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tile[..., 0], tile[..., 1]


def row(w: Writer, pick: Pick) -> Value | None:
    a = pick()
    if a is None or not a.dims or a.number is not None:
        return None
    whole = [n for n, d in enumerate(a.dims) if not d.tile]
    if not whole:
        return None
    at = w.draws.of(whole)
    n = a.dims[at].size
    fitting = [r for r in ROWS if r.least <= n <= r.most and len(a.dims) >= r.rank and _is_of(r, a)]
    if not fitting:
        return None
    chosen = w.draws.of(fitting)
    if "last" in chosen.text and a.dims[-1].tile:
        return None
    k = w.draws.below(n)
    text = chosen.text.format(a=a.text, d=at, n=n, k=k, k1=k + 1, last=a.dims[-1].size, colons=":, " * at)
    values = chosen.bounds(a.range, n)
    try:
        dims = named_dims(text, a, {"tfl": _Language})
    except (RuntimeError, NotImplementedError, IndexError):
        return None
    return None if dims is None else w.keep(text, (a,), dims, values, {"tfl": _Language})


def _is_of(r: Row, a: Value) -> bool:
    small = a.is_exact and a.dtype not in (torch.bool, torch.int64)
    return {
        "square": len(a.dims) == 2 and a.dims[0].size == a.dims[1].size and not any(d.tile for d in a.dims),
        "whole": not any(d.tile for d in a.dims[-2:]),
        "any": True, "float": a.is_float and a.range.most <= 64, "number": a.dtype != torch.bool, "exact": small,
        "int": a.is_int, "long": a.dtype == torch.int64, "exact float": a.is_exact and a.is_float,
        "float number": a.dtype in (torch.float32, torch.int32, torch.int64),
    }[r.of]  # fmt: skip
