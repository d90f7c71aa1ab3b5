"""Norms and pools of odd dimensions, kernels that each place makes for itself, caches in few bits, scales of late."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def channels_ref(x: Any, weight: Any, bias: Any) -> Any:
    return F.layer_norm(x.float().mT, weight.shape, weight, bias, 1e-6).mT.to(x.dtype)


@stranger(
    lambda b, c, hw, dtype=torch.float32: (randn(b, c, hw, dtype=dtype), randn(c), randn(c)),
    channels_ref,
    {"b": 2, "c": 13, "hw": 35},
    {"b": 64, "c": 96, "hw": 3136 * 4, "dtype": torch.float16},
)
@tileflow.kernel
def channels_first_norm(x, weight, bias):
    """ConvNeXt's: over the channels of each pixel, which do not lie side by side."""
    b, _c, hw = x.shape
    out = torch.empty_like(x)
    for tb, tp in tfl.tile([b, hw]):
        value = x[tb, :, tp].float()
        mean = value.mean(1, keepdim=True)
        spread = value.var(1, keepdim=True, correction=0)
        scaled = (value - mean) * torch.rsqrt(spread + 1e-6)
        out[tb, :, tp] = scaled * weight[:][None, :, None] + bias[:][None, :, None]
    return out


def statistics_ref(x: Any, score: Any, length: Any) -> Any:
    there = torch.arange(x.size(2)) < length[:, None, None]
    a = torch.softmax(score.float().masked_fill(~there, float("-inf")), 2)
    mean = (a * x.float()).sum(2)
    spread = (a * (x.float() - mean[..., None]).square()).sum(2)
    return torch.cat([mean, (spread + 1e-4).sqrt()], 1)


@stranger(
    lambda b, c, t, dtype=torch.float32: (
        randn(b, c, t, dtype=dtype),
        randn(b, c, t, dtype=dtype),
        torch.randint(t // 2, t + 1, (b,), dtype=torch.int32),
    ),
    statistics_ref,
    {"b": 3, "c": 11, "t": 37},
    {"b": 128, "c": 1536, "t": 300, "dtype": torch.float16},
)
@tileflow.kernel
def attentive_statistics(x, score, length):
    """Okabe, Koshinaka and Shinoda, 2018, arXiv:1803.10963: a weighted mean of each channel, and its spread."""
    b, c, t = x.shape
    out = torch.empty(b, 2 * c, device=x.device)
    for tb, tc in tfl.tile([b, c], block_size=[1, None]):
        i = tb.begin
        there = tfl.arange(t)[None, :] < length[i]
        share = torch.softmax(torch.where(there, score[i, tc, :].float(), float("-inf")), 1)
        value = x[i, tc, :].float()
        mean = (share * value).sum(1)
        apart = value - mean[:, None]
        out[i, tc] = mean
        out[i, tc + c] = torch.sqrt((share * apart * apart).sum(1) + 1e-4)
    return out


def powers_ref(x: Any, p: Any) -> Any:
    y = x.float().clamp(min=1e-6).pow(p[:, None, None]).mean((2, 3)).pow(1 / p)
    return F.normalize(y, dim=1)


@stranger(
    lambda b, c, h, w, dtype=torch.float32: (torch.rand(b, c, h, w).to(dtype), torch.rand(c) * 2 + 2),
    powers_ref,
    {"b": 3, "c": 13, "h": 5, "w": 7},
    {"b": 256, "c": 512, "h": 24, "w": 32, "dtype": torch.bfloat16},
)
@tileflow.kernel
def power_mean_pool(x, p):
    """Radenovic, Tolias and Chum, 2017, arXiv:1711.02512: between a mean and a maximum; descriptors of length one."""
    b, c, _h, _w = x.shape
    out = torch.empty(b, c, device=x.device)
    pooled = torch.empty(b, c, device=x.device)
    for tb, tc in tfl.tile([b, c]):
        value = torch.clamp(x[tb, tc, :, :].float(), min=1e-6)
        power = p[tc]
        mean = torch.pow(value, power[None, :, None, None]).mean((2, 3))
        pooled[tb, tc] = torch.pow(mean, 1 / power[None, :])
    for tb in tfl.tile(b):
        out[tb, :] = F.normalize(pooled[tb, :], dim=1)
    return out


def own_kernels_ref(x: Any, kernel: Any) -> Any:
    _b, _t, c = x.shape
    heads, width = kernel.shape[2:]
    a = torch.softmax(kernel.float(), -1)
    p = F.pad(x.float(), (0, 0, width - 1, 0)).unfold(1, width, 1).unflatten(2, (heads, c // heads))
    return (p * a[:, :, :, None, :]).sum(-1).flatten(2).to(x.dtype)


@stranger(
    lambda b, t, c, heads, width, dtype=torch.float32: (
        randn(b, t, c, dtype=dtype),
        randn(b, t, heads, width, dtype=dtype),
    ),
    own_kernels_ref,
    {"b": 2, "t": 21, "c": 12, "heads": 3, "width": 5},
    {"b": 16, "t": 1024, "c": 1024, "heads": 16, "width": 7, "dtype": torch.bfloat16},
)
@tileflow.kernel
def dynamic_convolution(x, kernel):
    """Wu et al., 2019, arXiv:1901.10430: each place has weights of its own, which a softmax makes."""
    b, t, c = x.shape
    heads, width = kernel.shape[2:]
    size = c // heads
    y, out = x.view(b, t, heads, size), torch.empty(b, t, heads, size, dtype=x.dtype, device=x.device)
    for ib, tt, th in tfl.tile([b, t, heads], block_size=[1, None, None]):
        i = ib.begin
        scores = kernel[i, tt, th, :].float()
        high = scores.amax(-1)
        total = torch.exp(scores - high[..., None]).sum(-1)
        acc = tfl.zeros([tt, th, size])
        for k in range(width):
            share = torch.exp(kernel[i, tt, th, k].float() - high) / total
            acc += share[:, :, None] * y[i, tt + (k - width + 1), th, :].float()
        out[i, tt, th, :] = acc
    return out.view(b, t, c)


def packed_ref(x: Any) -> Any:
    y = x.float()
    low, high = y.amin(-1, keepdim=True), y.amax(-1, keepdim=True)
    scale = ((high - low) / 15).to(torch.float16)
    zero = low.to(torch.float16)
    step = torch.where(scale > 0, scale.float(), 1.0)
    q = torch.floor((y - zero.float()) / step + 0.5).clamp(0, 15).to(torch.uint8)
    a, b = q.chunk(2, -1)
    return a | (b << 4), scale[..., 0], zero[..., 0]


@stranger(
    lambda t, h, d, dtype=torch.float32: (randn(t, h, d, dtype=dtype),),
    packed_ref,
    {"t": 5, "h": 3, "d": 16},
    {"t": 1 << 16, "h": 8, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def pack_cache_int4(x):
    """KIVI's values (arXiv:2402.02750): four bits between each head's least and largest, two to a byte."""
    t, h, d = x.shape
    packed = torch.empty(t, h, d // 2, dtype=torch.uint8, device=x.device)
    scales = torch.empty(t, h, dtype=torch.float16, device=x.device)
    zeros = torch.empty_like(scales)
    for tt, th in tfl.tile([t, h]):
        value = x[tt, th, :].float()
        low, high = value.amin(-1), value.amax(-1)
        scale, zero = ((high - low) / 15).half(), low.half()
        step = torch.where(scale > 0, scale.float(), 1.0)
        q = torch.floor((value - zero.float()[..., None]) / step[..., None] + 0.5).clamp(0, 15).to(torch.uint8)
        a, b = q.chunk(2, dim=-1)
        packed[tt, th, :] = a | (b << 4)
        scales[tt, th] = scale
        zeros[tt, th] = zero
    return packed, scales, zeros


def delayed_ref(x: Any, history: Any) -> Any:
    most = history.amax()
    scale = torch.where(most > 0, 57344.0 / most, 1.0)
    now = x.float().abs().amax()
    q = (x.float() * scale).clamp(-57344, 57344).to(torch.float8_e5m2)
    return q, q.T.contiguous(), torch.cat([now[None], history[:-1]])


@stranger(
    lambda m, n, dtype=torch.float32: (randn(m, n, dtype=dtype), torch.rand(16) + 4),
    delayed_ref,
    {"m": 13, "n": 21},
    {"m": 8192, "n": 8192, "dtype": torch.bfloat16},
)
@tileflow.kernel
def delayed_scaling(x, history):
    """Transformer Engine's recipe: gradients in float8 by the largest of late steps, as they are and transposed."""
    m, n = x.shape
    out = torch.empty(m, n, dtype=torch.float8_e5m2, device=x.device)
    turned = torch.empty(n, m, dtype=torch.float8_e5m2, device=x.device)
    late = torch.zeros_like(history)
    for _ in tfl.grid(1):
        late[1:] = history[: history.size(0) - 1]
    for tm, tn in tfl.tile([m, n]):
        most = history[:].amax()
        scale = torch.where(most > 0, 57344.0 / most, 1.0)
        value = x[tm, tn].float()
        tfl.atomic_max(late, [0], value.abs().amax())
        q = torch.clamp(value * scale, -57344, 57344).to(torch.float8_e5m2)
        out[tm, tn] = q
        turned[tn, tm] = q.T
    return out, turned, late
