"""Steps of optimisers that look at curvature or need no schedule, over lists of parameters, and crossed features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


@dataclass(frozen=True)
class SophiaConfig:
    lr: float = 1e-2
    beta: float = 0.96
    rho: float = 0.04
    weight_decay: float = 0.1
    maximize: bool = False
    hessian_beta: float | None = 0.99


def make_sophia(m: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        randn(m, n, dtype=dtype), randn(n, m, dtype=dtype).mT, randn(m, n, dtype=torch.bfloat16), torch.rand(m, n),
        torch.rand(m, 1).expand(m, n), torch.zeros((), dtype=torch.int64), SophiaConfig(),
    )  # fmt: skip


def sophia_ref(p: Any, grad: Any, exp_avg: Any, hessian: Any, estimate: Any, clipped: Any, c: SophiaConfig) -> Any:
    wide = torch.promote_types(p.dtype, torch.float32)
    m = c.beta * exp_avg.to(wide) + (1 - c.beta) * grad.to(wide)
    h = c.hessian_beta * hessian.to(wide) + (1 - c.hessian_beta) * estimate.to(wide)
    ratio = m.abs() / (c.rho * h + 1e-15)
    step = torch.minimum(ratio, torch.ones_like(ratio)) * m.sign()
    new = p.to(wide) * (1 - c.lr * c.weight_decay) - c.lr * step
    return p.copy_(new), exp_avg.copy_(m), hessian.copy_(h), clipped.copy_((ratio >= 1).sum())


@stranger(make_sophia, sophia_ref, {"m": 13, "n": 21}, {"m": 8192, "n": 4096, "dtype": torch.bfloat16})
@tileflow.kernel
def sophia_step(p, grad, exp_avg, hessian, estimate, clipped, c: SophiaConfig):
    """Liu and others, 2023 (Sophia): momentum over the diagonal of the curvature, clipped, with how many were."""
    for tile in tfl.tile(list(p.shape)):
        g = grad[tile].float()
        if c.maximize:
            g = g.neg()
        m = exp_avg[tile].float().mul(c.beta).add(g, alpha=1 - c.beta)
        h = hessian[tile]
        if c.hessian_beta is not None:
            h = torch.lerp(estimate[tile], h, c.hessian_beta)
            hessian[tile] = h
        ratio = m.abs() / h.mul(c.rho).add(1e-15)
        w = p[tile].float() * (1 - c.lr * c.weight_decay)
        w -= c.lr * ratio.clamp_max(1.0) * m.sign()
        p[tile] = w
        exp_avg[tile] = m
        tfl.atomic_add(clipped, [], (ratio >= 1).sum())
    return p, exp_avg, hessian, clipped


def make_free(sizes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
    def each(positive: bool = False) -> Any:
        return [torch.rand(n) if positive else torch.randn(n) for n in sizes]

    return each(), each(), each(True), [randn(n, dtype=dtype) for n in sizes], torch.tensor(7), 0.0025


def free_ref(y: Any, z: Any, v: Any, grads: Any, step: Any, lr: float) -> Any:
    k = int(step)
    b1, b2, eps, decay = 0.9, 0.999, 1e-8, 0.01
    warm = min(1.0, (k + 1) / 2000)
    rate = lr * warm * (1 - b2 ** (k + 1)) ** 0.5
    c = 1 / (k + 1)
    for y_, z_, v_, g in zip(y, z, v, grads, strict=True):
        g = g.to(y_.dtype)
        v_.mul_(b2).add_((1 - b2) * g * g)
        g = g / (v_.sqrt() + eps) + decay * y_
        y_.add_(c * (z_ - y_) + rate * (b1 * (1 - c) - 1) * g)
        z_.sub_(rate * g)
    return y, z, v


@stranger(
    make_free,
    free_ref,
    {"sizes": (37, 0, 5)},
    {"sizes": (16_777_216, 4096, 8_388_608), "dtype": torch.bfloat16},
)
@tileflow.kernel
def schedule_free_step(ys, zs, vs, grads, step, lr: float, *, betas=(0.9, 0.999), eps=1e-8, decay=0.01, warmup=2000):
    """Defazio and others, 2024: Adam whose average of the points replaces the schedule, over a list of parameters."""
    b1, b2 = betas
    for y_all, z_all, v_all, g_all in zip(ys, zs, vs, grads, strict=True):
        for tile in tfl.tile(y_all.numel()):
            k = step[()] + 1
            rate = lr * (k / warmup).clamp(max=1) * (1 - b2**k) ** 0.5
            c = k.float().reciprocal()
            y, z, g = y_all[tile], z_all[tile], g_all[tile].to(y_all.dtype)
            v = v_all[tile].mul(b2).addcmul(g, g, value=1 - b2)
            g = g.div(v.sqrt() + eps) + decay * y
            v_all[tile] = v
            y_all[tile] = y.lerp(z, c) + rate * (b1 * (1 - c) - 1) * g
            z_all[tile] = z.sub(rate * g)
    return ys, zs, vs


def make_cross(b: int, d: int, r: int, experts: int, dtype: torch.dtype = torch.float32) -> Any:
    u, v = randn(experts, d, r, dtype=dtype) * r**-0.5, randn(experts, d, r, dtype=dtype) * d**-0.5
    c = randn(experts, r, r, dtype=dtype) * r**-0.5
    return randn(b, d, dtype=dtype), randn(b, d, dtype=dtype), u, c, v, randn(experts, d) * d**-0.5, randn(d)


def cross_ref(x0: Any, x: Any, u: Any, c: Any, v: Any, gate: Any, bias: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    low = torch.tanh(torch.einsum("bd,edr->ebr", x.to(wide), v.to(wide)))
    low = torch.tanh(torch.einsum("ebr,esr->ebs", low, c.to(wide)))
    one = x0.to(wide) * (torch.einsum("ebr,edr->ebd", low, u.to(wide)) + bias.to(wide))
    weights = torch.softmax(x.to(wide) @ gate.to(wide).T, 1)
    return (torch.einsum("be,ebd->bd", weights, one) + x.to(wide)).to(x.dtype)


@stranger(
    make_cross,
    cross_ref,
    {"b": 19, "d": 24, "r": 16, "experts": 3},
    {"b": 65536, "d": 512, "r": 64, "experts": 4, "dtype": torch.bfloat16},
)
@tileflow.kernel
def crossed_mixture(x0, x, u, c, v, gate, bias):
    """Wang and others, 2021 (DCN V2): crossed features by a mixture of small matrices, of which a gate chooses."""
    b, experts = len(x), u.size(0)
    out = torch.empty_like(x)
    for tb in tfl.tile(b):
        rows = x[tb, :]
        score = torch.einsum("bd,ed->be", rows.float(), gate[:, :])
        weights = score.softmax(dim=-1)
        total = rows.float()
        for e in range(experts):
            low = torch.tanh(rows @ v[e]).to(x.dtype)
            low = torch.tanh(low @ c[e].mT).to(x.dtype)
            weight = torch.where(torch.arange(experts) == e, weights, 0).sum(dim=-1, keepdim=True)
            total = total + weight * x0[tb, :] * (torch.matmul(low, u[e].transpose(0, 1)) + bias[None])
        out[tb, :] = total
    return out
