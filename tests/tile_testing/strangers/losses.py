"""Losses: each row's value, or one number."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

ROWS, MANY_ROWS = {"m": 13, "n": 37}, {"m": 8192, "n": 8192}


def make_classes(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), torch.randint(0, n, (m,))


def focal(logits: Any, target: Any, gamma: float = 2.0) -> torch.Tensor:
    log_p = torch.log_softmax(logits, -1).gather(1, target[:, None])[:, 0]
    return -((1 - log_p.exp()) ** gamma) * log_p


@stranger(make_classes, focal, ROWS, MANY_ROWS)
@tileflow.kernel
def focal_loss(logits, target, gamma=2.0):
    """Lin et al., 2017, arXiv:1708.02002."""
    m = logits.size(0)
    out = torch.empty(m, device=logits.device)
    for rows in tfl.tile(m):
        log_p = logits[rows.index, target[rows]] - torch.logsumexp(logits[rows, :], dim=1)
        out[rows] = -((1 - torch.exp(log_p)) ** gamma) * log_p
    return out


def smoothed(logits: Any, target: Any, eps: float = 0.1) -> torch.Tensor:
    return F.cross_entropy(logits, target, label_smoothing=eps, reduction="none")


@stranger(make_classes, smoothed, ROWS, MANY_ROWS)
@tileflow.kernel
def label_smoothing(logits, target, eps=0.1):
    m = logits.size(0)
    out = torch.empty(m, device=logits.device)
    for rows in tfl.tile(m):
        row = logits[rows, :]
        total = torch.logsumexp(row, dim=1)
        picked = total - logits[rows.index, target[rows]]
        out[rows] = (1 - eps) * picked + eps * (total - row.mean(dim=1))
    return out


def make_pairs(m: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return F.normalize(randn(m, d)).to(dtype), F.normalize(randn(m, d)).to(dtype), 0.1


def contrasted(x: Any, y: Any, temperature: float) -> torch.Tensor:
    scores = x.float() @ y.float().mT / temperature
    return torch.logsumexp(scores, 1) - scores.diagonal()


@stranger(make_pairs, contrasted, {"m": 37, "d": 16}, {"m": 8192, "d": 256, "dtype": torch.bfloat16})
@tileflow.kernel
def info_nce(x, y, temperature):
    """Contrastive, without the matrix of similarities (van den Oord et al., 2018, arXiv:1807.03748)."""
    m = x.size(0)
    out = torch.empty(m, device=x.device)
    for rows in tfl.tile(m):
        top, total, own = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows])
        for others in tfl.tile(y.size(0)):
            scores = tfl.dot(x[rows, :], y[others, :].T) / temperature
            own = own + torch.where(rows.index[:, None] == others.index[None, :], scores, 0.0).sum(1)
            high = torch.maximum(top, scores.amax(1))
            total = total * torch.exp(top - high) + torch.exp(scores - high[:, None]).sum(1)
            top = high
        out[rows] = top + torch.log(total) - own
    return out


def make_triplets(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), randn(m, n), randn(m, n)


def triplet(a: Any, p: Any, n: Any, margin: float = 1.0) -> torch.Tensor:
    return F.triplet_margin_loss(a, p, n, margin, reduction="none")


@stranger(make_triplets, triplet, ROWS, MANY_ROWS)
@tileflow.kernel
def triplet_margin(anchor, positive, negative, margin=1.0):
    out = torch.empty(anchor.size(0), device=anchor.device)
    for rows in tfl.tile(anchor.size(0)):
        near = torch.norm(anchor[rows, :] - positive[rows, :] + 1e-6, dim=1)
        far = torch.norm(anchor[rows, :] - negative[rows, :] + 1e-6, dim=1)
        out[rows] = torch.relu(near - far + margin)
    return out


def make_two(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), randn(m, n)


def huber(x: Any, y: Any, delta: float = 1.0) -> torch.Tensor:
    return F.huber_loss(x, y, delta=delta)


@stranger(make_two, huber, ROWS, MANY_ROWS)
@tileflow.kernel
def huber_mean(x, y, delta=1.0):
    """One number, added up by atomics."""
    m, n = x.shape
    out = torch.zeros((), device=x.device)
    for tm, tn in tfl.tile([m, n]):
        gap = (x[tm, tn] - y[tm, tn]).abs()
        each = torch.where(gap < delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta))
        tfl.atomic_add(out, [], each.sum() / (m * n))
    return out


def make_masks(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), (torch.rand(m, n) > 0.7).float()


def dice(logits: Any, mask: Any) -> torch.Tensor:
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * mask).sum(1) + 1) / (p.sum(1) + mask.sum(1) + 1)


@stranger(make_masks, dice, ROWS, {"m": 256, "n": 262144})
@tileflow.kernel
def dice_loss(logits, mask):
    """Milletari et al., 2016, arXiv:1606.04797."""
    out = torch.empty(logits.size(0), device=logits.device)
    for rows in tfl.tile(logits.size(0)):
        both, either = tfl.zeros([rows]), tfl.zeros([rows])
        for columns in tfl.tile(logits.size(1)):
            p, t = torch.sigmoid(logits[rows, columns]), mask[rows, columns]
            both += (p * t).sum(1)
            either += p.sum(1) + t.sum(1)
        out[rows] = 1 - (2 * both + 1) / (either + 1)
    return out


def make_densities(m: int, n: int) -> tuple[Any, ...]:
    return torch.softmax(randn(m, n), -1), torch.softmax(randn(m, n), -1)


def wasserstein(p: Any, q: Any) -> torch.Tensor:
    return (p - q).cumsum(-1).abs().sum(-1)


@stranger(make_densities, wasserstein, ROWS, {"m": 8192, "n": 4096})
@tileflow.kernel
def wasserstein_distance(p, q):
    """Of distributions on a line: the area between their cumulative sums."""
    out = torch.empty(p.size(0), device=p.device)
    for rows in tfl.tile(p.size(0)):
        out[rows] = torch.cumsum(p[rows, :] - q[rows, :], dim=1).abs().sum(1)
    return out


def make_preferences(m: int, n: int) -> tuple[Any, ...]:
    return *(randn(m, n) for _ in range(2)), *(torch.randint(0, n, (m,)) for _ in range(2)), 0.1


def preferred(policy: Any, base: Any, chosen: Any, rejected: Any, beta: float) -> torch.Tensor:
    gain = torch.log_softmax(policy, -1) - torch.log_softmax(base, -1)
    pick = lambda which: gain.gather(1, which[:, None])[:, 0]  # noqa: E731
    return -F.logsigmoid(beta * (pick(chosen) - pick(rejected)))


@stranger(make_preferences, preferred, ROWS, {"m": 4096, "n": 32000})
@tileflow.kernel
def direct_preference(policy, base, chosen, rejected, beta):
    """Rafailov et al., 2023, arXiv:2305.18290, of one token a row; the logarithms of the sums cancel."""
    out = torch.empty(policy.size(0), device=policy.device)
    for rows in tfl.tile(policy.size(0)):
        yes, no = chosen[rows], rejected[rows]
        gain = policy[rows.index, yes] - base[rows.index, yes] - policy[rows.index, no] + base[rows.index, no]
        out[rows] = F.softplus(-beta * gain)
    return out
