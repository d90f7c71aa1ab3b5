"""Words, digits and masses: parts by a digit, codes without a separator, seeds of genomes, transforms by factors,
chains of small tensors, masses that are moved, medians with weights."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def partition_ref(keys: Any, values: Any, shift: int, bits: int) -> Any:
    digit = (keys >> shift) & ((1 << bits) - 1)
    order = torch.argsort(digit, stable=True)
    return keys[order], values[order]


@stranger(
    lambda n: (torch.randint(0, 1 << 30, (n,)).int(), randn(n, dtype=torch.bfloat16), 8, 4),
    partition_ref,
    {"n": 211},
    {"n": 1 << 22},
)
@tileflow.kernel
def radix_partition(keys, values, shift: tfl.constexpr, bits: tfl.constexpr):
    """One pass of a stable sort: how many keys of each block have a digit, where these go, then the moves."""
    n = keys.numel()
    radix = 1 << bits
    block = tfl.register_block_size(n)
    blocks = (n + block - 1) // block
    counts = torch.empty(radix, blocks, dtype=torch.int32, device=keys.device)
    for t in tfl.tile(n, block_size=block):
        digit = (keys[t] >> shift) & (radix - 1)
        counts[:, t.id] = (digit[:, None] == tfl.arange(radix)).sum(0)
    ends = counts.view(-1).cumsum(0).view(radix, blocks)
    out, moved = torch.empty_like(keys), torch.empty_like(values)
    for t in tfl.tile(n, block_size=block):
        digit = (keys[t] >> shift) & (radix - 1)
        same = (digit[:, None] == tfl.arange(radix)).int()
        rank = (same * same.cumsum(0)).sum(1) - 1
        first = ends[:, t.id] - counts[:, t.id]
        place = rank + (same * first).sum(1)
        out[place] = keys[t]
        moved[place] = values[t]
    return out, moved


def rice_py(words: Any, k: Any, count: int) -> Any:
    out = torch.empty(len(words), count, dtype=torch.int32)
    for row, (line, low) in enumerate(zip(words.tolist(), k.tolist(), strict=True)):
        bits = "".join(f"{word & 0xFFFFFFFF:032b}"[::-1] for word in line)
        at = 0
        for i in range(count):
            q = bits.index("0", at) - at
            at += q + 1
            rest = int(bits[at : at + low][::-1] or "0", 2)
            at += low
            folded = q << low | rest
            out[row, i] = folded >> 1 ^ -(folded & 1)
    return out


def make_rice(rows: int, count: int) -> Any:
    k = torch.randint(1, 5, (rows,)).to(torch.uint8)
    lines = []
    for low in k.tolist():
        bits = ""
        for value in (torch.randn(count) * 2**low).int().tolist():
            folded = value << 1 if value >= 0 else (-value << 1) - 1
            rest = folded & ((1 << low) - 1)
            bits += "1" * (folded >> low) + "0" + f"{rest:0{low}b}"[::-1]
        lines.append(bits)
    words = -(-max(map(len, lines)) // 32) + 1
    packed = [[int(b.ljust(32 * words, "0")[32 * i : 32 * i + 32][::-1], 2) for i in range(words)] for b in lines]
    return torch.tensor(packed).int(), k, count


@stranger(make_rice, rice_py, {"rows": 13, "count": 17}, {"rows": 2048, "count": 128}, loops=True)
@tileflow.kernel
def rice_decode(words: torch.Tensor, k: torch.Tensor, count: int) -> torch.Tensor:
    """Rice's code of residuals (as FLAC has it): ones up to a zero, then a few bits, a sign in the last."""
    rows = words.size(0)
    out = torch.empty(rows, count, dtype=torch.int32, device=words.device)

    def bit(t, at):
        return (words[t.index, at // 32] >> (at % 32)) & 1

    for t in tfl.tile(rows):
        at = tfl.zeros([t], dtype=torch.int32)
        low = k[t].int()
        for i in range(count):
            quotient = tfl.zeros([t], dtype=torch.int32)
            ones = bit(t, at) == 1
            while ones.any():
                quotient += ones
                at += ones
                ones = ones & (bit(t, at) == 1)
            at += 1
            rest = tfl.zeros([t], dtype=torch.int32)
            for j in range(4):
                rest += torch.where(j < low, bit(t, at + j) << j, 0)
            at += low
            folded = (quotient << low) | rest
            out[t, i] = (folded >> 1) ^ -(folded & 1)
    return out


def greedy_ref(logits: Any, lengths: Any, blank: int = 0) -> Any:
    best = logits.argmax(-1)
    out = torch.full(best.shape, -1, dtype=torch.int32)
    sizes = torch.zeros(len(best), dtype=torch.int32)
    for b, (row, n) in enumerate(zip(best.tolist(), lengths.tolist(), strict=True)):
        kept = [x for i, x in enumerate(row[:n]) if x != blank and (i == 0 or row[i - 1] != x)]
        out[b, : len(kept)] = torch.tensor(kept, dtype=torch.int32)
        sizes[b] = len(kept)
    return out, sizes


@stranger(
    lambda b, t, v: (torch.randint(0, 9, (b, t, v)).half(), torch.randint(0, t + 1, (b,))),
    greedy_ref,
    {"b": 3, "t": 29, "v": 5},
    {"b": 64, "t": 1500, "v": 1024},
)
@tileflow.kernel
def greedy_transcript(logits, lengths, blank=0):
    """Connectionist decoding: the best label of each moment, without repeats and blanks, close together."""
    batch, time, _ = logits.shape
    best = torch.empty(batch, time, dtype=torch.int32, device=logits.device)
    out = torch.full_like(best, -1)
    sizes = torch.empty(batch, dtype=torch.int32, device=logits.device)
    for b in tfl.grid(batch):
        for t in tfl.tile(time):
            best[b, t] = logits[b, t, :].argmax(-1)
    for b in tfl.grid(batch):
        label = best[b, :]
        at = torch.arange(time)
        new = (at == 0) | (label != torch.roll(label, 1))
        keep = new & (label != blank) & (at < lengths[b])
        place = torch.cumsum(keep, 0) - 1
        tfl.store(out, [b, place], label, extra_mask=keep)
        sizes[b] = keep.sum()
    return out, sizes


def mixed_bits(x):
    x = (x ^ (x >> 15)) * 0x2C1B3C6D
    return (x ^ (x >> 12)) & 0x7FFFFFFF


def syncmers_ref(bases: Any, k: int, s: int) -> Any:
    code = torch.zeros(bases.numel() - s + 1, dtype=torch.int64)
    for i in range(s):
        code = code * 4 + bases[i : bases.numel() - s + 1 + i]
    window = mixed_bits(code).unfold(0, k - s + 1, 1)
    first = window.argmin(1)
    return (first == 0) | (first == k - s), window.amin(1)


@stranger(
    lambda n: (torch.randint(0, 4, (n,)).to(torch.uint8), 15, 5),
    syncmers_ref,
    {"n": 211},
    {"n": 1 << 24},
)
@helion.kernel(static_shapes=True)
def closed_syncmers(bases: torch.Tensor, k: hl.constexpr, s: hl.constexpr) -> tuple[torch.Tensor, torch.Tensor]:
    """Edgar, 2021: words whose least part is their first or their last, as seeds of alignments."""
    n = bases.size(0) - k + 1
    chosen = torch.empty(n, dtype=torch.bool, device=bases.device)
    least = torch.empty(n, dtype=torch.int64, device=bases.device)
    for tile in hl.tile(n):
        best = hl.full([tile], 1 << 40, dtype=torch.int64)
        place = hl.zeros([tile], dtype=torch.int32)
        for start in hl.static_range(k - s + 1):
            code = hl.zeros([tile], dtype=torch.int64)
            for i in hl.static_range(s):
                code = code * 4 + bases[tile.index + (start + i)]
            h = mixed_bits(code)
            place = torch.where(h < best, start, place)
            best = torch.minimum(best, h)
        chosen[tile] = (place == 0) | (place == k - s)
        least[tile] = best
    return chosen, least


def polytope_ref(x: Any, turns: Any) -> Any:
    y = torch.einsum("nd,hed->nhe", F.normalize(x.float(), dim=-1), turns.float())
    best = y.abs().argmax(-1)
    return (best * 2 + (y.gather(2, best[..., None])[..., 0] < 0)).int()


@stranger(
    lambda n, h, d, dtype: (
        torch.eye(d)[torch.randint(0, d, (n,))].to(dtype),
        torch.linalg.qr(torch.randn(h, d, d))[0].to(dtype),
    ),
    polytope_ref,
    {"n": 13, "h": 3, "d": 16, "dtype": torch.float32},
    {"n": 1 << 17, "h": 8, "d": 128, "dtype": torch.bfloat16},
)
@helion.kernel
def cross_polytope_hash(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Andoni et al., 2015: the axis that a turned vector is nearest to, and the side."""
    n, _ = x.size()
    h = turns.size(0)
    out = torch.empty([n, h], dtype=torch.int32, device=x.device)
    for tile_n in hl.tile(n):
        row = x[tile_n, :]
        norm = torch.rsqrt((row.float() * row.float()).sum(-1, keepdim=True) + 1e-12)
        row = (row * norm).to(x.dtype)
        for i in hl.grid(h):
            y = torch.matmul(row, turns[i, :, :].T).float()
            best = torch.argmax(y.abs(), dim=-1)
            signed = torch.gather(y, 1, best[:, None])[:, 0]
            out[tile_n, i] = best * 2 + (signed < 0).to(torch.int64)
    return out


def factors_ref(x: Any, factors: Any) -> Any:
    return torch.view_as_real(torch.fft.fft(torch.view_as_complex(x.contiguous())))


@stranger(
    lambda rows, factors: (randn(rows, math.prod(factors), 2), factors),
    factors_ref,
    {"rows": 3, "factors": (3, 4, 5)},
    {"rows": 4096, "factors": (8, 5, 7, 3)},
)
@tileflow.kernel
def mixed_radix_transform(x: torch.Tensor, factors: tuple[int, ...]) -> torch.Tensor:
    """Fourier's transform of a length that is a product of small factors: a launch for each (Stockham)."""
    rows, n, _ = x.shape
    stride = 1
    for r in factors:
        m = n // (stride * r)
        y = torch.empty_like(x)
        source, result = x.view(rows, r, m, stride, 2), y.view(rows, m, r, stride, 2)
        for tr, tp, tq in tfl.tile([rows, m, stride]):
            re, im = ([source[tr, k, tp, tq, part] for k in range(r)] for part in (0, 1))
            for j in range(r):
                at = [(math.cos(2 * math.pi * j * k / r), math.sin(2 * math.pi * j * k / r)) for k in range(r)]
                a = sum(re[k] * cos + im[k] * sin for k, (cos, sin) in enumerate(at))
                b = sum(im[k] * cos - re[k] * sin for k, (cos, sin) in enumerate(at))
                angle = tp.index * (-2 * math.pi * j / (m * r))
                c, s = torch.cos(angle)[None, :, None], torch.sin(angle)[None, :, None]
                result[tr, tp, j, tq, 0] = a * c - b * s
                result[tr, tp, j, tq, 1] = a * s + b * c
        x, stride = y, stride * r
    return x


def ring_ref(x: Any, first: Any, second: Any, bias: Any) -> Any:
    w = torch.einsum("siar,rjbs->ijab", first, second)
    return torch.einsum("nij,ijab->nab", x.view(len(x), first.size(1), -1), w).flatten(1) + bias


def make_ring(n: int, i: int, j: int, a: int, b: int, s: int, r: int, dtype: Any) -> Any:
    first, second = randn(s, i, a, r, dtype=dtype), randn(r, j, b, s, dtype=dtype) / math.sqrt(i * j * r * s)
    return randn(n, i * j, dtype=dtype), first, second, randn(a * b, dtype=dtype)


@stranger(
    make_ring,
    ring_ref,
    {"n": 11, "i": 4, "j": 6, "a": 5, "b": 3, "s": 2, "r": 3, "dtype": torch.float32},
    {"n": 8192, "i": 16, "j": 32, "a": 16, "b": 32, "s": 4, "r": 4, "dtype": torch.bfloat16},
)
@tileflow.kernel
def tensor_ring_linear(x, first, second, bias):
    """A layer whose weights are a ring of two small tensors (Zhao et al., 2016)."""
    s, i, a, _ = first.shape
    _, j, b, _ = second.shape
    out = x.new_empty(x.size(0), a * b)
    for t in tfl.tile(x.size(0)):
        rows = x[t, :].reshape(t, i, j)
        total = tfl.zeros([t, a, b])
        for k in range(s):
            half = torch.einsum("tij,iar->tjar", rows, first[k, :, :, :])
            total = total + torch.einsum("tjar,rjb->tab", half, second[:, :, :, k])
        out[t, :] = total.reshape(t, a * b) + bias[:]
    return out


def moved_masses_ref(x: Any, y: Any, a: Any, b: Any, eps: float, rho: float, steps: int) -> Any:
    cost = (x[:, None] - y[None]).square().sum(-1)
    f, g, damp = torch.zeros_like(a), torch.zeros_like(b), rho / (rho + eps)
    for _ in range(steps):
        f = -damp * eps * torch.logsumexp((g - cost) / eps + b.log(), 1)
        g = -damp * eps * torch.logsumexp((f[:, None] - cost) / eps + a.log()[:, None], 0)
    return f, g


def moving_kernel(cost: Any) -> Any:
    """A kernel for any cost of moving from one point to another."""

    def unbalanced_potentials(out, x, y, other, weight, eps, damp):
        for t in tfl.tile(out.numel()):
            most, total = tfl.full([t], -math.inf), tfl.zeros([t])
            for u in tfl.tile(other.numel()):
                z = (other[u] - cost(x, t, y, u)) / eps + torch.log(weight[u])
                new = torch.maximum(most, z.amax(1))
                total = total * torch.exp(most - new) + torch.exp(z - new[:, None]).sum(1)
                most = new
            out[t] = -damp * eps * (most + torch.log(total))

    side = tileflow.kernel(unbalanced_potentials)

    def moved_masses(x, y, a, b, eps=0.1, rho=1.0, steps=3):
        """Unbalanced transport (Chizat et al., 2018): potentials where masses may also vanish, at a price."""
        f, g = torch.zeros_like(a), torch.zeros_like(b)
        damp = rho / (rho + eps)
        for _ in range(steps):
            side(f, x, y, g, b, eps, damp)
            side(g, y, x, f, a, eps, damp)
        return f, g

    return side, moved_masses


def squared(x, t, y, u):
    return sum((x[t, i][:, None] - y[u, i]) ** 2 for i in range(x.size(1)))


half_step, moved_masses = moving_kernel(squared)


def half_step_ref(out: Any, x: Any, y: Any, other: Any, weight: Any, eps: float, damp: float) -> None:
    cost = (x[:, None] - y[None]).square().sum(-1)
    out.copy_(-damp * eps * torch.logsumexp((other - cost) / eps + weight.log(), 1))


stranger(
    lambda n, m: (torch.empty(n), torch.rand(n, 3), torch.rand(m, 3), torch.randn(m), torch.rand(m) / m, 0.1, 0.9),
    half_step_ref,
    {"n": 13, "m": 37},
    {"n": 8192, "m": 8192},
)(half_step)


def weighted_ref(x: Any, weight: Any) -> Any:
    order = x.argsort(dim=1, stable=True)
    share = weight.expand_as(x).gather(1, order).cumsum(1)
    place = (share >= share[:, -1:] / 2).int().argmax(1)
    return x.gather(1, order.gather(1, place[:, None]))[:, 0]


@stranger(
    lambda n, k: (torch.randint(-99, 99, (n, k)).half(), torch.randint(1, 9, (1, k)).float().expand(n, k)),
    weighted_ref,
    {"n": 7, "k": 29},
    {"n": 1 << 16, "k": 128},
)
@tileflow.kernel
def weighted_median(x, weight):
    """The number below which half of a row's weight lies."""
    n, _ = x.shape
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    for t in tfl.tile(n):
        values, order = torch.sort(x[t, :], dim=-1)
        share = torch.cumsum(torch.gather(weight[t, :], 1, order), 1)
        enough = share >= share[:, -1:] / 2
        place = torch.argmax(enough.int(), dim=1, keepdim=True)
        out[t] = values.gather(1, place)[:, 0]
    return out


def pinball_ref(forecast: Any, target: Any, levels: Any, weight: Any = None) -> Any:
    e = target - forecast
    loss = sum(torch.maximum(q * e[:, :, i], (q - 1) * e[:, :, i]) for i, q in enumerate(levels))
    return (loss if weight is None else loss * weight).sum(1)


def make_pinball(n: int, t: int, levels: Any) -> Any:
    return (
        torch.randn(n, t, len(levels)),
        torch.randn(n, t, 1).expand(n, t, len(levels)),
        levels,
        torch.rand(1, t).expand(n, t),
    )


@stranger(
    make_pinball,
    pinball_ref,
    {"n": 7, "t": 23, "levels": (0.1, 0.5, 0.9)},
    {"n": 4096, "t": 720, "levels": (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)},
)
@helion.kernel(static_shapes=True)
def pinball_loss(
    forecast: torch.Tensor, target: torch.Tensor, levels: tuple[float, ...], weight: torch.Tensor | None = None
) -> torch.Tensor:
    """Losses of forecasts of several quantiles (Koenker and Bassett, 1978)."""
    n, t, q = forecast.size()
    assert len(levels) == q, "one level for each forecast"
    out = forecast.new_zeros([n])
    for tile_n in hl.tile(n):
        acc = hl.zeros([tile_n])
        for tile_t in hl.tile(t):
            loss = hl.zeros([tile_n, tile_t])
            for i, level in enumerate(levels):
                error = target[tile_n, tile_t, i] - forecast[tile_n, tile_t, i]
                loss = loss + torch.maximum(level * error, (level - 1) * error)
            if weight is not None:
                loss = loss * weight[tile_n, tile_t]
            acc = acc + loss.sum(-1)
        out[tile_n] = acc
    return out


def merge_ties_ref(base: Any, *tasks: Any) -> Any:
    apart = torch.stack([task.to(base.dtype) - base for task in tasks])
    sign = torch.sign(apart.sum(0))
    agree = torch.sign(apart) == sign
    return base + (apart * agree).sum(0) / agree.sum(0).clamp(min=1)


@stranger(
    lambda n, count: (torch.randint(-8, 8, (n,)).float(), *(torch.randint(-8, 8, (n,)).half() for _ in range(count))),
    merge_ties_ref,
    {"n": 211, "count": 3},
    {"n": 1 << 24, "count": 5},
)
@tileflow.kernel
def ties_merge(base, *tasks):
    """Models of several tasks as one (Yadav et al., 2023): the mean of those that agree with the sign of their sum."""
    out = torch.empty_like(base)
    for t in tfl.tile(base.numel()):
        apart = [task[t] - base[t] for task in tasks]
        sign = torch.sign(sum(apart))
        agree = [torch.sign(x) == sign for x in apart]
        total = sum(torch.where(ok, x, 0) for ok, x in zip(agree, apart, strict=True))
        out[t] = base[t] + total / torch.clamp(sum(ok.int() for ok in agree), min=1)
    return out
