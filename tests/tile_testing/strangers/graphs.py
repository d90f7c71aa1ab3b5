"""Graphs: ranks, waves of a search, triangles, communities, colours, walks; updates of sparse tables."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_ranks(n: Any, e: Any) -> Any:
    source = (torch.rand(e) ** 2 * n).int().clamp(max=n - 1)
    target = torch.randint(0, n, (e,)).int()
    degree = torch.zeros(n, dtype=torch.int32).index_add(0, source, torch.ones_like(source))
    return torch.softmax(randn(n), 0), source, target, degree, 0.85


def ranks_ref(rank: Any, source: Any, target: Any, degree: Any, damping: Any) -> Any:
    n = rank.numel()
    share = torch.where(degree > 0, rank / degree.clamp(min=1), 0.0)
    came = torch.zeros_like(rank).index_add(0, target, share[source.long()])
    lost = torch.where(degree == 0, rank, 0.0).sum()
    new = (1 - damping) / n + damping * (came + lost / n)
    return new, (new - rank).abs().sum()


@stranger(make_ranks, ranks_ref, {"n": 37, "e": 101}, {"n": 1 << 21, "e": 1 << 25})
@tileflow.kernel
def page_rank_step(rank, source, target, degree, damping: float):
    """Brin and Page, 1998: ranks pushed along edges; pages without links give theirs to all."""
    n = rank.numel()
    came = torch.zeros_like(rank)
    lost = torch.zeros((), device=rank.device)
    change = torch.zeros((), device=rank.device)
    new = torch.empty_like(rank)
    share = torch.empty_like(rank)
    for t in tfl.tile(n):
        d = degree[t]
        share[t] = torch.where(d > 0, rank[t] / d.clamp(min=1), 0.0)
        tfl.atomic_add(lost, [], torch.where(d == 0, rank[t], 0.0).sum())
    for t in tfl.tile(source.numel()):
        tfl.atomic_add(came, [target[t]], share[source[t]])
    for t in tfl.tile(n):
        r = (1 - damping) / n + damping * (came[t] + lost[()] / n)
        new[t] = r
        tfl.atomic_add(change, [], (r - rank[t]).abs().sum())
    return new, change


def make_search(n: Any, e: Any) -> Any:
    level = torch.where(torch.rand(n) < 0.2, torch.randint(0, 4, (n,)), -1)
    return level.int(), torch.randint(0, n, (e,)).int(), torch.randint(0, n, (e,)).int(), 3


def search_ref(level: Any, source: Any, target: Any, depth: Any) -> Any:
    found = target[level[source.long()] == depth].long()
    new = torch.zeros(level.numel(), dtype=torch.bool)
    new[found] = True
    new &= level == -1
    return torch.where(new, depth + 1, level).int(), new.sum()


@stranger(make_search, search_ref, {"n": 45, "e": 101}, {"n": 1 << 22, "e": 1 << 25})
@tileflow.kernel
def search_wave(level, source, target, depth: int):
    """One step of a search in breadth: whoever is reached first counts, once."""
    out = level.clone()
    found = torch.zeros((), dtype=torch.int64, device=level.device)
    for t in tfl.tile(source.numel()):
        reached = level[source[t]] == depth
        old = tfl.atomic_cas(out, [target[t]], -1, depth + 1, extra_mask=reached)
        tfl.atomic_add(found, [], (reached & (old == -1)).sum())
    return out, found


def make_adjacent(n: Any, k: Any, e: Any) -> Any:
    gaps = torch.randint(1, 9, (n, k))
    near = ((torch.arange(n)[:, None] + gaps.cumsum(1)) % n).sort(1).values
    near = torch.where(torch.arange(k) < torch.randint(k // 2, k + 1, (n, 1)), near, -1)
    edges = torch.randint(0, n, (e,))
    return near.int(), edges.int(), near[edges, 0].int()


def triangles_ref(near: Any, left: Any, right: Any) -> Any:
    each = []
    for a, b in zip(left.long().split(1 << 16), right.long().split(1 << 16), strict=True):
        x, y = near[a][:, :, None], near[b][:, None]
        each.append(((x == y) & (x >= 0)).sum((1, 2)).int())
    count = torch.cat(each)
    return count, count.sum()


@stranger(make_adjacent, triangles_ref, {"n": 37, "k": 5, "e": 45}, {"n": 1 << 19, "k": 32, "e": 1 << 20})
@tileflow.kernel
def count_triangles(near, left, right):
    """Common neighbours of the two ends of each edge, in lists that are padded by -1."""
    e = left.numel()
    count = torch.empty_like(left)
    total = torch.zeros((), dtype=torch.int64, device=near.device)
    for t in tfl.tile(e):
        a, b = near[left[t], :], near[right[t], :]
        same = (a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None]
        each = same.sum((1, 2))
        count[t] = each
        tfl.atomic_add(total, [], each.sum())
    return count, total


def make_labels(n: Any, k: Any) -> Any:
    near = (torch.arange(n)[:, None] + torch.randint(-500, 500, (n, k))) % n
    return torch.randint(0, 24, (n,)).int(), near.int()


def labels_ref(label: Any, near: Any) -> Any:
    new, count = [], []
    for part in near.long().split(1 << 18):
        mine = label[part]
        votes = (mine[:, :, None] == mine[:, None]).sum(2)
        best = votes.amax(1, keepdim=True)
        new.append(torch.where(votes == best, mine, 1 << 30).amin(1).int())
        count.append(best[:, 0].int())
    return torch.cat(new), torch.cat(count)


@stranger(make_labels, labels_ref, {"n": 37, "k": 5}, {"n": 1 << 22, "k": 16})
@tileflow.kernel
def spread_labels(label, near):
    """Raghavan, Albert and Kumara, 2007: each node takes its neighbours' most frequent label, the least of several."""
    n = label.numel()
    new, count = torch.empty_like(label), torch.empty_like(label)
    for t in tfl.tile(n):
        mine = label[near[t, :]]
        votes = (mine[:, :, None] == mine[:, None, :]).int().sum(-1)
        best = votes.amax(1)
        new[t] = torch.where(votes == best[:, None], mine, 1 << 30).amin(1)
        count[t] = best
    return new, count


def make_colours(n: Any, k: Any) -> Any:
    near = (torch.arange(n)[:, None] + torch.randint(1, 2000, (n, k))) % n
    colour = torch.where(torch.rand(n) < 0.6, torch.randint(0, 20, (n,)), -1)
    return colour.int(), torch.randperm(n).int(), near.int()


def colours_ref(colour: Any, order: Any, near: Any) -> Any:
    j = near.long()
    theirs = colour[j]
    waits = ((theirs < 0) & (order[j] > order[:, None]) & (j != torch.arange(colour.numel())[:, None])).any(1)
    free = torch.stack([(theirs != c).all(1) for c in range(31)], 1).int().argmax(1)
    return torch.where((colour < 0) & ~waits, free, colour).int()


@stranger(make_colours, colours_ref, {"n": 37, "k": 4}, {"n": 1 << 22, "k": 16})
@tileflow.kernel
def colour_round(colour, order, near):
    """Jones and Plassmann, 1993: a node that comes before its bare neighbours takes the least colour that they lack."""
    n, k = near.shape
    out = torch.empty_like(colour)
    for t in tfl.tile(n):
        taken = tfl.zeros([t], dtype=torch.int32)
        waits = tfl.full([t], False, dtype=torch.bool)
        for i in range(k):
            j = near[t, i]
            theirs = colour[j]
            taken = torch.where(theirs >= 0, taken | (1 << theirs.clamp(min=0)), taken)
            waits = waits | ((theirs < 0) & (order[j] > order[t]) & (j != t.index))
        free = ~taken & (taken + 1)
        first = tfl.zeros([t], dtype=torch.int32)
        for width in (16, 8, 4, 2, 1):
            high = (free >> width) != 0
            first = torch.where(high, first + width, first)
            free = torch.where(high, free >> width, free)
        mine = colour[t]
        out[t] = torch.where((mine < 0) & ~waits, first, mine)
    return out


def stirred(x: Any) -> Any:
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    x = ((x ^ (x >> 13)) * 0x2C1B3C6D) & 0x7FFFFFFF
    return x ^ (x >> 16)


def make_walks(n: Any, walks: Any, steps: Any) -> Any:
    degrees = torch.randint(0, 30, (n,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    return offsets.int(), torch.randint(0, n, (30 * n,)).int(), torch.randint(0, n, (walks,)).int(), steps


def walks_ref(offsets: Any, targets: Any, start: Any, steps: Any) -> Any:
    at, ids = start.long(), torch.arange(start.numel())
    path = [start]
    for i in range(steps):
        begin = offsets[at].long()
        degree = offsets[at + 1] - begin
        pick = stirred(ids * steps + i) % degree.clamp(min=1)
        at = torch.where(degree > 0, targets[begin + pick].long(), at)
        path.append(at.int())
    return torch.stack(path)


@stranger(make_walks, walks_ref, {"n": 29, "walks": 37, "steps": 5}, {"n": 1 << 20, "walks": 1 << 20, "steps": 40})
@tileflow.kernel
def random_walks(offsets, targets, start, steps: int):
    """DeepWalk, arXiv:1403.6652: each walk goes on to one of the neighbours, and stays where there is none."""
    w = start.numel()
    path = torch.empty(steps + 1, w, dtype=torch.int32, device=start.device)
    for t in tfl.tile(w):
        at = start[t]
        path[0, t] = at
        for i in range(steps):
            begin = offsets[at]
            degree = offsets[at + 1] - begin
            pick = stirred(t.index.long() * steps + i) % degree.clamp(min=1)
            at = torch.where(degree > 0, targets[begin + pick], at)
            path[i + 1, t] = at
    return path


def make_adagrad(rows: Any, touched: Any, most: Any, d: Any) -> Any:
    lengths = random.Random(0)
    ends = list(itertools.accumulate([lengths.randint(1, most) for _ in range(touched)], initial=0))
    return (
        randn(rows, d),
        torch.rand(rows),
        torch.randperm(rows)[:touched],
        torch.tensor(ends),
        torch.randperm(ends[-1]),
        randn(ends[-1], d),
        0.05,
    )


def adagrad_ref(table: Any, moment: Any, rows: Any, offsets: Any, order: Any, grad: Any, rate: Any) -> Any:
    owner = torch.repeat_interleave(torch.arange(rows.numel()), offsets.diff())
    g = torch.zeros(rows.numel(), table.size(1), dtype=table.dtype).index_add(0, owner, grad[order])
    moment[rows] += (g * g).mean(1)
    table[rows] -= rate * g / (moment[rows].sqrt() + 1e-8)[:, None]
    return None


@stranger(
    make_adagrad,
    adagrad_ref,
    {"rows": 19, "touched": 7, "most": 5, "d": 12},
    {"rows": 1 << 20, "touched": 1 << 17, "most": 12, "d": 128},
)
@helion.kernel()
def rowwise_adagrad(
    table: torch.Tensor,
    moment: torch.Tensor,
    rows: torch.Tensor,
    offsets: torch.Tensor,
    order: torch.Tensor,
    grad: torch.Tensor,
    rate: float,
) -> None:
    """FBGEMM's update of an embedding: the gradients of a row are added up first; one moment for each row."""
    n, d = rows.size(0), table.size(1)
    for i in hl.grid(n):
        total = hl.zeros([d], dtype=torch.float32)
        for tile in hl.tile(offsets[i], offsets[i + 1]):
            total = total + grad[order[tile], :].sum(0)
        row = rows[i]
        new = moment[row] + (total * total).mean(-1)
        moment[row] = new
        table[row, :] = table[row, :] - rate * total / (torch.sqrt(new) + 1e-8)
