"""Quack's kernels in CuTe, called as ours are. Importing this module needs ``quack`` (quack-kernels)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import torch
from quack import cross_entropy as losses
from quack import rmsnorm as norms
from quack.softmax import softmax_fwd

from examples.cross_entropy import IGNORED

from .opponent import Opponent, Peer, maker

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Any:
    """Return Quack's RMS norm."""
    return norms.rmsnorm_fwd(x, weight, eps=eps)[0]


def rms_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, inv_rms: Tensor) -> Any:
    """Return Quack's gradients of x and weight."""
    return norms.rmsnorm_bwd(x, weight, grad, inv_rms)[:2]


def layer_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor) -> Any:
    """Return Quack's gradients of layer norm."""
    return norms.layernorm_bwd(x, weight, grad, scale, mean)


def cross_entropy(logits: Tensor, labels: Tensor) -> Any:
    """Return Quack's mean loss over the labels that count, and each row's logsumexp."""
    loss, lse = losses.cross_entropy_fwd(logits, labels, ignore_index=IGNORED, return_lse=True)
    return loss.sum() / (labels != IGNORED).sum(), lse


def layer_norm(args: Sequence[Any]) -> Opponent:
    """Return the opponent for layer norm, whose weights and biases Quack takes in float32 only."""
    x, weight, bias, eps = args
    return Opponent(norms.layernorm_fwd, (x, weight.float(), bias.float(), eps), note="weights in float32")


_CALLS: Mapping[str, Callable[..., Any]] = {
    "examples.softmax:softmax": softmax_fwd,
    "examples.rms_norm:rms_norm": rms_norm,
    "examples.rms_norm:rms_norm_bwd": rms_norm_bwd,
    "examples.layer_norm:layer_norm_bwd": layer_norm_bwd,
    "examples.cross_entropy:cross_entropy": cross_entropy,
}


_SPECIALS = {"examples.layer_norm:layer_norm": layer_norm}


def peer() -> Peer:
    """Return Quack as a peer."""
    return Peer("quack", maker(_CALLS, _SPECIALS), metadata.version("quack-kernels"))
