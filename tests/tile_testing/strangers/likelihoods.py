"""What is minimised, 2024 to 2026: answers that are good or bad alone, a teacher's few words, evidence for a number."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_prospect(n: int, t: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    label = torch.randint(0, vocabulary, (n, t))
    label[torch.rand(n, t) < 0.2] = -100
    base = -torch.rand(n) * t
    return randn(n, t, vocabulary, dtype=dtype), label, base, torch.rand(n) < 0.5, torch.randn(n), 0.1, 1.0, 1.33


def prospect_ref(
    logits: Any, label: Any, base: Any, good: Any, drift: Any, beta: float, desired: float, undesired: float
) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    total = torch.empty(logits.size(0), dtype=wide)
    for i in range(logits.size(0)):
        log_p = logits[i].to(wide).log_softmax(1).gather(1, label[i].clamp(min=0)[:, None])[:, 0]
        total[i] = torch.where(label[i] >= 0, log_p, 0).sum()
    ratio = total - base.to(wide)
    zero = drift.to(wide).mean().clamp(min=0)
    gain = torch.sigmoid(beta * torch.where(good, ratio - zero, zero - ratio))
    each = torch.where(good, desired, undesired) * (1 - gain)
    reward = beta * ratio
    return each.mean().float(), each, torch.stack([reward[good].sum(), reward[~good].sum()]).float(), total


@stranger(
    make_prospect,
    prospect_ref,
    {"n": 5, "t": 17, "vocabulary": 71},
    {"n": 8, "t": 512, "vocabulary": 32000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def prospect_loss(logits, label, base, good, drift, beta: float, desired: float, undesired: float):
    """Ethayarajh and others, 2024 (KTO): answers that are good or bad by themselves, valued as people value losses."""
    n, t, _ = logits.shape
    total = torch.zeros(n, device=logits.device)
    each = torch.empty(n, device=logits.device)
    mean = torch.zeros((), device=logits.device)
    rewards = torch.zeros(2, device=logits.device)
    for tn, tt in tfl.tile([n, t]):
        row = logits[tn, tt, :].float()
        target = label[tn, tt]
        own = torch.gather(row, 2, target.clamp(min=0)[:, :, None]).squeeze(2)
        log_p = own - torch.logsumexp(row, -1)
        tfl.atomic_add(total, [tn], torch.where(target != -100, log_p, 0.0).sum(1))
    for tn in tfl.tile(n):
        ratio = total[tn] - base[tn]
        zero = drift[:].mean().clamp(min=0)
        liked = good[tn]
        gain = torch.sigmoid(beta * torch.where(liked, ratio - zero, zero - ratio))
        loss = torch.where(liked, desired, undesired) * (1 - gain)
        each[tn] = loss
        tfl.atomic_add(mean, [], loss.sum() / n)
        tfl.atomic_add(rewards, [torch.where(liked, 0, 1)], beta * ratio)
    return mean, each, rewards, total


def make_few_words(t: int, vocabulary: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    teacher = 2 * torch.randn(t, vocabulary)
    log_p, word = teacher.log_softmax(1).topk(k, 1)
    return (teacher + randn(t, vocabulary)).to(dtype), word, log_p


def few_words_ref(logits: Any, word: Any, log_p: Any) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    own = logits.to(wide).log_softmax(1)
    q = own.gather(1, word)
    p = log_p.to(wide).exp()
    rest_p = (1 - p.sum(1)).clamp(min=1e-6)
    rest_q = (1 - q.exp().sum(1)).clamp(min=1e-6)
    loss = (p * (log_p.to(wide) - q)).sum(1) + rest_p * (rest_p.log() - rest_q.log())
    gradient = own.exp() * (1 - rest_p / rest_q)[:, None]
    return loss.float(), gradient.scatter(1, word, q.exp() - p).to(logits.dtype)


@stranger(
    make_few_words,
    few_words_ref,
    {"t": 19, "vocabulary": 83, "k": 8},
    {"t": 2048, "vocabulary": 32000, "k": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def few_words_distillation(logits, word, log_p):
    """Anshumann and others, 2025 (sparse logits): a teacher's likeliest words, all others as one; the gradient too."""
    t, _ = logits.shape
    loss = torch.empty(t, device=logits.device)
    gradient = torch.empty_like(logits)
    for tt in tfl.tile(t):
        own = torch.log_softmax(logits[tt, :].float(), dim=1)
        words = word[tt, :]
        q = torch.gather(own, 1, words)
        p = torch.exp(log_p[tt, :])
        rest_p = (1 - p.sum(1)).clamp(min=1e-6)
        rest_q = (1 - torch.exp(q).sum(1)).clamp(min=1e-6)
        loss[tt] = (p * (log_p[tt, :] - q)).sum(1) + rest_p * (torch.log(rest_p) - torch.log(rest_q))
        gradient[tt, :] = torch.exp(own) * (1 - rest_p / rest_q)[:, None]
        gradient[tt.index[:, None], words] = torch.exp(q) - p
    return loss, gradient


def make_evidence(n: int, dtype: torch.dtype = torch.float32) -> Any:
    return randn(n, 4, dtype=dtype), randn(n, dtype=dtype), 0.01


def evidence_ref(raw: Any, y: Any, weight: float) -> Any:
    wide = torch.promote_types(raw.dtype, torch.float32)
    raw, y = raw.to(wide), y.to(wide)
    middle, *rest = raw.unbind(1)
    nu, alpha, beta = (F.softplus(one) for one in rest)
    alpha = alpha + 1
    miss = y - middle
    omega = 2 * beta * (1 + nu)
    inside = nu * miss**2 + omega
    loss = 0.5 * torch.log(math.pi / nu) - alpha * omega.log() + (alpha + 0.5) * inside.log()
    loss = loss + alpha.lgamma() - (alpha + 0.5).lgamma() + weight * miss.abs() * (2 * nu + alpha)
    d_middle = -(alpha + 0.5) * 2 * nu * miss / inside - weight * miss.sign() * (2 * nu + alpha)
    d_nu = -0.5 / nu - alpha / (1 + nu) + (alpha + 0.5) * (miss**2 + 2 * beta) / inside + 2 * weight * miss.abs()
    d_alpha = inside.log() - omega.log() + alpha.digamma() - (alpha + 0.5).digamma() + weight * miss.abs()
    d_beta = -alpha / beta + (alpha + 0.5) * 2 * (1 + nu) / inside
    slope = [one.sigmoid() for one in rest]
    gradient = torch.stack([d_middle, d_nu * slope[0], d_alpha * slope[1], d_beta * slope[2]], 1) / y.numel()
    return loss.mean().float(), gradient, (beta / (alpha - 1)), (beta / (nu * (alpha - 1)))


@stranger(make_evidence, evidence_ref, {"n": 301}, {"n": 1 << 23})
@tileflow.kernel
def evidential_loss(raw, y, weight: float):
    """Amini and others, 2020 (evidential): a normal-inverse-gamma for each number, its gradient, its doubt."""
    n = y.size(0)
    mean = torch.zeros((), device=y.device)
    gradient = torch.empty_like(raw)
    noise = torch.empty_like(y)
    doubt = torch.empty_like(y)
    for tile in tfl.tile(n):
        middle, a, b, c = raw[tile, :].unbind(1)
        nu, alpha, beta = F.softplus(a), F.softplus(b) + 1, F.softplus(c)
        miss = y[tile] - middle
        omega = 2 * beta * (1 + nu)
        inside = nu * miss**2 + omega
        loss = 0.5 * torch.log(math.pi / nu) - alpha * torch.log(omega) + (alpha + 0.5) * torch.log(inside)
        loss = loss + torch.lgamma(alpha) - torch.lgamma(alpha + 0.5) + weight * miss.abs() * (2 * nu + alpha)
        tfl.atomic_add(mean, [], loss.sum() / n)
        d_middle = -(alpha + 0.5) * 2 * nu * miss / inside - weight * torch.sign(miss) * (2 * nu + alpha)
        d_nu = -0.5 / nu - alpha / (1 + nu) + (alpha + 0.5) * (miss**2 + 2 * beta) / inside + 2 * weight * miss.abs()
        d_alpha = torch.log(inside) - torch.log(omega) + weight * miss.abs()
        d_alpha = d_alpha + torch.digamma(alpha) - torch.digamma(alpha + 0.5)
        d_beta = -alpha / beta + (alpha + 0.5) * 2 * (1 + nu) / inside
        slopes = [d_middle, d_nu * torch.sigmoid(a), d_alpha * torch.sigmoid(b), d_beta * torch.sigmoid(c)]
        gradient[tile, :] = torch.stack(slopes, dim=1) / n
        noise[tile] = beta / (alpha - 1)
        doubt[tile] = beta / (nu * (alpha - 1))
    return mean, gradient, noise, doubt
