"""Fabrics of links: slices and diagonals of matrices, fibres of tensors, communities, matches, clauses that decide."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

SLICE = 8


def sell_ref(starts: Any, columns: Any, values: Any, order: Any, x: Any) -> Any:
    rows = order.numel()
    out = torch.zeros(rows, x.size(1)).double()
    for s in range(len(starts) - 1):
        at = torch.arange(int(starts[s]), int(starts[s + 1])).view(-1, SLICE)
        part = (values[at].double()[..., None] * x[columns[at].long()].double()).sum(0)
        out[order[s * SLICE : (s + 1) * SLICE].long()] = part[: rows - s * SLICE]
    return out.float(), out.abs().amax(0).float()


def make_sell(rows: int, widest: int, k: int) -> Any:
    slices = -(-rows // SLICE)
    widths = torch.randint(0, widest, (slices,)).sort(descending=True).values
    starts = F.pad((widths * SLICE).cumsum(0), (1, 0)).int()
    total = int(starts[-1])
    return (
        starts, torch.randint(0, rows, (total,), dtype=torch.int32), randn(total, dtype=torch.float16),
        torch.randperm(rows).int(), torch.randn(k, rows).T,
    )  # fmt: skip


@stranger(make_sell, sell_ref, {"rows": 43, "widest": 9, "k": 5}, {"rows": 1 << 17, "widest": 64, "k": 4}, loops=True)
@tileflow.kernel
def sliced_rows(starts, columns, values, order, x):
    """Kreutzer and others, 2014 (SELL-C-sigma): rows sorted by length in slices, and put back where they were."""
    rows, (_, k) = len(order), x.shape
    out = x.new_zeros((rows, k))
    largest = torch.zeros(k, device=x.device)
    for s in tfl.grid(len(starts) - 1):
        lane = tfl.arange(SLICE)
        total = tfl.zeros([SLICE, k])
        for step in range((starts[s + 1] - starts[s]) // SLICE):
            at = starts[s] + step * SLICE + lane
            total += values[at].float().unsqueeze(-1) * x[columns[at], :]
        place = s * SLICE + lane
        inside = place < rows
        tfl.store(out, [tfl.load(order, [place], extra_mask=inside), slice(None)], total, extra_mask=inside[:, None])
        tfl.atomic_max(largest, [tfl.arange(k)], torch.where(inside[:, None], total.abs(), 0.0).amax(0))
    return out, largest


def diagonals_ref(bands: Any, offsets: Any, b: Any, x: Any, omega: float, turns: int) -> Any:
    n = b.numel()
    x = x.double()
    a = torch.zeros(n, n, dtype=torch.float64)
    for band, o in zip(bands.double(), offsets, strict=True):
        rows = torch.arange(max(0, -o), min(n, n - o))
        a[rows, rows + o] = band[rows]
    norms = []
    for _ in range(turns):
        r = b.double() - a @ x
        x = x + omega * r / a.diagonal()
        norms.append(r.square().sum())
    return x, torch.stack(norms).sqrt()


@stranger(
    lambda n, offsets, turns: (
        torch.rand(len(offsets), n, dtype=torch.float64) + 4.0 * torch.tensor([o == 0 for o in offsets])[:, None],
        offsets, torch.randn(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64), 0.7, turns,
    ),
    diagonals_ref,
    {"n": 97, "offsets": (-10, -1, 0, 1, 10), "turns": 4},
    {"n": 1 << 22, "offsets": (-2048, -1, 0, 1, 2048), "turns": 8},
)  # fmt: skip
@tileflow.kernel
def weighted_jacobi(bands, offsets: tuple[int, ...], b, x, omega: float, turns: int):
    """Jacobi's iteration on a matrix of diagonals, and the length of what is left at each turn."""
    n = b.size(0)
    norms = b.new_zeros(turns)
    middle = offsets.index(0)
    for turn in range(turns):
        new = torch.empty_like(x)
        for t in tfl.tile(n):
            row = functools.reduce(operator.add, [bands[i, t] * x[t + o] for i, o in enumerate(offsets)])
            r = b[t] - row
            new[t] = x[t] + omega * r / bands[middle, t]
            tfl.atomic_add(norms, [turn], (r * r).sum())
        x = new
    for t in tfl.tile(turns):
        norms[t] = norms[t].sqrt()
    return x, norms


@dataclass(frozen=True)
class Fibres:
    """A tensor of three modes: rows' fibres, fibres' entries, and where each is."""

    rows: torch.Tensor
    fibres: torch.Tensor
    second: torch.Tensor
    third: torch.Tensor
    values: torch.Tensor


def fibres_ref(t: Fibres, b: Any, c: Any) -> Any:
    row_of = torch.repeat_interleave(torch.arange(len(t.rows) - 1), t.rows.diff().long())
    fibre_of = torch.repeat_interleave(torch.arange(len(t.second)), t.fibres.diff().long())
    inner = torch.zeros(len(t.second), c.size(1)).double()
    inner.index_add_(0, fibre_of, t.values.double()[:, None] * c[t.third.long()].double())
    out = torch.zeros(len(t.rows) - 1, c.size(1)).double()
    out.index_add_(0, row_of, inner * b[t.second.long()].double())
    return out.float(), (out.T @ out).float()


def make_fibres(rows: int, most: int, deep: int, rank: int) -> Any:
    starts = F.pad(torch.randint(0, most, (rows,)).cumsum(0), (1, 0)).int()
    fibres = int(starts[-1])
    ends = F.pad(torch.randint(1, deep, (fibres,)).cumsum(0), (1, 0)).int()
    total = int(ends[-1])
    some = lambda n, top: torch.randint(0, top, (n,), dtype=torch.int32)  # noqa: E731
    tensor = Fibres(starts, ends, some(fibres, rows), some(total, 2 * rows), torch.randn(total))
    return tensor, randn(rows, rank, dtype=torch.bfloat16), randn(rank, 2 * rows, dtype=torch.bfloat16).T


@stranger(
    make_fibres,
    fibres_ref,
    {"rows": 19, "most": 4, "deep": 6, "rank": 13},
    {"rows": 1 << 13, "most": 16, "deep": 32, "rank": 32},
    loops=True,
)
@tileflow.kernel
def fold_fibres(t: Fibres, b, c):
    """Smith and Karypis, 2015: a sparse tensor times two factors, fibre by fibre, and the factor's inner products."""
    rows, rank = t.rows.shape[0] - 1, c.shape[-1]
    out = torch.empty(rows, rank, device=b.device)
    for i in tfl.grid(rows):
        total = torch.zeros(rank)
        for f in tfl.grid(t.rows[i], t.rows[i + 1]):
            inner = torch.zeros(rank)
            for e in tfl.tile(t.fibres[f], t.fibres[f + 1]):
                inner += (t.values[e][:, None] * c[t.third[e], :]).sum(0)
            total += inner * b[t.second[f], :]
        out[i, :] = total
    inner = torch.zeros(rank, rank, device=b.device)
    for i in tfl.tile(rows):
        tfl.atomic_add(inner, [slice(None), slice(None)], out[i, :].T @ out[i, :])
    return out, inner


def gains_ref(starts: Any, ends: Any, weights: Any, community: Any, resolution: float) -> Any:
    n = len(community)
    source = torch.repeat_interleave(torch.arange(n), starts.diff().long())
    degree = torch.zeros(n).double().index_add_(0, source, weights.double())
    total = torch.zeros(n).double().index_add_(0, community.long(), degree)
    m2 = weights.double().sum()
    link = torch.zeros(n, n).double()
    keep = ends.long() != source
    link.view(-1).index_add_(0, (source * n + community.long()[ends.long()])[keep], weights.double()[keep])
    own = F.one_hot(community.long(), n).bool()
    left = total[None] - own * degree[:, None]
    score = link - resolution * degree[:, None] * left / m2
    seen = (link > 0) | own
    score = torch.where(seen, score, -torch.inf)
    gain = score.amax(1) - score.gather(1, community.long()[:, None])[:, 0]
    return degree, gain.float(), (gain > 1e-9).sum()


def make_communities(n: int, most: int) -> Any:
    lengths = torch.randint(0, most, (n,))
    starts = F.pad(lengths.cumsum(0), (1, 0))
    total = int(starts[-1])
    return (
        starts, torch.randint(0, n, (total,), dtype=torch.int32), torch.randint(1, 9, (total,)).double() / 8,
        torch.randint(0, max(n // 4, 1), (n,), dtype=torch.int32), 1.0,
    )  # fmt: skip


@stranger(make_communities, gains_ref, {"n": 37, "most": 6}, {"n": 1 << 14, "most": 32}, loops=True)
@tileflow.kernel
def community_gains(starts, ends, weights, community, resolution: float):
    """Blondel and others, 2008 (Louvain): what each point would gain among its neighbours' communities."""
    n = community.numel()
    degree, total = (torch.zeros(n, dtype=torch.float64, device=weights.device) for _ in range(2))
    mass = torch.zeros([], dtype=torch.float64, device=weights.device)
    for i in tfl.tile(n):
        mine = torch.zeros([i], dtype=torch.float64)
        for k in tfl.jagged_tile(starts[i + 1] - starts[i]):
            mine += weights[starts[i][:, None] + k.index].sum(1)
        degree[i] = mine
        tfl.atomic_add(total, [community[i]], mine)
        tfl.atomic_add(mass, (), mine.sum())
    gain = torch.empty(n, device=weights.device)
    moves = torch.zeros((), dtype=torch.int64, device=weights.device)
    for i in tfl.grid(n):
        home = community[i]
        begin, end = starts[i], starts[i + 1]

        def score(to, link):
            stays = torch.where(to == home, degree[i], 0.0)
            return link - resolution * degree[i] * (total[to] - stays) / mass[()]

        at_home = 0.0
        for k in tfl.tile(begin, end):
            same = (community[ends[k]] == home) & (ends[k] != i)
            at_home = at_home + torch.where(same, weights[k], 0.0).sum()
        stay = score(home, at_home)
        best = stay
        for k in tfl.tile(begin, end):
            to = community[ends[k]]
            link = tfl.zeros([k], dtype=torch.float64)
            for j in tfl.tile(begin, end):
                together = (community[ends[j]] == to[:, None]) & (ends[j] != i)
                link += torch.where(together, weights[j], 0.0).sum(1)
            best = torch.maximum(best, torch.where(link > 0, score(to, link), float("-inf")).amax())
        gain[i] = best - stay
        tfl.atomic_add(moves, [], best - stay > 1e-9)
    return degree, gain, moves


def matches_ref(edges: Any, weights: Any, n: int) -> Any:
    partner = torch.full((n,), -1, dtype=torch.int32)
    for e in sorted(range(len(edges)), key=lambda e: (-int(weights[e]), e)):
        a, b = edges[e].tolist()
        if a != b and partner[a] < 0 and partner[b] < 0:
            partner[a], partner[b] = b, a
    return partner, (partner >= 0).sum(dtype=torch.int32)


@stranger(
    lambda n, count, rounds: (
        torch.randint(0, n, (2, count), dtype=torch.int32).T, torch.randint(1, 1 << 30, (count,)), n, rounds,
    ),
    lambda edges, weights, n, rounds: matches_ref(edges, weights, n),
    {"n": 41, "count": 97, "rounds": 8},
    {"n": 1 << 20, "count": 1 << 22, "rounds": 24},
    loops=True,
)  # fmt: skip
@tileflow.kernel
def heaviest_matches(edges, weights, n: int, rounds: int):
    """Preis, 1999: edges that are the heaviest at both of their ends match them, round after round."""
    count = edges.size(0)
    partner = torch.full((n,), -1, dtype=torch.int32, device=edges.device)
    for _ in range(rounds):
        best = torch.full((n,), -1, dtype=torch.int64, device=edges.device)
        for e in tfl.tile(count):
            ends = [edges[e, side] for side in (0, 1)]
            free = (partner[ends[0]] < 0) & (partner[ends[1]] < 0) & (ends[0] != ends[1])
            key = (weights[e] << 32) | (count - e.index)
            for end in ends:
                tfl.atomic_max(best, [end], key, extra_mask=free)
        for e in tfl.tile(count):
            a, b = torch.unbind(edges[e, :], dim=1)
            key = (weights[e] << 32) | (count - e.index)
            won = (best[a] == key) & (best[b] == key) & (a != b)
            tfl.store(partner, [a], b, extra_mask=won)
            tfl.store(partner, [b], a, extra_mask=won)
    matched = torch.zeros(1, dtype=torch.int32, device=edges.device)
    for v in tfl.tile(n):
        tfl.atomic_add(matched, [0], torch.count_nonzero(partner[v] >= 0))
    return partner, matched.squeeze()


@dataclass
class Assignment:
    """Bits of variables in words: those that are true, and those that are false."""

    true: torch.Tensor
    false: torch.Tensor
    conflict: torch.Tensor


def units_ref(clauses: Any, known: Assignment, rounds: int) -> Any:
    bits = lambda words: (words.repeat_interleave(32) >> torch.arange(32).repeat(len(words))) & 1  # noqa: E731
    true, false = bits(known.true.long()).bool(), bits(known.false.long()).bool()
    conflict = known.conflict.clone()
    for _ in range(rounds):
        v, plus = clauses.abs().long() - 1, clauses > 0
        real = clauses != 0
        is_true = real & torch.where(plus, true[v], false[v])
        is_open = real & ~true[v] & ~false[v]
        satisfied, left = is_true.any(1), is_open.sum(1)
        conflict[0] ^= int((~satisfied & (left == 0)).sum() % 2)
        unit = ~satisfied & (left == 1)
        lit = (clauses * is_open).sum(1)[unit].long()
        true[lit[lit > 0] - 1] = True
        false[-lit[lit < 0] - 1] = True
    words = lambda b: (b.long().view(-1, 32) << torch.arange(32)).sum(1)  # noqa: E731
    back = lambda w: torch.where(w >= 1 << 31, w - (1 << 32), w).int()  # noqa: E731
    return back(words(true)), back(words(false)), conflict, (true & false).sum(dtype=torch.int32)


def make_clauses(variables: int, count: int, width: int, rounds: int) -> Any:
    lits = torch.randint(1, variables + 1, (count, width)) * (torch.randint(0, 2, (count, width)) * 2 - 1)
    lits = (
        torch.stack([row if len(set(row.abs().tolist())) == width else torch.arange(1, width + 1) for row in lits])
        if count < 999
        else lits
    )
    words = -(-variables // 32)
    start = lambda: torch.randint(0, 1 << 31, (words,)).int() & torch.randint(0, 1 << 31, (words,)).int()  # noqa: E731
    a, b = start(), start()
    return lits.int(), Assignment(a, b & ~a, torch.zeros(1, dtype=torch.int32)), rounds


@stranger(
    make_clauses,
    units_ref,
    {"variables": 90, "count": 150, "width": 3, "rounds": 4},
    {"variables": 1 << 16, "count": 1 << 20, "width": 4, "rounds": 8},
)
@tileflow.kernel
def unit_clauses(clauses, known: Assignment, rounds: int):
    """Davis and Putnam, 1960: clauses with one literal left decide it; an odd number of broken ones flips a flag."""
    count, width = clauses.shape
    state = replace(known, true=known.true.clone(), false=known.false.clone(), conflict=known.conflict.clone())

    def bit(words, variable):
        return (words[variable // 32] >> variable % 32) & 1 == 1

    for _ in range(rounds):
        old = replace(state, true=state.true.clone(), false=state.false.clone())
        for c in tfl.tile(count):
            satisfied = torch.zeros([c], dtype=torch.bool)
            left, last = torch.zeros([c], dtype=torch.int32), torch.zeros([c], dtype=torch.int32)
            for k in range(width):
                literal = clauses[c, k]
                variable = literal.abs() - 1
                yes, no = bit(old.true, variable), bit(old.false, variable)
                satisfied |= torch.where(literal > 0, yes, no) & (literal != 0)
                is_open = ~(yes | no) & (literal != 0)
                left += is_open
                last = torch.where(is_open, literal, last)
            broken = (~satisfied & (left == 0)).int()
            tfl.atomic_xor(state.conflict, [0], broken.sum() % 2)
            unit = ~satisfied & (left == 1)
            variable = (last.abs() - 1).clamp(min=0)
            mask = torch.ones_like(variable) << variable % 32
            tfl.atomic_or(state.true, [variable // 32], mask, extra_mask=unit & (last > 0))
            tfl.atomic_or(state.false, [variable // 32], mask, extra_mask=unit & (last < 0))
    both = torch.zeros([], dtype=torch.int32, device=clauses.device)
    for w in tfl.tile(state.true.size(0)):
        word = state.true[w] & state.false[w]
        ones = sum(((word >> i) & 1 for i in range(32)), start=torch.zeros_like(word))
        tfl.atomic_add(both, [], ones.sum())
    return state.true, state.false, state.conflict, both
