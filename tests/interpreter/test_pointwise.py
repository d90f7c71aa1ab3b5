"""Every pointwise function against torch itself: dtypes, special values and signs, through kernels that hold dozens of
them (issue 14, finding 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.kernels.compiler_pointwise import BINARY, MODULAR, POWERS, SUMS, TERNARY, UNARY
from tile_testing.runs.interpreted import Call

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
SIZE = 29  # of the conversions' tiles

# ties, where functions change their way, where exponentials leave a dtype, beyond its whole numbers
SIZES = (0.0, 1e-3, 0.009, 0.011, 0.1, 0.25, 0.3, 0.49999997, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 7.0, 20.5, 30.0,
         88.5, 89.0, 104.0, 709.0, 745.0, 6000.0, 8388607.5, 2.0**24 + 1, 2.0**31, 2.0**53 + 2, 1e20,
         math.inf)  # fmt: skip
FEW = (0.0, 0.1, 0.5, 0.7, 1.0, 1.5, 2.5, 3.0, 7.0, 30.0, 6000.0, 1e9, math.inf)

HEAD = """\
import torch
import torch.nn.functional as F
import tileflow
import tileflow.language as tfl

@tileflow.kernel
def subject(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
"""


def operand(dtype: torch.dtype, few: bool = False, divides: bool = False) -> torch.Tensor:
    """What functions treat in ways of their own: signs, zeros, subnormal numbers, limits, infinities, NaN. ``divides``:
    an int that is not 0, nor -1, which takes the least int beyond the dtype."""
    if dtype == torch.bool:
        return torch.tensor([True]) if divides else torch.tensor([False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        values = [info.min, info.max, info.min + 1, 0, 1, 2, 3, 7, 8, 31, 77, 100, info.max - 1]
        values += [-1, -2, -3, -7, -100] if dtype.is_signed else [200]
        return torch.tensor([v for v in values if not divides or v not in (0, -1)]).to(dtype)
    limits = torch.finfo(dtype)
    least = 2.0 ** (math.log2(limits.smallest_normal * limits.eps)) if dtype != torch.float64 else 5e-324
    edges = (least, limits.smallest_normal * 0.75, limits.smallest_normal, limits.eps, limits.max)
    sizes = [*(s for s in (FEW if few else SIZES) if s <= limits.max or s == math.inf), *edges]
    return torch.tensor([*sizes, *(-s for s in sizes), math.nan], dtype=torch.float64).to(dtype)


def expected(expression: str, a: Any, b: Any) -> torch.Tensor | None:
    """What torch gives; None where it refuses these operands."""
    try:
        result: torch.Tensor = eval(expression, {"torch": torch, "F": F, "a": a, "b": b})
    except (RuntimeError, TypeError, ValueError):
        return None
    return result


def module(cases: dict[str, torch.Tensor], b: str) -> str:
    """A kernel that computes all expressions, and asserts their dtypes while it is traced."""
    lines = [f"    o{n} = torch.empty_like(x, dtype={e.dtype})" for n, e in enumerate(cases.values())]
    lines += ["    for tile in tfl.tile(x.size(0)):", "        a = x[tile]", f"        b = {b}"]
    for n, (expression, wanted) in enumerate(cases.items()):
        lines += [
            f"        v{n} = {expression}",
            f"        assert v{n}.dtype == {wanted.dtype}, ({expression!r}, v{n}.dtype)",
            f"        o{n}[tile] = v{n}",
        ]
    return HEAD + "\n".join([*lines, f"    return ({', '.join(f'o{n}' for n in range(len(cases)))},)"]) + "\n"


def differences(cases: dict[str, torch.Tensor], got: Any, x: torch.Tensor, y: Any) -> list[str]:
    if isinstance(got, str):
        return [got]
    found = []
    for (expression, wanted), ours in zip(cases.items(), got, strict=True):
        close = is_close(expression, ours, wanted, x, y)
        if not close.all():
            at = int((~close).nonzero()[0])
            operands = f"{x[at].item()}, {y[at].item() if isinstance(y, torch.Tensor) else y}"
            found.append(f"{expression} of {x.dtype} {operands}: {ours[at].item()} not {wanted[at].item()}")
    return found


def is_close(expression: str, ours: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, y: Any) -> torch.Tensor:
    """Where a result is torch's, or the one that torch computes of the same numbers in more bits: half types are
    computed in float32, and torch's short cuts overflow early."""
    if not wanted.dtype.is_floating_point:
        return ours == wanted
    tolerance = TOLERANCE[wanted.dtype]
    terms = [v.double().abs().nan_to_num(0.0, 0.0) for v in (x, y) if isinstance(v, torch.Tensor)]
    largest = sum(terms) if any(s in expression for s in SUMS) else torch.zeros(())
    close = near(ours, wanted, tolerance, largest)
    is_modular = any(s in expression for s in MODULAR)
    if is_modular:
        return close | wanted.isnan() & x.isfinite()
    for wide in (torch.float32, torch.float64):
        operands = [v.to(wide) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in (x, y)]
        exact = expected(expression, *operands)
        if exact is not None and exact.is_floating_point():
            close |= near(ours, exact.to(wanted.dtype), tolerance, largest)
    return close


def near(ours: torch.Tensor, wanted: torch.Tensor, tolerance: float, largest: torch.Tensor) -> torch.Tensor:
    """Relative to the result, and to the ``largest`` term that it sums up; beside the dtype's end it may be endless."""
    limits, a, b = torch.finfo(wanted.dtype), ours.double(), wanted.double()
    same = (
        (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * (b.abs() + largest) + limits.smallest_normal)
    )
    end = limits.max / 8
    beyond = (a.abs() >= end) & (b.abs() >= end) | (largest >= end)
    return same & (a.isfinite() == b.isfinite()) | beyond & (
        a.isnan() | b.isnan() | (a.sign() == b.sign()) | (largest >= end)
    )


def compare(
    interpreter: Callable[..., Any], folder: Path, expressions: tuple[str, ...], x: torch.Tensor, y: Any, b: str
) -> int:
    """Run what torch accepts; how many that was."""
    cases = {e: w for e in expressions if (w := expected(e, x, y)) is not None and w.shape == x.shape}
    path = folder / "pointwise.py"
    path.write_text(module(cases, b))
    second, block = y if isinstance(y, torch.Tensor) else x, 1 << max(len(x) - 1, 0).bit_length()
    (got,) = interpreter(
        "runs.interpreted:run_all", [Call(str(path), "subject", (x, second), (("block:tile", block),))]
    )
    assert differences(cases, got, x, y) == []
    return len(cases)


@pytest.mark.parametrize(
    ("dtype", "least"),
    [
        ("float32", 50), ("bfloat16", 50), ("float16", 50), ("int32", 30), ("int8", 30), ("uint8", 25), ("bool", 20),
        *(pytest.param(*more, marks=pytest.mark.slow) for more in (("float64", 50), ("int64", 30), ("int16", 30))),
    ],
)  # fmt: skip
def test_unary(interpreter: Callable[..., Any], tmp_path: Path, dtype: str, least: int) -> None:
    x = operand(getattr(torch, dtype))
    assert compare(interpreter, tmp_path, UNARY, x, x, "y[tile]") >= least


FLOATS = ("float32", "bfloat16", "float16")
PAIRS = [
    *((d, d) for d in (*FLOATS, "int32", "int8", "uint8", "bool")),
    ("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "int32"), ("int8", "float16"), ("int32", "int64"),
    ("int8", "int32"), ("uint8", "int8"), ("bool", "float32"),
    *(pytest.param(*more, marks=pytest.mark.slow) for more in (
        ("float64", "float64"), ("int64", "int64"), ("bfloat16", "bool"), ("bool", "int32"), ("float64", "float32"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_binary(interpreter: Callable[..., Any], tmp_path: Path, left: str, right: str) -> None:
    x = operand(getattr(torch, left), few=True)
    y = operand(getattr(torch, right), few=True, divides=True)
    x, y = x.repeat_interleave(len(y)), y.repeat(len(x))
    powers = POWERS if x.is_floating_point() or y.is_floating_point() else ()
    assert compare(interpreter, tmp_path, BINARY + TERNARY + powers, x, y, "y[tile]") >= 20


@pytest.mark.parametrize("scalar", [2, -3, 2.5, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int64", "bool"])
def test_python_numbers_are_weak(interpreter: Callable[..., Any], tmp_path: Path, dtype: str, scalar: Any) -> None:
    """On both sides of an operator, and as arguments of functions."""
    x = operand(getattr(torch, dtype), divides=True)
    flipped = tuple(f"b {e[2:-2]} a" for e in BINARY if e.startswith("a ") and e.endswith(" b"))
    assert compare(interpreter, tmp_path, BINARY + flipped, x, scalar, repr(scalar)) >= 15


# where torch gives 0.0 and where -0.0: what Triton makes of a bare -0.0, of -x and of a sum has lost it
SIGNED = (
    "torch.round(a)", "torch.round(a, decimals=1)", "torch.round(a, decimals=-1)", "torch.floor(a)", "torch.ceil(a)",
    "torch.trunc(a)", "-a", "a // 3", "a // -3.0", "a % 2", "a ** 3.0", "torch.sin(a)", "torch.asin(a)",
    "torch.atan(a)", "torch.where(a > 1, a, -0.0)", "a.masked_fill(a > 0, -0.0)", "torch.full_like(a, -0.0)",
    "a + -0.0", "a - 0.0", "torch.nan_to_num(a, nan=-0.0)", "F.threshold(a, 0.1, -0.0)",
    "F.gelu(a)", "F.silu(a)",
)  # fmt: skip
SIGNED_PAIRS = ("a // b", "torch.div(a, b, rounding_mode='trunc')", "a ** b", "a * b", "a % b", "torch.atan2(a, b)")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_zeros_have_the_signs_that_torch_gives_them(
    interpreter: Callable[..., Any], tmp_path: Path, dtype: str
) -> None:
    values = (0.0, -0.0, 0.04, -0.04, 0.3, -0.3, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 4.0, -4.0, math.nan)
    x = torch.tensor(values, dtype=getattr(torch, dtype))
    y = torch.tensor([0.5, -0.5, 3.0, -3.0, math.inf, -math.inf], dtype=x.dtype)
    for expressions, a, b in (
        (SIGNED, x, x),
        (SIGNED_PAIRS, x.repeat_interleave(len(y)), y.repeat(len(x))),
    ):
        cases = {e: expected(e, a, b) for e in expressions}
        path = tmp_path / f"signs{len(cases)}.py"
        path.write_text(module(cases, "y[tile]"))  # type: ignore[arg-type]
        (got,) = interpreter("runs.interpreted:run_all", [Call(str(path), "subject", (a, b))])
        for (expression, wanted), ours in zip(cases.items(), got, strict=True):
            assert wanted is not None
            wrong = (ours.signbit() != wanted.signbit()) & (wanted == 0)
            assert a[wrong].tolist() == [], expression


CASTS = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32",
         "int64", "bool")  # fmt: skip
BITCASTS = {"float32": "int32", "int32": "float32", "bfloat16": "int16", "int16": "float16", "uint8": "int8",
            "int8": "float8_e5m2", "float8_e4m3fn": "uint8", "float64": "int64"}  # fmt: skip
TOO_LARGE = (448.0, 449.0, 464.0, 1e5, -1e5, 57344.0, 61439.0, 61440.0, 65519.0, float("inf"), float("nan"))
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def cast_operand(dtype: torch.dtype, to_floats: bool) -> torch.Tensor:
    """Values whose conversion torch defines: floats that ints cannot hold are converted to floats only."""
    random = torch.Generator().manual_seed(5)
    if dtype == torch.bool:
        return torch.rand(SIZE, generator=random) > 0.5
    if not dtype.is_floating_point:
        low, high = (0, 256) if dtype == torch.uint8 else (-128, 128) if dtype == torch.int8 else (-30000, 30000)
        return torch.randint(low, high, (SIZE,), generator=random).to(dtype)
    values = torch.randn(SIZE, generator=random) * torch.logspace(-9, 6, SIZE, base=2)
    if to_floats:
        values[: len(TOO_LARGE)] = torch.tensor(TOO_LARGE)
        return values.to(dtype)
    return values.abs().to(dtype)


def conversions(dtype: str) -> dict[str, tuple[str, str, torch.Tensor]]:
    """By a name: the operand, the expression, and what torch gives."""
    x, y = (cast_operand(getattr(torch, dtype), to_floats) for to_floats in (True, False))
    found = {}
    for name in CASTS:
        into = getattr(torch, name)
        operand, values = ("x", x) if into.is_floating_point else ("y", y)
        found[name] = operand, f"{operand}[tile].to({into})", values.to(into)
    if dtype in BITCASTS:
        into = getattr(torch, BITCASTS[dtype])
        found["the bits"] = "x", f"x[tile].view({into})", x.view(into)
    return found


@pytest.mark.parametrize("dtype", CASTS)
def test_conversions(interpreter: Callable[..., Any], tmp_path: Path, dtype: str) -> None:
    """Between all dtypes: truncation, wrapping, rounding, saturation; and the bits as they are."""
    cases = conversions(dtype)
    # between processes as plain bits: fp8 tensors do not pickle
    lines = [f"    x, y = x.view(torch.{dtype}), y.view(torch.{dtype})"]
    lines += [f"    o{n} = torch.empty({SIZE}, dtype={w.dtype})" for n, (_, _, w) in enumerate(cases.values())]
    lines += [f"    for tile in tfl.tile({SIZE}):"]
    lines += [f"        o{n}[tile] = {e}" for n, (_, e, _) in enumerate(cases.values())]
    views = (f"o{n}.view({BITS[w.itemsize]})" for n, (_, _, w) in enumerate(cases.values()))
    path = tmp_path / "conversions.py"
    path.write_text(HEAD + "\n".join([*lines, f"    return {', '.join(views)},\n"]))
    bits = BITS[getattr(torch, dtype).itemsize]
    args = tuple(cast_operand(getattr(torch, dtype), to_floats).view(bits) for to_floats in (True, False))
    (got,) = interpreter("runs.interpreted:run_all", [Call(str(path), "subject", args, (("block:tile", 16),))])
    assert not isinstance(got, str), got
    for (name, (_, _, wanted)), ours in zip(cases.items(), got, strict=True):
        found = ours.view(wanted.dtype).double().nan_to_num(7e7).tolist()
        assert found == wanted.double().nan_to_num(7e7).tolist(), name
