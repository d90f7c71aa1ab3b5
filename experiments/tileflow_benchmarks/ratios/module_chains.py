"""Linear layers with what follows them, as kernels of the language: chains of activations, norms and reductions.

Weights are as ``nn.Linear`` holds them, (columns, inner). What needs a whole row of a wide product is a second loop of
the same kernel; groups of columns are a dimension of the grid.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def linear(x: Any, w: Any, tile_m: Any, tile_n: Any) -> Any:
    """Return a tile of ``x @ w.t()`` in float32."""
    acc = tfl.zeros([tile_m, tile_n])
    for tile_k in tfl.tile(x.size(1)):
        acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_n, tile_k].t())
    return acc


@tileflow.kernel
def bias_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = F.relu(linear(x, w, tile_m, tile_n) + b[tile_n])
    return out


@tileflow.kernel
def divide_leaky_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = F.leaky_relu((linear(x, w, tile_m, tile_n) + b[tile_n]) / 1.7, 0.01)
    return out


@tileflow.kernel
def swish_bias(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = linear(x, w, tile_m, tile_n)
        out[tile_m, tile_n] = torch.sigmoid(acc) * acc + b[tile_n]
    return out


@tileflow.kernel
def scaled_residual(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = linear(x, w, tile_m, tile_n) + b[tile_n]
        out[tile_m, tile_n] = acc * 0.5 + acc
    return out


@tileflow.kernel
def minimum_subtract(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = torch.minimum(linear(x, w, tile_m, tile_n) + b[tile_n], c[0].float()) - c[0]
    return out


@tileflow.kernel
def batch_norm_scale(
    x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """The norm of inference, by statistics that it is given."""
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        scale = torch.rsqrt(var[tile_n].float() + 1e-5) * gamma[tile_n]
        normed = (linear(x, w, tile_m, tile_n) - mean[tile_n]) * scale + beta[tile_n]
        out[tile_m, tile_n] = normed * 1.5
    return out


@tileflow.kernel
def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), gate.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            part = x[tile_m, tile_k]
            a = torch.addmm(a, part, gate[tile_n, tile_k].t())
            b = torch.addmm(b, part, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b
    return out


@tileflow.kernel
def mlp(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    m, h, n = x.size(0), w1.size(0), w2.size(0)
    hidden = torch.empty(m, h, dtype=x.dtype, device=x.device)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_h in tfl.tile([m, h]):
        hidden[tile_m, tile_h] = F.relu(linear(x, w1, tile_m, tile_h) + b1[tile_h])
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = linear(hidden, w2, tile_m, tile_n) + b2[tile_n]
    return out


# ---- with a reduction of rows ----------------------------------------------------------------------------------------


@tileflow.kernel
def gelu_softmax(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty_like(y)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = F.gelu(linear(x, w, tile_m, tile_n) + b[tile_n])
    for tile in tfl.tile(m):
        out[tile, :] = F.softmax(y[tile, :].float(), dim=1)
    return out


@tileflow.kernel
def layer_norm_silu(x: torch.Tensor, w: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """A program holds whole rows of the product."""
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        acc = tfl.zeros([tile_m, n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[:, tile_k].t())
        normed = F.layer_norm(acc, (n,), eps=1e-5) * gamma[:] + beta[:]
        out[tile_m, :] = F.silu(normed)
    return out


@tileflow.kernel
def hardswish_rms_norm(x: torch.Tensor, w: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty_like(y)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = F.hardswish(linear(x, w, tile_m, tile_n))
    for tile in tfl.tile(m):
        row = y[tile, :].float()
        out[tile, :] = row * torch.rsqrt((row * row).mean(1, keepdim=True) + 1e-5) * gamma[:]
    return out


@tileflow.kernel
def instance_norm_residual(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """Rows without weights, then a sum with and a product by another tensor."""
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty_like(y)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = linear(x, w, tile_m, tile_n) + b[tile_n]
    for tile in tfl.tile(m):
        other = r[tile, :].float()
        out[tile, :] = (F.layer_norm(y[tile, :].float(), (n,), eps=1e-5) + other) * other
    return out


@tileflow.kernel
def sigmoid_sum(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = torch.sigmoid(linear(x, w, tile_m, tile_n) + b[tile_n])
    for tile in tfl.tile(m):
        out[tile] = y[tile, :].float().sum(1)
    return out


@tileflow.kernel
def sigmoid_logsumexp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = torch.sigmoid(linear(x, w, tile_m, tile_n) + b[tile_n])
    for tile in tfl.tile(m):
        out[tile] = torch.logsumexp(y[tile, :].float(), 1)
    return out


@tileflow.kernel
def clamp_logsumexp_mish(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = (linear(x, w, tile_m, tile_n) + b[tile_n]) * 2.0
        y[tile_m, tile_n] = torch.clamp(acc + acc, -10.0, 10.0)
    for tile in tfl.tile(m):
        total = torch.logsumexp(y[tile, :].float(), 1)
        out[tile] = total * F.mish(total)
    return out


@tileflow.kernel
def max_pool_sum(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The larger of each two columns, summed."""
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    pairs = y.view(m, n // 2, 2)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = linear(x, w, tile_m, tile_n) + b[tile_n]
    for tile in tfl.tile(m):
        out[tile] = pairs[tile, :, :].float().amax(2).sum(1) * 0.5
    return out


@tileflow.kernel
def avg_pool_gelu_max(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Means of sixteen columns, of whose activations the largest counts."""
    m, n = x.size(0), w.size(0)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    parts = y.view(m, n // 16, 16)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        y[tile_m, tile_n] = linear(x, w, tile_m, tile_n) + b[tile_n]
    for tile in tfl.tile(m):
        out[tile] = (F.gelu(parts[tile, :, :].float().mean(2)) * 2.0).amax(1)
    return out


# ---- with a group norm -----------------------------------------------------------------------------------------------


def normed_group(x: Any, w: Any, b: Any, tile_m: Any, group: Any) -> Any:
    """Return one group's columns of ``x @ w.t() + b``, normalised row by row; w of (groups, columns of one, inner)."""
    acc = tfl.zeros([tile_m, w.size(1)])
    for tile_k in tfl.tile(x.size(1)):
        acc = torch.addmm(acc, x[tile_m, tile_k], w[group, :, tile_k].t())
    acc = acc + b[group, :]
    var, mean = torch.var_mean(acc, dim=1, keepdim=True, correction=0)
    return (acc - mean) * torch.rsqrt(var + 1e-5)


@tileflow.kernel
def group_norm_hardtanh(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, groups: int
) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    size = n // groups
    parts, biases, scales, shifts = (t.view(groups, size, *t.shape[1:]) for t in (w, b, gamma, beta))
    out = torch.empty(m, groups, size, dtype=x.dtype, device=x.device)
    for tile_m, tile_g in tfl.tile([m, groups], block_size=[None, 1]):
        g = tile_g.begin
        normed = normed_group(x, parts, biases, tile_m, g)
        out[tile_m, g, :] = F.hardtanh(normed * scales[g, :] + shifts[g, :], -2.0, 2.0)
    return out.view(m, n)


@tileflow.kernel
def group_norm_leaky_relu_sum(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, groups: int
) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    size = n // groups
    parts, biases, scales, shifts = (t.view(groups, size, *t.shape[1:]) for t in (w, b, gamma, beta))
    out = torch.empty(m, groups, size, dtype=x.dtype, device=x.device)
    for tile_m, tile_g in tfl.tile([m, groups], block_size=[None, 1]):
        g = tile_g.begin
        normed = F.leaky_relu(normed_group(x, parts, biases, tile_m, g) * scales[g, :] + shifts[g, :], 0.01)
        out[tile_m, g, :] = normed + normed
    return out.view(m, n)


@tileflow.kernel
def group_norm_min(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, groups: int
) -> torch.Tensor:
    """The least of each normalised row."""
    m, n = x.size(0), w.size(0)
    size = n // groups
    parts, biases, scales, shifts = (t.view(groups, size, *t.shape[1:]) for t in (w, b, gamma, beta))
    least = torch.empty(m, groups, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m, tile_g in tfl.tile([m, groups], block_size=[None, 1]):
        g = tile_g.begin
        least[tile_m, g] = (normed_group(x, parts, biases, tile_m, g) * scales[g, :] + shifts[g, :]).amin(1)
    for tile in tfl.tile(m):
        out[tile] = least[tile, :].amin(1)
    return out
