"""Products with weights and what follows them, in one kernel where that wins: a gate, a residual.

The kernels have no gradients: where some are recorded, and where torch's product is as fast, a call is torch's product
and the kernel of what follows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from ..runtime.ambient import autocast_dtype, without_autocast
from ..runtime.describe import refuse_transforms
from . import gated
from . import residual as added
from .activations import geglu, swiglu
from .hopper import hopper_multiprocessors
from .rows import as_cast, as_rows, require_alike, require_choice, require_rows, require_shape

ACTIVATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {"silu": swiglu, "gelu": geglu}
_HALVES = (torch.bfloat16, torch.float16)
_MOST_SKINNY = 64  # rows up to which a product only streams the weight
_TILE = 128  # rows of a tile of the kernels' default
_ALIGNED = 8  # elements of 16 bits between rows that the copy engine takes
_NEARLY = 0.9  # of the multiprocessors have a tile


def gated_linear(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, *, activation: str = "silu") -> torch.Tensor:
    """``act(F.linear(x, gate)) * F.linear(x, up)`` of ``x``, (..., hidden), and weights (inner, hidden) of one dtype.

    ``activation``: ``silu``, or ``gelu`` by its tanh approximation (Shazeer, 2020, arXiv:2002.05202). One kernel where
    it wins: without gradients, of 16 bits, on a GPU of Hopper's. It rounds once, where two products round before. Under
    autocast all are cast first, as by torch's products.
    Raises CallError for shapes, dtypes and activations that do not fit.
    """
    require_choice("gated_linear", "activation", activation, ACTIVATIONS)
    require_rows("gated_linear", x=x, gate=gate, up=up)
    require_shape("gated_linear", "gate", gate, (*gate.shape[:1], x.size(-1)), "a weight is (inner, hidden)")
    require_shape("gated_linear", "up", up, gate.shape, "both weights have one shape")
    x, gate, up = as_cast(x), as_cast(gate), as_cast(up)
    require_alike("gated_linear", x=x, gate=gate, up=up)
    with without_autocast(x.device):
        if is_fused(x, (gate, up), _TILE):
            _refuse_transforms("gated_linear", x=x, gate=gate, up=up)
            out: torch.Tensor = gated.gated_linear(as_rows(x), gate, up, activation)
            return out.view(*x.shape[:-1], gate.size(0))
        return ACTIVATIONS[activation](F.linear(x, gate), F.linear(x, up))


def linear_add(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """``residual + F.linear(x, weight)`` of ``x``, (..., hidden), a weight (columns, hidden) and a residual (...,
    columns) of one dtype.

    One kernel where it wins: without gradients, of 16 bits, on a GPU of Hopper's. It rounds once, where torch rounds
    the product before. Under autocast ``x`` and the weight are cast first, and the result has the wider dtype of the
    product and the residual. Raises CallError for shapes and dtypes that do not fit.
    """
    require_rows("linear_add", x=x, weight=weight, residual=residual)
    require_shape("linear_add", "weight", weight, (*weight.shape[:1], x.size(-1)), "a weight is (columns, hidden)")
    wanted = (*x.shape[:-1], weight.size(0))
    require_shape("linear_add", "residual", residual, wanted, "a residual has the product's shape")
    is_cast = autocast_dtype(x.device) is not None
    x, weight = as_cast(x), as_cast(weight)
    require_alike("linear_add", x=x, weight=weight, **({} if is_cast else {"residual": residual}))
    with without_autocast(x.device):
        if residual.dtype == x.dtype and is_fused(x, (weight, residual), 2 * _TILE):
            _refuse_transforms("linear_add", x=x, weight=weight, residual=residual)
            out: torch.Tensor = added.linear_add(as_rows(x), weight, as_rows(residual))
            return out.view(residual.shape)
        return residual + F.linear(x, weight)


def is_fused(x: torch.Tensor, others: tuple[torch.Tensor, ...], columns: int) -> bool:
    """Whether one kernel wins, of rows ``x`` and a weight, the first of ``others``: without gradients, of 16 bits, and
    of a tile of so many columns for nearly each multiprocessor of a Hopper."""
    weight, rows = others[0], math.prod(x.shape[:-1])
    if torch.is_grad_enabled() and any(t.requires_grad for t in (x, *others)):
        return False
    if x.device.type != "cuda" or x.dtype not in _HALVES or rows <= _MOST_SKINNY or not weight.is_contiguous():
        return False
    if any(size % _ALIGNED for size in weight.shape):
        return False
    tiles, most = -(-rows // _TILE) * -(-weight.size(0) // columns), hopper_multiprocessors(x.device.index or 0)
    return most > 0 and tiles >= int(_NEARLY * most)


def _refuse_transforms(function: str, **tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        refuse_transforms(f"tileflow.kernels.{function}", name, tensor)
