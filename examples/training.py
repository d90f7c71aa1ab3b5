"""The gallery's forward and backward kernels as differentiable functions: train with them, compiled or not."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
from tileflow.autograd import BackwardContext

from . import attention as attention_kernels
from . import cross_entropy as cross_entropy_kernels
from . import geglu as geglu_kernels
from . import layer_norm as layer_norm_kernels
from . import rms_norm as rms_norm_kernels
from . import softmax as softmax_kernels
from . import swiglu as swiglu_kernels

Grads = tuple[torch.Tensor | None, ...]


def _rms_norm(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    return *rms_norm_kernels.rms_norm_bwd(grad, *ctx.saved), None


def _layer_norm(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    return *layer_norm_kernels.layer_norm_bwd(grad, *ctx.saved), None


def _cross_entropy(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    return cross_entropy_kernels.cross_entropy_bwd(grad, *ctx.saved), None, None


def _attention(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    *tensors, causal = ctx.saved
    return *attention_kernels.attention_backward(*tensors, grad, causal), None, None


rms_norm = tileflow.differentiable(
    rms_norm_kernels.rms_norm_train,
    _rms_norm,
    save=("x", "weight", "inv_rms"),
    outputs=("out", "inv_rms"),
    hidden=("inv_rms",),
)

layer_norm = tileflow.differentiable(
    layer_norm_kernels.layer_norm_train,
    _layer_norm,
    save=("x", "weight", "mean", "scale"),
    outputs=("out", "mean", "scale"),
    hidden=("mean", "scale"),
)

softmax = tileflow.differentiable(
    softmax_kernels.softmax,
    lambda ctx, grad: softmax_kernels.softmax_bwd(grad, *ctx.saved),
    save=("out",),
    outputs=("out",),
)

swiglu = tileflow.differentiable(
    swiglu_kernels.swiglu, lambda ctx, grad: swiglu_kernels.swiglu_bwd(grad, *ctx.saved), save=("a", "b")
)

geglu = tileflow.differentiable(
    geglu_kernels.geglu, lambda ctx, grad: geglu_kernels.geglu_bwd(grad, *ctx.saved), save=("a", "b")
)

cross_entropy = tileflow.differentiable(
    cross_entropy_kernels.cross_entropy,
    _cross_entropy,
    save=("logits", "labels", "lse", "ignore_index"),
    outputs=("loss", "lse"),
    hidden=("lse",),
)

_attention_with_lse = tileflow.differentiable(
    attention_kernels.attention,
    _attention,
    save=("q", "k", "v", "out", "lse", "causal"),
    outputs=("out", "lse"),
    hidden=("lse",),
)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> Any:
    """Differentiable attention of contiguous (batch, heads, m, d) over (batch, heads, n, d)."""
    return _attention_with_lse(q, k, v, causal, True)
