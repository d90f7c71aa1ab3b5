"""Parts of language models of 2024 to 2026: bound streams, products of steps, several tokens ahead, gates, depth."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_bound(t: int, n: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    wide = 2 * n + n * n
    phi = (torch.randn(n * d, wide) * (n * d) ** -0.5).to(dtype)
    return randn(t, n, d, dtype=dtype), randn(t, d, dtype=dtype), phi, torch.randn(wide), torch.rand(3) * 0.1, 12


def bound_ref(x: Any, y: Any, phi: Any, bias: Any, alpha: Any, turns: int) -> Any:
    t, n, _ = x.shape
    wide = torch.promote_types(x.dtype, torch.float32)
    flat = x.to(wide).flatten(1)
    raw = (flat @ phi.to(wide)) * torch.rsqrt(flat.square().mean(1, keepdim=True) + 1e-6)
    bias, alpha = bias.to(wide), alpha.to(wide)
    before = torch.sigmoid(alpha[0] * raw[:, :n] + bias[:n])
    after = 2 * torch.sigmoid(alpha[1] * raw[:, n : 2 * n] + bias[n : 2 * n])
    mix = torch.exp((alpha[2] * raw[:, 2 * n :] + bias[2 * n :]).view(t, n, n))
    for _ in range(turns):
        mix = mix / mix.sum(2, keepdim=True)
        mix = mix / mix.sum(1, keepdim=True)
    streams = mix @ x.to(wide) + after[:, :, None] * y.to(wide)[:, None]
    return streams.to(x.dtype), (before[:, None] @ x.to(wide))[:, 0].to(x.dtype)


@stranger(make_bound, bound_ref, {"t": 13, "n": 4, "d": 24}, {"t": 8192, "n": 4, "d": 2560, "dtype": torch.bfloat16})
@tileflow.kernel
def bound_streams(x, y, phi, bias, alpha, turns: tfl.constexpr):
    """Xie and others, 2025 (mHC): how streams mix, made doubly stochastic by Sinkhorn's turns, by token."""
    t, n, d = x.shape
    flat = x.view(t, n * d)
    streams = torch.empty_like(x)
    read = torch.empty_like(y)
    for tt in tfl.tile(t):
        raw = tfl.zeros([tt, 2 * n + n * n])
        square = tfl.zeros([tt])
        for tk in tfl.tile(n * d):
            part = flat[tt, tk]
            raw = torch.addmm(raw, part, phi[tk, :])
            square += part.float().square().sum(1)
        raw = raw * torch.rsqrt(square / (n * d) + 1e-6)[:, None]
        before = torch.sigmoid(alpha[0] * raw[:, :n] + bias[:n])
        after = 2 * torch.sigmoid(alpha[1] * raw[:, n : 2 * n] + bias[n : 2 * n])
        mix = torch.exp(alpha[2] * raw[:, 2 * n :] + bias[2 * n :]).reshape(tt, n, n)
        for _ in range(turns):
            mix = mix / mix.sum(2, keepdim=True)
            mix = mix / mix.sum(1, keepdim=True)
        for td in tfl.tile(d):
            part = x[tt, :, td].float()
            mixed = (mix[:, :, :, None] * part[:, None, :, :]).sum(2)
            streams[tt, :, td] = mixed + after[:, :, None] * y[tt, td].float()[:, None, :]
            read[tt, td] = (before[:, :, None] * part).sum(1)
    return streams, read


def make_steps(sequences: int, t: int, heads: int, d: int, steps: int, dtype: torch.dtype = torch.float32) -> Any:
    cuts = torch.randint(0, t + 1, (sequences - 1,)).sort().values
    offsets = torch.cat([torch.zeros(1), cuts, torch.full((1,), t)]).int()
    key = F.normalize(torch.randn(t, steps, heads, d), dim=-1).to(dtype)
    beta = 2 * torch.rand(t, steps, heads)
    decay = -0.1 * torch.rand(t, heads, d)
    slot = torch.randperm(2 * sequences)[:sequences].int()
    q, v = randn(t, heads, d, dtype=dtype), randn(t, steps, heads, d, dtype=dtype)
    return q, key, v, beta, decay, torch.randn(2 * sequences, heads, d, d), slot, offsets


def steps_ref(q: Any, k: Any, v: Any, beta: Any, decay: Any, cache: Any, slot: Any, offsets: Any) -> Any:
    wide = cache.dtype
    out = torch.empty(q.shape, dtype=q.dtype)
    for s in range(slot.numel()):
        state = cache[slot[s]].clone()
        for i in range(int(offsets[s]), int(offsets[s + 1])):
            state = torch.exp(decay[i].to(wide))[:, :, None] * state
            for j in range(k.size(1)):
                key = k[i, j].to(wide)
                change = beta[i, j].to(wide)[:, None] * (v[i, j].to(wide) - (key[:, :, None] * state).sum(1))
                state = state + key[:, :, None] * change[:, None]
            out[i] = ((q[i].to(wide)[:, :, None] * state).sum(1) * q.size(2) ** -0.5).to(q.dtype)
        cache[slot[s]] = state
    return out, cache


@stranger(
    make_steps,
    steps_ref,
    {"sequences": 3, "t": 17, "heads": 2, "d": 16, "steps": 2},
    {"sequences": 16, "t": 8192, "heads": 16, "d": 128, "steps": 2, "dtype": torch.bfloat16},
    loops=True,
)
@tileflow.kernel
def delta_products(q, k, v, beta, decay, cache, slot, offsets):
    """Siems and others, 2025 (DeltaProduct) with decays by channel: several steps a token, from states of a cache."""
    _, steps, heads, d = k.shape
    out = torch.empty_like(q)
    for ts, th, tv in tfl.tile([slot.size(0), heads, d], block_size=[1, 1, None]):
        s, h = ts.begin, th.begin
        place = slot[s]
        state = cache[place, h, :, tv]
        for i in range(offsets[s], offsets[s + 1]):
            state = torch.exp(decay[i, h, :])[:, None] * state
            for j in range(steps):
                key = k[i, j, h, :].float()[:, None]
                change = beta[i, j, h] * (v[i, j, h, tv].float() - (key * state).sum(0))
                state = state + key * change[None, :]
            out[i, h, tv] = (q[i, h, :].float()[:, None] * state).sum(0) * d**-0.5
        cache[place, h, :, tv] = state
    return out, cache


def make_ahead(ahead: int, t: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    document = torch.randint(0, max(t // 9, 1), (t,)).sort().values.int()
    token = torch.randint(0, vocabulary, (t,))
    return randn(ahead, t, vocabulary, dtype=dtype), token, document, 0.8 ** torch.arange(ahead), 1e-4


def ahead_ref(logits: Any, token: Any, document: Any, weight: Any, z: float) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    ahead, t, _ = logits.shape
    loss, right, total = torch.zeros(ahead, t, dtype=wide), torch.zeros(ahead, dtype=torch.int32), 0.0
    for k in range(ahead):
        rows = logits[k, : t - 1 - k].to(wide)
        target, counts = token[k + 1 :], document[k + 1 :] == document[: t - 1 - k]
        top = rows.logsumexp(1)
        each = top - rows.gather(1, target[:, None])[:, 0] + z * top**2
        loss[k, : t - 1 - k] = torch.where(counts, each, 0)
        right[k] = (counts & (rows.argmax(1) == target)).sum()
        total = total + weight[k] * loss[k].sum() / t
    return loss, right, total


@stranger(
    make_ahead,
    ahead_ref,
    {"ahead": 3, "t": 29, "vocabulary": 67},
    {"ahead": 4, "t": 4096, "vocabulary": 32768, "dtype": torch.bfloat16},
)
@tileflow.kernel
def tokens_ahead(logits, token, document, weight, z: float):
    """Gloeckle and others, 2024: losses of heads that predict tokens further on, within a document; how often right."""
    ahead, t, _ = logits.shape
    loss = torch.zeros(ahead, t, device=logits.device)
    right = torch.zeros(ahead, dtype=torch.int32, device=logits.device)
    total = torch.zeros((), device=logits.device)
    for k in tfl.grid(ahead):
        for tt in tfl.tile(t):
            rows = logits[k, tt, :].float()
            later = tt + (k + 1)
            target = token[later]
            counts = (later.index < t) & (document[later] == document[tt])
            top = rows.logsumexp(1)
            each = top - torch.gather(rows, 1, target[:, None])[:, 0] + z * top**2
            each = torch.where(counts, each, 0.0)
            loss[k, tt] = each
            tfl.atomic_add(right, [k], (counts & (rows.argmax(1) == target)).sum())
            tfl.atomic_add(total, [], weight[k] * each.sum() / t)
    return loss, right, total


def make_gated(b: int, t: int, heads: int, groups: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    qg = randn(b, t, heads, 2 * d, dtype=dtype)
    k, v = (randn(b, t, groups, d, dtype=dtype) for _ in range(2))
    return qg, k, v, 0.1 * torch.randn(d), 0.1 * torch.randn(d)


def gated_ref(qg: Any, k: Any, v: Any, q_gain: Any, k_gain: Any) -> Any:
    wide = torch.promote_types(qg.dtype, torch.float32)
    b, t, heads, d = *qg.shape[:3], k.size(3)
    q, gate = qg.to(wide).split(d, 3)
    q = F.rms_norm(q, (d,), 1 + q_gain.to(wide), 1e-6).to(qg.dtype).to(wide)
    k = F.rms_norm(k.to(wide), (d,), 1 + k_gain.to(wide), 1e-6).to(qg.dtype).to(wide)
    k, v = (x.repeat_interleave(heads // k.size(2), 2) for x in (k, v.to(wide)))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = torch.empty(b, heads, t, d, dtype=wide)
    for h in range(heads):
        scores = q[:, h] @ k[:, h].mT * d**-0.5
        out[:, h] = scores.masked_fill(torch.ones(t, t).triu(1) > 0, float("-inf")).softmax(-1) @ v[:, h]
    return (out.transpose(1, 2) * torch.sigmoid(gate)).to(qg.dtype)


@stranger(
    make_gated,
    gated_ref,
    {"b": 2, "t": 29, "heads": 4, "groups": 2, "d": 16},
    {"b": 1, "t": 4096, "heads": 16, "groups": 2, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def output_gated_attention(qg, k, v, q_gain, k_gain):
    """Qiu and others, 2025: attention whose output a sigmoid of the query's own gate scales."""
    b, t, heads, _ = qg.shape
    groups, d = k.size(2), k.size(3)
    shared = heads // groups
    out = torch.empty(b, t, heads, d, dtype=qg.dtype, device=qg.device)
    for tb, th, tt in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        q = F.rms_norm(qg[i, tt, h, :d].float(), (d,), 1 + q_gain[:], 1e-6).to(qg.dtype)
        top = tfl.full([tt], float("-inf"))
        total = tfl.zeros([tt])
        acc = tfl.zeros([tt, d])
        for tk in tfl.tile(tt.end):
            key = F.rms_norm(k[i, tk, h // shared, :].float(), (d,), 1 + k_gain[:], 1e-6).to(k.dtype)
            scores = q @ key.T * d**-0.5
            scores = torch.where(tk.index[None, :] <= tt.index[:, None], scores, float("-inf"))
            new = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - new[:, None])
            fade = torch.exp(top - new)
            total = total * fade + p.sum(1)
            acc = acc * fade[:, None] + p.to(v.dtype) @ v[i, tk, h // shared, :]
            top = new
        gate = torch.sigmoid(qg[i, tt, h, d:].float())
        out[i, tt, h, :] = acc / total[:, None] * gate
    return out


def make_depth(b: int, t: int, d: int, capacity: int, dtype: torch.dtype = torch.float32) -> Any:
    return randn(b, t, d, dtype=dtype), (torch.randn(d) * d**-0.5).to(dtype), capacity


def depth_ref(x: Any, router: Any, capacity: int) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    score = (x.to(wide) * router.to(wide)).sum(2)
    value, place = score.topk(capacity, 1)
    place, order = place.sort(1)
    weight = torch.sigmoid(value.gather(1, order))
    packed = x.gather(1, place[:, :, None].expand(-1, -1, x.size(2)))
    chosen = torch.zeros(score.shape, dtype=torch.bool).scatter(1, place, True)
    aim = F.binary_cross_entropy_with_logits(score, chosen.to(wide))
    return packed, place.int(), weight, aim


@stranger(
    make_depth,
    depth_ref,
    {"b": 3, "t": 21, "d": 16, "capacity": 5},
    {"b": 16, "t": 4096, "d": 2048, "capacity": 512, "dtype": torch.bfloat16},
)
@tileflow.kernel
def depth_router(x, router, capacity: tfl.constexpr):
    """Raposo and others, 2024 (mixture of depths): the tokens that a block takes, packed in their order, and a loss."""
    b, t, d = x.shape
    score = torch.empty(b, t, device=x.device)
    packed = torch.empty(b, capacity, d, dtype=x.dtype, device=x.device)
    place = torch.empty(b, capacity, dtype=torch.int32, device=x.device)
    weight = torch.empty(b, capacity, device=x.device)
    aim = torch.zeros((), device=x.device)
    for tb, tt in tfl.tile([b, t]):
        score[tb, tt] = (x[tb, tt, :].float() * router[:].float()).sum(2)
    for tb in tfl.tile(b):
        row = score[tb, :]
        value, index = torch.topk(row, capacity, dim=1)
        least = value[:, capacity - 1][:, None]
        index, order = torch.sort(index, 1)
        place[tb, :] = index
        weight[tb, :] = torch.sigmoid(torch.gather(value, 1, order))
        chosen = (row >= least).float()
        tfl.atomic_add(aim, [], F.binary_cross_entropy_with_logits(row, chosen, reduction="sum") / (b * t))
    for tb, tc, td in tfl.tile([b, capacity, d]):
        packed[tb, tc, td] = x[tb.index[:, None, None], place[tb, tc][:, :, None], td.index]
    return packed, place, weight, aim


def make_engram(t: int, heads: int, size: int, width: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        torch.randint(0, 1000, (t,)),
        (torch.arange(t) % 37).int(),
        torch.randint(1, 1 << 30, (3, heads)) * 2 + 1,
        randn(2, heads, size, width, dtype=dtype),
        randn(t, d, dtype=dtype),
        *((torch.randn(2 * heads * width, d) * (2 * heads * width) ** -0.5).to(dtype) for _ in range(2)),
    )


def engram_ref(token: Any, since: Any, odd: Any, table: Any, h: Any, w_key: Any, w_value: Any) -> Any:
    wide = torch.promote_types(h.dtype, torch.float32)
    _, heads, size, _ = table.shape
    padded = F.pad(token, (2, 0))
    back = [torch.where(since >= k, padded[2 - k : 2 - k + token.numel()], 0) for k in range(3)]
    mixed, rows = back[0][:, None] * odd[0], []
    for k in (1, 2):
        mixed = mixed ^ (back[k][:, None] * odd[k])
        rows.append(table[k - 1, torch.arange(heads), mixed % size])
    e = torch.cat([x.flatten(1) for x in rows], 1).to(wide)
    key, value = e @ w_key.to(wide), e @ w_value.to(wide)
    d = h.size(1)
    score = (F.rms_norm(h.to(wide), (d,)) * F.rms_norm(key, (d,))).sum(1) * d**-0.5
    gate = torch.sigmoid(score.sign() * score.abs().clamp(min=1e-6).sqrt())
    return (h.to(wide) + gate[:, None] * value).to(h.dtype), gate


@stranger(
    make_engram,
    engram_ref,
    {"t": 27, "heads": 2, "size": 41, "width": 8, "d": 16},
    {"t": 8192, "heads": 8, "size": 200_003, "width": 64, "d": 1024, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ngram_memory(token, since, odd, table, h, w_key, w_value):
    """Cheng and others, 2026 (Engram): rows of hashed pairs and triples of tokens, let in as they suit the state."""
    t, d = h.shape
    _, heads, size, width = table.shape
    e = torch.empty(t, 2, heads, width, dtype=h.dtype, device=h.device)
    out = torch.empty_like(h)
    gates = torch.empty(t, device=h.device)
    for tt, th in tfl.tile([t, heads]):
        mixed = token[tt][:, None] * odd[0, th][None, :]
        for k in range(1, 3):
            before = torch.where(since[tt] >= k, token[tt - k], 0)
            mixed = mixed ^ (before[:, None] * odd[k, th][None, :])
            e[tt, k - 1, th, :] = table[k - 1, th.index[None, :], mixed % size, :]
    flat = e.view(t, 2 * heads * width)
    for tt in tfl.tile(t):
        key = flat[tt, :] @ w_key[:, :]
        value = flat[tt, :] @ w_value[:, :]
        state = h[tt, :].float()
        score = (F.rms_norm(state, (d,)) * F.rms_norm(key.float(), (d,))).sum(1) * d**-0.5
        gate = torch.sigmoid(torch.sign(score) * torch.sqrt(score.abs().clamp(min=1e-6)))
        out[tt, :] = state + gate[:, None] * value
        gates[tt] = gate
    return out, gates
