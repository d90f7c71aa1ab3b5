"""Steps of optimisers and of samplers: signs, trust in layers, clips by unit, guided noise, aliases, second drafts."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def lion_ref(p: Any, g: Any, m: Any, lr: float, decay: float) -> Any:
    w, grad, moment = p.float(), g.float(), m.float()
    update = torch.sign(0.9 * moment + 0.1 * grad)
    return (w - lr * (update + decay * w)).to(p.dtype), (0.99 * moment + 0.01 * grad).to(m.dtype)


@stranger(
    lambda n, dtype=torch.float32: (randn(n, dtype=dtype), randn(n, dtype=dtype), randn(n, dtype=dtype), 1e-3, 0.1),
    lion_ref,
    {"n": 301},
    {"n": 1 << 27, "dtype": torch.bfloat16},
)
@tileflow.kernel
def lion_step(p, g, m, lr, decay):
    """Chen et al., 2023, arXiv:2302.06675."""
    new_p, new_m = torch.empty_like(p), torch.empty_like(m)
    for t in tfl.tile(p.numel()):
        w, grad, moment = p[t].float(), g[t].float(), m[t].float()
        update = torch.sign(0.9 * moment + 0.1 * grad)
        new_p[t] = w - lr * (update + decay * w)
        new_m[t] = 0.99 * moment + 0.01 * grad
    return new_p, new_m


def trust_ref(p: Any, g: Any, m: Any, v: Any, lr: float) -> Any:
    m, v = torch.lerp(g, m, 0.9), torch.lerp(g * g, v, 0.999)
    update = m / (v.sqrt() + 1e-6) + 0.01 * p
    ratio = p.norm(dim=1) / update.norm(dim=1)
    return p - lr * ratio.clamp(max=10)[:, None] * update, m, v


@stranger(
    lambda layers, n: (randn(layers, n), randn(layers, n), randn(layers, n), torch.rand(layers, n), 0.01),
    trust_ref,
    {"layers": 5, "n": 67},
    {"layers": 1024, "n": 16384},
)
@tileflow.kernel
def lamb_step(p, g, m, v, lr):
    """You et al., 2019, arXiv:1904.00962: a layer (a row here) moves by a share of its own length."""
    new_p, new_m, new_v = torch.empty_like(p), torch.empty_like(m), torch.empty_like(v)
    for t in tfl.tile(p.size(0)):
        w, grad = p[t, :], g[t, :]
        first = 0.9 * m[t, :] + 0.1 * grad
        second = 0.999 * v[t, :] + 0.001 * grad * grad
        update = first / (torch.sqrt(second) + 1e-6) + 0.01 * w
        ratio = torch.linalg.vector_norm(w, dim=1) / torch.linalg.vector_norm(update, dim=1)
        new_p[t, :] = w - lr * torch.clamp(ratio, max=10)[:, None] * update
        new_m[t, :] = first
        new_v[t, :] = second
    return new_p, new_m, new_v


def unit_ref(w: Any, g: Any, clip: float) -> Any:
    most = clip * w.float().norm(dim=(1, 2), keepdim=True).clamp(min=1e-3)
    size = g.float().norm(dim=(1, 2), keepdim=True)
    return torch.where(size > most, g.float() * (most / size.clamp(min=1e-6)), g.float()).to(g.dtype)


@stranger(
    lambda o, c, k, dtype=torch.float32: (
        randn(o, c, k, dtype=dtype),
        (randn(o, c, k) * torch.rand(o, 1, 1) * 0.02).to(dtype),
        0.01,
    ),
    unit_ref,
    {"o": 13, "c": 7, "k": 9},
    {"o": 8192, "c": 1024, "k": 9, "dtype": torch.float16},
)
@tileflow.kernel
def clip_by_unit(w, g, clip):
    """Brock et al., 2021, arXiv:2102.06171: a filter's gradient against the filter's own length."""
    out = torch.empty_like(g)
    for t in tfl.tile(w.size(0)):
        weight, grad = w[t, :, :].float(), g[t, :, :].float()
        most = clip * torch.clamp(torch.sqrt((weight * weight).sum((1, 2))), min=1e-3)
        size = torch.sqrt((grad * grad).sum((1, 2)))
        scale = torch.where(size > most, most / torch.clamp(size, min=1e-6), 1.0)
        out[t, :, :] = grad * scale[:, None, None]
    return out


def guided_ref(x: Any, given: Any, free: Any, before: Any, sigma: Any, scale: float) -> Any:
    a, b = given.float(), free.float()
    mixed = b + scale * (a - b)
    mixed = 0.7 * mixed * (a.std(1, keepdim=True) / mixed.std(1, keepdim=True)) + 0.3 * mixed
    now, after, last = sigma.unbind(1)
    clean = x.float() - now[:, None] * mixed
    h = torch.log(now / after)
    r = torch.log(last / now) / h
    d = (1 + 1 / (2 * r))[:, None] * clean - (1 / (2 * r))[:, None] * before.float()
    moved = (after / now)[:, None] * x.float() - torch.expm1(-h)[:, None] * d
    return moved.to(x.dtype), clean.to(x.dtype)


@stranger(
    lambda b, n, dtype=torch.float32: (
        *(randn(b, n, dtype=dtype) for _ in range(4)),
        torch.tensor([[2.0, 1.0, 4.0]]) + torch.rand(b, 3) * 0.5,
        5.0,
    ),
    guided_ref,
    {"b": 3, "n": 101},
    {"b": 128, "n": 65536, "dtype": torch.float16},
)
@tileflow.kernel
def multistep_denoise(x, given, free, before, sigma, scale):
    """DPM-Solver++'s second step (arXiv:2211.01095), its guidance brought back to the spread that it had."""
    moved, kept = torch.empty_like(x), torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        a, b = given[t, :].float(), free[t, :].float()
        mixed = b + scale * (a - b)
        mixed = 0.7 * mixed * (a.std(1, keepdim=True) / mixed.std(1, keepdim=True)) + 0.3 * mixed
        now, after, last = sigma[t, 0], sigma[t, 1], sigma[t, 2]
        noisy = x[t, :].float()
        clean = noisy - now[:, None] * mixed
        h = torch.log(now / after)
        r = torch.log(last / now) / h
        d = (1 + 1 / (2 * r))[:, None] * clean - (1 / (2 * r))[:, None] * before[t, :].float()
        moved[t, :] = (after / now)[:, None] * noisy - torch.expm1(-h)[:, None] * d
        kept[t, :] = clean
    return moved, kept


def alias_ref(share: Any, alias: Any, row: Any, u: Any) -> Any:
    n = share.size(1)
    place = u * n
    k = place.long().clamp(max=n - 1)
    r = row.long()
    return torch.where(place - k < share[r, k].double(), k.int(), alias[r, k])


@stranger(
    lambda m, n, samples: (
        torch.rand(m, n),
        torch.randint(0, n, (m, n), dtype=torch.int32),
        torch.randint(0, m, (samples,), dtype=torch.int32),
        torch.rand(samples, dtype=torch.float64),
    ),
    alias_ref,
    {"m": 5, "n": 13, "samples": 101},
    {"m": 4096, "n": 4096, "samples": 1 << 24},
)
@tileflow.kernel
def alias_samples(share, alias, row, u):
    """Walker, 1977: a sample of a row's distribution in two reads, whatever its length."""
    n = share.size(1)
    out = torch.empty(row.numel(), dtype=torch.int32, device=row.device)
    for t in tfl.tile(row.numel()):
        place = u[t] * n
        k = torch.clamp(place.int(), max=n - 1)
        r = row[t]
        out[t] = torch.where(place - k < share[r, k], k, alias[r, k])
    return out


def second_ref(p: Any, q: Any, u: Any) -> Any:
    rest = (p.float() - q.float()).clamp(min=0)
    total = rest.double().cumsum(1)
    return (total <= u[:, None] * total[:, -1:]).sum(1).int(), rest.sum(1)


def make_second(b: int, v: int) -> Any:
    parts = torch.randint(0, 8, (2, b, v)).float() / 8
    return parts[0], parts[1], (torch.randint(0, 64, (b,)) + 0.5) / 64


@stranger(make_second, second_ref, {"b": 5, "v": 37}, {"b": 512, "v": 32768})
@tileflow.kernel
def sample_rest(p, q, u):
    """Where a draft is refused, the next token is drawn from what the target has more (arXiv:2211.17192)."""
    b, _v = p.shape
    token = torch.empty(b, dtype=torch.int32, device=p.device)
    mass = torch.empty(b, device=p.device)
    for i in tfl.grid(b):
        rest = torch.clamp(p[i, :] - q[i, :], min=0)
        total = rest.sum()
        token[i] = (torch.cumsum(rest, 0) <= u[i] * total).sum()
        mass[i] = total
    return token, mass


def repeated_ref(logits: Any, history: Any, length: Any, n: int) -> Any:
    out = logits.clone()
    tail = history.gather(1, (length[:, None] - n + 1 + torch.arange(n - 1)).long())
    windows = history.unfold(1, n, 1)
    same = (windows[..., : n - 1] == tail[:, None]).all(-1)
    same &= torch.arange(windows.size(1)) + n <= length[:, None]
    banned = torch.zeros(out.shape, dtype=torch.int32)
    banned.scatter_add_(1, windows[..., n - 1].long(), same.int())
    return out.masked_fill(banned > 0, float("-inf"))


@stranger(
    lambda b, t, v: (
        randn(b, v),
        torch.randint(0, v, (b, t), dtype=torch.int32) % 4,
        torch.randint(t // 2, t + 1, (b,), dtype=torch.int32),
        3,
    ),
    repeated_ref,
    {"b": 5, "t": 23, "v": 37},
    {"b": 1024, "t": 2048, "v": 32000},
)
@tileflow.kernel
def forbid_repeats(logits, history, length, n: tfl.constexpr):
    """No word of n tokens twice: what followed the last n - 1 tokens before may not follow them again."""
    b, t = history.shape
    out = logits.clone()
    for i in tfl.grid(b):
        end = length[i]
        for tt in tfl.tile(t - n + 1):
            same = tt.index + n <= end
            for k in range(n - 1):
                same = same & (history[i, tt + k] == history[i, end - n + 1 + k])
            tfl.store(out, [i, history[i, tt + (n - 1)]], float("-inf"), extra_mask=same)
    return out
