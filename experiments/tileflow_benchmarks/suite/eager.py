"""What a user of torch would write for a cell: the columns "eager" and "torch.compile".

Mostly this is the kernel's own reference. Where that does more than the operation (a backward pass that runs the
forward one first, a loss with extras) torch's own operation is used instead: a reference is a formula, not a fair
opponent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from examples import physarum
from examples.cross_entropy import IGNORED
from tileflow.api import Kernel

from .opponent import Call, Opponent, first
from .time_limit import time_limit

Tensor = torch.Tensor


def layer_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor) -> Any:
    """Run torch's own backward operation."""
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(grad, x, [x.size(1)], mean[:, None], scale[:, None], weight, weight, [True, True, True])


def rms_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, inv_rms: Tensor) -> Any:
    """Run torch's own backward operation."""
    return torch.ops.aten._fused_rms_norm_backward(grad, x, [x.size(1)], inv_rms[:, None], weight, [True, True])


def layer_norm_bwd_formula(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor) -> Any:
    """Compute the gradients by their formulas, for torch.compile to fuse."""
    normed, g = (x.float() - mean[:, None]) * scale[:, None], grad.float()
    inner = g * weight.float()
    shift, slope = inner.mean(1, keepdim=True), (inner * normed).mean(1, keepdim=True)
    grad_x = (inner - shift - normed * slope) * scale[:, None]
    return grad_x.to(x.dtype), (g * normed).sum(0).to(weight.dtype), g.sum(0).to(weight.dtype)


def rms_norm_bwd_formula(grad: Tensor, x: Tensor, weight: Tensor, inv_rms: Tensor) -> Any:
    """Compute the gradients by their formulas, for torch.compile to fuse."""
    normed, g = x.float() * inv_rms[:, None], grad.float()
    inner = g * weight.float()
    grad_x = (inner - normed * (inner * normed).mean(1, keepdim=True)) * inv_rms[:, None]
    return grad_x.to(x.dtype), (g * normed).sum(0).to(weight.dtype)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the loss alone: our kernel's logsumexp of each row is a by-product."""
    return F.cross_entropy(logits, labels, ignore_index=IGNORED)


def jsd_formula(log_q: Tensor, log_p: Tensor, beta: float) -> Any:
    """Compute loss and gradient, for torch.compile to fuse."""
    q, p = log_q.exp(), log_p.exp()
    middle = torch.log(beta * p + (1 - beta) * q)
    slope = (1 - beta) * q * (log_q - middle)
    return (beta * p * (log_p - middle) + slope).sum() / log_q.size(0), slope / log_q.size(0)


def move(x: Tensor, y: Tensor, heading: Tensor, trail: Tensor, fresh: Tensor, seed: int) -> Any:
    """Move the agents one step in place, in torch's operations."""
    h, w = trail.shape
    angles = (0.0, physarum.SENSOR_ANGLE, -physarum.SENSOR_ANGLE)
    front, left, right = (physarum.sense(trail, x, y, heading + angle) for angle in angles)
    heading.add_(physarum.turn(front, left, right, torch.rand_like(x)))
    x.add_(physarum.STEP * torch.cos(heading)).remainder_(w)
    y.add_(physarum.STEP * torch.sin(heading)).remainder_(h)
    deposit = torch.full_like(x, physarum.DEPOSIT)
    fresh.index_put_((y.int() % h, x.int() % w), deposit, accumulate=True)
    return x, y, heading, fresh


def attention_backward(args: Sequence[Any]) -> Opponent:
    """Return the gradient of torch's fused attention, its forward pass done beforehand.

    It is called and never captured: autograd runs it on the stream of the forward pass, and its random state does not
    survive a capture that fails. At milliseconds per call the host keeps ahead of the device.
    """
    q, k, v = (t.detach().clone().requires_grad_() for t in args[:3])
    grad_out, causal = args[5], args[6]
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return Opponent(
        lambda *_: torch.autograd.grad(out, (q, k, v), grad_out, retain_graph=True),
        capture=False,
        note="called, not replayed; the forward pass was done beforehand",
    )


_LOSS = Opponent(cross_entropy, part=first, note="the loss alone")
_RANDOM = Opponent(move, is_random=True, note="draws its own random numbers")
_EAGER: Mapping[str, Opponent] = {
    "examples.layer_norm:layer_norm_bwd": Opponent(layer_norm_bwd, note="aten.native_layer_norm_backward"),
    "examples.rms_norm:rms_norm_bwd": Opponent(rms_norm_bwd, note="aten._fused_rms_norm_backward"),
    "examples.cross_entropy:cross_entropy": _LOSS,
    "examples.physarum:move": _RANDOM,
}
_COMPILED: Mapping[str, Opponent] = {
    "examples.layer_norm:layer_norm_bwd": Opponent(layer_norm_bwd_formula),
    "examples.rms_norm:rms_norm_bwd": Opponent(rms_norm_bwd_formula),
    "examples.cross_entropy:cross_entropy": _LOSS,
    "examples.jsd:jsd": Opponent(jsd_formula),
    "examples.physarum:move": _RANDOM,
}
ATTENTION_BACKWARD = ("examples.attention:attention_backward", "examples.attention:attention_backward_fused")


def eager(kernel: Kernel, args: Sequence[Any]) -> Opponent:
    """Return the opponent of the column "eager"."""
    if kernel.name in ATTENTION_BACKWARD:
        return attention_backward(args)
    return _EAGER.get(kernel.name) or Opponent(kernel.reference)


def compiled(kernel: Kernel, args: Sequence[Any], seconds: float) -> Opponent | None:
    """Return the same through ``torch.compile(mode="max-autotune-no-cudagraphs")``, compiled here.

    Returns None where it is a single operation that torch.compile would only call again. Raises TimeoutError past
    ``seconds``.
    """
    if kernel.name in ATTENTION_BACKWARD:
        return None
    plain = _COMPILED.get(kernel.name) or Opponent(kernel.reference)
    torch.compiler.reset()
    function: Call = torch.compile(plain.call, mode="max-autotune-no-cudagraphs", dynamic=False)
    with time_limit(seconds, "torch.compile"):
        function(*args)
    return Opponent(function, part=plain.part, is_random=plain.is_random, note=plain.note)
