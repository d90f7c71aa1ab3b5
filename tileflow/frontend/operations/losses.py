"""Losses of each element, averaged, summed or neither, as ``reduction`` says."""

from __future__ import annotations

import math
from typing import Any

from ..torch_registry import register_torch
from ..trace import Tracer
from .activations import logsigmoid
from .pointwise import promoted
from .reductions import count, mean
from .reductions import reduce as reduce_
from .special import xlogy


def _gap(t: Tracer, x: Any, target: Any) -> Any:
    """The differences, in the dtype in which both meet: bools are not subtracted."""
    _, (x, target) = promoted(t, x, target)
    return x - target


def _like(t: Tracer, loss: Any, operand: Any) -> Any:
    """``loss`` in the dtype of the operand that it is stored into by torch."""
    return loss if loss.dtype == operand.dtype else t.cast(loss, operand.value.type.dtype)


def _reduced(t: Tracer, loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    if reduction == "mean" and not loss.is_floating_point():
        return mean(t, loss)  # which refuses it
    total = reduce_(t, "sum", loss, None, False)
    return total if reduction == "sum" else total / count(t, loss, None)


@register_torch("mse_loss")
def mse_loss(
    t: Tracer, x: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", **unused: Any
) -> Any:
    """The squared differences, averaged, summed or neither, as ``reduction`` says."""
    gap = _gap(t, x, target)
    return _reduced(t, gap * gap, reduction)


@register_torch("l1_loss")
def l1_loss(
    t: Tracer, x: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", **unused: Any
) -> Any:
    """The absolute differences, averaged, summed or neither, as ``reduction`` says."""
    return _reduced(t, t.pointwise("abs", x - target), reduction)


@register_torch("smooth_l1_loss")
def smooth_l1_loss(
    t: Tracer,
    x: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """The absolute differences less ``beta / 2``; below ``beta``, half their squares divided by ``beta``. Averaged,
    summed or neither."""
    gap = t.pointwise("abs", _gap(t, x, target))
    return _reduced(t, t.pointwise("where", gap < beta, 0.5 * gap * gap / beta, gap - 0.5 * beta), reduction)


@register_torch("huber_loss")
def huber_loss(t: Tracer, x: Any, target: Any, reduction: str = "mean", delta: float = 1.0, **unused: Any) -> Any:
    """Half the squared differences up to ``delta``, and beyond it a line of slope ``delta``. Averaged, summed or
    neither."""
    gap = t.pointwise("abs", _gap(t, x, target))
    loss = t.pointwise("where", gap <= delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta))
    return _reduced(t, _like(t, loss, x), reduction)


@register_torch("kl_div")
def kl_div(
    t: Tracer,
    x: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """``target * (log(target) - x)``, of a ``target`` that is a logarithm already if ``log_target``. ``batchmean``: the
    sum divided by the size of the first dimension."""
    loss = t.pointwise("exp", target) * (target - x) if log_target else xlogy(t, target, target) - target * x
    if reduction != "batchmean":
        return _reduced(t, loss, reduction)
    return reduce_(t, "sum", loss, None, False) / count(t, loss, 0)


@register_torch("binary_cross_entropy")
def binary_cross_entropy(
    t: Tracer,
    x: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """``-(target * log(x) + (1 - target) * log(1 - x))``, each logarithm at least -100."""
    yes, no = (t.pointwise("maximum", t.pointwise(fn, v), -100.0) for fn, v in (("log", x), ("log1p", -x)))
    return _weighted(t, (target - 1) * no - target * yes, weight, reduction)


@register_torch("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    t: Tracer,
    x: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """``binary_cross_entropy`` of ``sigmoid(x)``, without overflow. ``pos_weight``: of what ``target`` is of."""
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * x - factor * logsigmoid(t, x)
    return _weighted(t, _like(t, loss, target), weight, reduction)


def _weighted(t: Tracer, loss: Any, weight: Any, reduction: str) -> Any:
    return _reduced(t, loss if weight is None else loss * weight, reduction)


@register_torch("soft_margin_loss")
def soft_margin_loss(
    t: Tracer, x: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """``log(1 + exp(-target * x))``."""
    return _reduced(t, _like(t, t.pointwise("log1p", t.pointwise("exp", -target * x)), x), reduction)


@register_torch("poisson_nll_loss")
def poisson_nll_loss(
    t: Tracer,
    x: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """``exp(x) - target * x``, of a rate ``x`` that is no logarithm ``x - target * log(x + eps)``. ``full``: with
    Stirling's approximation of the factorial, where ``target`` is above 1."""
    rate = t.pointwise("exp", x) if log_input else x
    loss = rate - target * (x if log_input else t.pointwise("log", x + eps))
    if full:
        stirling = target * t.pointwise("log", target) - target + 0.5 * t.pointwise("log", 2 * math.pi * target)
        loss = loss + t.pointwise("where", target > 1, stirling, 0.0)
    return _reduced(t, loss, reduction)


@register_torch("gaussian_nll_loss")
def gaussian_nll_loss(
    t: Tracer, x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Half of ``log(var) + (x - target)**2 / var``, of a variance that is at least ``eps``. ``full``: with the constant
    of the normal distribution. A variance without the last dimension of ``x``, or with one of 1, is that of all."""
    if isinstance(var, (int, float)):
        var = t.full(x.value.dims, var, x.value.type.dtype)
    elif var.ndim == x.ndim - 1:
        var = var[..., None]
    wide = t.pointwise("where", var < eps, eps, var)
    gap = x - target
    loss = 0.5 * (t.pointwise("log", wide) + gap * gap / wide)
    return _reduced(t, loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
