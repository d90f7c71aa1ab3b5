"""Slates of recommendations: diverse ones, factors by alternating squares, pairs that should be ordered."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def diverse_ref(relevance: Any, items: Any, k: int, trade: float) -> Any:
    wide = torch.promote_types(items.dtype, torch.float32)
    e = F.normalize(items.to(wide), dim=2)
    similar = e @ e.mT
    b, n = relevance.shape
    worst = torch.zeros(b, n, dtype=wide)
    taken = torch.zeros(b, n, dtype=torch.bool)
    picks = []
    for _ in range(k):
        score = trade * relevance.to(wide) - (1 - trade) * worst
        pick = score.masked_fill(taken, float("-inf")).argmax(1)
        picks.append(pick)
        taken[torch.arange(b), pick] = True
        worst = torch.maximum(worst, similar[torch.arange(b), pick])
    return torch.stack(picks, 1)


@stranger(
    lambda b, n, d, k, dtype=torch.float32: (torch.rand(b, n), randn(b, n, d, dtype=dtype), k, 0.6),
    diverse_ref,
    {"b": 3, "n": 21, "d": 16, "k": 5},
    {"b": 512, "n": 256, "d": 64, "k": 20, "dtype": torch.float16},
)
@tileflow.kernel
def diverse_slate(relevance, items, k: int, trade: float):
    """Carbonell and Goldstein, 1998 (MMR): the most relevant that is least like what is there, one after another."""
    b, n = relevance.shape
    picks = torch.empty(b, k, dtype=torch.int64, device=items.device)
    for i in tfl.grid(b):
        e = items[i].float()
        e = e / e.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-12)
        worst = torch.zeros(n)
        taken = torch.zeros(n, dtype=torch.bool)
        for step in range(k):
            score = trade * relevance[i, :] - (1 - trade) * worst
            score = score.masked_fill(taken, -float("inf"))
            pick = score.argmax()
            picks[i, step] = pick
            taken |= torch.arange(n) == pick
            chosen = items[i, pick, :].float()
            chosen = chosen / (chosen * chosen).sum().sqrt().clamp_min(1e-12)
            worst = torch.maximum(worst, (e * chosen).sum(-1))
    return picks


def make_ranked_pairs(users: int, items: int, d: int, negatives: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        randn(users, d, dtype=dtype) * d**-0.5, randn(items, d, dtype=dtype), torch.randint(users, (3 * users,)),
        torch.randint(items, (3 * users,), dtype=torch.int32), torch.randint(-1, items, (3 * users, negatives)), None,
    )  # fmt: skip


def ranked_pairs_ref(user: Any, item: Any, who: Any, liked: Any, other: Any, weight: Any = None) -> Any:
    wide = torch.promote_types(user.dtype, torch.float32)
    u = user.to(wide)[who]
    good = (u * item.to(wide)[liked.long()]).sum(1, keepdim=True)
    bad = torch.einsum("nd,nkd->nk", u, item.to(wide)[other.clamp(min=0)])
    valid = (other >= 0) & (other != liked[:, None])
    loss = torch.where(valid, F.softplus(bad - good), 0)
    auc = torch.where(valid, (good > bad).to(wide), 0).sum(1) / valid.sum(1).clamp(min=1)
    return loss.sum() / valid.sum(), auc


@stranger(
    make_ranked_pairs,
    ranked_pairs_ref,
    {"users": 7, "items": 31, "d": 12, "negatives": 4},
    {"users": 65536, "items": 100_000, "d": 64, "negatives": 8, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ranked_pairs(user, item, who, liked, other, weight=None):
    """Rendle and others, 2009 (BPR): what a user liked before what she was not seen to like; -1 where there is none."""
    n, k = other.shape
    loss = torch.zeros([], device=user.device)
    pairs = torch.zeros([], dtype=torch.int32, device=user.device)
    auc = torch.empty(n, device=user.device)
    for tn in tfl.tile(n):
        u = user[who[tn], :].float()
        good = torch.sum(u * item[liked[tn], :], dim=1)
        total, wins, count = torch.zeros_like(good), torch.zeros_like(good), torch.zeros_like(good, dtype=torch.int)
        for j in range(k):
            index = other[tn, j]
            valid = (index != -1) & (index != liked[tn]) & (tn.index < n)
            bad = (u * item[index.clamp(min=0), :].float()).sum(-1)
            term = -F.logsigmoid(good - bad)
            if weight is not None:
                term *= weight[tn]
            total += torch.where(valid, term, 0.0)
            wins += (good > bad) * valid
            count += valid
        tfl.atomic_add(loss, [], total.sum())
        tfl.atomic_add(pairs, [], count.sum())
        auc[tn] = wins / count.clamp(min=1)
    return loss / pairs, auc


def squares_ref(item: Any, start: Any, which: Any, confidence: Any, regular: float) -> Any:
    wide = torch.promote_types(item.dtype, torch.float32)
    y = item.to(wide)
    gram = y.T @ y + regular * torch.eye(y.size(1), dtype=wide)
    rows = torch.repeat_interleave(torch.arange(len(start) - 1), start.diff().long())
    v, c = y[which.long()], confidence.to(wide)
    squares = torch.einsum("n,ni,nj->nij", c - 1, v, v)
    a = torch.zeros(len(start) - 1, *gram.shape, dtype=wide).index_add(0, rows, squares)
    b = torch.zeros(len(start) - 1, y.size(1), dtype=wide).index_add(0, rows, c[:, None] * v)
    return gram + a, b


def make_squares(users: int, items: int, d: int, most: int, dtype: torch.dtype = torch.float32) -> Any:
    start = F.pad(torch.randint(0, most, (users,)).cumsum(0), (1, 0)).to(torch.int32)
    entries = int(start[-1])
    return randn(items, d, dtype=dtype), start, torch.randint(0, items, (entries,)), 1 + torch.rand(entries) * 40, 0.1


@stranger(
    make_squares,
    squares_ref,
    {"users": 9, "items": 40, "d": 16, "most": 11},
    {"users": 20000, "items": 50000, "d": 64, "most": 100},
)
@tileflow.kernel
def implicit_squares(item, start, which, confidence, regular: float):
    """Hu, Koren and Volinsky, 2008: each user's normal equations, from the few items seen and the sum over all."""
    users, d = start.numel() - 1, item.shape[-1]
    gram = item.float().T @ item.float()
    a, b = item.new_empty((users, d, d), dtype=torch.float32), item.new_empty((users, d), dtype=torch.float32)
    for i in tfl.grid(users):
        left = gram[:, :] + regular * torch.eye(d)
        right = torch.zeros(d)
        for te in tfl.tile(start[i], start[i + 1]):
            c = confidence[te]
            v = torch.where((te.index < start[i + 1])[:, None], item[which[te], :].float(), 0.0)
            left = left + ((c - 1)[:, None] * v).T @ v
            right = right + (c[:, None] * v).sum(0)
        a[i], b[i] = left, right
    return a, b
