"""Liger's Triton operators, called as our kernels are. Importing this module needs ``liger_kernel``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import torch
from liger_kernel import ops
from liger_kernel.ops.kl_div import kldiv_forward_triton
from liger_kernel.ops.layer_norm import layer_norm_backward
from liger_kernel.ops.rms_norm import rms_norm_backward
from liger_kernel.ops.utils import calculate_settings

from examples.cross_entropy import IGNORED

from .opponent import Opponent, Peer, first, maker

Tensor = torch.Tensor


def softmax(x: Tensor) -> Any:
    """Return Liger's softmax of each row."""
    return ops.LigerSoftmaxFunction.apply(x)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Any:
    """Return Liger's RMS norm in Llama's casting mode."""
    return ops.rms_norm_forward(x, weight, eps, 0.0, "llama", None)[0]


def rms_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, inv_rms: Tensor) -> Any:
    """Return Liger's gradients of x and weight."""
    block, warps = calculate_settings(x.size(1))
    return rms_norm_backward(grad, x, weight, inv_rms, 0.0, 0, block, warps, False, None)[:2]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Any:
    """Return Liger's layer norm."""
    return ops.layer_norm_forward(x, weight, bias, eps)[0]


def layer_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor) -> Any:
    """Return Liger's gradients of x, weight and bias."""
    return layer_norm_backward(grad, x, weight, weight, mean, scale)[:3]


def cross_entropy(logits: Tensor, labels: Tensor) -> Any:
    """Return Liger's mean loss alone, without its gradient."""
    return ops.cross_entropy_forward(logits, labels, None, IGNORED, 0.0, 0.0, "mean", None, False)[0]


def kl_div(log_q: Tensor, p: Tensor, log_target: bool) -> Any:
    """Return Liger's Kullback-Leibler divergence, averaged over the batch."""
    return kldiv_forward_triton(log_q, p, log_target, "batchmean", 1e-10)


def jsd(log_q: Tensor, log_p: Tensor, beta: float) -> Any:
    """Return Liger's loss and gradient of the Jensen-Shannon divergence, without labels."""
    no_labels = torch.empty(1, device=log_q.device)
    return ops.jsd_forward(log_q, log_p, no_labels, beta, IGNORED, False)[:2]


def swiglu(a: Tensor, b: Tensor) -> Any:
    """Return Liger's ``silu(a) * b``."""
    return ops.swiglu_forward(a, b)[2]


def geglu(a: Tensor, b: Tensor) -> Any:
    """Return Liger's ``gelu(a) * b``."""
    return ops.geglu_forward(a, b)[2]


def rope(args: Sequence[Any]) -> Opponent:
    """Return the opponent in Liger's own layout, [b, s, heads, d] in memory, in which it turns in place."""
    q, k, cos, sin = args
    own = tuple(t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k))
    wide = tuple(torch.cat([t, t], dim=1)[None] for t in (cos, sin))
    return Opponent(lambda *all_: ops.rope_forward(*all_)[:2], (*own, *wide), note="in place, in Liger's layout")


def only_the_loss(args: Sequence[Any]) -> Opponent:
    """Return the opponent for cross entropy, which computes the loss alone and waits for the device."""
    return Opponent(cross_entropy, part=first, capture=False, note="waits for the device inside; the loss alone")


_CALLS: Mapping[str, Callable[..., Any]] = {
    "examples.softmax:softmax": softmax,
    "examples.rms_norm:rms_norm": rms_norm,
    "examples.rms_norm:rms_norm_bwd": rms_norm_bwd,
    "examples.layer_norm:layer_norm": layer_norm,
    "examples.layer_norm:layer_norm_bwd": layer_norm_bwd,
    "examples.kl_div:kl_div": kl_div,
    "examples.jsd:jsd": jsd,
    "examples.swiglu:swiglu": swiglu,
    "examples.geglu:geglu": geglu,
}


_SPECIALS = {"examples.rope:rope": rope, "examples.cross_entropy:cross_entropy": only_the_loss}


def peer() -> Peer:
    """Return Liger as a peer."""
    return Peer("liger", maker(_CALLS, _SPECIALS), metadata.version("liger-kernel"))
