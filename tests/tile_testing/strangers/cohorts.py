"""Cohorts and columns: values made alike, ranks that go along, curves that only rise, ancestors, topics, alignments."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def quantile_ref(x: Any) -> Any:
    order = x.argsort(dim=0, stable=True)
    mean = x.gather(0, order).double().mean(1)
    out = torch.empty(x.shape, dtype=torch.float64).scatter_(0, order, mean[:, None].expand(-1, x.size(1)))
    return out.to(x.dtype), mean.float()


@stranger(
    lambda genes, samples: (randn(samples, genes, dtype=torch.float16).T,),
    quantile_ref,
    {"genes": 37, "samples": 11},
    {"genes": 7919, "samples": 1024},
)
@tileflow.kernel
def quantile_normalise(x: torch.Tensor):
    """Bolstad and others, 2003: each sample's values are replaced by the mean of those that have their rank."""
    genes, samples = x.shape
    placed = torch.empty(samples, genes, dtype=torch.int32, device=x.device)
    ordered = x.new_empty((samples, genes))
    for s in tfl.tile(samples):
        values, places = x[:, s].T.sort(dim=-1, stable=True)
        ordered[s, :] = values
        placed[s, :] = places.int()
    mean = torch.empty(genes, dtype=torch.float32, device=x.device)
    for g in tfl.tile(genes):
        mean[g] = ordered[:, g].float().mean(0)
    out = torch.empty_like(x)
    for s, g in tfl.tile([samples, genes]):
        out[placed[s, g], s.index[:, None]] = mean[g].to(x.dtype)[None, :].expand(s.block_size, g.block_size)
    return out, mean


def spearman_ref(x: Any) -> Any:
    n = x.size(0)
    less = (x[None] < x[:, None]).sum(1)
    same = (x[None] == x[:, None]).sum(1)
    rank = less + (same + 1) / 2
    rank = rank - rank.mean(0)
    cov = rank.T.double() @ rank.double() / n
    scale = cov.diagonal().sqrt()
    rho = cov / (scale[:, None] * scale)
    return rho.float(), torch.where(torch.eye(x.size(1), dtype=torch.bool), -1, rho).argmax(1)


@stranger(
    lambda n, columns: ((torch.randn(n, columns) * 4).round().div(4),),
    spearman_ref,
    {"n": 41, "columns": 13},
    {"n": 4096, "columns": 512},
    loops=True,
)
@tileflow.kernel
def spearman_matrix(x):
    """Spearman, 1904: correlations of ranks, where ties share theirs, and each column's nearest other one."""
    n, columns = x.shape
    ranks = torch.empty(columns, n, dtype=torch.float32, device=x.device)
    for c, i in tfl.tile([columns, n]):
        mine = x[i, c].T
        rank = torch.full_like(mine, 0.5)
        for j in tfl.tile(n):
            other = x[j, c].T[:, None, :]
            rank += (other < mine[:, :, None]).float().sum(-1) + 0.5 * (other == mine[:, :, None]).float().sum(-1)
        ranks[c, i] = rank - (n + 1) / 2
    tfl.barrier()
    spread = torch.empty(columns, device=x.device)
    for c in tfl.tile(columns):
        spread[c] = torch.rsqrt(ranks[c, :].square().sum(dim=1))
    rho = torch.empty(columns, columns, device=x.device)
    for a, b in tfl.tile([columns, columns]):
        acc = tfl.zeros([a, b])
        for i in tfl.tile(n):
            acc = torch.addmm(acc, ranks[a, i], ranks[b, i].T)
        rho[a, b] = acc * spread[a][:, None] * spread[b][None, :]
    nearest = torch.empty(columns, dtype=torch.int64, device=x.device)
    for a in tfl.tile(columns):
        row = torch.where(a.index[:, None] == torch.arange(columns), -1.0, rho[a, :])
        nearest[a] = row.argmax(1)
    return rho, nearest


def isotonic_ref(y: Any, weights: Any) -> Any:
    out = torch.empty_like(y)
    blocks = []
    for row, (values, own) in enumerate(zip(y.tolist(), weights.tolist(), strict=True)):
        stack: list[list[float]] = []
        for value, weight in zip(values, own, strict=True):
            stack.append([value * weight, weight, 1])
            while len(stack) > 1 and stack[-2][0] / stack[-2][1] >= stack[-1][0] / stack[-1][1]:
                a, b, c = stack.pop()
                stack[-1] = [stack[-1][0] + a, stack[-1][1] + b, stack[-1][2] + c]
        out[row] = torch.tensor([a / b for a, b, c in stack for _ in range(int(c))], dtype=y.dtype)
        blocks.append(len(stack))
    return out, torch.tensor(blocks, dtype=torch.int32)


@stranger(
    lambda rows, n: (torch.randn(rows, n, dtype=torch.float64), torch.rand(n, rows, dtype=torch.float64).T + 0.1),
    isotonic_ref,
    {"rows": 7, "n": 23},
    {"rows": 1 << 14, "n": 512},
    loops=True,
)
@tileflow.kernel
def isotonic_rows(y: torch.Tensor, weights: torch.Tensor):
    """Ayer and others, 1955: the nearest curve that never falls, by blocks that are pooled while they violate it."""
    rows, n = y.shape
    sums, mass = torch.empty_like(y), torch.empty_like(y)
    starts = torch.empty(rows, n + 1, dtype=torch.int32, device=y.device)
    fitted = torch.empty_like(y)
    blocks = torch.empty(rows, dtype=torch.int32, device=y.device)
    for r in tfl.grid(rows):
        top = 0
        for i in range(n):
            w = weights[r, i]
            total = y[r, i] * w
            begin = i
            falling = top > 0
            while falling:
                before, heavy = sums[r, top - 1], mass[r, top - 1]
                if before * w >= total * heavy:
                    total = total + before
                    w = w + heavy
                    begin = starts[r, top - 1]
                    top = top - 1
                    falling = top > 0
                else:
                    falling = False
            sums[r, top], mass[r, top], starts[r, top] = total, w, begin
            top = top + 1
        starts[r, top] = n
        blocks[r] = top
        for b in range(top):
            level = sums[r, b] / mass[r, b]
            for t in tfl.tile(starts[r, b], starts[r, b + 1]):
                fitted[r, t] = level
    return fitted, blocks


def copying_ref(panel: Any, target: Any, jump: Any, error: float) -> Any:
    panel, jump = panel.double(), jump.double()
    sites, k = panel.shape
    fits = torch.where(panel[None] == target[:, :, None], 1 - error, error)
    forward = torch.empty(target.size(0), sites, k, dtype=torch.float64)
    for s in range(sites):
        prior = 1 / k if s == 0 else (1 - jump[s]) * forward[:, s - 1] + jump[s] / k
        row = prior * fits[:, s]
        forward[:, s] = row / row.sum(1, keepdim=True)
    backward = torch.ones(target.size(0), k, dtype=torch.float64)
    dosage = torch.empty(target.shape, dtype=torch.float64)
    for s in range(sites - 1, -1, -1):
        posterior = forward[:, s] * backward
        dosage[:, s] = (posterior * panel[s]).sum(1) / posterior.sum(1)
        row = fits[:, s] * backward
        backward = (1 - jump[s]) * row + jump[s] * row.mean(1, keepdim=True)
        backward = backward / backward.sum(1, keepdim=True)
    return dosage.float()


@stranger(
    lambda people, sites, k: (
        torch.rand(sites, k) < 0.4,
        torch.rand(people, sites) < 0.4,
        0.01 + 0.1 * torch.rand(sites),
        0.02,
    ),
    copying_ref,
    {"people": 5, "sites": 19, "k": 29},
    {"people": 4096, "sites": 256, "k": 512},
)
@tileflow.kernel
def haplotype_copying(panel, target, jump, error: float):
    """Li and Stephens, 2003: expected alleles of people who are mosaics of a panel, by two passes."""
    people, sites = target.shape
    k = panel.size(1)
    forward = torch.empty(people, sites, k, device=panel.device)
    dosage = torch.empty(people, sites, device=panel.device)

    for p in tfl.tile(people):
        state = torch.full([p, k], 1 / k)
        for s in range(sites):
            if s > 0:
                state = (1 - jump[s]) * state + jump[s] / k
            state = state * torch.where(panel[s, :] == target[p, s][:, None], 1 - error, error)
            state /= state.sum(-1, keepdim=True)
            forward[p, s, :] = state
        behind = torch.ones_like(state)
        for s in reversed(range(sites)):
            posterior = forward[p, s, :] * behind
            dosage[p, s] = (posterior * panel[s, :]).sum(-1) / posterior.sum(-1)
            row = behind * torch.where(panel[s, :] == target[p, s][:, None], 1 - error, error)
            behind = (1 - jump[s]) * row + jump[s] * row.mean(-1, keepdim=True)
            behind /= behind.sum(-1, keepdim=True)
    return dosage


def make_topics(documents: int, words: int, vocabulary: int, topics: int) -> Any:
    text = torch.randint(0, vocabulary, (documents, words), dtype=torch.int32)
    chosen = torch.randint(0, topics, (documents, words), dtype=torch.int16)
    by_word = torch.zeros(vocabulary, topics, dtype=torch.int32)
    by_word.index_put_((text.long(), chosen.long()), torch.ones((), dtype=torch.int32), accumulate=True)
    return text, chosen, by_word, 12345


def hashed(seed: Any, position: Any) -> Any:
    """A number in [0, 1) out of a seed and a place."""
    x = (position * 0x9E3779B1 + seed * 0x85EBCA77) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    x = ((x ^ (x >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return (x ^ (x >> 15)).to(torch.float64) / 4294967296.0


def topics_ref(text: Any, chosen: Any, by_word: Any, seed: int, alpha: float = 0.1, beta: float = 0.01) -> Any:
    documents, words = text.shape
    vocabulary, topics = by_word.shape
    rows = torch.arange(documents)
    totals = by_word.sum(0).double()
    own = torch.nn.functional.one_hot(chosen.long(), topics).sum(1).double()
    new = chosen.long().clone()
    change = torch.zeros(vocabulary, topics, dtype=torch.int32)
    for i in range(words):
        word, old = text[:, i].long(), new[:, i].clone()
        is_old = (torch.arange(topics) == old[:, None]).double()
        own = own - is_old
        weight = (own + alpha) * (by_word[word] - is_old + beta) / (totals - is_old + vocabulary * beta)
        sums = weight.cumsum(1)
        drawn = hashed(seed, rows * words + i)
        picked = (sums <= (drawn * sums[:, -1])[:, None]).sum(1).clamp(max=topics - 1)
        own[rows, picked] += 1
        new[:, i] = picked
        change.index_put_((word, old), torch.tensor(-1, dtype=torch.int32), accumulate=True)
        change.index_put_((word, picked), torch.tensor(1, dtype=torch.int32), accumulate=True)
    return new.short(), own.int(), by_word + change


@stranger(
    make_topics,
    topics_ref,
    {"documents": 9, "words": 11, "vocabulary": 23, "topics": 7},
    {"documents": 1 << 15, "words": 128, "vocabulary": 30000, "topics": 64},
)
@tileflow.kernel
def topic_sweep(text, chosen, by_word, seed: int, alpha: float = 0.1, beta: float = 0.01):
    """Griffiths and Steyvers, 2004, as Newman and others divide it: a topic is drawn anew for each word of documents
    side by side, by counts of their own and those of all as they were before the sweep."""
    documents, words = text.shape
    vocabulary, topics = by_word.shape
    totals = by_word.sum(0)
    new, counts = torch.empty_like(chosen), by_word.clone()
    own_counts = torch.zeros(documents, topics, dtype=torch.int32, device=text.device)
    for d in tfl.tile(documents):
        topic = torch.arange(topics)[None, :]
        own = torch.zeros([d, topics], dtype=torch.float64)
        for i in range(words):
            own += chosen[d, i][:, None] == topic
        for i in range(words):
            word, old = text[d, i], chosen[d, i]
            is_old = (topic == old[:, None]).double()
            own = own - is_old
            weight = (own + alpha) * (by_word[word, :] - is_old + beta) / (totals[:] - is_old + vocabulary * beta)
            sums = weight.cumsum(dim=1)
            drawn = hashed(seed, d.index.long() * words + i) * sums[:, -1]
            picked = (sums <= drawn[:, None]).sum(1).clamp(max=topics - 1)
            own += topic == picked[:, None]
            new[d, i] = picked
            tfl.atomic_add(counts, [word, old.int()], -1)
            tfl.atomic_add(counts, [word, picked], 1)
        own_counts[d, :] = own
    return new, own_counts, counts


def banded_ref(a: Any, b: Any, band: int, opened: int = 6, extended: int = 1) -> Any:
    scores, lengths, matches = [], [], []
    low = -(1 << 20)
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        m, n = len(x), len(y)
        best = {(0, 0): 0}
        gap_x, gap_y, via = {}, {}, {}
        for i in range(m + 1):
            for j in range(max(0, i - band), min(n, i + band) + 1):
                if (i, j) == (0, 0):
                    continue
                ups = (best.get((i - 1, j), low) - opened, gap_x.get((i - 1, j), low) - extended)
                lefts = (best.get((i, j - 1), low) - opened, gap_y.get((i, j - 1), low) - extended)
                gap_x[i, j], gap_y[i, j] = max(ups), max(lefts)
                same = i and j and x[i - 1] == y[j - 1]
                diagonal = best.get((i - 1, j - 1), low) + (2 if same else -3) if i and j else low
                best[i, j] = max(diagonal, gap_x[i, j], gap_y[i, j])
                which = 0 if best[i, j] == diagonal else 1 if best[i, j] == gap_x[i, j] else 2
                via[i, j] = which, ups[1] > ups[0], lefts[1] > lefts[0]
        scores.append(best[m, n])
        i, j, state, steps, same = m, n, 0, 0, 0
        while i > 0 or j > 0:
            which, more_x, more_y = via[i, j]
            if state == 0:
                state = which
            if state == 0:
                same += x[i - 1] == y[j - 1]
                i, j = i - 1, j - 1
            elif state == 1:
                i, state = i - 1, 1 if more_x else 0
            else:
                j, state = j - 1, 2 if more_y else 0
            steps += 1
        lengths.append(steps)
        matches.append(same)
    return torch.tensor(scores, dtype=torch.int32), torch.tensor(lengths), torch.tensor(matches)


def make_banded(pairs: int, length: int, band: int) -> Any:
    a = torch.randint(0, 4, (pairs, length), dtype=torch.int8)
    b = torch.where(torch.rand(pairs, length) < 0.15, torch.randint(0, 4, (pairs, length), dtype=torch.int8), a)
    b = torch.where(torch.arange(length) < length // 2, b, b.roll(1, 1))
    return a, b, band


@stranger(
    make_banded,
    banded_ref,
    {"pairs": 5, "length": 17, "band": 4},
    {"pairs": 1 << 15, "length": 150, "band": 15},
    loops=True,
)
@tileflow.kernel
def banded_alignment(a, b, band: int, opened: int = 6, extended: int = 1):
    """Gotoh, 1982, in a band about the diagonal: the score of each pair, and the way back by two bits and a half."""
    pairs, length = a.shape
    width = 2 * band + 1
    low = -(1 << 20)
    via = torch.zeros(pairs, length + 1, width, dtype=torch.int8, device=a.device)
    scores = torch.empty(pairs, dtype=torch.int32, device=a.device)
    for p in tfl.tile(pairs):
        offset = torch.arange(width) - band
        best = torch.full((p, width), low, dtype=torch.int32)
        gap_x = torch.full_like(best, low)
        for i in range(length + 1):
            j = offset + i
            valid = (j >= 0) & (j <= length)
            ups = torch.nn.functional.pad(best[:, 1:], (0, 1), value=low) - opened
            longer = torch.nn.functional.pad(gap_x[:, 1:], (0, 1), value=low) - extended
            gap_x = torch.maximum(ups, longer)
            letters = tfl.load(b, [p.index[:, None], (j - 1)[None, :]], extra_mask=(j > 0) & (j <= length), other=-1)
            mine = tfl.load(a, [p, i - 1], extra_mask=i > 0, other=-2)
            diagonal = best + torch.where(letters == mine[:, None], 2, -3)
            start = torch.where(j == 0, 0, low) if i == 0 else torch.full_like(j, low)
            before = torch.maximum(torch.maximum(diagonal, gap_x), start)
            before = torch.where(valid, before, low)
            reach = before - opened + extended * (offset + 1)  # a gap along the row: a running maximum
            running = torch.cummax(reach, dim=1).values
            gap_y = torch.nn.functional.pad(running[:, :-1], (1, 0), value=low) - extended * offset
            best = torch.where(valid, torch.maximum(before, gap_y), low)
            which = torch.where(best == diagonal, 0, torch.where(best == gap_x, 1, 2))
            left = torch.nn.functional.pad(best[:, :-1], (1, 0), value=low) - opened
            flags = which + torch.where(longer > ups, 4, 0) + torch.where(gap_y > left, 8, 0)
            via[p, i, :] = flags.to(torch.int8)
        scores[p] = best[:, band]
    steps = torch.zeros(pairs, dtype=torch.int64, device=a.device)
    matches = torch.zeros_like(steps)
    for p in tfl.tile(pairs):
        i, j = torch.full([p], length, dtype=torch.int32), torch.full([p], length, dtype=torch.int32)
        state = torch.zeros_like(i)
        while ((i > 0) | (j > 0)).any():
            walking = (i > 0) | (j > 0)
            flags = via[p.index, i, (j - i + band).clamp(0, width - 1)].int()
            state = torch.where(state == 0, flags & 3, state)
            same = a[p.index, i - 1] == b[p.index, j - 1]
            matches[p] += (walking & (state == 0) & same).long()
            steps[p] += walking
            up, left = walking & (state != 2), walking & (state != 1)
            state = torch.where(state == 1, (flags >> 2) & 1, torch.where(state == 2, (flags >> 3) & 1, 0) * 2)
            i, j = i - up.int(), j - left.int()
    return scores, steps, matches
