"""Strength reduction: which divisions become what, and which stay."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import PointwiseAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.empty(64, 48, device="meta")


def elementwise(function: Any, x: torch.Tensor = X, mode: str = "static", *more: Any) -> list[tuple[str, Any]]:
    """The functions that a kernel computes, each with its second operand where that is a number."""

    @tileflow.kernel
    def applied(x, *more):
        out = torch.empty_like(x, dtype=torch.float32 if x.dtype.is_floating_point else x.dtype)
        for t in tfl.tile(x.size(0)):
            out[t, :] = function(x[t, :], *more)
        return out

    (ir,) = applied.lower((x, *more), H200, mode=mode).regions
    return functions(ir)


def functions(ir: KernelIR) -> list[tuple[str, Any]]:
    found = [op for op in ir.walk() if op.kind is OpKind.POINTWISE]
    return [(PointwiseAttrs.of(op).fn, op.inputs[1] if len(op.inputs) > 1 else None) for op in found]


@pytest.mark.parametrize(
    ("function", "factor"),
    [
        (lambda x: x / 8, 0.125),
        (lambda x: x / 3.0, 1 / 3),
        (lambda x: x / -0.1, -10.0),
        (lambda x: x / math.sqrt(x.size(1)), 48**-0.5),
        (lambda x: x / 1e30, 1e-30),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_division_by_a_number_is_a_product(function: Any, factor: float, dtype: torch.dtype) -> None:
    """Scores over ``math.sqrt(d)`` were divided element by element."""
    ((fn, number),) = elementwise(function, X.to(dtype))
    assert fn == "mul" and number == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize(
    ("function", "divisor"), [(lambda x: x / 0.0, 0.0), (lambda x: x / 1e-40, 1e-40), (lambda x: x / 1e39, 1e39)]
)
def test_a_number_without_a_reciprocal_divides(function: Any, divisor: float) -> None:
    assert elementwise(function) == [("div", divisor)]


def test_a_number_of_the_call_divides_once() -> None:
    @tileflow.kernel
    def scaled(x, scale: float):
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] / scale
        return out

    (ir,) = scaled.lower((X, 3.0), H200, mode="dynamic").regions
    division, product = (op for op in ir.walk() if op.kind is OpKind.POINTWISE)
    assert (PointwiseAttrs.of(division).fn, division.output.dims) == ("div", ())
    assert PointwiseAttrs.of(product).fn == "mul" and product.inputs[1] == division.output


def test_a_number_of_a_tensor_divides() -> None:
    """As torch divides by a tensor of one element."""

    @tileflow.kernel
    def over_the_first(x):
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] / x[0, 0]
        return out

    (ir,) = over_the_first.lower((X,), H200).regions
    assert [fn for fn, _ in functions(ir)] == ["div"]


def test_a_number_of_each_row_divides() -> None:
    """There are few of them, and the text is the author's."""
    found = elementwise(lambda x: x - x.sum(1, keepdim=True) / 48)
    assert ("div", 48) in found and not any(fn == "mul" for fn, _ in found)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x // 8, ("shift_right", 3)),
        (lambda x: x % 8, ("bitwise_and", 7)),
        (lambda x: x // 6, ("floordiv", 6)),
    ],
)
def test_integers_are_shifted_by_powers_of_two(function: Any, wanted: tuple[str, int]) -> None:
    assert elementwise(function, X.to(torch.int32)) == [wanted]


@tileflow.kernel
def quarters(x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        left, count = x[t, :], tfl.zeros([t, x.size(1)])
        for _ in range(20):
            left = left / 7
            count += torch.floor(left)
        out[t, :] = count
    return out


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.floor(x / 7),
        lambda x: (x / 7 == 3.0).float(),
        lambda x: torch.where((x / 7).abs() * 2 > 1, x, 0.0),
        lambda x: (x / 7).to(torch.int32).float(),
        lambda x: (x / 7) % 3,
    ],
)
def test_quotients_that_are_rounded_or_compared_are_divided(function: Any) -> None:
    """``floor(49 / 7)`` was 6 for some multiples of 7."""
    assert ("div", 7) in elementwise(function)


def test_a_quotient_that_the_next_turn_rounds_is_divided() -> None:
    (ir,) = quarters.lower((X,), H200).regions
    assert ("div", 7) in functions(ir)


def test_a_quotient_that_may_be_large_and_is_added_is_divided() -> None:
    """Less the largest of its row the largest of ``x / 1e-9`` left the rounding of 1e10, whose exponential is infinite
    (a product and a sum are one instruction)."""
    assert [fn for fn, _ in elementwise(lambda x: x / 1e-9 - 1.0)] == ["div", "sub"]
    assert [fn for fn, _ in elementwise(lambda x: x / 1e-9 * 2.0)] == ["mul", "mul"]
    assert [fn for fn, _ in elementwise(lambda x: x / 0.07 - 1.0)] == ["mul", "sub"]
    assert [fn for fn, _ in elementwise(lambda x: x / math.sqrt(x.size(1)) - 1.0)] == ["mul", "sub"]

    @tileflow.kernel
    def colder(x, temperature: float):
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] / temperature - 1.0
        return out

    (ir,) = colder.lower((X, 3.0), H200, mode="dynamic").regions
    assert [fn for fn, _ in functions(ir)] == ["div", "sub"]
