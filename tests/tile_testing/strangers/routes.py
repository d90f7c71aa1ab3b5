"""Ways of tokens: to experts and ranks and back, and through sequences of many lengths."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_layout(t: int, chosen: int, experts: int, ranks: int, channels: int) -> Any:
    expert = torch.rand(t, experts).topk(chosen, 1).indices
    return torch.where(torch.rand(t, chosen) < 0.1, -1, expert), experts, ranks, channels


def layout_ref(expert: Any, experts: int, ranks: int, channels: int) -> Any:
    t = expert.size(0)
    of_expert = expert[expert >= 0].bincount(minlength=experts).int()
    rank = torch.where(expert >= 0, expert // (experts // ranks), ranks)
    goes = torch.zeros(t, ranks + 1, dtype=torch.bool).scatter(1, rank, True)[:, :ranks]
    length = (t + channels - 1) // channels
    padded = F.pad(goes.int(), (0, 0, 0, length * channels - t)).view(channels, length, ranks)
    return goes, goes.sum(0).int(), of_expert, padded.sum(1).cumsum(0).T.int()


@stranger(
    make_layout,
    layout_ref,
    {"t": 61, "chosen": 3, "experts": 16, "ranks": 4, "channels": 5},
    {"t": 65536, "chosen": 8, "experts": 256, "ranks": 16, "channels": 20},
)
@tileflow.kernel
def dispatch_layout(expert, experts: tfl.constexpr, ranks: tfl.constexpr, channels: tfl.constexpr):
    """DeepEP, 2025: which tokens go to which rank, how many to each rank and expert, and where channels begin."""
    t = expert.size(0)
    each = experts // ranks
    length = (t + channels - 1) // channels
    device = expert.device
    goes = torch.empty(t, ranks, dtype=torch.bool, device=device)
    of_rank = torch.zeros(ranks, dtype=torch.int32, device=device)
    of_expert = torch.zeros(experts, dtype=torch.int32, device=device)
    counts = torch.empty(channels, ranks, dtype=torch.int32, device=device)
    prefix = torch.empty(ranks, channels, dtype=torch.int32, device=device)
    for tt in tfl.tile(t):
        one = expert[tt, :]
        rank = torch.where(one >= 0, one // each, -1)
        hit = (rank[:, :, None] == tfl.arange(ranks)).any(1)
        goes[tt, :] = hit
        tfl.atomic_add(of_rank, [tfl.arange(ranks)], hit.sum(0))
        tfl.atomic_add(of_expert, [one], 1, extra_mask=one >= 0)
    for c in tfl.grid(channels):
        total = torch.zeros(ranks, dtype=torch.int32)
        for tt in tfl.tile(c * length, min((c + 1) * length, t)):
            total += goes[tt, :].int().sum(0)
        counts[c, :] = total
    for tr in tfl.tile(ranks):
        prefix[tr, :] = counts[:, tr].cumsum(0).T
    return goes, of_rank, of_expert, prefix


def make_unpermute(t: int, chosen: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    place = torch.randperm(t * chosen).view(t, chosen)
    place = torch.where(torch.rand(t, chosen) < 0.1, -1, place).int()
    return randn(t, d, dtype=dtype), randn(t * chosen, d, dtype=dtype), place, torch.rand(t, chosen)


def unpermute_ref(gradient: Any, rows: Any, place: Any, weight: Any) -> Any:
    wide = torch.promote_types(gradient.dtype, torch.float32)
    to_rows, to_weight = torch.zeros_like(rows), torch.zeros_like(weight)
    for k in range(place.size(1)):
        kept = place[:, k] >= 0
        at = place[kept, k].long()
        to_rows[at] = (gradient[kept].to(wide) * weight[kept, k, None]).to(rows.dtype)
        to_weight[kept, k] = (gradient[kept].to(wide) * rows[at].to(wide)).sum(1).to(weight.dtype)
    return to_rows, to_weight


@stranger(
    make_unpermute,
    unpermute_ref,
    {"t": 23, "chosen": 3, "d": 40},
    {"t": 8192, "chosen": 8, "d": 2048, "dtype": torch.bfloat16},
)
@tileflow.kernel
def unpermute_gradient(gradient, rows, place, weight):
    """Megatron's way back through weighted rows of experts, 2024: what rows and weights get; -1 was dropped."""
    t, d = gradient.shape
    chosen = place.size(1)
    to_rows = torch.zeros_like(rows)
    to_weight = torch.empty_like(weight)
    for tt in tfl.tile(t):
        for k in range(chosen):
            at = place[tt, k]
            total = tfl.zeros([tt])
            for td in tfl.tile(d):
                g = gradient[tt, td].float()
                total += (g * rows[at, td].float()).sum(1)
                tfl.store(to_rows, [at, td], g * weight[tt, k][:, None], extra_mask=(at >= 0)[:, None])
            to_weight[tt, k] = total
    return to_rows, to_weight


def make_zero_experts(t: int, d: int, experts: int, zeros: int, dtype: torch.dtype = torch.float32) -> Any:
    bias = 0.01 * torch.randn(experts + zeros)
    return randn(t, experts + zeros), bias, randn(t, d, dtype=dtype), experts, 4, 0.001


def zero_experts_ref(logits: Any, bias: Any, x: Any, experts: int, chosen: int, rate: float) -> Any:
    scores = logits.softmax(1)
    place = (scores + bias).topk(chosen, 1).indices
    weight = scores.gather(1, place)
    real = place < experts
    load = place[real].bincount(minlength=experts)
    most = 0.75 * chosen * x.size(0) / experts
    step = torch.zeros_like(bias)
    step[:experts] = rate * (most - load) / x.size(0)
    out = (torch.where(real, 0, weight).sum(1, keepdim=True) * x).to(x.dtype)
    return torch.where(real, place, -1).int(), weight, out, bias + step, load.int()


@stranger(
    make_zero_experts,
    zero_experts_ref,
    {"t": 37, "d": 24, "experts": 12, "zeros": 5},
    {"t": 8192, "d": 3072, "experts": 256, "zeros": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def zero_expert_router(logits, bias, x, experts: tfl.constexpr, chosen: tfl.constexpr, rate: float):
    """Meituan, 2025 (LongCat-Flash): some experts are the identity and cost nothing; biases follow the others' load."""
    t, every = logits.shape
    d = x.size(1)
    place = torch.empty(t, chosen, dtype=torch.int32, device=x.device)
    weight = torch.empty(t, chosen, device=x.device)
    load = torch.zeros(experts, dtype=torch.int32, device=x.device)
    out = torch.empty_like(x)
    new_bias = torch.empty_like(bias)
    for tt in tfl.tile(t):
        scores = torch.softmax(logits[tt, :], -1)
        _, index = torch.topk(scores + bias[:], chosen, dim=-1)
        picked = torch.gather(scores, 1, index)
        real = index < experts
        place[tt, :] = torch.where(real, index, -1)
        weight[tt, :] = picked
        tfl.atomic_add(load, [index], 1, extra_mask=real)
        identity = torch.where(real, 0.0, picked).sum(-1)
        for td in tfl.tile(d):
            out[tt, td] = identity[:, None] * x[tt, td]
    most = 0.75 * chosen * t / experts
    for te in tfl.tile(every):
        counts = te.index < experts
        missing = rate * (most - tfl.load(load, [te], extra_mask=counts)) / t
        new_bias[te] = bias[te] + torch.where(counts, missing, 0.0)
    return place, weight, out, new_bias, load


def make_jagged(b: int, most: int, *rest: int, dtype: torch.dtype = torch.float32) -> Any:
    lengths = torch.randint(0, most + 1, (b,))
    offsets = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
    return randn(int(lengths.sum()), *rest, dtype=dtype), offsets


def make_jagged_dense(b: int, most: int, k: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    x, offsets = make_jagged(b, most, k, dtype=dtype)
    return x, offsets, (torch.randn(b, k, n) * k**-0.5).to(dtype), randn(b, n, dtype=dtype)


def jagged_dense_ref(x: Any, offsets: Any, weight: Any, bias: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    out = torch.empty(x.size(0), weight.size(2), dtype=x.dtype)
    for s in range(weight.size(0)):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        out[rows] = (x[rows].to(wide) @ weight[s].to(wide) + bias[s].to(wide)).to(x.dtype)
    return out


@stranger(
    make_jagged_dense,
    jagged_dense_ref,
    {"b": 5, "most": 23, "k": 24, "n": 20},
    {"b": 512, "most": 512, "k": 256, "n": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def jagged_dense_product(x, offsets, weight, bias):
    """Zhai and others, 2024 (HSTU's jagged bmm with a bias): each sequence's rows by a matrix of its own."""
    b, k, n = weight.shape
    out = torch.empty(x.size(0), n, dtype=x.dtype, device=x.device)
    for tb, tn in tfl.tile([b, n], block_size=[1, None]):
        s = tb.begin
        for tr in tfl.tile(offsets[s], offsets[s + 1]):
            acc = tfl.zeros([tr, tn])
            for tk in tfl.tile(k):
                acc = tfl.dot(x[tr, tk], weight[s, tk, tn], acc=acc)
            out[tr, tn] = acc + bias[s, tn]
    return out


def make_best_items(b: int, most: int, k: int) -> Any:
    return *make_jagged(b, most), k, most


def best_items_ref(score: Any, offsets: Any, k: int, most: int) -> Any:
    length = offsets.diff()
    place = torch.arange(most)
    at = (offsets[:-1, None] + place).clamp(max=score.numel() - 1)
    padded = torch.where(place < length[:, None], score[at], -torch.inf)
    value, index = padded.topk(k, 1)
    value = torch.where(value == -torch.inf, 0, value)
    found = torch.arange(k) < length[:, None]
    share = torch.where(found, padded.softmax(1).gather(1, index), 0)
    return value, torch.where(found, offsets[:-1, None] + index, -1).int(), share


@stranger(
    make_best_items,
    best_items_ref,
    {"b": 11, "most": 29, "k": 4},
    {"b": 40000, "most": 256, "k": 8},
)
@tileflow.kernel
def best_of_segments(score, offsets, k: tfl.constexpr, most: tfl.constexpr):
    """What a ranker hands on, 2024: the best few items of each request, where they stand, and their shares."""
    b = offsets.size(0) - 1
    value = torch.empty(b, k, device=score.device)
    item = torch.empty(b, k, dtype=torch.int32, device=score.device)
    share = torch.empty(b, k, device=score.device)
    for tb in tfl.tile(b):
        start = offsets[tb]
        length = offsets[tb + 1] - start
        place = tfl.arange(most)
        inside = place[None, :] < length[:, None]
        row = tfl.load(score, [start[:, None] + place[None, :]], extra_mask=inside, other=float("-inf"))
        best, index = torch.topk(row, k, dim=1)
        found = tfl.arange(k)[None, :] < length[:, None]
        value[tb, :] = torch.where(found, best, 0.0)
        item[tb, :] = torch.where(found, start[:, None] + index, -1)
        share[tb, :] = torch.where(found, torch.gather(torch.softmax(row, 1), 1, index), 0.0)
    return value, item, share


def make_units(b: int, most: int, heads: int, d: int, buckets: int, dtype: torch.dtype = torch.float32) -> Any:
    q, offsets = make_jagged(b, most, heads, d, dtype=dtype)
    k, v = (randn(*q.shape, dtype=dtype) for _ in range(2))
    time = torch.empty(q.size(0), dtype=torch.int64)
    for s in range(b):
        low, high = int(offsets[s]), int(offsets[s + 1])
        time[low:high] = torch.randint(0, 86400, (high - low,)).cumsum(0)
    return q, k, v, offsets, time, torch.randn(2 * most - 1), torch.randn(buckets + 1), most


def units_ref(q: Any, k: Any, v: Any, offsets: Any, time: Any, by_place: Any, by_time: Any, most: int) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.empty_like(q)
    for s in range(offsets.numel() - 1):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        n = rows.stop - rows.start
        place = torch.arange(n)
        apart = (time[rows][:, None] - time[rows][None]).abs().clamp(min=1).double()
        bucket = (torch.log(apart) / 0.301).long().clamp(0, by_time.numel() - 1)
        bias = by_place[most - 1 + place[None] - place[:, None]] + by_time[bucket]
        scores = torch.einsum("ihd,jhd->hij", q[rows].to(wide), k[rows].to(wide)) + bias.to(wide)
        scores = F.silu(scores) / most * (place[:, None] >= place[None])
        out[rows] = torch.einsum("hij,jhd->ihd", scores, v[rows].to(wide)).to(q.dtype)
    return out


@stranger(
    make_units,
    units_ref,
    {"b": 4, "most": 27, "heads": 2, "d": 16, "buckets": 32},
    {"b": 64, "most": 1024, "heads": 4, "d": 64, "buckets": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def sequential_units(q, k, v, offsets, time, by_place, by_time, most: tfl.constexpr):
    """Zhai and others, 2024 (HSTU): SiLU of scores in place of a softmax, biased by places and logarithms of time."""
    b = offsets.size(0) - 1
    _, heads, d = q.shape
    out = torch.empty_like(q)
    for tb, th in tfl.tile([b, heads], block_size=[1, 1]):
        s, h = tb.begin, th.begin
        first, last = offsets[s], offsets[s + 1]
        for tq in tfl.tile(first, last):
            queries = q[tq, h, :]
            acc = tfl.zeros([tq, d])
            for tk in tfl.tile(first, tq.end):
                apart = (time[tq][:, None] - time[tk][None, :]).abs().clamp(min=1)
                bucket = (torch.log(apart.double()) / 0.301).long().clamp(0, by_time.size(0) - 1)
                place = most - 1 + tk.index[None, :] - tq.index[:, None]
                scores = queries @ k[tk, h, :].T + by_place[place] + by_time[bucket]
                scores = F.silu(scores) / most
                scores = torch.where(tq.index[:, None] >= tk.index[None, :], scores, 0.0)
                acc += scores.to(v.dtype) @ v[tk, h, :]
            out[tq, h, :] = acc
    return out
