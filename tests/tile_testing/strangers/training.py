"""What a training step does beside the layers: statistics, their backward, clipping, averages, optimisers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_bn(n, c, h, w, dtype=torch.float32):
    state = {"mean": randn(c), "var": torch.rand(c) + 0.5, "count": torch.tensor(3)}
    return randn(n, c, h, w, dtype=dtype), randn(c), randn(c), state


def bn_ref(x, weight, bias, state, momentum=0.1, eps=1e-5):
    y = F.batch_norm(x.float(), state["mean"], state["var"], weight.float(), bias.float(), True, momentum, eps)
    state["count"] += 1
    v, m = torch.var_mean(x.float(), (0, 2, 3), correction=0)
    return y.to(x.dtype), m, torch.rsqrt(v + eps)


@stranger(
    make_bn, bn_ref, {"n": 3, "c": 5, "h": 4, "w": 7}, {"n": 64, "c": 256, "h": 56, "w": 56, "dtype": torch.bfloat16}
)
@tileflow.kernel
def batch_norm_train(x, weight, bias, state: dict[str, torch.Tensor], momentum=0.1, eps=1e-5):
    n, c, h, w = x.shape
    count = n * h * w
    y = torch.empty_like(x)
    mean, rstd = torch.empty(c, device=x.device), torch.empty(c, device=x.device)
    state["count"] += 1
    for tc in tfl.tile(c):
        total, squares = tfl.zeros([tc]), tfl.zeros([tc])
        for tn, th, tw in tfl.tile([n, h, w]):
            part = x[tn, tc, th, tw].float()
            total += part.sum((0, 2, 3))
            squares += (part * part).sum((0, 2, 3))
        mu = total / count
        var = squares / count - mu * mu
        mean[tc], rstd[tc] = mu, torch.rsqrt(var + eps)
        state["mean"][tc] = (1 - momentum) * state["mean"][tc] + momentum * mu
        state["var"][tc] = torch.lerp(state["var"][tc], var * count / (count - 1), momentum)
    for tn, tc, th, tw in tfl.tile(x.shape):
        scale = weight[tc] * rstd[tc]
        shift = bias[tc] - mean[tc] * scale
        y[tn, tc, th, tw] = x[tn, tc, th, tw] * scale[:, None, None] + shift[:, None, None]
    return y, mean, rstd


def make_spectral(m, n, dtype=torch.float32):
    return randn(m, n, dtype=dtype), F.normalize(randn(m), dim=0), F.normalize(randn(n), dim=0)


def spectral_ref(w, u, v, eps=1e-12):
    w = w.float()
    v.copy_(F.normalize(w.T @ u.float(), dim=0, eps=eps))
    u.copy_(F.normalize(w @ v.float(), dim=0, eps=eps))
    sigma = u.float() @ w @ v.float()
    return w / sigma, sigma


@stranger(make_spectral, spectral_ref, {"m": 13, "n": 37}, {"m": 4096, "n": 4096})
@tileflow.kernel
def spectral_norm_step(w, u, v, eps=1e-12):
    m, n = w.shape
    out = torch.empty_like(w)
    sigma = torch.empty((), device=w.device)
    wv = torch.empty_like(u)
    for tn in tfl.tile(n):
        v[tn] = (w[:, tn] * u[:, None]).sum(0)
    for _ in tfl.grid(1):
        v[:] = F.normalize(v[:], dim=0, eps=eps)
    for tm in tfl.tile(m):
        wv[tm] = w[tm, :] @ v[:]
    for _ in tfl.grid(1):
        u[:] = F.normalize(wv[:], dim=0, eps=eps)
        sigma[()] = torch.dot(u[:], wv[:])
    for tm, tn in tfl.tile([m, n]):
        out[tm, tn] = w[tm, tn] / sigma[()]
    return out, sigma


def make_gnb(n, c, s, g, dtype=torch.float32):
    return randn(n, c, s, dtype=dtype), randn(n, c, s, dtype=dtype), randn(c), randn(c), g


def gnb_ref(dy, x, weight, bias, groups, eps=1e-5):
    with torch.enable_grad():
        xs, w, b = (t.float().detach().requires_grad_() for t in (x, weight, bias))
        F.silu(F.group_norm(xs, groups, w, b, eps)).backward(dy.float())
    return xs.grad.to(x.dtype), w.grad, b.grad


@stranger(
    make_gnb,
    gnb_ref,
    {"n": 3, "c": 6, "s": 13, "g": 2},
    {"n": 32, "c": 320, "s": 4096, "g": 32, "dtype": torch.bfloat16},
)
@tileflow.kernel
def group_norm_silu_backward(dy, x, weight, bias, groups: int, eps: float = 1e-5):
    n, c, s = x.shape
    each = c // groups
    dx = torch.empty_like(x)
    dw = torch.zeros(c, device=x.device)
    db = torch.zeros_like(dw)
    x4, dy4, dx4 = (t.view(n, groups, each, s) for t in (x, dy, dx))
    w2, b2, dw2, db2 = (t.view(groups, each) for t in (weight, bias, dw, db))
    for i, g in tfl.grid([n, groups]):
        part = x4[i, g, :, :].float()
        var, mean = torch.var_mean(part, correction=0)
        rstd = torch.rsqrt(var + eps)
        xhat = (part - mean) * rstd
        z = xhat * w2[g, :, None] + b2[g, :, None]
        sig = torch.sigmoid(z)
        dz = dy4[i, g, :, :] * sig * (1 + z * (1 - sig))
        tfl.atomic_add(dw2, [g, slice(None)], (dz * xhat).sum(1))
        tfl.atomic_add(db2, [g, slice(None)], dz.sum(1))
        dxhat = dz * w2[g, :, None]
        dx4[i, g, :, :] = rstd * (dxhat - dxhat.mean() - xhat * (dxhat * xhat).mean())
    return dx, dw, db


def make_lnb(m, n, dtype=torch.float32):
    x = randn(m, n, dtype=dtype)
    v, mu = torch.var_mean(x.float(), 1, correction=0)
    return randn(m, n, dtype=dtype), x, randn(n, dtype=dtype), mu, torch.rsqrt(v + 1e-5)


def lnb_ref(dy, x, weight, mean, rstd):
    dy, x, weight = dy.float(), x.float(), weight.float()
    xhat = (x - mean[:, None]) * rstd[:, None]
    g = dy * weight
    dx = rstd[:, None] * (g - g.mean(1, keepdim=True) - xhat * (g * xhat).mean(1, keepdim=True))
    return dx, (dy * xhat).sum(0), dy.sum(0)


@stranger(make_lnb, lnb_ref, {"m": 37, "n": 21}, {"m": 16384, "n": 4096, "dtype": torch.bfloat16})
@helion.kernel(static_shapes=True)
def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    m, n = x.size()
    n = hl.specialize(n)
    m_block = hl.register_block_size(m)
    dx = torch.empty(m, n, device=x.device)
    parts = helion.cdiv(m, m_block)
    dw = x.new_empty([parts, n], dtype=torch.float32)
    db = x.new_empty([parts, n], dtype=torch.float32)
    for outer in hl.tile(m, block_size=m_block):
        dw_acc = hl.zeros([n], dtype=torch.float32)
        db_acc = hl.zeros([n], dtype=torch.float32)
        for tile in hl.tile(outer.begin, outer.end):
            g = dy[tile, :].to(torch.float32)
            xhat = (x[tile, :].to(torch.float32) - mean[tile, None]) * rstd[tile, None]
            dw_acc += torch.sum(g * xhat, dim=0)
            db_acc += torch.sum(g, dim=0)
            g = g * weight[None, :].to(torch.float32)
            c1 = torch.mean(xhat * g, dim=-1)
            c2 = torch.mean(g, dim=-1)
            dx[tile, :] = (g - (xhat * c1[:, None] + c2[:, None])) * rstd[tile, None]
        dw[outer.id, :] = dw_acc
        db[outer.id, :] = db_acc
    return dx, dw.sum(0), db.sum(0)


def make_clip(sizes, dtype=torch.float32):
    grads = [randn(*s, dtype=dtype) for s in sizes]
    return grads, 1.0


def clip_ref(grads, max_norm, eps=1e-6):
    norm = torch.stack([g.float().norm() for g in grads]).norm()
    for g in grads:
        g.mul_((max_norm / (norm + eps)).clamp(max=1.0))
    return norm


SIZES = {"sizes": [(13,), (7, 5), (2, 3, 11)]}
BIG = {"sizes": [(4096, 4096), (4096,), (32000, 1024)]}


@stranger(make_clip, clip_ref, SIZES, BIG)
@tileflow.kernel
def clip_global_norm(grads: list[torch.Tensor], max_norm: float, eps: float = 1e-6):
    device = grads[0].device
    squares = torch.zeros((), device=device)
    for g in grads:
        flat = g.view(-1)
        for tile in tfl.tile(flat.numel()):
            part = flat[tile].float()
            tfl.atomic_add(squares, [], (part * part).sum())
    norm = torch.empty((), device=device)
    for g in grads:
        flat = g.view(-1)
        for tile in tfl.tile(flat.numel()):
            factor = torch.clamp(max_norm / (squares[()].sqrt() + eps), max=1.0)
            flat[tile] = flat[tile] * factor
    for _ in tfl.grid(1):
        norm[()] = squares[()].sqrt()
    return norm


def make_ema(sizes, dtype=torch.float32):
    return (
        {f"p{i}": randn(*s) for i, s in enumerate(sizes)},
        {f"p{i}": randn(*s, dtype=dtype) for i, s in enumerate(sizes)},
        0.999,
    )


def ema_ref(average, weights, decay):
    for name, w in weights.items():
        average[name].lerp_(w.to(average[name].dtype), 1 - decay)


@stranger(
    make_ema,
    ema_ref,
    {"sizes": [(13,), (7, 5), (2, 3, 11)]},
    {"sizes": [(4096, 4096), (4096,), (32000, 1024)], "dtype": torch.bfloat16},
)
@tileflow.kernel
def ema_weights(average: dict[str, torch.Tensor], weights: dict[str, torch.Tensor], decay: float = 0.999) -> None:
    for name, weight in weights.items():
        old, new = average[name].flatten(), weight.flatten()
        for tile in tfl.tile(old.size(0)):
            old[tile] = torch.lerp(old[tile], new[tile].to(old.dtype), 1 - decay)


def make_ada(m, n, dtype=torch.float32):
    return randn(m, n, dtype=dtype), randn(m, n), torch.rand(m), torch.rand(n), 3


def ada_ref(p, g, row, col, step, lr=1e-2, eps=1e-30, threshold=1.0):
    beta = 1 - step**-0.8
    sq = g.float() ** 2 + eps
    row.lerp_(sq.mean(1), 1 - beta)
    col.lerp_(sq.mean(0), 1 - beta)
    v = row[:, None] * col / row.mean()
    u = g * v.rsqrt()
    u = u / (u.square().mean().sqrt() / threshold).clamp(min=1.0)
    p.copy_(p - lr * u)


@stranger(make_ada, ada_ref, {"m": 13, "n": 21}, {"m": 4096, "n": 11008})
@tileflow.kernel
def adafactor_step(p, g, row, col, step: int, lr: float = 1e-2, eps: float = 1e-30, threshold: float = 1.0):
    """arXiv:1804.04235, without the first moment."""
    m, n = g.shape
    beta = 1 - step**-0.8
    total = torch.zeros((), device=g.device)
    rms = torch.zeros((), device=g.device)
    for tm in tfl.tile(m):
        new = beta * row[tm] + (1 - beta) * (g[tm, :].float() ** 2 + eps).mean(1)
        row[tm] = new
        tfl.atomic_add(total, [], new.sum() / m)
    for tn in tfl.tile(n):
        col[tn] = beta * col[tn] + (1 - beta) * (g[:, tn].float() ** 2 + eps).mean(0)
    for tm, tn in tfl.tile([m, n]):
        u = g[tm, tn] * torch.rsqrt(row[tm][:, None] * col[tn] / total[()])
        tfl.atomic_add(rms, [], (u * u).sum() / (m * n))
    for tm, tn in tfl.tile([m, n]):
        u = g[tm, tn] * torch.rsqrt(row[tm][:, None] * col[tn] / total[()])
        p[tm, tn] -= lr * u / torch.clamp(rms[()].sqrt() / threshold, min=1.0)


def make_wn(o, i, k, dtype=torch.float32):
    return randn(o, i, k, dtype=dtype), randn(o, 1, 1, dtype=dtype)


@stranger(
    make_wn,
    lambda v, g: (torch._weight_norm(v, g, 0), v.flatten(1).norm(dim=1).view_as(g)),
    {"o": 7, "i": 5, "k": 3},
    {"o": 2048, "i": 1024, "k": 9},
)
@tileflow.kernel
def weight_norm(v, g):
    w, norm = torch.empty_like(v), torch.empty_like(g)
    for to in tfl.tile(v.size(0)):
        n = v[to, :, :].flatten(1).norm(dim=1)
        norm[to, 0, 0] = n
        w[to, :, :] = v[to, :, :] * (g[to, :, :] / n[:, None, None])
    return w, norm
