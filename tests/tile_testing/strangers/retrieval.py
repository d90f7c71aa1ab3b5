"""Retrieval: late interaction, codes of product quantisers, residual quantisers, hyperbolic neighbours, point sets."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def max_sim_ref(q: Any, d: Any, length: Any) -> Any:
    scores = torch.einsum("qtc,nsc->qnts", q.float(), d.float())
    inside = torch.arange(d.shape[1]) < length[:, None]
    return torch.where(inside[None, :, None], scores, -torch.inf).amax(3).sum(2)


@stranger(
    lambda q, t, n, s, c: (
        randn(q, t, c, dtype=torch.bfloat16),
        randn(n, s, c, dtype=torch.bfloat16),
        torch.randint(1, s + 1, (n,), dtype=torch.int32),
    ),
    max_sim_ref,
    {"q": 2, "t": 5, "n": 7, "s": 19, "c": 16},
    {"q": 8, "t": 32, "n": 2048, "s": 180, "c": 128},
)
@tileflow.kernel
def max_sim(q, d, length):
    """Khattab and Zaharia, 2020: each token of a query takes its best token of a document, and the best ones add up."""
    queries, t, _ = q.shape
    n, s, _ = d.shape
    out = torch.empty(queries, n, device=q.device)
    for tq, tn in tfl.tile([queries, n], block_size=[1, 1]):
        iq, i = tq.id, tn.id
        best = tfl.full([t], float("-inf"))
        for ts in tfl.tile(s):
            scores = tfl.dot(q[iq, :, :], d[i, ts, :].T)
            scores = torch.where(ts.index[None, :] < length[i], scores, float("-inf"))
            best = torch.maximum(best, scores.amax(1))
        out[iq, i] = best.sum()
    return out


def adc_ref(table: Any, codes: Any) -> Any:
    m = codes.shape[1]
    return torch.stack([one[torch.arange(m), codes.long()].sum(1) for one in table])


@stranger(
    lambda q, n, m: (randn(q, m, 256), torch.randint(0, 256, (n, m), dtype=torch.uint8)),
    adc_ref,
    {"q": 3, "n": 41, "m": 8},
    {"q": 16, "n": 1 << 18, "m": 16},
)
@tileflow.kernel
def adc_scan(table, codes):
    """Jegou, Douze and Schmid, 2011: distances to vectors by a table of distances to the centres of their parts."""
    q, m, _ = table.shape
    n = codes.shape[0]
    out = torch.empty(q, n, device=table.device)
    for tq, tn in tfl.tile([q, n]):
        total = tfl.zeros([tq, tn])
        for j in range(m):
            code = codes[tn, j].to(torch.int32)
            total += table[tq.index[:, None], j, code[None, :]]
        out[tq, tn] = total
    return out


def residual_ref(x: Any, books: Any) -> Any:
    left, chosen = x.clone(), []
    for book in books:
        distance = (book * book).sum(1) - 2 * left @ book.T
        best = distance.argmin(1)
        left = left - book[best]
        chosen.append(best.int())
    return torch.stack(chosen, 1), left


@stranger(
    lambda n, stages, k, c: (randn(n, c), torch.stack([randn(k, c) * 0.7**s for s in range(stages)])),
    residual_ref,
    {"n": 13, "stages": 3, "k": 21, "c": 8},
    {"n": 1 << 14, "stages": 4, "k": 256, "c": 64},
)
@tileflow.kernel
def residual_quantise(x, books):
    """Zeghidour and others, 2021: each stage names the nearest word of what the stages before it left."""
    n, _ = x.shape
    stages, _, _ = books.shape
    codes = torch.empty(n, stages, dtype=torch.int32, device=x.device)
    rest = torch.empty_like(x)
    for tn in tfl.tile(n):
        left = x[tn, :]
        for s in range(stages):
            book = books[s, :, :]
            distance = (book * book).sum(1)[None, :] - 2 * tfl.dot(left, book.T)
            best = distance.argmin(1)
            codes[tn, s] = best.to(torch.int32)
            left = left - books[s, best, :]
        rest[tn, :] = left
    return codes, rest


def poincare_ref(x: Any, y: Any) -> Any:
    gap = (x[:, None] - y[None]).square().sum(2)
    free = (1 - x.square().sum(1))[:, None] * (1 - y.square().sum(1))[None]
    distance = torch.acosh(1 + 2 * gap / free)
    best = distance.min(1)
    return best.values, best.indices.int()


@stranger(
    lambda n, m, c: (randn(n, c) * (0.5 / c**0.5), randn(m, c) * (0.5 / c**0.5)),
    poincare_ref,
    {"n": 17, "m": 29, "c": 5},
    {"n": 8192, "m": 4096, "c": 10},
)
@tileflow.kernel
def hyperbolic_nearest(x, y):
    """Nickel and Kiela, 2017: the nearest word in a Poincare ball."""
    n, _ = x.shape
    m = y.shape[0]
    near = torch.empty(n, device=x.device)
    which = torch.empty(n, dtype=torch.int32, device=x.device)
    for tn in tfl.tile(n):
        inner = 1 - (x[tn, :] * x[tn, :]).sum(1)
        best = tfl.full([tn], float("inf"))
        place = tfl.zeros([tn], dtype=torch.int32)
        for tm in tfl.tile(m):
            gap = (x[tn, :][:, None, :] - y[tm, :][None, :, :]).square().sum(2)
            outer = 1 - (y[tm, :] * y[tm, :]).sum(1)
            argument = 1 + 2 * gap / (inner[:, None] * outer[None, :])
            lowest = argument.amin(1)
            where = torch.where(argument == lowest[:, None], tm.index[None, :].to(torch.int32), m).amin(1)
            place = torch.where(lowest < best, where, place)
            best = torch.minimum(best, lowest)
        near[tn] = torch.log(best + torch.sqrt(best * best - 1))
        which[tn] = place
    return near, which


def chamfer_ref(a: Any, b: Any) -> Any:
    distance = (a[:, :, None] - b[:, None]).square().sum(3)
    return distance.amin(2).mean(1) + distance.amin(1).mean(1)


@stranger(
    lambda batch, n, m: (randn(batch, n, 3), randn(batch, m, 3)),
    chamfer_ref,
    {"batch": 2, "n": 23, "m": 31},
    {"batch": 16, "n": 2048, "m": 2048},
)
@tileflow.kernel
def chamfer(a, b):
    """Fan, Su and Guibas, 2017: how far points of two clouds are from the nearest one of the other."""
    batch, n, _ = a.shape
    m = b.shape[1]
    out = torch.zeros(batch, device=a.device)
    for i, tn in tfl.tile([batch, n], block_size=[1, None]):
        best = tfl.full([tn], float("inf"))
        for tm in tfl.tile(m):
            dx = a[i.id, tn, 0][:, None] - b[i.id, tm, 0][None, :]
            dy = a[i.id, tn, 1][:, None] - b[i.id, tm, 1][None, :]
            dz = a[i.id, tn, 2][:, None] - b[i.id, tm, 2][None, :]
            best = torch.minimum(best, (dx * dx + dy * dy + dz * dz).amin(1))
        tfl.atomic_add(out, [i.id], best.sum() / n)
    for i, tm in tfl.tile([batch, m], block_size=[1, None]):
        best = tfl.full([tm], float("inf"))
        for tn in tfl.tile(n):
            dx = b[i.id, tm, 0][:, None] - a[i.id, tn, 0][None, :]
            dy = b[i.id, tm, 1][:, None] - a[i.id, tn, 1][None, :]
            dz = b[i.id, tm, 2][:, None] - a[i.id, tn, 2][None, :]
            best = torch.minimum(best, (dx * dx + dy * dy + dz * dz).amin(1))
        tfl.atomic_add(out, [i.id], best.sum() / m)
    return out
