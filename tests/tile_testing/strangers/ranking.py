"""The first few: nearest neighbours, beams, samples, boxes, drafts; counts of digits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def knn_ref(x: Any, y: Any, k: Any) -> Any:
    d = sum((x[:, None, c] - y[None, :, c]) ** 2 for c in range(x.size(1)))
    return torch.topk(d, k, dim=1, largest=False)


@stranger(
    lambda m, n, d, k: (randn(m, d), randn(n, d), k),
    knn_ref,
    {"m": 13, "n": 37, "d": 3, "k": 4},
    {"m": 8192, "n": 16384, "d": 3, "k": 16},
)
@tileflow.kernel
def knn(x, y, k: tfl.constexpr):
    m, d = x.shape
    n = y.size(0)
    values = torch.empty(m, k, device=x.device)
    index = torch.empty(m, k, dtype=torch.int64, device=x.device)
    for tm in tfl.tile(m):
        best = tfl.full([tm, k], float("inf"))
        where = tfl.full([tm, k], -1, dtype=torch.int64)
        for tn in tfl.tile(n, block_size=32):
            dist = tfl.zeros([tm, 32])
            for c in range(d):
                diff = x[tm, c][:, None] - y[tn.begin : tn.begin + 32, c][None, :]
                dist = dist + diff * diff
            dist = torch.where(tn.begin + tfl.arange(32) < n, dist, float("inf"))
            v, i = torch.topk(dist, k, dim=1, largest=False)
            both = torch.cat([best, v], dim=1)
            ids = torch.cat([where, tn.begin + i], dim=1)
            best, order = torch.topk(both, k, dim=1, largest=False)
            where = torch.gather(ids, 1, order)
        values[tm, :] = best
        index[tm, :] = where
    return values, index


@stranger(
    lambda m, n, d, k: (randn(m, d), randn(n, d), k),
    knn_ref,
    {"m": 13, "n": 37, "d": 3, "k": 4},
    {"m": 16384, "n": 4096, "d": 3, "k": 16},
)
@tileflow.kernel
def knn_row(x, y, k: tfl.constexpr):
    m, d = x.shape
    n = y.size(0)
    values = torch.empty(m, k, device=x.device)
    index = torch.empty(m, k, dtype=torch.int64, device=x.device)
    for tm in tfl.tile(m):
        dist = torch.zeros(tm, n)
        for c in range(d):
            diff = x[tm, c][:, None] - y[:, c][None, :]
            dist = dist + diff * diff
        values[tm, :], index[tm, :] = torch.topk(dist, k, dim=1, largest=False)
    return values, index


def beam_ref(lp: Any, score: Any, beams: Any) -> Any:
    _b, _w, v = lp.shape
    t = (lp + score[..., None]).flatten(1)
    s, i = t.topk(beams, 1)
    return s, i // v, i % v


@stranger(
    lambda b, w, v: (torch.log_softmax(randn(b, w, v), -1), randn(b, w), w),
    beam_ref,
    {"b": 3, "w": 4, "v": 16},
    {"b": 256, "w": 4, "v": 8192},
)
@tileflow.kernel
def beam_step(log_probs, scores, beams: tfl.constexpr):
    b, w, v = log_probs.shape
    flat = log_probs.view(b, w * v)
    best = torch.empty(b, beams, device=flat.device)
    parent = torch.empty(b, beams, dtype=torch.int64, device=flat.device)
    token = torch.empty_like(parent)
    for tb in tfl.tile(b):
        total = flat[tb, :] + scores[tb, tfl.arange(w * v) // v]
        s, i = torch.topk(total, beams, dim=1)
        best[tb, :] = s
        parent[tb, :] = i // v
        token[tb, :] = i % v
    return best, parent, token


def topp_ref(logits: Any, u: Any, p: Any) -> Any:
    s, i = logits.sort(dim=1, descending=True, stable=True)
    pr = torch.softmax(s, 1)
    c = pr.cumsum(1)
    keep = (c - pr) < p
    pr = torch.where(keep, pr, 0)
    c = pr.cumsum(1)
    pick = (c < u[:, None] * c[:, -1:]).sum(1)
    return i.gather(1, pick[:, None])[:, 0]


@stranger(lambda m, n: (randn(m, n) * 2, torch.rand(m), 0.9), topp_ref, {"m": 7, "n": 32}, {"m": 2048, "n": 4096})
@tileflow.kernel
def top_p_sample(logits, u, p):
    m, _n = logits.shape
    out = torch.empty(m, dtype=torch.int64, device=logits.device)
    for t in tfl.tile(m):
        s, i = torch.sort(logits[t, :], dim=1, descending=True)
        probs = torch.softmax(s, dim=1)
        cum = torch.cumsum(probs, dim=1)
        probs = torch.where(cum - probs < p, probs, 0.0)
        cum = torch.cumsum(probs, 1)
        pick = (cum < u[t][:, None] * probs.sum(1)[:, None]).sum(1)
        out[t] = torch.gather(i, 1, pick[:, None])[:, 0]
    return out


def make_nms(n: Any, b: Any) -> Any:
    xy = torch.rand(b, n, 2) * 10
    return torch.cat([xy, xy + 1 + torch.rand(b, n, 2) * 3], 2), 0.3


def iou(a: Any, b: Any) -> Any:
    lt = torch.maximum(a[..., :2], b[..., :2])
    rb = torch.minimum(a[..., 2:], b[..., 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]

    def ar(z):
        return (z[..., 2] - z[..., 0]) * (z[..., 3] - z[..., 1])

    return inter / (ar(a) + ar(b) - inter)


def nms_ref(boxes: Any, thr: Any) -> Any:
    n = boxes.size(1)
    keep = torch.ones(boxes.shape[:2], dtype=torch.bool)
    for i in range(n):
        over = iou(boxes[:, i, None], boxes) > thr
        keep &= ~(over & keep[:, i, None] & (torch.arange(n) > i))
    return keep


@stranger(make_nms, nms_ref, {"b": 2, "n": 23}, {"b": 64, "n": 1024})
@tileflow.kernel
def nms(boxes, threshold):
    """Boxes sorted by score."""
    b, n, _ = boxes.shape
    keep = torch.empty(b, n, dtype=torch.bool, device=boxes.device)
    for ib in tfl.grid(b):
        x0, y0, x1, y1 = boxes[ib, :, 0], boxes[ib, :, 1], boxes[ib, :, 2], boxes[ib, :, 3]
        area = (x1 - x0) * (y1 - y0)
        idx = tfl.arange(n)
        alive = tfl.full([n], True, dtype=torch.bool)
        for i in range(n):
            bx0, by0, bx1, by1 = boxes[ib, i, 0], boxes[ib, i, 1], boxes[ib, i, 2], boxes[ib, i, 3]
            w = (torch.minimum(x1, bx1) - torch.maximum(x0, bx0)).clamp(min=0)
            h = (torch.minimum(y1, by1) - torch.maximum(y0, by0)).clamp(min=0)
            inter = w * h
            over = inter / (area + (bx1 - bx0) * (by1 - by0) - inter) > threshold
            me = (alive & (idx == i)).any()
            alive = alive & ~(over & (idx > i) & me)
        keep[ib, :] = alive
    return keep


def spec_ref(p: Any, q: Any, u: Any, draft: Any) -> Any:
    out = []
    for b in range(p.size(0)):
        i = 0
        while i < draft.size(1) and u[b, i] < p[b, i, draft[b, i]] / q[b, i, draft[b, i]]:
            i += 1
        out.append(i)
    return torch.tensor(out, dtype=torch.int32)


@stranger(
    lambda b, k, v: (
        torch.softmax(randn(b, k, v), -1),
        torch.softmax(randn(b, k, v), -1),
        torch.rand(b, k),
        torch.randint(0, v, (b, k)),
    ),
    spec_ref,
    {"b": 5, "k": 4, "v": 7},
    {"b": 256, "k": 8, "v": 32000},
)
@tileflow.kernel
def accept_draft(p, q, u, draft):
    b, k = draft.shape
    accepted = torch.empty(b, dtype=torch.int32, device=p.device)
    for i in tfl.grid(b):
        n = 0
        ok = True
        while ok and n < k:
            token = draft[i, n]
            ok = u[i, n] < p[i, n, token] / q[i, n, token]
            if ok:
                n = n + 1
        accepted[i] = n
    return accepted


def radix_ref(keys: Any, shift: Any, block: Any) -> Any:
    n = keys.numel()
    k = F.pad((keys >> shift) & 15, (0, -n % block), value=99).view(-1, block)
    return torch.stack([(k == d).sum(1) for d in range(16)], 1).int()


@stranger(
    lambda n, block: (torch.randint(0, 1 << 30, (n,), dtype=torch.int32), 8, block),
    radix_ref,
    {"n": 211, "block": 32},
    {"n": 1 << 26, "block": 2048},
)
@tileflow.kernel
def radix_counts(keys, shift, block: tfl.constexpr):
    n = keys.numel()
    counts = torch.empty((n + block - 1) // block, 16, dtype=torch.int32, device=keys.device)
    for t in tfl.tile(n, block_size=block):
        digit = (keys[t] >> shift) & 15
        one_hot = digit[:, None] == tfl.arange(16)[None, :]
        counts[t.id, :] = one_hot.sum(0)
    return counts


@stranger(
    lambda m, n, d, dtype=torch.float32: (randn(m, d, dtype=dtype), randn(n, d, dtype=dtype)),
    lambda x, y: (F.normalize(x.float(), dim=1) @ F.normalize(y.float(), dim=1).T).max(1),
    {"m": 13, "n": 37, "d": 16},
    {"m": 8192, "n": 65536, "d": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def cosine_top1(x, y):
    m, _d = x.shape
    n = y.size(0)
    score = torch.empty(m, device=x.device)
    index = torch.empty(m, dtype=torch.int64, device=x.device)
    for tm in tfl.tile(m):
        q = x[tm, :]
        qn = torch.rsqrt((q.float() * q.float()).sum(1))
        best = tfl.full([tm], float("-inf"))
        arg = tfl.full([tm], 0, dtype=torch.int64)
        for tn in tfl.tile(n):
            k = y[tn, :]
            kn = torch.rsqrt((k.float() ** 2).sum(1))
            s = tfl.dot(q, k.T) * qn[:, None] * kn[None, :]
            v, i = torch.max(s, dim=1)
            arg = torch.where(v > best, i + tn.begin, arg)
            best = torch.maximum(best, v)
        score[tm] = best
        index[tm] = arg
    return score, index
