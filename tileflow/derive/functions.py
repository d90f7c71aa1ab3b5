"""Derivatives of torch functions that the table makes of several ops: they are torch's, also where those ops' are not.

A row says for each parameter the text of its gradient: {g} is the result's, {out} the result, the others are the
function's parameters by their names. A row is a function of the arguments where they choose the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.attributes import FoldAttrs
from ..ir.graph import Op
from ..ir.types import Value
from .rules import Reverse, is_differentiable

Texts = Mapping[str, str]

_ROOT_PI = math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
# (cos(pi x) - sinc(x)) / x**2, where the two terms would cancel
_SINC = "-C0 + {x} * {x} * (C1 + {x} * {x} * (-C2 + {x} * {x} * C3))"
for _n, _divisor in enumerate((3, 30, 840, 45360)):
    _SINC = _SINC.replace(f"C{_n}", repr(math.pi ** (2 * _n + 2) / _divisor))


def _clamp(given: Mapping[str, Any]) -> Texts:
    """All of the gradient to ``x`` at a bound too; of two bounds that cross, the upper one is the result."""
    low, high = (given.get(name) is not None for name in ("min", "max"))
    inside = " & ".join([*(["({x} >= {min})"] * low), *(["({x} <= {max})"] * high)])
    below = "({x} < {min}) & ({min} < {max})" if high else "{x} < {min}"
    above = "({x} > {max}) | ({max} < {min})" if low else "{x} > {max}"
    return {
        "x": f"torch.where({inside}, {{g}}, 0.0)",
        **({"min": f"torch.where({below}, {{g}}, 0.0)"} if low else {}),
        **({"max": f"torch.where({above}, {{g}}, 0.0)"} if high else {}),
    }


def _within(low: str, high: str) -> Texts:
    return {"x": f"torch.where(({{x}} <= {low}) | ({{x}} >= {high}), 0.0, {{g}})"}


def _logit(given: Mapping[str, Any]) -> Texts:
    """NaN outside of 0 to 1; with ``eps``, 0 where ``x`` is kept away from there."""
    eps = given["eps"]
    low, high, other = ("0.0", "1.0", 'float("nan")') if eps is None else (repr(eps), repr(1 - eps), "0.0")
    return {
        "x": f"torch.where(({{x}} < {low}) | ({{x}} > {high}), {other}, {{g}} / ({{x}} * (1 - {{x}})))",
    }


def _times_log(log: str, within: str, end: str) -> Callable[[Mapping[str, Any]], Texts]:
    """Of ``x * log(y)``: the logarithm also where ``x`` is 0, but where that is infinite or none."""

    def row(given: Mapping[str, Any]) -> Texts:
        y = given["y"]
        text = log if isinstance(y, Value) else log.replace("torch.", "math.")
        if not isinstance(y, Value) and y <= float(end):
            text = 'float("-inf")' if y == float(end) else 'float("nan")'
        return {
            "x": f"torch.where(({{x}} == 0) & ({{y}} <= {end}), 0.0, {{g}} * {text})",
            "y": f"{{g}} * {{x}} / {within}",
        }

    return row


FUNCTIONS: dict[str, Texts | Callable[[Mapping[str, Any]], Texts]] = {
    # between bounds
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "hardtanh": _within("{min_val}", "{max_val}"),
    "relu6": _within("0.0", "6.0"),
    "hardsigmoid": {"x": "torch.where(({x} > -3.0) & ({x} < 3.0), {g} / 6.0, 0.0)"},
    "hardswish": {"x": "torch.where({x} <= -3.0, 0.0, torch.where({x} < 3.0, {g} * ({x} / 3.0 + 0.5), {g}))"},
    "fmax": {"a": "torch.where(({a} >= {b}) | ({b} != {b}), {g}, 0.0)",
             "b": "torch.where(({a} >= {b}) | ({b} != {b}), 0.0, {g})"},
    "fmin": {"a": "torch.where(({a} <= {b}) | ({b} != {b}), {g}, 0.0)",
             "b": "torch.where(({a} <= {b}) | ({b} != {b}), 0.0, {g})"},
    # the exponential of a number that is large where it is not taken
    "elu": {"x": "torch.where({x} <= 0, {g} * {alpha} * torch.exp({x}), {g})"},
    "celu": {"x": "torch.where({x} <= 0, {g} * torch.exp({x} / {alpha}), {g})"},
    "selu": {"x": "{g} * torch.where({x} <= 0, 1.7580993408473766 * torch.exp({x}), 1.0507009873554805)"},
    "softplus": {"x": "torch.where({x} * {beta} > {threshold}, {g}, {g} * torch.sigmoid({x} * {beta}))"},
    "mish": {"x": "{g} * (torch.tanh(SOFTPLUS) + {x} * torch.sigmoid({x}) * (1 - torch.tanh(SOFTPLUS) ** 2))".replace(
        "SOFTPLUS", "torch.nn.functional.softplus({x})")},
    "softshrink": {"x": "torch.where(({x} >= -{lambd}) & ({x} <= {lambd}), 0.0, {g})"},
    "lerp": {"a": "{g} * (1 - {weight})", "b": "{g} * {weight}", "weight": "{g} * ({b} - {a})"},
    # hyperbolic and circular functions
    "sinh": {"x": "{g} * torch.cosh({x})"},
    "cosh": {"x": "{g} * torch.sinh({x})"},
    "asinh": {"x": "{g} * torch.rsqrt({x} * {x} + 1)"},
    "acosh": {"x": "{g} * torch.rsqrt({x} * {x} - 1)"},
    "atanh": {"x": "{g} / (1 - {x} * {x})"},
    "asin": {"x": "{g} * torch.rsqrt(1 - {x} * {x})"},
    "acos": {"x": "-{g} * torch.rsqrt(1 - {x} * {x})"},
    "atan": {"x": "{g} / ({x} * {x} + 1)"},
    "atan2": {"y": "torch.where({x} * {x} + {y} * {y} == 0, 0.0, {g} * {x} / ({x} * {x} + {y} * {y}))",
              "x": "torch.where({x} * {x} + {y} * {y} == 0, 0.0, -{g} * {y} / ({x} * {x} + {y} * {y}))"},
    "hypot": {"x": "{g} * ({x} / {out})", "y": "{g} * ({y} / {out})"},
    "sinc": {"x": f"torch.where(torch.abs({{x}}) < 0.1, {{g}} * {{x}} * ({_SINC}), "
                  f"{{g}} * (torch.cos({{x}} * {math.pi!r}) - {{out}}) / {{x}})"},
    "lgamma": {"x": "{g} * torch.digamma({x})"},
    "gammaln": {"x": "{g} * torch.digamma({x})"},
    # signs
    "copysign": {"x": "torch.where({x} == 0, 0.0, {g} * ({out} / {x}))"},
    # logarithms
    "logaddexp": {"a": "{g} / (1 + torch.exp({b} - {a}))", "b": "{g} / (1 + torch.exp({a} - {b}))"},
    "logaddexp2": {"a": "{g} / (1 + torch.exp2({b} - {a}))", "b": "{g} / (1 + torch.exp2({a} - {b}))"},
    "xlogy": _times_log("torch.log({y})", "{y}", "0.0"),
    "xlog1py": _times_log("torch.log1p({y})", "({y} + 1)", "-1.0"),
    "entr": {"x": "-{g} * (torch.log({x}) + 1)"},
    "logit": _logit,
    # the normal distribution
    "erfc": {"x": f"{{g}} * {-2 / _ROOT_PI!r} * torch.exp(-{{x}} * {{x}})"},
    "erfcx": {"x": f"{{g}} * (2 * {{x}} * {{out}} - {2 / _ROOT_PI!r})"},
    "erfinv": {"x": f"{{g}} * {_ROOT_PI / 2!r} * torch.exp({{out}} * {{out}})"},
    "ndtr": {"x": f"{{g}} * {_ROOT_HALF / _ROOT_PI!r} * torch.exp(-0.5 * {{x}} * {{x}})"},
    "log_ndtr": {"x": f"{{g}} * {math.sqrt(2 / math.pi)!r} / torch.special.erfcx({{x}} * {-_ROOT_HALF!r})"},
    # powers by a constant that is no natural number
    "pow": {"a": "{g} * ({b} * {a} ** ({b} - 1))"},
    # what is inside other functions
    "root_or_0": {"x0": "torch.where({out} == 0, 0.0, {g} / ({out} * 2))"},
    "power_or_0": {"a": "torch.where({a} == 0, 0.0, {g} * ({b} * {a} ** ({b} - 1)))"},
    "at_least": {"x0": "torch.where({x0} >= {x1}, {g}, 0.0)"},
    "first_of_two": {"x0": "torch.where(({x0} < {x1}) | ({x1} != {x1}), 0.0, {g})",
                     "x1": "torch.where(({x0} < {x1}) | ({x1} != {x1}), {g}, 0.0)"},
    "as_if_larger": {"x0": "{g}"},
    "as_if_chosen": {"x2": "{g}"},
    "cross_entropy": {"x": "{g} * ({x} - {target}) / torch.clamp((1 - {x}) * {x}, min=1e-12)",
                      "target": "{g} * (torch.clamp(torch.log1p(-{x}), min=-100.0) - "
                                "torch.clamp(torch.log({x}), min=-100.0))"},
}  # fmt: skip
ALIASES = {
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2",
}  # fmt: skip
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in ALIASES.items()}

# Of what these functions are made of, the ops whose gradients are others than elsewhere.
_NORM = {"sqrt": "root_or_0", "pow": "power_or_0"}
INSIDE: dict[str, Mapping[str, str]] = {
    "norm": _NORM,
    "vector_norm": _NORM,
    "linalg.norm": _NORM,
    "linalg.matrix_norm": _NORM,
    "dist": _NORM,
    "pairwise_distance": _NORM,
    "cdist": _NORM,
    "std": _NORM,
    "std_mean": _NORM,
    "normalize": {**_NORM, "maximum": "at_least"},
    "cosine_similarity": {**_NORM, "maximum": "as_if_larger"},
    **{
        f"{kind}max_pool{n}d": {"maximum": "first_of_two", "max": "first_of_row"}
        for kind in ("", "adaptive_")
        for n in (1, 2, 3)
    },
    "gaussian_nll_loss": {"where": "as_if_chosen"},
}


def differentiated(r: Reverse, op: Op, function: str, given: Mapping[str, Any], g: str) -> None:
    """Give each differentiable argument of a call what its row says."""
    row = FUNCTIONS[function]
    texts = row if isinstance(row, Mapping) else row(given)
    numbers = {n: v for n, v in given.items() if isinstance(v, Value | int | float) and not isinstance(v, bool)}
    names = {n: r.text(v) for n, v in numbers.items()}
    for name, text in texts.items():
        if is_differentiable(given[name]):
            r.give(given[name], text.format(**names, g=g, out=r.text(op.output)), op.output.type.dtype, op.output.dims)


# ---- rows of several lines -------------------------------------------------------------------------------------------


def selected(r: Reverse, op: Op, given: Mapping[str, Any], results: tuple[Value, ...], g: str) -> None:
    """All of the gradient to the element that the second result names."""
    x, index = given["x"], results[1]
    axis = given["dim"] % len(x.dims)
    _select(r, x, axis, r.text(index), g, len(index.dims) == len(x.dims))


def first_of_row(r: Reverse, op: Op, given: Mapping[str, Any], results: tuple[Value, ...], g: str) -> None:
    """All of the gradient to the first of the largest elements."""
    axis = FoldAttrs.of(op).axis
    _select(r, given["x0"], axis, r.name("place", f"{r.text(given['x0'])}.argmax({axis})"), g, False)


def _select(r: Reverse, x: Value, axis: int, index: str, g: str, keeps: bool) -> None:
    """The gradient to one element of a row. ``keeps``: whether ``g`` and ``index`` have the dimension."""
    rank = len(x.dims)
    wide, place = (name if keeps else f"{name}.unsqueeze({axis})" for name in (g, index))
    rest = "[" + ", ".join(":" if a == axis else "None" for a in range(rank)) + "]"
    lanes = r.name("lanes", f"tfl.arange({r.shape((x.dims[axis],))[1:-1]}){rest if rank > 1 else ''}")
    r.give(x, f"torch.where({lanes} == {place}, {wide}, 0.0)")


def trigamma(r: Reverse, op: Op, given: Mapping[str, Any], results: tuple[Value, ...], g: str) -> None:
    """The derivative of ``digamma``: of ``1 - x`` below a half; by recurrence from there to beyond 6, and by its
    asymptotic series."""
    x = r.text(given["x"])
    at = r.name("at", f"torch.where({x} < 0.5, 1 - {x}, {x})")
    steps = " + ".join(f"torch.reciprocal(({at} + {n}) * ({at} + {n}))" for n in range(6))
    far = r.name("far", f"1 / ({at} + 6)")
    square = r.name("square", f"{far} * {far}")
    series = f"{far} * (1 + {far} / 2 + {square} * (1 / 6 - {square} * (1 / 30 - {square} / 42)))"
    found = r.name("trigamma", f"{steps} + {series}")
    sine = r.name("sine", f"{math.pi!r} / torch.sin({x} * {math.pi!r})")
    r.give(given["x"], f"{g} * torch.where({x} < 0.5, {sine} * {sine} - {found}, {found})", op.output.type.dtype)


REDUCTIONS = ("max", "min")
ROWS = {"max": selected, "min": selected, "first_of_row": first_of_row, "digamma": trigamma, "psi": trigamma}
