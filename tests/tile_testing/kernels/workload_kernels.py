"""Kernels of whole workloads, as their authors would write them first, with what they must give: ``CASES``."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case


def few(*shape: int, seed: int = 0) -> torch.Tensor:
    """Halves whose products are exact."""
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).half()


# ---- attention ----------------------------------------------------------------------------------


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=keep).to(q.dtype)


def linear_bias(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    places = torch.arange(q.size(2))
    distance = (places[:, None] - places[None, :]).abs()
    return attended(q, k, v, -slopes[:, None, None] * distance)


@case(*(rand(2, 3, 37, 16, seed=n).half() for n in range(3)), rand(3).abs(), wanted=linear_bias, tm=16, tn=16)
@tileflow.kernel
def attention_with_linear_bias(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """Tiles of four dimensions, two of which are one long (ALiBi; Press et al., 2021, arXiv:2108.12409)."""
    b, h, m, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tm in tfl.tile([b, h, m], block_size=[1, 1, None]):
        highest = tfl.full([tb, th, tm], float("-inf"))
        total = torch.zeros_like(highest)
        acc = tfl.zeros([tb, th, tm, d])
        slope = slopes[th]
        for tn in tfl.tile(k.size(2)):
            scores = torch.matmul(q[tb, th, tm, :], k[tb, th, tn, :].transpose(-1, -2)).float() * d**-0.5
            scores = scores - slope[None, :, None, None] * (tm.index[:, None] - tn.index[None, :]).abs()
            new = torch.maximum(highest, torch.amax(scores, -1))
            weights = torch.exp(scores - new[..., None])
            scale = torch.exp(highest - new)
            total = total * scale + torch.sum(weights, -1)
            acc = acc * scale[..., None] + torch.matmul(weights.to(v.dtype), v[tb, th, tn, :])
            highest = new
        out[tb, th, tm, :] = (acc / total[..., None]).to(out.dtype)
    return out


def in_window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int) -> torch.Tensor:
    i, j = torch.arange(q.size(1))[:, None], torch.arange(q.size(1))[None, :]
    return attended(q, k, v, (j <= i) & (j > i - window))


@case(*(rand(3, 37, 16, seed=n).half() for n in range(3)), 9, wanted=in_window, tb=1, tm=16, tn=16)
@tileflow.kernel
def attention_in_a_window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int) -> torch.Tensor:
    """Tiles of batches; the loop begins where the window does."""
    b, m, d = q.shape
    out = torch.empty_like(q)
    for tb, tm in tfl.tile([b, m]):
        highest, total = tfl.full([tb, tm], float("-inf")), tfl.zeros([tb, tm])
        acc = tfl.zeros([tb, tm, d])
        for tn in tfl.tile(max(tm.begin - window + 1, 0), tm.end):
            scores = torch.bmm(q[tb, tm, :], k[tb, tn, :].transpose(1, 2)).float() / math.sqrt(d)
            keep = (tn.index[None, :] <= tm.index[:, None]) & (tn.index[None, :] > tm.index[:, None] - window)
            scores = torch.where(keep[None], scores, float("-inf"))
            new = torch.maximum(highest, scores.amax(-1))
            safe = torch.where(new == float("-inf"), 0.0, new)
            weights, scale = torch.exp(scores - safe[..., None]), torch.exp(highest - safe)
            total = total * scale + weights.sum(-1)
            acc = torch.baddbmm(acc * scale[..., None], weights.to(v.dtype), v[tb, tn, :])
            highest = new
        out[tb, tm, :] = (acc / total[..., None]).to(out.dtype)
    return out


def whole(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, splits: int = 1) -> torch.Tensor:
    return attended(q[:, :, None], k.transpose(1, 2), v.transpose(1, 2))[:, :, 0]


@case(rand(2, 3, 16), rand(2, 50, 3, 16), rand(2, 50, 3, 16), 4, wanted=whole, t=8)
@tileflow.kernel
def decoding_in_splits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, splits: int) -> torch.Tensor:
    """Scalars that a loop carries; a second launch merges."""
    b, n, h, d = k.shape
    per = -(-n // splits)
    parts, weights = torch.empty(b, h, splits, d, device=q.device), torch.empty(b, h, splits, device=q.device)
    for ib, ih, part in tfl.grid([b, h, splits]):
        row = q[ib, ih, :] * d**-0.5
        highest, total, acc = float("-inf"), 0.0, tfl.zeros([d])
        for t in tfl.tile(part * per, min((part + 1) * per, n)):
            scores = (k[ib, t, ih, :] * row[None, :]).sum(-1)
            new = max(highest, scores.amax())
            p, scale = torch.exp(scores - new), torch.exp(highest - new)
            total = total * scale + p.sum()
            acc = acc * scale + (p[:, None] * v[ib, t, ih, :]).sum(0)
            highest = new
        parts[ib, ih, part, :] = acc / total
        weights[ib, ih, part] = highest + torch.log(total)
    out = torch.empty_like(q)
    for ib, ih in tfl.grid([b, h]):
        w = torch.softmax(weights[ib, ih, :], dim=0)
        out[ib, ih, :] = (w[:, None] * parts[ib, ih, :, :]).sum(0)
    return out


def unmasked_products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q.float() @ k.float().mT).tril() @ v.float()


@case(*(few(37, 16, seed=n) for n in range(3)), wanted=unmasked_products, tm=16, tn=16)
@tileflow.kernel
def chained_without_a_loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(q.shape, device=q.device)
    for tm, tn in tfl.tile([q.size(0), k.size(0)]):
        scores = tfl.dot(q[tm, :], k[tn, :].T)
        scores = torch.where(tm.index[:, None] >= tn.index[None, :], scores, 0.0)
        tfl.atomic_add(out, [tm, slice(None)], tfl.dot(scores.half(), v[tn, :]))
    return out


# ---- along time ---------------------------------------------------------------------------------


def scanned(u: torch.Tensor, step: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    state, out = torch.zeros(u.size(0), u.size(2), a.size(1)), torch.empty_like(u)
    for t in range(u.size(1)):
        state = torch.exp(step[:, t, :, None] * a) * state + (step[:, t] * u[:, t])[..., None] * b[:, t, None, :]
        out[:, t] = (state * c[:, t, None, :]).sum(-1)
    return out


@case(rand(2, 19, 5), rand(2, 19, 5).abs(), -rand(5, 4).abs(), rand(2, 19, 4), rand(2, 19, 4), wanted=scanned, td=4)
@tileflow.kernel
def selective_scan(
    u: torch.Tensor, step: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    """A state in registers, step by step (Gu and Dao, 2023, arXiv:2312.00752)."""
    out = torch.empty_like(u)
    for tb, td in tfl.tile([u.size(0), u.size(2)], block_size=[1, None]):
        rates, state = a[td, :], tfl.zeros([td, a.size(1)])
        for t in range(u.size(1)):
            dt = step[tb.begin, t, td]
            moved = (dt * u[tb.begin, t, td])[:, None] * b[tb.begin, t, :][None, :]
            state = torch.exp(dt[:, None] * rates) * state + moved
            out[tb.begin, t, td] = (state * c[tb.begin, t, :][None, :]).sum(-1)
    return out


def convolved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv1d(F.pad(x, (w.size(1) - 1, 0)), w[:, None], groups=x.size(1))


@case(rand(1, 3, 40), rand(3, 19), wanted=convolved, tl=8)
@tileflow.kernel
def causal_convolution(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A tile shifted by the counter of a loop of the kernel."""
    taps = w.size(1)
    out = torch.empty_like(x)
    for tb, td, tl in tfl.tile(x.shape):
        acc = tfl.zeros([tb, td, tl])
        for j in range(taps):
            acc = acc + x[tb, td, tl - (taps - 1 - j)] * w[td, j][None, :, None]
        out[tb, td, tl] = acc
    return out


@case(rand(6, 13), wanted=lambda x: x * 13**-0.5 + 13**2 - (13 >> 2) + (13 & 6) + 3**1.5 - (13 << 1) + 2**6)
@tileflow.kernel
def arithmetic_of_sizes(x: torch.Tensor) -> torch.Tensor:
    """Sizes are no constants in dynamic mode."""
    m, n = x.shape
    out = torch.empty_like(x)
    for tile in tfl.tile(m):
        numbers = n**2 - (n >> 2) + (n & 6) + (n - 10) ** 1.5 - (n << 1) + 2**m
        out[tile, :] = x[tile, :] * n**-0.5 + numbers
    return out


# ---- products -----------------------------------------------------------------------------------


@case(rand(33, 256).half(), rand(20, 256).half(), rand(33, 2).abs(), rand(1, 2).abs(), tm=16, tn=16,
      wanted=lambda a, b, sa, sb: (a.float() * sa.repeat_interleave(128, 1)) @ (b.float() * sb[0].repeat_interleave(128)).T)  # fmt: skip  # noqa: E501
@tileflow.kernel
def block_scaled(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """A product that is scaled before it is added."""
    out = torch.empty(a.size(0), b.size(0), device=a.device)
    for tm, tn in tfl.tile(out.shape):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(a.size(1), block_size=128):
            part = tfl.dot(a[tm, tk], b[tn, tk].T)
            acc += part * a_scale[tm, tk.id][:, None] * b_scale[tn.index // 128, tk.id][None, :]
        out[tm, tn] = acc
    return out


@case(rand(17, 40), rand(40, 33), rand(40, 8), rand(8, 33), 0.5, wanted=lambda x, w, a, b, s: x @ w + x @ a @ b * s,
      tm=16, tn=16, tk=16)  # fmt: skip
@tileflow.kernel
def low_rank_beside(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    out = torch.empty(x.size(0), w.size(1), device=x.device)
    for tm, tn in tfl.tile(out.shape):
        acc, low = tfl.zeros([tm, tn]), tfl.zeros([tm, a.size(1)])
        for tk in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tm, tk], w[tk, tn])
            low = torch.addmm(low, x[tm, tk], a[tk, :])
        out[tm, tn] = acc + scale * (low @ b[:, tn])
    return out


def less_their_mean(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.float() @ y.float() - (x.float() @ y.float()).mean(0)


@case(few(5, 19, 12), few(5, 12, 21), wanted=less_their_mean)
@tileflow.kernel
def batches_that_meet(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Something else goes along the batches of a product."""
    out = torch.empty(x.size(0), x.size(1), y.size(2), device=x.device)
    for tb, tm, tn in tfl.tile(out.shape, block_size=[8, None, None]):
        product = torch.bmm(x[tb, tm, :], y[tb, :, tn])
        out[tb, tm, tn] = product.float() - product.float().mean(0, keepdim=True)
    return out


def gated_products(x: torch.Tensor, y: torch.Tensor, gate: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    scaled = torch.cat([x[..., :16], x[..., 16:] * 2], -1)
    batch = torch.arange(x.size(0))[:, None, None]
    top = sum(part.amax(-1) + part.sum(-1) for part in scaled.split(16, -1))
    return (scaled @ y) * gate[:, None, None] + batch + top[..., None]


@case(rand(3, 19, 48), rand(3, 48, 32), rand(3), torch.full((3,), 48), wanted=gated_products, tb=1)
@tileflow.kernel
def batches_of_one(x: torch.Tensor, y: torch.Tensor, gate: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Scalars of a batch, branches, scans and transpositions beside a product of batches."""
    out = torch.empty(x.size(0), x.size(1), y.size(2), device=x.device)
    for tb, tm in tfl.tile([x.size(0), x.size(1)]):
        acc, top = tfl.zeros([tb, tm, y.size(2)]), tfl.zeros([tb, tm])
        for tk in tfl.tile(lengths[tb].max(), block_size=16):
            part = x[tb, tm, tk]
            if tk.begin >= 16:
                part = part * 2
            acc = torch.baddbmm(acc, part, y[tb, tk, :])
            top = top + part.max(-1).values + torch.cumsum(part, 2)[:, :, -1]
        total = acc * gate[tb][:, None, None] + tb.index[:, None, None]
        out[tb, tm, :] = total + top.permute(1, 0).T[:, :, None]
    return out
