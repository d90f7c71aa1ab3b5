"""Kernels that models are made of, as differentiable functions and modules over tensors of any leading dimensions."""

from __future__ import annotations

from .activations import GeGLU, SwiGLU, geglu, swiglu
from .layer import LayerNorm, add_layer_norm, layer_norm
from .linear import gated_linear, linear_add
from .linear_loss import LinearCrossEntropyLoss, linear_cross_entropy
from .losses import CrossEntropyLoss, cross_entropy
from .mlp import gated_mlp
from .rms import RMSNorm, add_rms_norm, rms_norm
from .rotary import RotaryEmbedding, rope
from .scaled_dot import Attention, attention, attention_backend

__all__ = [
    "Attention", "CrossEntropyLoss", "GeGLU", "LayerNorm", "LinearCrossEntropyLoss", "RMSNorm", "RotaryEmbedding",
    "SwiGLU", "add_layer_norm", "add_rms_norm", "attention", "attention_backend", "cross_entropy", "gated_linear",
    "gated_mlp", "geglu", "layer_norm", "linear_add", "linear_cross_entropy", "rms_norm", "rope", "swiglu",
]  # fmt: skip
