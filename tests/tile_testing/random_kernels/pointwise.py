"""Pointwise operations: of one value, of two that broadcast, of three."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch

from .values import DTYPES, Range, Value, aligned, held, union
from .writer import Writer

UNIT = Range(0, 1, 1)
# of any number, without a pole: the text, and what it gives of numbers in [-4, 4], to which the operand is clamped
SMOOTH: tuple[tuple[str, float, float], ...] = (
    ("torch.sigmoid({})", 0, 1), ("torch.tanh({})", -1, 1), ("torch.exp({})", 0, 55), ("torch.sin({})", -1, 1),
    ("torch.cos({})", -1, 1), ("torch.sqrt({}.abs())", 0, 2), ("torch.rsqrt({}.abs() + 1)", 0, 1),
    ("torch.log1p({}.abs())", 0, 2), ("torch.erf({})", -1, 1), ("torch.exp2({})", 0, 16), ("F.softplus({})", 0, 5),
    ("F.silu({})", -1, 4), ("F.gelu({})", -1, 4), ("torch.expm1({})", -1, 55), ("torch.log({}.abs() + 0.5)", -1, 2),
    ("torch.atan({})", -2, 2), ("F.elu({})", -1, 4), ("F.logsigmoid({})", -5, 0),
    ("torch.reciprocal({}.abs() + 1)", 0, 1), ("torch.asinh({})", -3, 3), ("F.mish({})", -1, 4),
    ("F.softsign({})", -1, 1),
)  # fmt: skip


def pointwise(w: Writer, pick: Callable[[], Value | None]) -> Value | None:
    kind = w.draws.weighted([(8, _binary), (4, _unary), (3, _smooth), (3, _comparison), (3, _where), (3, _cast),
                             (2, _integer), (1, _ternary), (1, _of_index)])  # fmt: skip
    first = pick()
    return None if first is None else kind(w, first, pick)


def _four(a: Range, b: Range, function: Callable[[float, float], float]) -> tuple[float, float]:
    ends = [function(x, y) for x, y in product((a.low, a.high), (b.low, b.high))]
    return min(ends), max(ends)


def _both(w: Writer, a: Value, b: Value) -> tuple[str, str, tuple[Value, ...]] | None:
    if a.number is not None and b.number is not None:
        return None
    dims = union(a, b)
    if len(dims) > 4:
        return None
    return aligned(a, dims, w.draws.chance(50)), aligned(b, dims, w.draws.chance(50)), (a, b)


def _binary(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    b = w.draws.of(w.numbers) if w.numbers and w.draws.chance(30) else pick()
    if b is None or (texts := _both(w, a, b)) is None:
        return None
    left, right, operands = texts
    if b.number is not None and a.dtype == torch.uint8 and (b.range.low < 0 or b.range.step < 1):
        return None
    kind = w.draws.of(("+", "*", "-", "maximum", "minimum"))
    exact = a.is_exact and b.is_exact
    step = min(a.range.step, b.range.step)
    if kind in ("maximum", "minimum"):
        if a.number is not None or b.number is not None or (a.dtype == torch.bool) != (b.dtype == torch.bool):
            return None
        function: Callable[[float, float], float] = max if kind == "maximum" else min
        low, high = _four(a.range, b.range, function)
        return w.keep(f"torch.{kind}({left}, {right})", operands, union(a, b), Range(low, high, step if exact else 0))
    if kind == "-" and torch.bool in (a.dtype, b.dtype):
        return None
    if kind == "*":
        low, high = _four(a.range, b.range, lambda x, y: x * y)
        return w.keep(f"{left} * {right}", operands, union(a, b), Range(low, high, a.range.step * b.range.step))
    low, high = _four(a.range, b.range, (lambda x, y: x + y) if kind == "+" else (lambda x, y: x - y))
    return w.keep(f"{left} {kind} {right}", operands, union(a, b), Range(low, high, step if exact else 0))


def _unary(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    v, r = a.text, a.range
    least = 0.0 if r.low <= 0 <= r.high else min(abs(r.low), abs(r.high))
    rows = [(f"{v}.abs()", Range(least, r.most, r.step)),
            (f"torch.relu({v})", Range(max(r.low, 0), max(r.high, 0), r.step)),
            (f"{v}.clamp(0, 3)", Range(0, 3, r.step)), (f"{v} * {v}", Range(0, r.most**2, r.step**2))]  # fmt: skip
    if a.dtype != torch.uint8:
        rows += [(f"-{v}", Range(-r.high, -r.low, r.step)), (f"{v}.clamp(-2, 1)", Range(-2, 1, r.step))]
    if a.is_float and a.is_exact:
        rows += [(f"torch.{f}({v})", Range(r.low - 1, r.high + 1, 1)) for f in ("floor", "ceil", "round", "trunc")]
        rows += [(f"torch.sign({v})", Range(-1, 1, 1)), (f"{v} / 2", Range(r.low / 2, r.high / 2, r.step / 2))]
    if a.dtype == torch.bool:
        rows = [(f"~{v}", UNIT), (f"torch.logical_not({v})", UNIT)]
    elif not a.is_float:
        low = min(abs(r.low), abs(r.high)) < 2**31
        rows += [(f"~{v}", Range(-r.high - 1, -r.low - 1, 1))] if a.dtype != torch.uint8 and low else []
    text, values = w.draws.of(rows)
    return w.keep(text, (a,), a.dims, values)


def _smooth(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    if a.dtype == torch.bool or a.number is not None:
        return None
    text, low, high = w.draws.of(SMOOTH)
    operand = a.text if a.range.most <= 4 else f"{a.text}.clamp(-4, 4)"
    if not a.is_float:
        operand = f"{a.text}.float().clamp(-4, 4)"
    return w.keep(text.format(operand), (a,), a.dims, Range(low, high))


def _comparison(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    b = w.draws.of(w.numbers) if w.numbers and w.draws.chance(50) else pick()
    if b is None or not (a.is_exact and b.is_exact) or (texts := _both(w, a, b)) is None:
        return None
    if torch.uint8 in (a.dtype, b.dtype) and min(a.range.low, b.range.low) < 0:
        return None
    if b.number is not None and not a.is_float and b.range.step < 1:
        return None
    if a.is_float != b.is_float and not (_fits(a, b) and _fits(b, a)):
        return None  # torch compares in the float's dtype, which the int may not fit
    left, right, operands = texts
    sign = w.draws.of(("<", ">", "<=", ">=", "==", "!="))
    return w.keep(f"{left} {sign} {right}", operands, union(a, b), UNIT)


def _fits(a: Value, b: Value) -> bool:
    found = held(a.range, b.dtype) if b.is_float else a.range
    return found is not None and found.step > 0


def _where(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    masks = [v for v in w.values if v.dtype == torch.bool]
    b = w.draws.of(w.numbers) if w.numbers and w.draws.chance(40) else pick()
    if not masks or b is None or a.number is not None:
        return None
    if b.number is not None and ((not a.is_float and b.range.step < 1) or (a.dtype == torch.uint8 and b.range.low < 0)):
        return None
    if a.dtype == torch.bool and b.dtype != torch.bool:
        return None
    mask = w.draws.of(masks)
    dims = union(mask, a, b)
    if len(dims) > 4:
        return None
    texts = [aligned(v, dims, w.draws.chance(50)) for v in (mask, a, b)]
    return w.keep(f"torch.where({', '.join(texts)})", (mask, a, b), dims, a.range.hull(b.range))


def _cast(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    dtype = w.draws.of([d for d in DTYPES if d != a.dtype])
    if not a.is_exact and dtype != torch.float32:
        return None
    if dtype == torch.bool:
        return w.keep(f"{a.text}.bool()", (a,), a.dims, UNIT)
    values = a.range
    if a.is_float and not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if values.low < info.min or values.high > info.max:
            return None  # torch leaves open what it gives
        values = Range(int(values.low), int(values.high), 1)
    return w.keep(f"{a.text}.to({dtype})", (a,), a.dims, values)


def _integer(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    """Bits, remainders and quotients."""
    if a.is_float or a.number is not None:
        return None
    c, r = w.draws.between(1, 4), a.range
    if a.dtype == torch.bool or w.draws.chance(30):
        b = pick()
        if b is None or b.dtype != a.dtype or (texts := _both(w, a, b)) is None:
            return None
        info = UNIT if a.dtype == torch.bool else Range(torch.iinfo(a.dtype).min, torch.iinfo(a.dtype).max, 1)
        left, right, operands = texts
        return w.keep(f"{left} {w.draws.of('&|^')} {right}", operands, union(a, b), info)
    low = 0 if r.low >= 0 else -abs(r.most)
    text, values = w.draws.of([
        (f"{a.text} % {c}", Range(0, c - 1, 1)), (f"{a.text} // {c}", Range(low - 1, r.most, 1)),
        (f"{a.text} >> {c}", Range(low - 1, r.most, 1)), (f"{a.text} << {c}", Range(low * 2**c, r.most * 2**c, 1)),
        (f"{a.text} & {c}", Range(0, c, 1)), (f"torch.fmod({a.text}, {c})", Range(1 - c, c - 1, 1)),
    ])  # fmt: skip
    return w.keep(text, (a,), a.dims, values)


def _ternary(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    b = pick()
    if b is None or not (a.is_float and b.is_float) or (texts := _both(w, a, b)) is None or a.dtype != b.dtype:
        return None
    left, right, operands = texts
    most = a.range.most + a.range.most * b.range.most
    text = w.draws.of(["torch.addcmul({0}, {0}, {1})", "torch.lerp({0}, {1}, 0.5)", "torch.hypot({0}, {1})"])
    if b.number is not None or a.number is not None:
        return None
    return w.keep(text.format(left, right), operands, union(a, b), Range(-2 * most, 2 * most))


def _of_index(w: Writer, a: Value, pick: Callable[[], Value | None]) -> Value | None:
    """The positions of a tile, or of a whole dimension."""
    dim = w.draws.of(a.dims) if a.dims else None
    if dim is None:
        return None
    text = f"{dim.tile}.index" if dim.tile else f"tfl.arange({dim.size})"
    made = Value(w.name("v"), torch.int32, (dim,), Range(0, max(dim.size - 1, 0), 1))
    return w.given(text, made)
