"""The suite's kernels in Helion's language, with the arguments, results and names of ours.

Each is the algorithm of our kernel, in the idioms of Helion's documentation. Defaults are literals because Helion
prints them into the code that it generates. Importing this module needs ``helion``;
:mod:`tileflow_benchmarks.suite.helion_peer` says how it is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import helion
import helion.language as hl
import torch

from tileflow.kernels.flash import LOG2_E

Tensor = torch.Tensor


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x + y``. (n), (n) -> (n)."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + y[tile]
    return out


def softmax(x: Tensor) -> Tensor:
    """Return the softmax of each row. (m, n) -> (m, n)."""
    out = torch.empty_like(x)
    for tile_m in hl.tile(x.size(0)):
        out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
    return out


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return each row less its mean, over its standard deviation, times weight plus bias. (m, n) -> (m, n)."""
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        # not torch.var_mean: Helion 1.5.1 counts the lanes past the row in its variance
        mean = torch.sum(row, dim=-1, keepdim=True) / n
        centred = row - mean
        variance = torch.sum(centred * centred, dim=-1, keepdim=True) / n
        normed = centred * torch.rsqrt(variance + eps)
        out[tile_m, :] = (normed * weight[:].to(torch.float32) + bias[:].to(torch.float32)).to(x.dtype)
    return out


def layer_norm_bwd(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias. Partial sums of the last two are added in torch."""
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    grad_x = torch.empty_like(x)
    blocks = (m + block_m - 1) // block_m
    weights = x.new_empty([blocks, n], dtype=torch.float32)
    biases = x.new_empty([blocks, n], dtype=torch.float32)
    for rows in hl.tile(m, block_size=block_m):
        to_weight = weights.new_zeros(n)
        to_bias = weights.new_zeros(n)
        for tile_m in hl.tile(rows.begin, rows.end):
            row_scale = scale[tile_m][:, None]
            normed = (x[tile_m, :].to(torch.float32) - mean[tile_m][:, None]) * row_scale
            g = grad[tile_m, :].to(torch.float32)
            to_weight += torch.sum(g * normed, dim=0)
            to_bias += torch.sum(g, dim=0)
            g = g * weight[:].to(torch.float32)[None, :]
            shift = torch.sum(g, dim=-1)[:, None] / n
            slope = torch.sum(g * normed, dim=-1)[:, None] / n
            grad_x[tile_m, :] = ((g - shift - normed * slope) * row_scale).to(x.dtype)
        weights[rows.id, :] = to_weight
        biases[rows.id, :] = to_bias
    return grad_x, weights.sum(0).to(weight.dtype), biases.sum(0).to(weight.dtype)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Return each row over its root mean square, times weight. (m, n) -> (m, n)."""
    m, _ = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        scale = torch.rsqrt(torch.mean(row * row, dim=-1, keepdim=True) + eps)
        out[tile_m, :] = (row * scale * weight[:].to(torch.float32)).to(x.dtype)
    return out


def rms_norm_bwd(grad: Tensor, x: Tensor, weight: Tensor, inv_rms: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and weight. Partial sums of the latter are added in torch."""
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    grad_x = torch.empty_like(x)
    partial = x.new_empty([(m + block_m - 1) // block_m, n], dtype=torch.float32)
    for rows in hl.tile(m, block_size=block_m):
        to_weight = partial.new_zeros(n)
        for tile_m in hl.tile(rows.begin, rows.end):
            scale = inv_rms[tile_m][:, None]
            normed = x[tile_m, :].to(torch.float32) * scale
            g = grad[tile_m, :].to(torch.float32)
            to_weight += torch.sum(g * normed, dim=0)
            g = g * weight[:].to(torch.float32)[None, :]
            slope = torch.sum(g * normed, dim=-1)[:, None] / n
            grad_x[tile_m, :] = ((g - normed * slope) * scale).to(x.dtype)
        partial[rows.id, :] = to_weight
    return grad_x, partial.sum(0).to(weight.dtype)


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: hl.constexpr = -100) -> tuple[Tensor, Tensor]:
    """Return the mean loss over the labels that count, and each row's logsumexp, by one online pass over a row."""
    m, v = logits.shape
    losses = torch.empty([m], dtype=torch.float32, device=logits.device)
    lse = torch.empty([m], dtype=torch.float32, device=logits.device)
    flat = logits.view(-1)
    for tile_m in hl.tile(m):
        peak = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_v in hl.tile(v):
            values = logits[tile_m, tile_v].to(torch.float32)
            new_peak = torch.maximum(peak, torch.amax(values, dim=1))
            total = total * torch.exp(peak - new_peak) + torch.exp(values - new_peak[:, None]).sum(dim=1)
            peak = new_peak
        label = labels[tile_m]
        counts = label != ignore_index
        picked = hl.load(flat, [tile_m.index * v + torch.where(counts, label, 0)]).to(torch.float32)
        row_lse = peak + torch.log(total)
        lse[tile_m] = row_lse
        losses[tile_m] = torch.where(counts, row_lse - picked, 0.0)
    return losses.sum() / (labels != ignore_index).sum(), lse


def kl_div(log_q: Tensor, p: Tensor, log_target: hl.constexpr = False) -> Tensor:
    """Return the Kullback-Leibler divergence, averaged over the batch."""
    m, _ = log_q.shape
    losses = torch.empty([m], dtype=torch.float32, device=log_q.device)
    for tile_m in hl.tile(m):
        target = p[tile_m, :].to(torch.float32)
        guess = log_q[tile_m, :].to(torch.float32)
        if log_target:
            terms = torch.exp(target) * (target - guess)
        else:
            terms = torch.where(target > 0, target * (torch.log(target) - guess), 0.0)
        losses[tile_m] = torch.sum(terms, dim=1)
    return losses.sum() / m


def jsd(log_q: Tensor, log_p: Tensor, beta: hl.constexpr = 0.5) -> tuple[Tensor, Tensor]:
    """Return loss and gradient of the Jensen-Shannon divergence, for ``0 < beta < 1`` as the suite has it."""
    m, _ = log_q.shape
    losses = torch.empty([m], dtype=torch.float32, device=log_q.device)
    grad = torch.empty_like(log_q)
    for tile_m in hl.tile(m):
        student = log_q[tile_m, :].to(torch.float32)
        teacher = log_p[tile_m, :].to(torch.float32)
        q = torch.exp(student)
        p = torch.exp(teacher)
        middle = torch.log(beta * p + (1 - beta) * q)
        slope = (1 - beta) * q * (student - middle)
        losses[tile_m] = torch.sum(beta * p * (teacher - middle) + slope, dim=1)
        grad[tile_m, :] = slope / m
    return losses.sum() / m, grad


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    """Return ``silu(a) * b``."""
    out = torch.empty_like(a)
    for tile in hl.tile(a.size()):
        gate = a[tile].to(torch.float32)
        out[tile] = (gate * torch.sigmoid(gate) * b[tile].to(torch.float32)).to(a.dtype)
    return out


def geglu(a: Tensor, b: Tensor) -> Tensor:
    """Return ``gelu(a) * b``, by the tanh approximation."""
    out = torch.empty_like(a)
    for tile in hl.tile(a.size()):
        gate = a[tile].to(torch.float32)
        inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        out[tile] = (0.5 * gate * (1.0 + torch.tanh(inner)) * b[tile].to(torch.float32)).to(a.dtype)
    return out


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries and keys rotated by the positions' angles, the two halves of a head as pairs."""
    b, h, s, d = q.size()
    half = hl.specialize(d // 2)
    hk = k.size(1)
    out_q, out_k = torch.empty_like(q), torch.empty_like(k)
    halves_q, to_q = q.view(b, h, s, 2, half), out_q.view(b, h, s, 2, half)
    halves_k, to_k = k.view(b, hk, s, 2, half), out_k.view(b, hk, s, 2, half)
    for tile_b, tile_s in hl.tile([b, s], block_size=[1, None]):
        c = cos[tile_s, :].to(torch.float32)[None, None, :, :]
        z = sin[tile_s, :].to(torch.float32)[None, None, :, :]
        for tile_h in hl.tile(h):
            first = halves_q[tile_b, tile_h, tile_s, 0, :].to(torch.float32)
            second = halves_q[tile_b, tile_h, tile_s, 1, :].to(torch.float32)
            to_q[tile_b, tile_h, tile_s, 0, :] = (first * c - second * z).to(q.dtype)
            to_q[tile_b, tile_h, tile_s, 1, :] = (second * c + first * z).to(q.dtype)
        for tile_k in hl.tile(hk):
            low = halves_k[tile_b, tile_k, tile_s, 0, :].to(torch.float32)
            high = halves_k[tile_b, tile_k, tile_s, 1, :].to(torch.float32)
            to_k[tile_b, tile_k, tile_s, 0, :] = (low * c - high * z).to(k.dtype)
            to_k[tile_b, tile_k, tile_s, 1, :] = (high * c + low * z).to(k.dtype)
    return out_q, out_k


def welford(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return layer norm, with mean and variance of each row by Welford's update over tiles."""
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        count = hl.zeros([tile_m], dtype=torch.float32)
        mean = hl.zeros([tile_m], dtype=torch.float32)
        squares = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n):
            values = x[tile_m, tile_n].to(torch.float32)
            here = values.size(1)
            here_mean = torch.sum(values, dim=-1) / here
            here_squares = torch.sum(values * values, dim=-1) - here * here_mean * here_mean
            gap = here_mean - mean
            total = count + here
            mean = mean + gap * (here / total)
            squares = squares + here_squares + gap * gap * (count * here / total)
            count = total
        scale = torch.rsqrt(squares / n + eps)
        for tile_n in hl.tile(n):
            values = (x[tile_m, tile_n].to(torch.float32) - mean[:, None]) * scale[:, None]
            factor = weight[tile_n].to(torch.float32)[None, :]
            out[tile_m, tile_n] = (values * factor + bias[tile_n].to(torch.float32)[None, :]).to(x.dtype)
    return out


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x @ y``. (m, k), (k, n) -> (m, n)."""
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


def matmul_epilogue(x: Tensor, y: Tensor, epilogue: Callable[[Tensor, Any, Any], Tensor]) -> Tensor:
    """Return ``epilogue(x @ y)``, applied to each tile of the float32 product."""
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = epilogue(acc, tile_m, tile_n).to(x.dtype)
    return out


def split_k_matmul(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x @ y``, the sum over k divided over programs that add atomically in float32."""
    m, k = x.size()
    _, n = y.size()
    out = torch.zeros([m, n], dtype=torch.float32, device=x.device)
    split_k = hl.register_tunable("split_k", helion.autotuner.PowerOfTwoFragment(1, 64))
    block_k = helion.next_power_of_2(helion.cdiv(k, split_k))
    for tile_m, tile_n, outer_k in hl.tile([m, n, k], block_size=[None, None, block_k]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(outer_k.begin, outer_k.end):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        hl.atomic_add(out, [tile_m, tile_n], acc)
    return out.to(x.dtype)


def fp8_matmul(x: Tensor, y: Tensor, x_scale: Tensor, y_scale: Tensor, dtype: hl.constexpr = torch.bfloat16) -> Tensor:
    """Return the product of 8-bit operands times the scales of its rows and columns. (m, k), (n, k) -> (m, n)."""
    m, k = x.size()
    n = y.size(0)
    out = torch.empty([m, n], dtype=dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_n, tile_k].T, acc=acc)
        out[tile_m, tile_n] = (acc * x_scale[tile_m][:, None] * y_scale[tile_n][None, :]).to(dtype)
    return out


def int4_matmul(x: Tensor, packed: Tensor) -> Tensor:
    """Return ``x`` times a matrix of 4-bit integers, two of which are packed in a byte."""
    m, _ = x.size()
    rows, n = packed.shape
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    block_k = hl.register_block_size(rows)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(rows, block_size=block_k):
            begin = tile_k.begin * 2
            half_bytes = packed[tile_k, tile_n]
            low, high = (half_bytes << 4) >> 4, half_bytes >> 4
            right = torch.stack([low, high], dim=1).reshape(2 * block_k, tile_n.block_size).to(x.dtype)
            acc = torch.addmm(acc, x[tile_m, begin : begin + 2 * block_k], right)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


def attention(q: Tensor, k: Tensor, v: Tensor, causal: hl.constexpr = False, with_lse: hl.constexpr = False) -> Tensor:
    """Return attention's result alone, as the suite has it."""
    m = q.size(-2)
    n = k.size(-2)
    d = hl.specialize(q.size(-1))
    queries, keys, values = q.reshape([-1, m, d]), k.reshape([-1, n, d]), v.reshape([-1, n, d])
    out = torch.empty_like(queries)
    scale = LOG2_E / math.sqrt(d)
    for tile_b, tile_m in hl.tile([queries.size(0), m]):
        peak = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        total = torch.full_like(peak, 0.0)
        acc = hl.zeros([tile_b, tile_m, d], dtype=torch.float32)
        query = queries[tile_b, tile_m, :]
        for tile_n in hl.tile(tile_m.end if causal else n):
            scores = torch.bmm(query, keys[tile_b, tile_n, :].transpose(1, 2)).to(torch.float32) * scale
            if causal:
                seen = tile_m.index[:, None] >= tile_n.index[None, :]
                scores = torch.where(seen[None, :, :], scores, float("-inf"))
            new_peak = torch.maximum(peak, torch.amax(scores, -1))
            weights = torch.exp2(scores - new_peak[:, :, None])
            shrink = torch.exp2(peak - new_peak)
            total = total * shrink + torch.sum(weights, -1)
            acc = torch.baddbmm(acc * shrink[:, :, None], weights.to(v.dtype), values[tile_b, tile_n, :])
            peak = new_peak
        out[tile_b, tile_m, :] = (acc / total[:, :, None]).to(out.dtype)
    return out.view(q.size())


def grouped_matmul_flat(x: Tensor, y: Tensor, offsets: Tensor) -> Tensor:
    """Return each group's rows times that group's matrix. ``offsets``: where the groups begin and the last one ends."""
    m, k = x.shape
    groups, _, n = y.shape
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for group in hl.grid(groups):
        begin = offsets[group]
        end = offsets[group + 1]
        if end > begin:
            for tile_m, tile_n in hl.tile([begin, 0], [end, n]):
                acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
                for tile_k in hl.tile(k):
                    acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
                out[tile_m, tile_n] = acc.to(x.dtype)
    return out


def diffuse(trail: Tensor, decay: float) -> Tensor:
    """Return the mean over 3 x 3 cells around each, wrapped at the edges, times ``decay``."""
    h, w = trail.shape
    out = torch.empty_like(trail)
    for tile_y, tile_x in hl.tile([h, w]):
        total = hl.zeros([tile_y, tile_x], dtype=torch.float32)
        for dy in hl.static_range(3):
            for dx in hl.static_range(3):
                row = (tile_y.index + (h - 1 + dy)) % h
                column = (tile_x.index + (w - 1 + dx)) % w
                total = total + trail[row, column]
        out[tile_y, tile_x] = total * (decay / 9)
    return out


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "examples.vector_add:vector_add": vector_add,
    "examples.softmax:softmax": softmax,
    "examples.layer_norm:layer_norm": layer_norm,
    "examples.layer_norm:layer_norm_bwd": layer_norm_bwd,
    "examples.rms_norm:rms_norm": rms_norm,
    "examples.rms_norm:rms_norm_bwd": rms_norm_bwd,
    "examples.cross_entropy:cross_entropy": cross_entropy,
    "examples.kl_div:kl_div": kl_div,
    "examples.jsd:jsd": jsd,
    "examples.swiglu:swiglu": swiglu,
    "examples.geglu:geglu": geglu,
    "examples.rope:rope": rope,
    "examples.welford:welford": welford,
    "examples.matmul:matmul": matmul,
    "examples.matmul:matmul_epilogue": matmul_epilogue,
    "examples.split_k:split_k_matmul": split_k_matmul,
    "examples.fp8_matmul:fp8_matmul": fp8_matmul,
    "examples.int4_matmul:int4_matmul": int4_matmul,
    "examples.attention:attention": attention,
    "examples.grouped_matmul:grouped_matmul_flat": grouped_matmul_flat,
    "examples.physarum:diffuse": diffuse,
}


def kernels(**settings: Any) -> Mapping[str, Callable[..., Any]]:
    """Return a fresh ``helion.kernel`` for each of our kernels' names, called as ours is.

    ``settings``: of ``helion.kernel``; shapes are static unless they say otherwise, as in our own timed binaries.
    """
    made = {"static_shapes": True, "ignore_warnings": [helion.exc.TensorOperationInWrapper], **settings}
    return {name: helion.kernel(function, **made) for name, function in _FUNCTIONS.items()}
