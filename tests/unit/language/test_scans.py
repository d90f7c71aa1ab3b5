"""Scans and reductions by a function: what is refused and where, how functions are called, masks, what compiles."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError, TraceError, UnsupportedOp
from tileflow.ir.attributes import LoadAttrs
from tileflow.language.scans import arguments
from tileflow.lowered import Lowered
from tileflow.passes import specialise
from tileflow.passes.roll import rollable
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.target import CATALOGUE, target

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def lower(function: Callable[..., Any], *args: Any, device: str = "nvidia-h200") -> Lowered:
    return tileflow.kernel(function).lower(args or (meta(40, 100),), target(device))


def text(function: Callable[..., Any], *args: Any) -> str:
    lowered = lower(function, *args)
    (source,) = lowered.emit(lowered.default)
    return source.text


# ---- errors -------------------------------------------------------------------------------------


def reads_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        first = x[tile, 0].sum()
        x[tile, :] = tfl.associative_scan(lambda a, b: a + b * first, row, 1)  # noqa: B023  # <-
    return x


def loads(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        x[tile, :] = tfl.associative_scan(lambda a, b: a + b + x[0, 0], row, 1)  # <-
    return x


def branches(x):
    def larger(a, b):
        return a if a > b else b  # <-

    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.associative_scan(larger, x[tile, :], 1)
    return x


def reads_a_float(x, scale):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = tfl.reduce(lambda a, b: a + b * scale, x[tile, :], 1)  # <-
    return x


def one_of_two(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = tfl.reduce(lambda a, b: a[0] + b[0], (x[tile, :], x[tile, :]), 1)[0]  # <-
    return x


def wrong_axis(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.associative_scan(torch.add, x[tile, :], 2)  # <-
    return x


def wrong_other(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = tfl.reduce(torch.add, x[tile, :], 1, other=(0, 0))  # <-
    return x


def scalar(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = torch.zeros_like(x[tile, 0]) + tfl.associative_scan(torch.add, x[tile, :].sum(), 0)  # <-
    return x


def unknown(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.associative_scan(torch.igamma, x[tile, :], 1)  # <-
    return x


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (reads_a_tile, TraceError, "its arguments and constants.*a value from outside"),
        (loads, TraceError, "its arguments and constants.*load"),
        (branches, TraceError, "its arguments and constants.*if"),
        (reads_a_float, TraceError, "its arguments and constants"),
        (one_of_two, TraceError, "gives a tuple of 2 item"),
        (wrong_axis, ShapeError, r"dim must lie in \[-2, 1\], but got 2"),
        (wrong_other, TraceError, "other is a number, or one for each tile"),
        (scalar, TraceError, "takes tiles with dimensions"),
        (unknown, UnsupportedOp, "torch.igamma"),
    ],
)
def test_mistakes(function: Callable[..., Any], error: type[TraceError], says: str) -> None:
    args = (meta(40, 100), 2.0) if function is reads_a_float else (meta(40, 100),)
    with pytest.raises(error, match=says) as caught:
        lower(function, *args)
    lines = Path(__file__).read_text().splitlines()
    assert lines[getattr(caught.value.where, "line", 0) - 1].endswith("# <-")


# ---- how functions are called -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "is_tuple", "wanted"),
    [
        (lambda a, b: a, False, (1, 2)),
        (operator.add, False, (1, 2)),
        (torch.maximum, False, (1, 2)),
        (lambda a, b: a, True, ((1,), (2,))),
        (lambda *items: items, True, (1, 2)),
        (lambda a, b, scale=2: a, True, ((1,), (2,))),
        (partial(lambda scale, a, b: a, 3), True, ((1,), (2,))),
    ],
)
def test_one_operand(fn: Callable[..., Any], is_tuple: bool, wanted: tuple[Any, ...]) -> None:
    assert arguments(fn, is_tuple, [1], [2]) == wanted


def test_two_operands_by_tuples_or_one_after_the_other() -> None:
    assert arguments(lambda a, b: a, True, [1, 2], [3, 4]) == ((1, 2), (3, 4))
    assert arguments(lambda a, b, c, d: a, True, [1, 2], [3, 4]) == (1, 2, 3, 4)


# ---- text ---------------------------------------------------------------------------------------


def two_scans(x):
    for tile in tfl.tile(x.size(0)):
        first = tfl.associative_scan(lambda a, b: a + 2 * b, x[tile, :], 1)
        x[tile, :] = tfl.associative_scan(lambda p, q: p + 2 * q, first, 1)
    return x


def test_equal_functions_are_one_helper() -> None:
    assert text(two_scans).count("def _combine") == 1


def backwards(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.associative_scan(torch.add, x[tile, :], 1, reverse=True)
    return x


def forwards(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.associative_scan(torch.add, x[tile, :], 1)
    return x


def filled(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = tfl.reduce(torch.add, x[tile, :], 1, other=0)
    return x


def test_a_flag_is_carried_only_where_lanes_do_not_count_and_would_be_met() -> None:
    assert "_masked" in text(backwards, meta(40, 100))
    assert "_masked" not in text(backwards, meta(40, 128))
    assert "_masked" not in text(forwards, meta(40, 100))
    assert "_masked" not in text(filled, meta(40, 100))


def summed_and_scanned(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        x[tile, :] = row.cumsum(1) / row.sum(1)[:, None]
    return x


def test_a_dimension_that_is_scanned_stays_in_one_piece() -> None:
    (ir,) = lower(summed_and_scanned, meta(40, 3000)).regions
    assert rollable(ir) == {}


def from_the_back(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.cumprod(x[tile, :], 1, reverse=True)
    return x


def test_the_load_of_a_product_from_the_back_fills_with_1() -> None:
    (ir,) = lower(from_the_back).regions
    (load,) = (op for op in specialise(ir, StructuralChoice()).walk() if op.kind == "load")
    assert LoadAttrs.of(load).other == 1.0


def test_flops_of_a_function_count_once_an_element() -> None:
    def recurrence(a, b):
        for tile in tfl.tile(a.size(0)):
            pair = (a[tile, :], b[tile, :])
            b[tile, :] = tfl.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), pair, 1)[1]
        return b

    assert lower(recurrence, meta(40, 100), meta(40, 100)).traffic.flops in range(3 * 4000, 3 * 4000 + 10)


# ---- what compiles ------------------------------------------------------------------------------


def every_scan(x, keys, out):
    """Single and pairs, both directions, flags, bools, half types, NaN-keeping extrema and their places."""
    for tile in tfl.tile(x.size(0)):
        row, key = x[tile, :], keys[tile, :]
        decayed = tfl.associative_scan(lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2), (row, row), 1, reverse=True)[1]
        seen = tfl.associative_scan(torch.logical_or, key == 3, 1, reverse=True)
        best, place = tfl.reduce(
            lambda a, b: (torch.maximum(a[0], b[0]), torch.where(a[0] >= b[0], a[1], b[1])), (row, key), 1
        )
        total = tfl.reduce(lambda a, b: a + b, key, 1, keep_dims=True, other=0)
        scans = row.cumsum(1) + tfl.cumprod(row, 1, reverse=True) + key.cumsum(1)
        ends = row.amax(1) + row.amin(1) + row.argmax(1) + row.argmin(1) + best + place
        out[tile, :] = decayed + torch.where(seen, 1.0, 0.0) + total + scans + ends[:, None]
    return out


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_scan_compiles(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = next(t for t in CATALOGUE.values() if t.arch == architecture)
    args = meta(40, 100, dtype=torch.bfloat16), meta(40, 100, dtype=torch.int64), meta(40, 100)
    lowered = lower(every_scan, *args, device=device.name)
    (source,) = lowered.emit(lowered.space.repair(lowered.default.with_({"block:tile": 2})))
    assert build(source, device).code.startswith(b"\x7fELF")


@pytest.mark.parametrize(("fn", "instruction"), [("amax", "max.NaN.f32"), ("amin", "min.NaN.f32")])
def test_an_extremum_that_keeps_nan_is_one_instruction(
    fn: str, instruction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many instructions as Triton's own, which passes a NaN over."""
    pytest.importorskip("triton")
    from tileflow.build import compat
    from tileflow.build.compile import load_function

    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    def extremum(x, out):
        for tile in tfl.tile(x.size(0)):
            out[tile] = getattr(x[tile, :], fn)(1)
        return out

    lowered = lower(extremum, meta(64, 1024), meta(64))
    (source,) = lowered.emit(lowered.default)
    types = {a.name: a.type for a in source.args} | dict.fromkeys(dict(source.constexprs), "constexpr")
    function = load_function(source)
    signature = {name: types[name] for name in function.arg_names}
    device = target("nvidia-a100")
    assembly = compat.compile_ast(function, signature, dict(source.constexprs), (0, 1), device, {}).assembly
    assert instruction in assembly and "setp.nan" not in assembly
