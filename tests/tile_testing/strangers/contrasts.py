"""Losses of lists and of batches: contrasts by class, orders, quantiles of returns, sets, sources, triplets' angles."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def supervised_ref(z: Any, label: Any, temperature: float) -> Any:
    s = z.float() @ z.float().T / temperature
    other = ~torch.eye(z.size(0), dtype=torch.bool)
    same = (label[:, None] == label) & other
    norm = torch.logsumexp(s.masked_fill(~other, float("-inf")), 1)
    count = same.sum(1)
    mean = torch.where(same, s, 0.0).sum(1) / count.clamp(min=1)
    return torch.where(count > 0, norm - mean, 0.0)


@stranger(
    lambda n, d, classes, dtype=torch.float32: (
        F.normalize(randn(n, d), dim=1).to(dtype),
        torch.randint(0, classes, (n,), dtype=torch.int32),
        0.1,
    ),
    supervised_ref,
    {"n": 37, "d": 16, "classes": 5},
    {"n": 8192, "d": 128, "classes": 1000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def supervised_contrast(z, label, temperature):
    """Khosla et al., 2020, arXiv:2004.11362: all of a sample's class are its positives."""
    n, _ = z.shape
    out = torch.empty(n, device=z.device)
    for ti in tfl.tile(n):
        top, total = tfl.full([ti], float("-inf")), tfl.zeros([ti])
        near, count = tfl.zeros([ti]), tfl.zeros([ti])
        for tj in tfl.tile(n):
            s = tfl.dot(z[ti, :], z[tj, :].T) / temperature
            other = ti.index[:, None] != tj.index[None, :]
            same = other & (label[ti][:, None] == label[tj][None, :])
            s = torch.where(other, s, -1e9)
            high = torch.maximum(top, s.amax(1))
            total = total * torch.exp(top - high) + torch.exp(s - high[:, None]).sum(1)
            near += torch.where(same, s, 0.0).sum(1)
            count += same.float().sum(1)
            top = high
        loss = top + torch.log(total) - near / torch.clamp(count, min=1)
        out[ti] = torch.where(count > 0, loss, 0.0)
    return out


def list_ref(score: Any, relevance: Any) -> Any:
    order = torch.argsort(relevance, dim=1, descending=True, stable=True)
    s = score.gather(1, order).double()
    return (s.flip(1).logcumsumexp(1).flip(1) - s).sum(1).float()


@stranger(
    lambda b, n: (randn(b, n), torch.randint(0, 5, (b, n), dtype=torch.int32)),
    list_ref,
    {"b": 7, "n": 32},
    {"b": 16384, "n": 256},
)
@tileflow.kernel
def list_likelihood(score, relevance):
    """ListMLE (Xia et al., 2008): how likely the best order is, when one after another is drawn by its score."""
    b, _ = score.shape
    out = torch.empty(b, device=score.device)
    for t in tfl.tile(b):
        order = torch.argsort(relevance[t, :], dim=1, descending=True)
        s = torch.gather(score[t, :], 1, order)
        s = s - s.amax(1, keepdim=True)
        out[t] = (torch.log(tfl.cumsum(torch.exp(s), 1, reverse=True)) - s).sum(1)
    return out


def lambda_ref(score: Any, gain: Any, length: Any) -> Any:
    out = []
    for s, g, n in zip(score.split(128), gain.split(128), length.split(128), strict=True):
        there = torch.arange(s.size(1)) < n[:, None]
        rank = ((s[:, None, :] > s[:, :, None]) & there[:, None, :]).sum(2)
        discount = 1 / torch.log2(rank + 2.0)
        delta = (g[:, :, None] - g[:, None, :]) * (discount[:, :, None] - discount[:, None, :]).abs()
        pair = (g[:, :, None] > g[:, None, :]) & there[:, :, None] & there[:, None, :]
        pull = torch.where(pair, delta * torch.sigmoid(s[:, None, :] - s[:, :, None]), 0)
        out.append(pull.sum(2) - pull.sum(1))
    return torch.cat(out)


@stranger(
    lambda b, n: (
        randn(b, n),
        torch.randint(0, 5, (b, n)).float(),
        torch.randint(n // 2, n + 1, (b,), dtype=torch.int32),
    ),
    lambda_ref,
    {"b": 5, "n": 21},
    {"b": 4096, "n": 128},
)
@tileflow.kernel
def lambda_gradients(score, gain, length):
    """LambdaRank (Burges, 2010): each pair pulls as far as its swap would change the discounted gains."""
    b, n = score.shape
    out = torch.empty_like(score)
    for i in tfl.grid(b):
        s, g = score[i, :], gain[i, :]
        there = tfl.arange(n) < length[i]
        above = (s[None, :] > s[:, None]) & there[None, :]
        discount = 1 / torch.log2(above.sum(1) + 2.0)
        delta = (g[:, None] - g[None, :]) * (discount[:, None] - discount[None, :]).abs()
        pair = (g[:, None] > g[None, :]) & there[:, None] & there[None, :]
        pull = torch.where(pair, delta * torch.sigmoid(s[None, :] - s[:, None]), 0.0)
        out[i, :] = pull.sum(1) - pull.sum(0)
    return out


def quantile_ref(now: Any, target: Any) -> Any:
    n = now.size(1)
    tau = (torch.arange(n) + 0.5) / n
    loss, grad = [], []
    for a, b in zip(now.split(1024), target.split(1024), strict=True):
        u = b[:, None, :] - a[:, :, None]
        weight = (tau[:, None] - (u < 0).float()).abs()
        loss.append((weight * F.huber_loss(u, torch.zeros_like(u), reduction="none")).mean(2).sum(1))
        grad.append(-(weight * u.clamp(-1, 1)).mean(2))
    return torch.cat(loss), torch.cat(grad)


@stranger(
    lambda b, n: (randn(b, n), randn(b, n) * 2),
    quantile_ref,
    {"b": 13, "n": 21},
    {"b": 16384, "n": 200},
)
@tileflow.kernel
def quantile_huber(now, target):
    """QR-DQN, arXiv:1710.10044: all pairs of two sets of quantiles, the loss and its gradient."""
    b, n = now.shape
    loss = torch.empty(b, device=now.device)
    grad = torch.empty_like(now)
    for t in tfl.tile(b):
        u = target[t, :][:, None, :] - now[t, :][:, :, None]
        tau = (tfl.arange(n) + 0.5) / n
        weight = (tau[None, :, None] - (u < 0).float()).abs()
        size = u.abs()
        huber = torch.where(size <= 1, 0.5 * u * u, size - 0.5)
        loss[t] = (weight * huber).mean(2).sum(1)
        grad[t, :] = -(weight * torch.clamp(u, -1, 1)).mean(2)
    return loss, grad


def lovasz_ref(logits: Any, label: Any) -> Any:
    sign = label.float() * 2 - 1
    error, order = (1 - logits * sign).sort(1, descending=True)
    y = label.gather(1, order).float()
    total = y.sum(1, keepdim=True)
    jaccard = 1 - (total - y.cumsum(1)) / (total + (1 - y).cumsum(1))
    step = torch.cat([jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]], 1)
    return (F.relu(error) * step).sum(1)


@stranger(
    lambda b, n: (randn(b, n), torch.rand(b, n) < 0.3),
    lovasz_ref,
    {"b": 5, "n": 32},
    {"b": 2048, "n": 4096},
)
@tileflow.kernel
def lovasz_hinge(logits, label):
    """Berman, Triki and Blaschko, 2018, arXiv:1705.08790: the overlap's loss by sorted errors."""
    b, n = logits.shape
    out = torch.empty(b, device=logits.device)
    for t in tfl.tile(b):
        sign = torch.where(label[t, :], 1.0, -1.0)
        error, order = torch.sort(1 - logits[t, :] * sign, dim=1, descending=True)
        y = torch.gather(label[t, :].int(), 1, order).float()
        total = y.sum(1, keepdim=True)
        jaccard = 1 - (total - torch.cumsum(y, 1)) / (total + torch.cumsum(1 - y, 1))
        before = torch.where(tfl.arange(n)[None, :] == 0, 0.0, jaccard.roll(1, 1))
        out[t] = (F.relu(error) * (jaccard - before)).sum(1)
    return out


def separated_ref(found: Any, wanted: Any) -> Any:
    a = found.float() - found.float().mean(2, keepdim=True)
    b = wanted.float() - wanted.float().mean(2, keepdim=True)
    dot, power, own = a @ b.mT, b.square().sum(2)[:, None, :], a.square().sum(2)[:, :, None]
    target = dot.square() / power
    ratio = 10 * torch.log10(target / (own - target))
    straight = (ratio[:, 0, 0] + ratio[:, 1, 1]) / 2
    crossed = (ratio[:, 0, 1] + ratio[:, 1, 0]) / 2
    return torch.maximum(straight, crossed), (crossed > straight)


def make_sources(b: int, n: int) -> Any:
    wanted = randn(b, 2, n)
    mixed = wanted + 0.3 * wanted.flip(1) + 0.2 * randn(b, 2, n)
    return torch.where(torch.rand(b, 1, 1) < 0.5, mixed, mixed.flip(1)), wanted


@stranger(make_sources, separated_ref, {"b": 5, "n": 101}, {"b": 512, "n": 64000})
@tileflow.kernel
def separated_sources(found, wanted):
    """Two voices' scale-invariant ratios in decibels, under the better of both assignments (arXiv:1607.00325)."""
    b, _, _n = found.shape
    best = torch.empty(b, device=found.device)
    swapped = torch.empty(b, dtype=torch.bool, device=found.device)

    def decibels(dot, own, power):
        target = dot * dot / power
        return 10 * torch.log10(target / (own - target))

    for i in tfl.grid(b):
        a0 = found[i, 0, :] - found[i, 0, :].mean()
        a1 = found[i, 1, :] - found[i, 1, :].mean()
        b0 = wanted[i, 0, :] - wanted[i, 0, :].mean()
        b1 = wanted[i, 1, :] - wanted[i, 1, :].mean()
        own0, own1, power0, power1 = (a0 * a0).sum(), (a1 * a1).sum(), (b0 * b0).sum(), (b1 * b1).sum()
        straight = decibels((a0 * b0).sum(), own0, power0) + decibels((a1 * b1).sum(), own1, power1)
        crossed = decibels((a0 * b1).sum(), own0, power1) + decibels((a1 * b0).sum(), own1, power0)
        best[i] = max(straight, crossed) / 2
        swapped[i] = crossed > straight
    return best, swapped
