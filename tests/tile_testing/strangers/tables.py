"""Tables of features: columns measured and scaled, bins and their histograms, classes, correlations, keypoints."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def smooth_ref(x: Any, w: Any, alpha: Any) -> Any:
    top, weights = x.abs().amax(0).float().clamp(min=1e-5), w.float()
    scale = top**alpha / weights.abs().amax(1).clamp(min=1e-5) ** (1 - alpha)
    return scale, (weights * scale[:, None]).to(w.dtype)


@stranger(
    lambda n, c, o, dtype=torch.float32: (randn(n, c, dtype=dtype), randn(c, o, dtype=dtype), 0.5),
    smooth_ref,
    {"n": 45, "c": 13, "o": 21},
    {"n": 32768, "c": 4096, "o": 4096, "dtype": torch.bfloat16},
)
@tileflow.kernel
def smooth_scales(x, w, alpha: float):
    """SmoothQuant, arXiv:2211.10438: each channel's largest activation against its largest weight."""
    c = w.size(0)
    scale = torch.empty(c, device=x.device)
    out = torch.empty_like(w)
    for t in tfl.tile(c):
        top = x[:, t].float().abs().amax(0).clamp(min=1e-5)
        weights = w[t, :].float()
        s = top**alpha / weights.abs().amax(1).clamp(min=1e-5) ** (1 - alpha)
        scale[t] = s
        out[t, :] = weights * s[:, None]
    return scale, out


def standard_ref(x: Any, low: Any, high: Any) -> Any:
    mean, std = x.mean(0), x.std(0)
    return ((x - mean) / std.clamp(min=1e-6)).clamp(low, high), mean, std


@stranger(lambda n, f: (randn(n, f) * 3 + 1, -2.5, 2.5), standard_ref, {"n": 45, "f": 13}, {"n": 1 << 18, "f": 256})
@tileflow.kernel
def standardise_columns(x, low: float, high: float):
    f = x.size(1)
    out = torch.empty_like(x)
    mean, std = torch.empty(f, device=x.device), torch.empty(f, device=x.device)
    for t in tfl.tile(f):
        m = x[:, t].mean(0)
        s = x[:, t].std(0)
        out[:, t] = ((x[:, t] - m) / s.clamp(min=1e-6)).clamp(low, high)
        mean[t] = m
        std[t] = s
    return out, mean, std


def bins_ref(x: Any, edges: Any) -> Any:
    return torch.searchsorted(edges, x.mT.contiguous(), right=True).mT.to(torch.uint8)


@stranger(
    lambda n, f, k: (randn(n, f), randn(f, k).sort(1).values),
    bins_ref,
    {"n": 45, "f": 5, "k": 7},
    {"n": 1 << 20, "f": 64, "k": 31},
)
@helion.kernel(static_shapes=True)
def quantile_bins(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """The bins of boosted trees: each column has edges of its own."""
    n, f = x.size()
    k = edges.size(1)
    out = torch.empty([n, f], dtype=torch.uint8, device=x.device)
    for tn, tf in hl.tile([n, f]):
        here = x[tn, tf]
        count = hl.zeros([tn, tf], dtype=torch.int32)
        for i in hl.static_range(k):
            count = count + (here >= edges[tf, i][None, :]).to(torch.int32)
        out[tn, tf] = count.to(torch.uint8)
    return out


def boost_ref(bins: Any, grad: Any, hess: Any, node: Any, nodes: Any, most: Any) -> Any:
    f = bins.size(1)
    out = torch.zeros(nodes * f * most, 2, dtype=grad.dtype)
    both = torch.stack([grad, hess], 1)
    for j in range(f):
        out.index_add_(0, (node.long() * f + j) * most + bins[:, j].long(), both)
    return out.view(nodes, f, most, 2)


@stranger(
    lambda n, f, nodes, most: (
        torch.randint(0, most, (n, f), dtype=torch.uint8), randn(n), torch.rand(n),
        torch.randint(0, nodes, (n,)).int(), nodes, most,
    ),
    boost_ref,
    {"n": 101, "f": 3, "nodes": 2, "most": 7},
    {"n": 1 << 20, "f": 32, "nodes": 8, "most": 64},
)  # fmt: skip
@tileflow.kernel
def boost_histograms(bins, grad, hess, node, nodes: int, most: int):
    """LightGBM's sums of gradients by node, feature and bin."""
    n, f = bins.shape
    out = torch.zeros(nodes, f, most, 2, device=grad.device)
    for tn, tf in tfl.tile([n, f]):
        b = bins[tn, tf].int()
        place = node[tn][:, None], tf.index[None, :], b
        tfl.atomic_add(out, [*place, 0], grad[tn][:, None])
        tfl.atomic_add(out, [*place, 1], hess[tn][:, None])
    return out


def classes_ref(x: Any, w: Any, bias: Any, label: Any) -> Any:
    logits = x @ w + bias
    log_p = torch.log_softmax(logits.float() if logits.dtype != torch.float64 else logits, 1)
    loss = -log_p.gather(1, label[:, None])[:, 0]
    hot = label[:, None] == torch.arange(w.size(1))
    return loss, (log_p.exp() - hot.to(log_p.dtype)).to(x.dtype)


@stranger(
    lambda n, d, c, dtype=torch.float32: (
        randn(n, d, dtype=dtype), randn(d, c, dtype=dtype) * d**-0.5, randn(c), torch.randint(0, c, (n,)),
    ),
    classes_ref,
    {"n": 45, "d": 32, "c": 16},
    {"n": 1 << 18, "d": 512, "c": 64, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def softmax_regression(x, w, bias, label):
    """Losses of a linear classifier and the gradients of its logits, all of a row's features and classes at once."""
    n, c = x.size(0), w.size(1)
    loss = torch.empty(n, device=x.device)
    grad = torch.empty(n, c, dtype=x.dtype, device=x.device)
    for t in tfl.tile(n):
        logits = (x[t, :] @ w[:, :]).float() + bias[:]
        log_p = torch.log_softmax(logits, dim=1)
        hot = label[t][:, None] == tfl.arange(c)
        loss[t] = -torch.where(hot, log_p, 0.0).sum(1)
        grad[t, :] = torch.exp(log_p) - hot.float()
    return loss, grad


def correlate_ref(x: Any) -> Any:
    d = x - x.mean(0)
    d = d / (d**2).sum(0).sqrt().clamp(min=1e-9)
    return d.T @ d


@stranger(lambda n, f: (randn(n, f) + 0.5,), correlate_ref, {"n": 77, "f": 13}, {"n": 1 << 16, "f": 512})
@tileflow.kernel
def correlate_columns(x):
    """Pearson's correlations of all pairs of columns."""
    n, f = x.shape
    total, squares = torch.zeros(f, device=x.device), torch.zeros(f, device=x.device)
    for tn, tf in tfl.tile([n, f]):
        part = x[tn, tf]
        tfl.atomic_add(total, [tf], part.sum(0))
        tfl.atomic_add(squares, [tf], (part * part).sum(0))
    out = torch.empty(f, f, device=x.device)
    for ti, tj in tfl.tile([f, f]):
        mi, mj = total[ti] / n, total[tj] / n
        acc = tfl.zeros([ti, tj])
        for tn in tfl.tile(n):
            acc += x[tn, ti].T @ x[tn, tj]
        vi, vj = squares[ti] - n * mi * mi, squares[tj] - n * mj * mj
        out[ti, tj] = (acc - n * torch.outer(mi, mj)) * torch.rsqrt(torch.outer(vi, vj).clamp(min=1e-18))
    return out


def keypoints_ref(maps: Any, temperature: Any) -> Any:
    _n, h, w = maps.shape
    p = (maps.flatten(1) / temperature).softmax(1).unflatten(1, (h, w))
    y = (p.sum(2) * torch.linspace(-1, 1, h)).sum(1)
    x = (p.sum(1) * torch.linspace(-1, 1, w)).sum(1)
    return torch.stack([x, y], 1), p.amax((1, 2))


@stranger(
    lambda n, h, w: (randn(n, h, w), 0.7), keypoints_ref, {"n": 7, "h": 5, "w": 9}, {"n": 32768, "h": 64, "w": 48}
)
@tileflow.kernel
def spatial_softmax(maps, temperature: float):
    """Levine et al., 2015, arXiv:1504.00702: where the mass of each map lies."""
    n, h, w = maps.shape
    points = torch.empty(n, 2, device=maps.device)
    peak = torch.empty(n, device=maps.device)
    for t in tfl.tile(n):
        z = maps[t, :, :] / temperature
        e = torch.exp(z - z.amax((1, 2))[:, None, None])
        p = e / e.sum((1, 2))[:, None, None]
        y = tfl.arange(h) * (2.0 / (h - 1)) - 1
        x = tfl.arange(w) * (2.0 / (w - 1)) - 1
        points[t, 0] = (p.sum(1) * x).sum(1)
        points[t, 1] = (p.sum(2) * y).sum(1)
        peak[t] = p.amax((1, 2))
    return points, peak
