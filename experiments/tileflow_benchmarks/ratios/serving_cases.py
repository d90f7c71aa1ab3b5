"""The cases that :mod:`.serving` compares.

The serving kernels have shapes of Llama 3 8B and DeepSeek V3, the functions of ``tileflow.kernels`` those of a training
step of the former.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow.kernels as ours

Call = Callable[..., Any]
Problem = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServingCase:
    """A call of a gallery kernel.

    ``peer``: what torch would run, the kernel's reference unless given. It does not wait for the device, since a
    capture that fails leaves torch's random numbers unusable.
    """

    name: str
    kernel: str
    problem: Problem
    peer: Call | None = None


@dataclass(frozen=True, slots=True)
class FunctionCase:
    """A function and torch's own on the same arguments, of which the first ``leaves`` have gradients.

    ``kernels``: what it launches, with problems. ``liger``: makes Liger's own from its module of operators.
    """

    name: str
    ours: Call
    torch: Call
    inputs: Callable[[str], tuple[Any, ...]]
    leaves: int
    kernels: tuple[tuple[str, Problem], ...]
    liger: Callable[[Any], Call] | None = None


def paged_by_torch(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    key_scale: float,
    value_scale: float,
) -> torch.Tensor:
    """Gather the pages, then run torch's own attention with shared heads."""
    keys, values = (c[table.long()].flatten(1, 2).to(q.dtype).transpose(1, 2) for c in (key_cache, value_cache))
    mask = torch.arange(keys.size(2), device=q.device) < lengths[:, None]
    out = F.scaled_dot_product_attention(
        q[:, :, None],
        keys,
        values,
        attn_mask=mask[:, None, None],
        scale=key_scale / math.sqrt(q.size(2)),
        enable_gqa=True,
    )
    return out[:, :, 0] * value_scale


def rope_by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    angles: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Turn and store without waiting for the device: tokens without a slot go to the first page, which is unused."""
    cos, sin = (x[:, None] for x in angles[positions].chunk(2, dim=-1))
    at = slots.clamp(min=0)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    q.copy_(turned(q))
    key_cache.flatten(0, 1)[at] = turned(k).to(key_cache.dtype)
    value_cache.flatten(0, 1)[at] = v.to(value_cache.dtype)


def _adapters(tokens: int, offsets: torch.Tensor) -> torch.Tensor:
    """Return the adapter of each position of the order, -1 before the first."""
    return torch.bucketize(torch.arange(tokens, device=offsets.device), offsets.long(), right=True) - 1


def shrink_by_torch(x: torch.Tensor, a: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Multiply each token by its own adapter's matrix."""
    adapter = _adapters(x.size(0), offsets)
    out = torch.zeros(x.size(0), a.size(1), dtype=x.dtype, device=x.device)
    out[order] = (a[adapter.clamp(min=0)] @ x[order][:, :, None])[:, :, 0] * (adapter >= 0)[:, None]
    return out


def expand_by_torch(
    y: torch.Tensor, shrunk: torch.Tensor, b: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor
) -> None:
    """Add to ``y`` each token's low-rank product with its adapter's matrix, nothing where it has no adapter."""
    adapter = _adapters(y.size(0), offsets)
    low = shrunk.sum(0)[order].to(b.dtype)
    y[order] += (b[adapter.clamp(min=0)] @ low[:, :, None])[:, :, 0] * (adapter >= 0)[:, None]


def moe_by_torch(
    x: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
) -> torch.Tensor:
    """Run the experts by torch's grouped products."""
    rows, ends = order.long() // weights.size(1), offsets[1:]
    gate, other = F.grouped_mm(x[rows], up.mT, offs=ends).chunk(2, dim=1)
    parts = F.grouped_mm(F.silu(gate) * other, down.mT, offs=ends)
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    return out.index_add_(0, rows, parts * weights.flatten()[order.long()][:, None]).to(x.dtype)


def _serving(module: str, kernel: str, title: str, problem: Problem, **options: Any) -> ServingCase:
    return ServingCase(f"{kernel} {title}", f"examples.serving_{module}:{kernel}", problem, **options)


_DECODE, _PREFILL = "64 tokens", "4096 tokens"
_HEADS = {"h": 32, "hk": 8, "d": 128}
_ATTENTION = {"batch": 32, **_HEADS, "n": 8192}
_LORA = {"tokens": 64, "rank": 16, "adapters": 8}
_EXPERTS = {"n": 768, "hidden": 2048, "experts": 128, "k": 8}  # Qwen3 30B A3B
SERVING = (
    _serving("norm_quant", "add_rms_norm_quant", _DECODE, {"m": 64, "n": 4096}),
    _serving("norm_quant", "add_rms_norm_quant", _PREFILL, {"m": 4096, "n": 4096}),
    _serving("norm_quant", "add_rms_norm_quant", "int8", {"m": 4096, "n": 4096, "out_dtype": "int8"}),
    _serving("norm_quant", "add_rms_norm_quant_grouped", _PREFILL, {"m": 4096, "n": 7168}),
    _serving("silu_quant", "silu_mul_quant", _DECODE, {"m": 64, "n": 14336}),
    _serving("silu_quant", "silu_mul_quant", _PREFILL, {"m": 4096, "n": 14336}),
    _serving("silu_quant", "silu_mul_quant_grouped", _PREFILL, {"m": 4096, "n": 18432}),
    _serving("rope_cache", "rope_cache_write", _DECODE, {"tokens": 64, **_HEADS}, peer=rope_by_torch),
    _serving("rope_cache", "rope_cache_write", _PREFILL, {"tokens": 4096, **_HEADS, "cache_dtype": "float8_e4m3fn"},
             peer=rope_by_torch),
    _serving("paged_attention", "paged_attention", "32 x 8192", _ATTENTION, peer=paged_by_torch),
    _serving("paged_attention", "paged_attention", "fp8 32 x 8192", {**_ATTENTION, "cache_dtype": "float8_e4m3fn"},
             peer=paged_by_torch),
    _serving("paged_attention", "paged_attention", "1 x 32768", {**_ATTENTION, "batch": 1, "n": 32768},
             peer=paged_by_torch),
    _serving("lora", "lora_shrink", _DECODE, {"k": 4096, **_LORA}, peer=shrink_by_torch),
    _serving("lora", "lora_expand", _DECODE, {"n": 4096, **_LORA}, peer=expand_by_torch),
    _serving("moe", "route", _PREFILL, {"m": 4096, "experts": 128}),
    _serving("moe", "fused_moe", _DECODE, {"m": 64, **_EXPERTS}, peer=moe_by_torch),
    _serving("moe", "fused_moe", _PREFILL, {"m": 4096, **_EXPERTS}, peer=moe_by_torch),
    _serving("sampling", "sample_top_k_top_p", "64 x 128256", {"m": 64, "v": 128256}),
)  # fmt: skip

_ROWS, _HIDDEN, _INNER, _WORDS = 8192, 4096, 14336, 128256


def _randn(*shapes: tuple[int, ...]) -> Callable[[str], tuple[Any, ...]]:
    return lambda device: tuple(torch.randn(*shape, dtype=torch.bfloat16, device=device) for shape in shapes)


def _labels(rows: int, device: str) -> torch.Tensor:
    return torch.randint(_WORDS, (rows,), device=device)


def _add_rms(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    summed = x + residual
    return F.rms_norm(summed, (x.size(-1),), weight, 1e-6), summed


def _turn(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate as transformers does."""
    cos, sin = cos[:, None], sin[:, None]

    def rotated(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    return q * cos + rotated(q) * sin, k * cos + rotated(k) * sin


def _rope_inputs(device: str) -> tuple[Any, ...]:
    q, k = (torch.randn(2, 4096, heads, 128, dtype=torch.bfloat16, device=device).transpose(1, 2) for heads in (32, 8))
    angles = torch.arange(4096, device=device)[:, None] * 500_000.0 ** (-torch.arange(0, 128, 2, device=device) / 128)
    angles = torch.cat([angles, angles], dim=1)[None].expand(2, -1, -1)
    return q, k, angles.cos().bfloat16(), angles.sin().bfloat16()


def _loss_inputs(device: str) -> tuple[Any, ...]:
    return torch.randn(4096, _WORDS, dtype=torch.bfloat16, device=device), _labels(4096, device)


def _linear_inputs(device: str) -> tuple[Any, ...]:
    x, weight = _randn((4096, _HIDDEN), (_WORDS, _HIDDEN))(device)
    return x, weight * _HIDDEN**-0.5, _labels(4096, device)


def _in(module: str, **kernels: Problem) -> tuple[tuple[str, Problem], ...]:
    return tuple((f"tileflow.kernels.{module}:{name}", problem) for name, problem in kernels.items())


_NORM = {"m": _ROWS, "n": _HIDDEN}
_GATED = {"m": _ROWS, "n": _INNER}
_LOSS = {"m": 4096, "v": _WORDS}
FUNCTIONS = (
    FunctionCase(
        "linear_cross_entropy", ours.linear_cross_entropy,
        lambda x, w, y: F.cross_entropy((x @ w.T).float(), y), _linear_inputs, 2,
        _in("linear_loss", losses_and_gradient={"m": 1024, "v": _WORDS},
            multiply_unless_one={"n": _WORDS * _HIDDEN}),
        lambda ops: lambda x, w, y: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, y)[0],
    ),
    FunctionCase(
        "rms_norm", lambda x, w: ours.rms_norm(x, w, 1e-6), lambda x, w: F.rms_norm(x, (_HIDDEN,), w, 1e-6),
        _randn((2, 4096, _HIDDEN), (_HIDDEN,)), 2, _in("rms", rms_norm_forward=_NORM, rms_norm_backward=_NORM),
        lambda ops: lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
    ),
    FunctionCase(
        "add_rms_norm", lambda x, r, w: ours.add_rms_norm(x, r, w, 1e-6), _add_rms,
        _randn((2, 4096, _HIDDEN), (2, 4096, _HIDDEN), (_HIDDEN,)), 3, _in("rms", add_rms_norm_forward=_NORM),
        lambda ops: lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False),
    ),
    FunctionCase(
        "layer_norm", ours.layer_norm, lambda x, w, b: F.layer_norm(x, (_HIDDEN,), w, b),
        _randn((2, 4096, _HIDDEN), (_HIDDEN,), (_HIDDEN,)), 3,
        _in("layer", layer_norm_train=_NORM, add_layer_norm_forward=_NORM, layer_norm_backward=_NORM),
        lambda ops: lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5),
    ),
    FunctionCase(
        "swiglu", ours.swiglu, lambda a, b: F.silu(a) * b, _randn((2, 4096, _INNER), (2, 4096, _INNER)), 2,
        _in("gated", swiglu=_GATED, swiglu_bwd=_GATED),
        lambda ops: ops.LigerSiLUMulFunction.apply,
    ),
    FunctionCase(
        "geglu", ours.geglu, lambda a, b: F.gelu(a, approximate="tanh") * b,
        _randn((2, 4096, _INNER), (2, 4096, _INNER)), 2, _in("gated", geglu=_GATED, geglu_bwd=_GATED),
        lambda ops: ops.LigerGELUMulFunction.apply,
    ),
    FunctionCase(
        "rope", ours.rope, _turn, _rope_inputs, 2,
        _in("rotary", rope_turn={"s": 4096, "d": 128, "h": 32, "hk": 8, "b": 2, "with_positions": False}),
        lambda ops: lambda q, k, cos, sin: ops.LigerRopeFunction.apply(q, k, cos, sin),
    ),
    FunctionCase(
        "cross_entropy", ours.cross_entropy, lambda x, y: F.cross_entropy(x.float(), y), _loss_inputs, 1,
        _in("losses", cross_entropy_forward=_LOSS, cross_entropy_backward=_LOSS),
        lambda ops: lambda x, y: ops.LigerCrossEntropyFunction.apply(x, y, None)[0],
    ),
)  # fmt: skip
