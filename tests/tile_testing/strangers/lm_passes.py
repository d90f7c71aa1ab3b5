"""Steps of training and serving language models in 2026: weights in two halves, packed batches, caches, states."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_halves(*shapes: int) -> Any:
    params, lows, grads, moments = [], [], [], []
    for n in shapes:
        bits = torch.randn(n).view(torch.int32)
        params.append((bits >> 16).to(torch.int16).view(torch.bfloat16))
        lows.append(bits.to(torch.int16))
        grads.append(randn(n, dtype=torch.bfloat16))
        moments.append(randn(n, dtype=torch.bfloat16))
    return params, lows, grads, moments, 2.0**-9


def halves_ref(params: Any, lows: Any, grads: Any, moments: Any, rate: float) -> Any:
    turned = torch.tensor(0)
    for p, low, g, m in zip(params, lows, grads, moments, strict=True):
        high = p.to(torch.bfloat16).view(torch.int16).int() << 16
        w = (high | (low.int() & 0xFFFF)).view(torch.float32)
        update = (0.875 * m.double() + 0.125 * g.double()).sign()
        agrees = update * g.double() > 0
        bits = (w - rate * torch.where(agrees, update, 0).float()).view(torch.int32)
        m.copy_(0.96875 * m.double() + 0.03125 * g.double())
        p.copy_((bits >> 16).to(torch.int16).view(torch.bfloat16))
        low.copy_(bits.to(torch.int16))
        turned += (~agrees).sum()
    return turned


class Betas(NamedTuple):
    update: float = 0.875
    moment: float = 0.96875


@stranger(lambda shapes: make_halves(*shapes), halves_ref, {"shapes": (37, 1, 130)}, {"shapes": (1 << 22, 4097)})
@tileflow.kernel
def cautious_lion_in_halves(params, lows, grads, moments, rate: float):
    """Liang and others, 2024 (cautious Lion), where the float32 weight is a bfloat16 and the sixteen bits below it."""
    betas = Betas()
    turned = torch.zeros((), dtype=torch.int64, device=params[0].device)
    for p, low, g, m in zip(params, lows, grads, moments, strict=True):
        for t in tfl.tile(p.numel()):
            grad, moment = g[t].float(), m[t].float()
            update = torch.sign(betas.update * moment + (1 - betas.update) * grad)
            agrees = update * grad > 0
            high = p[t].view(torch.int16).to(torch.int32) << 16
            w = (high | (low[t].to(torch.int32) & 0xFFFF)).view(torch.float32)
            w -= rate * torch.where(agrees, update, 0.0)
            bits = w.view(torch.int32)
            p[t] = (bits >> 16).to(torch.int16).view(torch.bfloat16)
            low[t] = bits.to(torch.int16)
            m[t] = betas.moment * moment + (1 - betas.moment) * grad
            tfl.atomic_add(turned, [], (~agrees).sum())
    return turned


def make_balance(b: int, t: int, experts: int, k: int) -> Any:
    real = torch.arange(t)[None, :] < torch.randint(1, t + 1, (b, 1))
    return torch.randn(b, t, experts), real, k, 1e-2, 1e-3


def balance_ref(logits: Any, real: Any, k: int, alpha: float, beta: float) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    x = logits.to(wide)
    experts = x.size(2)
    p = x.softmax(2)
    weight, chosen = p.topk(k, 2)
    weight = weight / weight.sum(2, keepdim=True)
    hot = F.one_hot(chosen, experts).sum(2) * real[:, :, None]
    count = real.sum(1)
    f = hot.sum(1).to(wide) * experts / (k * count[:, None])
    mean = (p * real[:, :, None]).sum(1) / count[:, None]
    aux = alpha * (f * mean).sum(1).mean()
    z = (torch.logsumexp(x, 2) ** 2 * real).sum() / real.sum()
    weight = torch.where(real[:, :, None], weight, 0)
    chosen = torch.where(real[:, :, None], chosen, -1)
    return chosen.int(), weight.to(logits.dtype), hot.sum((0, 1)), aux + beta * z


@stranger(
    make_balance,
    balance_ref,
    {"b": 3, "t": 29, "experts": 12, "k": 3},
    {"b": 16, "t": 4096, "experts": 128, "k": 8},
)
@tileflow.kernel
def sequence_balance_loss(logits, real, k: int, alpha: float, beta: float):
    """DeepSeek-V3's loss of each sequence's balance between experts, and Zoph's z-loss, padding left out."""
    b, t, experts = logits.shape
    device = logits.device
    chosen = torch.full((b, t, k), -1, dtype=torch.int32, device=device)
    weights = torch.zeros(b, t, k, dtype=logits.dtype, device=device)
    load = torch.zeros(b, experts, dtype=torch.int64, device=device)
    mass = torch.zeros(b, experts, device=device)
    z = torch.zeros((), device=device)
    for tb, tt in tfl.tile([b, t], block_size=[1, None]):
        i = tb.begin
        x = logits[i, tt, :].float()
        ok = real[i, tt]
        top = torch.logsumexp(x, -1)
        p = torch.exp(x - top[:, None])
        value, index = torch.topk(p, k, dim=-1)
        value = value / value.sum(-1, keepdim=True)
        chosen[i, tt, :] = torch.where(ok[:, None], index, -1)
        weights[i, tt, :] = torch.where(ok[:, None], value, 0.0)
        hot = index[:, :, None] == torch.arange(experts, device=device)
        tfl.atomic_add(load, [i, slice(None)], (hot & ok[:, None, None]).sum(1).sum(0))
        tfl.atomic_add(mass, [i, slice(None)], (p * ok[:, None]).sum(0))
        tfl.atomic_add(z, [], (top * top * ok).sum())
    count = real.sum(1, keepdim=True)
    f = load * experts / (k * count)
    aux = alpha * (f * mass / count).sum(1).mean()
    return chosen, weights, load.sum(0), aux + beta * z / real.sum()


def make_prefill(
    sequences: int, heads: int, groups: int, d: int, page: int, longest: int, dtype: torch.dtype = torch.float32
) -> Any:
    new = torch.randint(1, longest // 2, (sequences,))
    old = torch.randint(0, longest - longest // 2, (sequences,))
    starts = F.pad(new.cumsum(0), (1, 0)).int()
    pages = -(-longest // page)
    table = torch.randperm(sequences * pages).view(sequences, pages).int()
    cache = torch.randn(2, sequences * pages, page, groups, d).to(torch.float8_e4m3fn)
    scale = 0.5 + torch.rand(2, groups)
    q = randn(int(starts[-1]), heads, d, dtype=dtype)
    return q, cache[0], cache[1], scale[0], scale[1], table, starts, (old + new).int()


def prefill_ref(q: Any, kc: Any, vc: Any, ks: Any, vs: Any, table: Any, starts: Any, lengths: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros(q.shape, dtype=wide)
    shared = q.size(1) // kc.size(2)
    for s in range(lengths.numel()):
        a, b, n = int(starts[s]), int(starts[s + 1]), int(lengths[s])
        k = (kc.to(wide)[table[s].long()].flatten(0, 1)[:n] * ks[:, None]).repeat_interleave(shared, 1).to(wide)
        v = (vc.to(wide)[table[s].long()].flatten(0, 1)[:n] * vs[:, None]).repeat_interleave(shared, 1).to(wide)
        scores = torch.einsum("qhd,khd->hqk", q[a:b].to(wide), k) * q.size(2) ** -0.5
        seen = torch.arange(n)[None, :] <= torch.arange(n - (b - a), n)[:, None]
        out[a:b] = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, float("-inf")).softmax(-1), v)
    return out.to(q.dtype)


@stranger(
    make_prefill,
    prefill_ref,
    {"sequences": 3, "heads": 4, "groups": 2, "d": 16, "page": 8, "longest": 37},
    {"sequences": 8, "heads": 32, "groups": 8, "d": 128, "page": 64, "longest": 4096, "dtype": torch.bfloat16},
)
@tileflow.kernel
def paged_prefill_fp8(q, k_cache, v_cache, k_scale, v_scale, table, starts, lengths):
    """Chunked prefill: new queries of several sequences against their pages of a float8 cache, scales by head."""
    _, heads, d = q.shape
    page, groups = k_cache.size(1), k_cache.size(2)
    shared = heads // groups
    out = torch.zeros_like(q)
    for s, h in tfl.grid([lengths.numel(), heads]):
        begin, end = starts[s], starts[s + 1]
        length = lengths[s]
        before = length - (end - begin)
        g = h // shared
        for tq in tfl.tile(begin, end):
            query = q[tq, h, :]
            place = before + tq.index - begin
            m = tfl.full([tq], float("-inf"))
            total = tfl.zeros([tq])
            acc = tfl.zeros([tq, d])
            for tk in tfl.tile(0, length):
                where = table[s, tk.index // page]
                key = k_cache[where, tk.index % page, g, :].to(q.dtype)
                scores = tfl.dot(query, key.T) * (k_scale[g] * d**-0.5)
                scores = torch.where(tk.index[None, :] <= place[:, None], scores, float("-inf"))
                m_new = torch.maximum(m, scores.max(-1).values)
                p = torch.exp(scores - m_new[:, None])
                alpha = torch.exp(m - m_new)
                total = total * alpha + p.sum(-1)
                value = v_cache[where, tk.index % page, g, :].to(q.dtype)
                acc = acc * alpha[:, None] + tfl.dot(p.to(q.dtype), value)
                m = m_new
            out[tq, h, :] = (acc * v_scale[g] / total[:, None]).to(q.dtype)
    return out


def make_packed(sequences: int, t: int, heads: int, d: int, window: int, dtype: torch.dtype = torch.float32) -> Any:
    cuts = torch.randint(0, t + 1, (sequences - 1,)).sort().values
    starts = torch.cat([torch.zeros(1), cuts, torch.full((1,), t)]).int()
    qkv = randn(t, 3, heads, d, dtype=dtype)
    return *qkv.unbind(1), starts, 2.0 ** -torch.arange(1, heads + 1), torch.randn(heads), 30.0, window


def packed_ref(q: Any, k: Any, v: Any, starts: Any, slopes: Any, sinks: Any, cap: float, window: int) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    t, heads, d = q.shape
    out, lse = torch.zeros(q.shape, dtype=wide), torch.zeros(heads, t, dtype=wide)
    for s in range(starts.numel() - 1):
        a, b = int(starts[s]), int(starts[s + 1])
        qs, ks, vs = (x[a:b].to(wide) for x in (q, k, v))
        scores = torch.einsum("qhd,khd->hqk", qs, ks) * d**-0.5
        back = torch.arange(b - a)[:, None] - torch.arange(b - a)[None, :]
        scores = cap * torch.tanh(scores / cap) - slopes.to(wide)[:, None, None] * back
        scores = scores.masked_fill((back < 0) | (back >= window), float("-inf"))
        with_sink = torch.cat([scores, sinks.to(wide)[:, None, None].expand(-1, b - a, 1)], 2)
        lse[:, a:b] = with_sink.logsumexp(2)
        out[a:b] = torch.einsum("hqk,khd->qhd", with_sink.softmax(2)[:, :, :-1], vs)
    return out.to(q.dtype), lse


@stranger(
    make_packed,
    packed_ref,
    {"sequences": 4, "t": 53, "heads": 2, "d": 16, "window": 11},
    {"sequences": 12, "t": 8192, "heads": 16, "d": 128, "window": 1024, "dtype": torch.bfloat16},
)
@tileflow.kernel
def packed_alibi_sinks(q, k, v, starts, slopes, sinks, cap: float, window: int):
    """Attention over packed sequences with linear biases, capped scores, a window, and a sink for each head."""
    t, heads, d = q.shape
    out = torch.empty(t, heads, d, dtype=q.dtype, device=q.device)
    lse = torch.empty(heads, t, device=q.device)

    def score(query, key, slope, back):
        s = query @ key.T * d**-0.5
        s = cap * torch.tanh(s / cap) - slope * back
        return s.masked_fill((back < 0) | (back >= window), -torch.inf)

    for h, s in tfl.grid([heads, len(starts) - 1]):
        first, last = starts[s], starts[s + 1]
        for tq in tfl.tile(first, last):
            query = q[tq, h, :]
            top = torch.full_like(query[:, 0], 0.0, dtype=torch.float32) + sinks[h]
            total = torch.ones_like(top)
            acc = tfl.zeros([tq, d])
            for tk in tfl.tile(max(first, tq.begin - window + 1), tq.end):
                back = tq.index[:, None] - tk.index[None, :]
                x = score(query, k[tk, h, :], slopes[h], back)
                new = torch.maximum(top, x.amax(1))
                p = (x - new[:, None]).exp()
                acc *= (top - new).exp()[:, None]
                acc += p.to(v.dtype) @ v[tk, h, :]
                total = total * (top - new).exp() + p.sum(1)
                top = new
            out[tq, h, :] = acc / total[:, None]
            lse[h, tq] = top + total.log()
    return out, lse


def make_decode(
    b: int, heads: int, values: int, d: int, dv: int, slots: int, dtype: torch.dtype = torch.float32
) -> Any:
    slot = torch.randperm(slots)[:b]
    slot[b // 2] = -1
    q, k = (F.normalize(torch.randn(b, heads, d), dim=-1).to(dtype) for _ in range(2))
    a = randn(b, values, d, dtype=dtype)
    rest = (
        randn(b, values, dv, dtype=dtype),
        randn(b, values, dtype=dtype),
        a,
        torch.rand(values),
        torch.randn(values, d),
    )
    return q, k, *rest, torch.randn(slots, values, d, dv), slot


def decode_ref(q: Any, k: Any, v: Any, b: Any, a: Any, a_log: Any, bias: Any, states: Any, slot: Any) -> Any:
    wide = states.dtype
    out = torch.zeros(v.shape, dtype=wide)
    shared = v.size(1) // q.size(1)
    for i, s in enumerate(slot.tolist()):
        if s < 0:
            continue
        decay = torch.exp(-torch.exp(a_log.to(wide))[:, None] * F.softplus(a[i].to(wide) + bias.to(wide)))
        state = states[s] * decay[:, :, None]
        key = k[i].to(wide).repeat_interleave(shared, 0)[:, :, None]
        new = torch.sigmoid(b[i].to(wide))[:, None] * (v[i].to(wide) - (state * key).sum(1))
        states[s] = state + key * new[:, None, :]
        out[i] = (states[s] * q[i].to(wide).repeat_interleave(shared, 0)[:, :, None]).sum(1) * q.size(2) ** -0.5
    return out.to(v.dtype), states


@stranger(
    make_decode,
    decode_ref,
    {"b": 5, "heads": 2, "values": 4, "d": 16, "dv": 24, "slots": 9},
    {"b": 256, "heads": 16, "values": 32, "d": 128, "dv": 128, "slots": 300, "dtype": torch.bfloat16},
)
@tileflow.kernel
def channel_delta_decode_slots(q, k, v, b, a, a_log, bias, states, slot):
    """Kimi's delta attention for one token of each sequence: states lie in slots, and a slot of -1 is padding."""
    n, heads, d = q.shape
    values, dv = v.shape[1:]
    out = torch.zeros_like(v)
    for i, h, tv in tfl.tile([n, values, dv], block_size=[1, 1, None]):
        i, h = i.begin, h.begin
        where = slot[i]
        if where >= 0:
            key = k[i, h // (values // heads), :].float()
            query = q[i, h // (values // heads), :].float() * d**-0.5
            decay = torch.exp(-torch.exp(a_log[h]) * F.softplus(a[i, h, :].float() + bias[h, :]))
            state = states[where, h, :, tv] * decay[:, None]
            new = torch.sigmoid(b[i, h].float()) * (v[i, h, tv].float() - (state * key[:, None]).sum(0))
            state += key[:, None] * new[None, :]
            states[where, h, :, tv] = state
            out[i, h, tv] = (state * query[:, None]).sum(0).to(v.dtype)
    return out, states


def make_conv_state(b: int, channels: int, width: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    ring = randn(b, channels, width, dtype=dtype).transpose(1, 2).contiguous().transpose(1, 2)
    x, z = randn(b, 2 * channels, dtype=dtype).chunk(2, 1)
    bc = randn(b, 2, n, dtype=dtype)
    steps = torch.randint(0, 50, (b,))
    w = torch.randn(channels, width) * 0.5
    state = torch.randn(b, channels, n)
    return (
        x,
        z,
        bc[:, 0],
        bc[:, 1],
        w,
        ring,
        steps,
        state,
        torch.randn(channels),
        -torch.rand(channels, n),
        torch.ones(channels),
    )


def conv_state_ref(
    x: Any, z: Any, bb: Any, cc: Any, w: Any, ring: Any, steps: Any, state: Any, dt: Any, a: Any, skip: Any
) -> Any:
    wide = state.dtype
    width = w.size(1)
    ring[torch.arange(x.size(0)), :, steps % width] = x
    order = (steps[:, None] + 1 + torch.arange(width)) % width
    past = ring.to(wide).gather(2, order[:, None, :].expand(-1, x.size(1), -1))
    u = F.silu((past * w.to(wide)).sum(2))
    delta = F.softplus(dt.to(wide))[None, :, None]
    state.copy_(state * torch.exp(delta * a.to(wide)) + delta * bb.to(wide)[:, None] * u[:, :, None])
    y = (state * cc.to(wide)[:, None]).sum(2) + skip.to(wide) * u
    steps += 1
    return (y * F.silu(z.to(wide))).to(x.dtype), ring, state, steps


@stranger(
    make_conv_state,
    conv_state_ref,
    {"b": 3, "channels": 37, "width": 4, "n": 16},
    {"b": 64, "channels": 8192, "width": 4, "n": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ring_convolution_state_step(x, z, b, c, w, ring, steps, state, dt, a, skip):
    """Mamba's step of decoding: the last inputs lie in a ring, whose place each sequence's own count says."""
    n, channels = x.shape
    width = w.size(1)
    y = torch.empty_like(x)
    for i in tfl.grid(n):
        now = steps[i] % width
        for tc in tfl.tile(channels):
            ring[i, tc, now] = x[i, tc]
            u = w[tc, width - 1] * x[i, tc]
            for j in range(1, width):
                u = u + w[tc, width - 1 - j] * ring[i, tc, (now - j) % width]
            u = u * torch.sigmoid(u)
            delta = F.softplus(dt[tc])[:, None]
            s = state[i, tc, :] * torch.exp(delta * a[tc, :]) + delta * b[i, :] * u[:, None]
            state[i, tc, :] = s
            out = (s * c[i, :]).sum(-1) + skip[tc] * u
            y[i, tc] = out * F.silu(z[i, tc].float())
        steps[i] += 1
    return y, ring, state, steps
