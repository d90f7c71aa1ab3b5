"""Genomes: words of letters, barcodes, motifs, correlations of variants, qualities, trees of species."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_reads(r: Any, n: Any, k: Any) -> Any:
    letters = torch.randint(0, 4, (r, n), dtype=torch.uint8)
    return torch.where(torch.rand(r, n) < 0.01, 4, letters).to(torch.uint8), k


def words_ref(reads: Any, k: Any) -> Any:
    counts = torch.zeros(4**k, dtype=torch.int32)
    for part in reads.split(1 << 15):
        windows = part.unfold(1, k, 1).long()
        up, down = torch.arange(k).flip(0) * 2, torch.arange(k) * 2
        code = torch.minimum((windows << up).sum(-1), ((3 - windows) << down).sum(-1))
        code = code[(windows < 4).all(-1)]
        counts += torch.bincount(code, minlength=4**k).int()
    return counts


@stranger(make_reads, words_ref, {"r": 7, "n": 19, "k": 3}, {"r": 1 << 18, "n": 150, "k": 10})
@tileflow.kernel
def count_words(reads, k: tfl.constexpr):
    """Words of k letters, each as the lesser of itself and its reverse complement; 4 is an unknown letter."""
    r, n = reads.shape
    counts = torch.zeros(4**k, dtype=torch.int32, device=reads.device)
    for t in tfl.tile(r):
        forward = tfl.zeros([t], dtype=torch.int32)
        backward = tfl.zeros([t], dtype=torch.int32)
        run = tfl.zeros([t], dtype=torch.int32)
        for i in range(n):
            letter = reads[t, i].int()
            known = letter < 4
            forward = ((forward << 2) | (letter & 3)) & (4**k - 1)
            backward = (backward >> 2) | ((3 - (letter & 3)) << (2 * (k - 1)))
            run = torch.where(known, run + 1, 0)
            tfl.atomic_add(counts, [torch.minimum(forward, backward)], 1, extra_mask=run >= k)
    return counts


def mixed(x: Any) -> Any:
    x = x ^ (x >> 15)
    x = (x * 0x2C1B3C6D) & 0x7FFFFFFF
    x = x ^ (x >> 12)
    x = (x * 0x297A2D39) & 0x7FFFFFFF
    return x ^ (x >> 15)


def minimizers_ref(letters: Any, k: Any, w: Any) -> Any:
    code = (letters.unfold(1, k, 1).long() << (torch.arange(k).flip(0) * 2)).sum(-1)
    best, where = mixed(code).unfold(1, w, 1).min(-1)
    return best.int(), (where + torch.arange(best.size(1))).int()


@stranger(
    lambda b, n, k, w: (torch.randint(0, 4, (b, n), dtype=torch.uint8), k, w),
    minimizers_ref,
    {"b": 3, "n": 37, "k": 4, "w": 5},
    {"b": 1024, "n": 16384, "k": 15, "w": 10},
)
@tileflow.kernel
def minimizers(letters, k: tfl.constexpr, w: tfl.constexpr):
    """Roberts et al., 2004: the least hash of each run of w words, and where it stands."""
    b, n = letters.shape
    words = n - k + 1
    hashes = torch.empty(b, words, dtype=torch.int32, device=letters.device)
    for tb, tn in tfl.tile([b, words]):
        code = tfl.zeros([tb, tn], dtype=torch.int64)
        for j in range(k):
            code = (code << 2) | letters[tb, tn + j].long()
        hashes[tb, tn] = mixed(code).int()
    best = torch.empty(b, words - w + 1, dtype=torch.int32, device=letters.device)
    where = torch.empty_like(best)
    for tb, tn in tfl.tile(best.shape):
        least = hashes[tb, tn]
        place = torch.zeros_like(least) + tn.index
        for j in range(1, w):
            h = hashes[tb, tn + j]
            place = torch.where(h < least, tn.index + j, place)
            least = torch.minimum(least, h)
        best[tb, tn] = least
        where[tb, tn] = place
    return best, where


def make_barcodes(n: Any, m: Any) -> Any:
    known = torch.randint(-(1 << 31), 1 << 31, (m,))
    wrong = (torch.randint(0, 4, (n, 2)) << (2 * torch.randint(0, 16, (n, 2)))).sum(1)
    return (known[torch.randint(0, m, (n,))] ^ wrong).int(), known.int()


def letters_apart(x: Any) -> Any:
    x = (x | (x >> 1)) & 0x55555555
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


def barcodes_ref(reads: Any, known: Any) -> Any:
    found, least = [], []
    for part in reads.split(1 << 12):
        d = letters_apart(part[:, None] ^ known)
        best = d.amin(1)
        where = torch.where(d == best[:, None], torch.arange(known.numel()), known.numel()).amin(1)
        found.append(torch.where(((d == best[:, None]).sum(1) == 1) & (best <= 2), where, -1).int())
        least.append(best.int())
    return torch.cat(found), torch.cat(least)


@stranger(make_barcodes, barcodes_ref, {"n": 45, "m": 13}, {"n": 1 << 18, "m": 4096})
@helion.kernel(static_shapes=True)
def match_barcodes(reads: torch.Tensor, known: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sixteen letters in an int: the nearest known one within two letters, unless another is as near."""
    n, m = reads.size(0), known.size(0)
    found = torch.empty([n], dtype=torch.int32, device=reads.device)
    least = torch.empty([n], dtype=torch.int32, device=reads.device)
    for tn in hl.tile(n):
        best = hl.full([tn], 99, dtype=torch.int32)
        ties = hl.zeros([tn], dtype=torch.int32)
        where = hl.full([tn], -1, dtype=torch.int32)
        for tm in hl.tile(m):
            d = letters_apart(reads[tn][:, None] ^ known[tm][None, :])
            low, at = torch.min(d, dim=1)
            same = (d == low[:, None]).to(torch.int32).sum(1).to(torch.int32)
            ties = torch.where(low < best, same, torch.where(low == best, ties + same, ties))
            where = torch.where(low < best, (tm.begin + at).to(torch.int32), where)
            best = torch.minimum(best, low)
        found[tn] = torch.where((ties == 1) & (best <= 2), where, -1)
        least[tn] = best
    return found, least


def motifs_ref(letters: Any, weights: Any) -> Any:
    hot = F.one_hot(letters.long(), 4).to(weights.dtype).mT
    both = [F.conv1d(hot, w.mT.contiguous()) for w in (weights, weights.flip(1, 2))]
    return torch.maximum(both[0].amax(-1), both[1].amax(-1))


@stranger(
    lambda b, n, m, w: (torch.randint(0, 4, (b, n), dtype=torch.uint8), randn(m, w, 4)),
    motifs_ref,
    {"b": 3, "n": 29, "m": 2, "w": 5},
    {"b": 8192, "n": 1000, "m": 8, "w": 12},
)
@tileflow.kernel
def scan_motifs(letters, weights):
    """The best place's score of each motif on either strand."""
    b, n = letters.shape
    m, w, _ = weights.shape
    out = torch.empty(b, m, device=weights.device)
    for tb, tm in tfl.tile([b, m], block_size=[None, 1]):
        im = tm.begin
        best = tfl.full([tb], float("-inf"))
        for tn in tfl.tile(n - w + 1):
            up = tfl.zeros([tb, tn])
            down = tfl.zeros([tb, tn])
            for j in range(w):
                letter = letters[tb, tn + j].int()
                up += weights[im, j, letter]
                down += weights[im, w - 1 - j, 3 - letter]
            best = torch.maximum(best, torch.maximum(up, down).amax(1))
        out[tb, im] = best
    return out


def linkage_ref(g: Any) -> Any:
    x = g.to(torch.float64)
    n = x.size(1)
    s, q = x.sum(1), (x * x).sum(1)
    cov = n * (x @ x.T) - s[:, None] * s
    var = n * q - s * s
    return (cov**2 / (var[:, None] * var).clamp(min=1e-9)).float()


@stranger(
    lambda m, n: (torch.randint(0, 3, (m, n), dtype=torch.int8),),
    linkage_ref,
    {"m": 21, "n": 45},
    {"m": 8192, "n": 2504},
)
@tileflow.kernel
def linkage(g):
    """Squared correlations of all pairs of variants, whose people have none, one or two copies."""
    m, n = g.shape
    sums = torch.empty(m, device=g.device)
    spreads = torch.empty(m, device=g.device)
    for t in tfl.tile(m):
        x = g[t, :].int()
        s, q = x.sum(1), (x * x).sum(1)
        sums[t] = s.float()
        spreads[t] = (n * q - s * s).float()
    out = torch.empty(m, m, device=g.device)
    for ti, tj in tfl.tile([m, m]):
        acc = tfl.zeros([ti, tj], dtype=torch.int32)
        for tk in tfl.tile(n):
            acc = tfl.dot(g[ti, tk], g[tj, tk].T, acc=acc)
        cov = n * acc.float() - torch.outer(sums[ti], sums[tj])
        out[ti, tj] = cov**2 / torch.outer(spreads[ti], spreads[tj]).clamp(min=1e-9)
    return out


def make_qualities(r: Any, n: Any) -> Any:
    falling = 40 - 30 * torch.arange(n) / n
    quality = (falling + 8 * torch.randn(r, n)).clamp(2, 41).to(torch.uint8)
    return quality, torch.randint(n // 2, n + 1, (r,), dtype=torch.int32), 20


def trim_ref(quality: Any, length: Any, least: Any) -> Any:
    n = quality.size(1)
    i = torch.arange(n)
    inside = i < length[:, None]
    loss = torch.where(inside, least - quality.int(), 0)
    tail = loss.flip(1).cumsum(1).flip(1)
    top = tail.amax(1)
    first = torch.where(tail == top[:, None], i, n).amin(1)
    end = torch.where(top > 0, first, length).int()
    wrong = 10.0 ** (-quality.double() / 10)
    return end, torch.where(i < end[:, None], wrong, 0.0).sum(1).float()


@stranger(make_qualities, trim_ref, {"r": 13, "n": 21}, {"r": 1 << 21, "n": 151})
@tileflow.kernel
def trim_reads(quality, length, least: int):
    """BWA's cut where the tail's losses add up to the most, and how many errors are to be expected before it."""
    r, n = quality.shape
    end = torch.empty(r, dtype=torch.int32, device=quality.device)
    errors = torch.empty(r, device=quality.device)
    for t in tfl.tile(r):
        q = quality[t, :].int()
        i = tfl.arange(n)
        loss = torch.where(i[None, :] < length[t][:, None], least - q, 0)
        tail = tfl.cumsum(loss, 1, reverse=True)
        top, first = torch.max(tail, dim=1)
        cut = torch.where(top > 0, first, length[t])
        end[t] = cut
        wrong = torch.pow(10.0, -q.float() / 10)
        errors[t] = torch.where(i[None, :] < cut[:, None], wrong, 0.0).sum(1)
    return end, errors


def make_tree(sites: Any, leaves: Any) -> Any:
    order = random.Random(0)
    alive, left, right = list(range(leaves)), [], []
    for node in range(leaves, 2 * leaves - 1):
        left.append(alive.pop(order.randrange(len(alive))))
        right.append(alive.pop(order.randrange(len(alive))))
        alive.append(node)
    moves = torch.rand(2 * leaves - 1, 4, 4) + 4 * torch.eye(4)
    return (
        torch.randint(0, 4, (leaves, sites), dtype=torch.int8),
        torch.tensor(left, dtype=torch.int32),
        torch.tensor(right, dtype=torch.int32),
        moves / moves.sum(2, keepdim=True),
        torch.tensor([0.3, 0.2, 0.2, 0.3]),
    )


def tree_ref(tips: Any, left: Any, right: Any, moves: Any, rest: Any) -> Any:
    parts = [F.one_hot(t.long(), 4).to(moves.dtype) for t in tips]
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        parts.append((parts[i] @ moves[i].T) * (parts[j] @ moves[j].T))
    return torch.log(parts[-1] @ rest)


@stranger(make_tree, tree_ref, {"sites": 13, "leaves": 5}, {"sites": 1 << 19, "leaves": 16})
@tileflow.kernel
def tree_likelihood(tips, left, right, moves, rest):
    """Felsenstein, 1981: each inner node's likelihoods out of its two children's, through memory."""
    leaves, sites = tips.shape
    parts = torch.empty(2 * leaves - 1, sites, 4, device=moves.device)
    out = torch.empty(sites, device=moves.device)
    for t in tfl.tile(sites):
        base = tfl.arange(4)
        for i in range(leaves):
            parts[i, t, :] = (tips[i, t][:, None] == base[None, :]).float()
        for k in range(leaves - 1):
            i, j = left[k], right[k]
            one = (parts[i, t, None, :] * moves[i, :, :]).sum(-1)
            two = (parts[j, t, None, :] * moves[j, :, :]).sum(-1)
            parts[leaves + k, t, :] = one * two
        out[t] = torch.log((parts[2 * leaves - 2, t, :] * rest[:]).sum(-1))
    return out
