"""One row for each pointwise function, and what leaves each reduction unchanged. The kinds of ops: :mod:`op_table`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Pointwise:
    """One row.

    ``triton``: the text for operands {0}, {1} ..., all of the operand dtype (float32 for half types). It may call a
    function of :mod:`tileflow.emit.functions`.
    ``integer``: the text where the operand dtype is an integer and it differs; None where the same.
    ``double``: the same for float64.
    ``evaluate``: torch's own function, for the value in masked lanes and for constant folding.
    ``flops``: arithmetic per element, for models. ``boolean``: yields bool.
    ``float_only``: ints are converted to the default dtype. ``int_only``: floats are refused, as by torch.
    """

    triton: str
    evaluate: Callable[..., torch.Tensor]
    integer: str | None = None
    double: str | None = None
    flops: int = 1
    boolean: bool = False
    float_only: bool = False
    int_only: bool = False


_LOG2_E = 1.4426950408889634
_NAN = ", propagate_nan=tl.PropagateNan.ALL)"

POINTWISE: dict[str, Pointwise] = {
    # arithmetic
    "add": Pointwise("{0} + {1}", torch.add),
    "sub": Pointwise("{0} - {1}", torch.sub),
    "mul": Pointwise("{0} * {1}", torch.mul),
    "div": Pointwise("{0} / {1}", torch.div, flops=4, float_only=True),
    "floordiv": Pointwise("_floor_divide({0}, {1})", torch.floor_divide,
                          integer="{0} // {1} - (({0} % {1} != 0) & (({0} < 0) != ({1} < 0)))", flops=12),
    "truncdiv": Pointwise("tl.where({0} / {1} < 0, tl.ceil({0} / {1}), tl.floor({0} / {1}))",
                          lambda a, b: torch.div(a, b, rounding_mode="trunc"), integer="{0} // {1}", flops=5),
    "remainder": Pointwise("_remainder({0}, {1})", torch.remainder, flops=10,
                           integer="{0} % {1} + tl.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {1}, 0)"),
    # of a constant power of two, 1 and more
    "remainder_by_power": Pointwise("_remainder_by_power({0}, {1})", torch.remainder, flops=5),
    "fmod": Pointwise("_fmod({0}, {1})", torch.fmod, integer="{0} % {1}", flops=8),
    "pow": Pointwise("_power({0}, {1})", torch.pow, flops=14, float_only=True),
    # Triton subtracts from 0, which makes 0.0 of 0.0
    "neg": Pointwise("{0} * -1.0", torch.neg, integer="-{0}"),
    "abs": Pointwise("tl.abs({0})", torch.abs),
    "reciprocal": Pointwise("1.0 / {0}", torch.reciprocal, flops=4, float_only=True),
    "minimum": Pointwise("tl.minimum({0}, {1}" + _NAN, torch.minimum, integer="tl.minimum({0}, {1})"),
    "maximum": Pointwise("tl.maximum({0}, {1}" + _NAN, torch.maximum, integer="tl.maximum({0}, {1})"),
    "fma": Pointwise("tl.fma({0}, {1}, {2})", lambda a, b, c: a * b + c, integer="{0} * {1} + {2}", flops=2),
    "sign": Pointwise("tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0))", torch.sign,
                      integer="tl.where({0} > 0, 1, 0) - tl.where({0} < 0, 1, 0)", flops=2),
    # exponentials and roots
    # by exp2, which is one instruction: tl.exp goes to denormal numbers too, by three more
    "exp": Pointwise(f"tl.exp2({{0}} * {_LOG2_E})", torch.exp, double="tl.exp({0})", flops=4, float_only=True),
    # where a logarithm reads it, which is no infinity below the normal numbers
    "exp_gradual": Pointwise("tl.exp({0})", torch.exp, flops=5, float_only=True),
    "exp2": Pointwise("tl.exp2({0})", torch.exp2, flops=4, float_only=True),
    "expm1": Pointwise("tl.where(tl.abs({0}) < 0.01, {0} * (1.0 + {0} * (0.5 + {0} * (1.0 / 6 + {0} / 24))), "
                       "tl.exp({0}) - 1.0)", torch.expm1, flops=9, float_only=True,
                       # what the exponential was rounded by, its logarithm tells (Kahan)
                       double="tl.where(tl.exp({0}) == 1.0, {0}, (tl.exp({0}) - 1.0) * tl.where(tl.abs({0}) < 0.5, "
                       "{0} / tl.log(tl.exp({0})), 1.0))"),
    "log": Pointwise("tl.log({0})", torch.log, flops=4, float_only=True),
    "log2": Pointwise("tl.log2({0})", torch.log2, flops=4, float_only=True),
    "log1p": Pointwise("tl.where(tl.abs({0}) < 0.01, {0} * (1.0 - {0} * (0.5 - {0} * (1.0 / 3 - {0} * 0.25))), "
                       "tl.log(1.0 + {0}))", torch.log1p, flops=9, float_only=True,
                       double="tl.where(1.0 + {0} == 1.0, {0}, tl.log(1.0 + {0}) * tl.where(tl.abs({0}) < 0.5, "
                       "{0} / ((1.0 + {0}) - 1.0), 1.0))"),
    "sqrt": Pointwise("tl.sqrt_rn({0})", torch.sqrt, double="tl.sqrt({0})", flops=4, float_only=True),
    "rsqrt": Pointwise("tl.rsqrt({0})", torch.rsqrt, flops=4, float_only=True),
    "sin": Pointwise("tl.sin({0})", torch.sin, flops=8, float_only=True),
    "cos": Pointwise("tl.cos({0})", torch.cos, flops=8, float_only=True),
    "erf": Pointwise("tl.erf({0})", torch.erf, flops=12, float_only=True),
    # saturates exactly at both ends; the series holds the relative error where 1 - exp would cancel
    "tanh": Pointwise("tl.where(tl.abs({0}) < 0.05, {0} * (1.0 - {0} * {0} * (1.0 / 3 - {0} * {0} * (2.0 / 15))), "
                      "1.0 - 2.0 / (tl.exp(2.0 * {0}) + 1.0))", torch.tanh, flops=12, float_only=True),
    "sigmoid": Pointwise(f"1.0 / (1.0 + tl.exp2({{0}} * -{_LOG2_E}))", torch.sigmoid,
                         double="1.0 / (1.0 + tl.exp(-{0}))", flops=9, float_only=True),
    "relu": Pointwise("tl.where({0} < 0, 0.0, {0})", torch.relu, integer="tl.maximum({0}, 0)"),
    # rounding
    "positive": Pointwise("{0}", torch.positive, flops=0),  # as it is, in the dtype that its operands are computed in
    "floor": Pointwise("tl.floor({0})", torch.floor, integer="{0}"),
    "ceil": Pointwise("tl.ceil({0})", torch.ceil, integer="{0}"),
    "trunc": Pointwise("tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))", torch.trunc, integer="{0}", flops=3),
    "round": Pointwise("_round({0})", torch.round, integer="{0}"),
    # comparisons and logic
    "eq": Pointwise("{0} == {1}", torch.eq, boolean=True),
    "ne": Pointwise("{0} != {1}", torch.ne, boolean=True),
    "lt": Pointwise("{0} < {1}", torch.lt, boolean=True),
    "le": Pointwise("{0} <= {1}", torch.le, boolean=True),
    "gt": Pointwise("{0} > {1}", torch.gt, boolean=True),
    "ge": Pointwise("{0} >= {1}", torch.ge, boolean=True),
    "isnan": Pointwise("{0} != {0}", torch.isnan, integer="{0} != {0}", boolean=True),
    "isinf": Pointwise("tl.abs({0}) == float('inf')", torch.isinf, integer="{0} != {0}", boolean=True),
    "isfinite": Pointwise("tl.abs({0}) < float('inf')", torch.isfinite, integer="{0} == {0}", boolean=True),
    "logical_and": Pointwise("({0} != 0) & ({1} != 0)", torch.logical_and, boolean=True),
    "logical_or": Pointwise("({0} != 0) | ({1} != 0)", torch.logical_or, boolean=True),
    "logical_xor": Pointwise("({0} != 0) ^ ({1} != 0)", torch.logical_xor, boolean=True),
    "logical_not": Pointwise("{0} == 0", torch.logical_not, boolean=True),
    "bitwise_and": Pointwise("{0} & {1}", torch.bitwise_and, int_only=True),
    "bitwise_or": Pointwise("{0} | {1}", torch.bitwise_or, int_only=True),
    "bitwise_xor": Pointwise("{0} ^ {1}", torch.bitwise_xor, int_only=True),
    "bitwise_not": Pointwise("~{0}", torch.bitwise_not, int_only=True),
    "shift_left": Pointwise("{0} << {1}", torch.bitwise_left_shift, int_only=True),
    "shift_right": Pointwise("{0} >> {1}", torch.bitwise_right_shift, int_only=True),
    # the first operand is a bool whatever the operand dtype
    "where": Pointwise("tl.where({0}, {1}, {2})", torch.where),
}  # fmt: skip

# value that leaves a reduction unchanged; None: the dtype's smallest or largest
NEUTRAL: dict[str, float | None] = {
    "sum": 0.0,
    "prod": 1.0,
    "max": float("-inf"),
    "min": float("inf"),
    "argmax": float("-inf"),
    "argmin": float("inf"),
    "any": 0.0,
    "all": 1.0,
    "xor": 0.0,
}

LARGEST_SPAN = 2**31 - 1  # of random ints


def holds(dtype: str, number: float | int) -> bool:
    """Whether ``dtype``, by its name, has exactly this number, which is not NaN."""
    kind = getattr(torch, dtype)
    if kind is torch.bool:
        return number in (0, 1)
    if kind.is_floating_point:
        return float(torch.tensor(number, dtype=torch.float64).to(kind)) == number
    info = torch.iinfo(kind)
    return info.min <= number <= info.max and number == int(number)


def neutral(fn: str, dtype: str) -> float | int:
    """The value that leaves a reduction by ``fn`` over ``dtype`` unchanged."""
    value = NEUTRAL[fn]
    assert value is not None
    if abs(value) != float("inf") or getattr(torch, dtype).is_floating_point:
        return value if getattr(torch, dtype).is_floating_point else int(value)
    if dtype == "bool":
        return int(value > 0)
    info = torch.iinfo(getattr(torch, dtype))
    return info.max if value > 0 else info.min
