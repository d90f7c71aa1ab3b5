"""The gated MLP of a transformer, down(act(gate(x)) * up(x)), that keeps two of its three wide tensors.

Autograd keeps what goes into the last product for the gradient of its weight, beside what the activation is computed
from. Here the backward pass computes the former from the latter again, which is one pass over memory, and the gradients
of one of them take the memory of what they are computed from: the trade of Chen et al., 2016 (arXiv:1604.06174).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..autograd import differentiated_once
from ..runtime.ambient import without_autocast
from ..runtime.describe import refuse_transforms
from . import gated
from .linear import ACTIVATIONS, gated_linear
from .rows import as_cast, as_rows, require_alike, require_choice, require_rows, require_shape

_WHERE = "tileflow.kernels.gated_mlp"
_FORWARD = {"silu": gated.swiglu, "gelu": gated.geglu}
_BACKWARD = {"silu": gated.swiglu_bwd_over, "gelu": gated.geglu_bwd_over}


class _GatedMlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: str
    ) -> torch.Tensor:
        with without_autocast(x.device):
            a, b = x @ gate.T, x @ up.T
            out: torch.Tensor = _FORWARD[activation](a, b) @ down.T
        ctx.save_for_backward(x, gate, up, down, a, b)
        ctx.activation = activation
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, gate, up, down, a, b = ctx.saved_tensors
        needs_x, needs_gate, needs_up, needs_down, _ = ctx.needs_input_grad
        with torch.no_grad(), without_autocast(x.device):
            grad_down = grad.T @ _FORWARD[ctx.activation](a, b) if needs_down else None
            grad_b = grad @ down  # the gradient of the activation, which that of b is written over
            grad_a = _BACKWARD[ctx.activation](grad_b, a, b)
            grad_gate = grad_a.T @ x if needs_gate else None
            grad_x = grad_a @ gate if needs_x else None
            del grad_a  # before there is another gradient of a weight
            grad_up = grad_b.T @ x if needs_up else None
            if grad_x is not None:
                grad_x.addmm_(grad_b, up)
        found = differentiated_once(_WHERE, (grad_x, grad_gate, grad_up, grad_down), (x, gate, up, down, grad))
        return *found, None


def gated_mlp(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, *, activation: str = "silu"
) -> torch.Tensor:
    """``F.linear(act(F.linear(x, gate)) * F.linear(x, up), down)`` of ``x``, (..., hidden), weights ``gate`` and
    ``up``, (inner, hidden), and ``down``, (hidden, inner), of one dtype.

    ``activation``: ``silu``, or ``gelu`` by its tanh approximation (Shazeer, 2020, arXiv:2002.05202). Where gradients
    are recorded it keeps 2 x rows x inner numbers for the backward pass in place of 3; torch.compile, which decides
    what is kept itself, sees the products. Where none are, the first two products and the activation are one kernel
    where that wins (:func:`.gated_linear`). Under autocast all are cast first, as by torch's products. Raises CallError
    for shapes, dtypes and activations that do not fit, inside a transform of torch.func, and where it is differentiated
    twice.
    """
    require_choice("gated_mlp", "activation", activation, ACTIVATIONS)
    require_rows("gated_mlp", x=x, gate=gate, up=up, down=down)
    require_shape("gated_mlp", "gate", gate, (*gate.shape[:1], x.size(-1)), "a weight is (inner, hidden)")
    require_shape("gated_mlp", "up", up, gate.shape, "both first weights have one shape")
    require_shape("gated_mlp", "down", down, (*down.shape[:1], gate.size(0)), "the last weight is (hidden, inner)")
    x, gate, up, down = as_cast(x), as_cast(gate), as_cast(up), as_cast(down)
    require_alike("gated_mlp", x=x, gate=gate, up=up, down=down)
    for name, tensor in (("x", x), ("gate", gate), ("up", up), ("down", down)):
        refuse_transforms(_WHERE, name, tensor)
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        with without_autocast(x.device):
            return F.linear(gated_linear(x, gate, up, activation=activation), down)
    out: torch.Tensor = _GatedMlp.apply(as_rows(x), gate, up, down, activation)  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], down.size(0))
