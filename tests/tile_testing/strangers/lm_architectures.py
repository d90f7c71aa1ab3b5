"""Layers of late language models: streams that mix, low-rank steps, fp8 experts, counted positions, gated memories."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_streams(t: int, n: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    static = torch.cat([torch.eye(n)[:, :1], torch.eye(n)], 1) + 0.1 * torch.randn(n, n + 1)
    dynamic = (torch.randn(d, n + 2) * d**-0.5).to(dtype)
    return randn(t, n, d, dtype=dtype), (torch.rand(d) + 0.5).to(dtype), static, dynamic, torch.rand(n), 0.3


def streams_ref(h: Any, gain: Any, static: Any, dynamic: Any, static_out: Any, scale: float) -> Any:
    wide = torch.promote_types(h.dtype, torch.float32)
    normed = F.rms_norm(h.to(wide), (h.size(2),), gain.to(wide), 1e-6)
    change = scale * torch.tanh(normed.to(h.dtype) @ dynamic).to(wide)
    alpha, beta = static + change[:, :, :-1], static_out + change[:, :, -1]
    mixed = (alpha.mT @ h.to(wide)).to(h.dtype)
    return mixed[:, 0], mixed[:, 1:], beta


@stranger(
    make_streams,
    streams_ref,
    {"t": 13, "n": 3, "d": 37},
    {"t": 8192, "n": 4, "d": 2048, "dtype": torch.bfloat16},
)
@tileflow.kernel
def hyper_connections(h, gain, static, dynamic, static_out, scale: float):
    """Zhu and others, 2024 (hyper-connections): what a layer reads of several streams, and how they mix, by token."""
    t, n, d = h.shape
    read = torch.empty(t, d, dtype=h.dtype, device=h.device)
    mixed = torch.empty_like(h)
    written = torch.empty(t, n, device=h.device)
    for tt in tfl.tile(t):
        streams = h[tt, :, :].float()
        normed = F.rms_norm(streams, (d,), gain[:].float(), 1e-6)
        change = scale * torch.tanh(normed.to(h.dtype) @ dynamic[:, :]).float()
        alpha = static[:, :] + change[:, :, : n + 1]
        written[tt, :] = static_out[:] + change[:, :, n + 1]
        both = torch.einsum("tnm,tnd->tmd", alpha, streams)
        read[tt, :] = both[:, 0]
        mixed[tt, :, :] = both[:, 1:]
    return read, mixed, written


def make_low_rank(m: int, n: int, r: int, dtype: torch.dtype = torch.float32) -> Any:
    p = (torch.randn(m, r) * m**-0.5).to(dtype)
    return randn(m, n, dtype=dtype), p, randn(m, n, dtype=dtype), randn(r, n) * 0.1, torch.rand(r, n), 7, 0.01, 0.25


def low_rank_ref(g: Any, p: Any, w: Any, first: Any, second: Any, step: int, rate: float, scale: float) -> Any:
    low = (p.to(first.dtype).T @ g.to(first.dtype)).to(first.dtype)
    first.lerp_(low, 0.1)
    second.mul_(0.999).addcmul_(low, low, value=0.001)
    direction = first / (1 - 0.9**step) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
    w.sub_((rate * scale * (p.to(first.dtype) @ direction)).to(w.dtype))
    return w, first, second


@stranger(
    make_low_rank,
    low_rank_ref,
    {"m": 53, "n": 37, "r": 5},
    {"m": 4096, "n": 11008, "r": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def low_rank_adam(g, p, w, first, second, step: int, rate: float, scale: float):
    """Zhao and others, 2024 (GaLore): Adam on a gradient's projection, whose step goes back onto the weights."""
    m, n = g.shape
    r = p.size(1)
    for tn in tfl.tile(n):
        low = tfl.zeros([r, tn])
        for tm in tfl.tile(m):
            low = tfl.dot(p[tm, :].T, g[tm, tn], acc=low)
        mean = 0.9 * first[:, tn] + 0.1 * low
        square = 0.999 * second[:, tn] + 0.001 * low * low
        first[:, tn] = mean
        second[:, tn] = square
        direction = mean / (1 - 0.9**step) / (torch.sqrt(square / (1 - 0.999**step)) + 1e-8)
        for tm in tfl.tile(m):
            w[tm, tn] -= rate * scale * (p[tm, :] @ direction.to(p.dtype))
    return w, first, second


def make_experts(t: int, k: int, e: int, f: int, block: int) -> Any:
    cuts = torch.cat([torch.zeros(1), torch.randint(0, t + 1, (e - 1,)).sort().values, torch.full((1,), t)])
    x, w = (torch.randn(s).to(torch.float8_e4m3fn) for s in ((t, k), (e, 2 * f, k)))
    scales = [torch.rand(s) + 0.5 for s in ((t, k // block), (e, 2 * f // block, k // block))]
    return x, scales[0], w, scales[1] * k**-0.5, cuts.int(), block


def experts_ref(x: Any, xs: Any, w: Any, ws: Any, offsets: Any, block: int) -> Any:
    t, f = x.size(0), w.size(1) // 2
    rows = x.to(xs.dtype) * xs.repeat_interleave(block, 1)
    y = torch.empty(t, f, dtype=xs.dtype)
    for e in range(w.size(0)):
        matrix = w[e].to(ws.dtype) * ws[e].repeat_interleave(block, 0).repeat_interleave(block, 1)
        gate, up = (rows[offsets[e] : offsets[e + 1]] @ matrix.T).chunk(2, 1)
        y[offsets[e] : offsets[e + 1]] = F.silu(gate) * up
    y = y.unflatten(1, (-1, block))
    scale = y.abs().amax(2).clamp(min=1e-10) / 448
    return (y / scale[:, :, None]).flatten(1).to(torch.float8_e4m3fn), scale


@stranger(
    make_experts,
    experts_ref,
    {"t": 37, "k": 48, "e": 3, "f": 32, "block": 16},
    {"t": 4096, "k": 7168, "e": 16, "f": 1024, "block": 128},
)
@tileflow.kernel
def expert_swiglu_fp8(x, x_scale, w, w_scale, offsets, block: tfl.constexpr):
    """DeepSeek-AI, 2024 (V3): experts of fp8 with scales by block, SwiGLU, and its result in fp8 by blocks again."""
    t, k = x.shape
    f = w.size(1) // 2
    out = torch.empty(t, f, dtype=x.dtype, device=x.device)
    out_scale = torch.empty(t, f // block, device=x.device)
    for e, j in tfl.grid([w.size(0), f // block]):
        for tt in tfl.tile(offsets[e], offsets[e + 1]):
            gate = tfl.zeros([tt, block])
            up = tfl.zeros([tt, block])
            for c in range(k // block):
                a = x[tt, c * block : (c + 1) * block]
                b = w[e, j * block : (j + 1) * block, c * block : (c + 1) * block]
                gate += tfl.dot(a, b.T) * (x_scale[tt, c] * w_scale[e, j, c])[:, None]
                b = w[e, f + j * block : f + (j + 1) * block, c * block : (c + 1) * block]
                up += tfl.dot(a, b.T) * (x_scale[tt, c] * w_scale[e, f // block + j, c])[:, None]
            y = F.silu(gate) * up
            scale = y.abs().amax(1).clamp(min=1e-10) / 448
            out[tt, j * block : (j + 1) * block] = (y / scale[:, None]).to(x.dtype)
            out_scale[tt, j] = scale
    return out, out_scale


def make_counted(heads: int, t: int, d: int, places: int, dtype: torch.dtype = torch.float32) -> Any:
    return *(randn(heads, t, d, dtype=dtype) for _ in range(3)), randn(d, places, dtype=dtype)


def counted_ref(q: Any, k: Any, v: Any, places: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    t, d = q.shape[1:]
    later = torch.ones(t, t, dtype=torch.bool).triu(1)
    scores = (q.to(wide) @ k.to(wide).mT * d**-0.5).masked_fill(later, float("-inf"))
    place = torch.sigmoid(scores).flip(2).cumsum(2).flip(2).clamp(max=places.size(1) - 1)
    table = q.to(wide) @ places.to(wide)
    low, high = table.gather(2, place.floor().long()), table.gather(2, place.ceil().long())
    return ((scores + torch.lerp(low, high, place.frac())).softmax(2) @ v.to(wide)).to(q.dtype)


@stranger(
    make_counted,
    counted_ref,
    {"heads": 2, "t": 37, "d": 16, "places": 11},
    {"heads": 64, "t": 2048, "d": 64, "places": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def contextual_positions(q, k, v, places):
    """Golovneva and others, 2024 (CoPE): a key's position is the sum of gates up to the query, interpolated."""
    heads, t, d = q.shape
    last = places.size(1) - 1
    size = tfl.register_block_size(16, 128)
    out = torch.empty_like(q)
    for th, tt in tfl.tile([heads, t], block_size=[1, None]):
        h = th.id
        query = q[h, tt, :]
        table = tfl.dot(query, places[:, :])
        end = (tt.end + size - 1) // size * size
        counted, total = tfl.zeros([tt]), tfl.zeros([tt])
        top = tfl.full([tt], -1e30)
        acc = tfl.zeros([tt, d])
        for tk in tfl.tile(end, block_size=size):  # from the diagonal back to the first key, as positions count
            begin = end - size - tk.begin
            scores = tfl.dot(query, k[h, begin : begin + size, :].T) * d**-0.5
            later = begin + tfl.arange(size)[None, :] > tt.index[:, None]
            scores = torch.where(later, float("-inf"), scores)
            gates = torch.sigmoid(scores)
            place = (counted[:, None] + tfl.cumsum(gates, 1, reverse=True)).clamp(max=last)
            low = torch.gather(table, 1, place.floor().long())
            high = torch.gather(table, 1, place.ceil().long())
            scores = scores + torch.lerp(low, high, place.frac())
            new = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - new[:, None])
            fade = torch.exp(top - new)
            total = total * fade + p.sum(1)
            acc = acc * fade[:, None] + tfl.dot(p.to(v.dtype), v[h, begin : begin + size, :])
            counted = counted + gates.sum(1)
            top = new
        out[h, tt, :] = acc / total[:, None]
    return out


def make_memory(b: int, t: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    r = (torch.randn(heads, 4, d, d) * d**-0.5).to(dtype)
    return randn(b, t, 4, heads, d, dtype=dtype), r, randn(4, heads, d)


def memory_ref(x: Any, r: Any, bias: Any) -> Any:
    b, t, _, heads, d = x.shape
    h, c, n, m = torch.zeros(4, b, heads, d, dtype=bias.dtype)
    out = torch.empty(b, t, heads, d, dtype=x.dtype)
    for i in range(t):
        recurrent = torch.einsum("bhd,hgde->bghe", h.to(x.dtype), r)
        i_raw, f_raw, z_raw, o_raw = (x[:, i] + bias + recurrent).unbind(1)
        kept = F.logsigmoid(f_raw) + m
        m = torch.maximum(kept, i_raw)
        forget, enter = torch.exp(kept - m), torch.exp(i_raw - m)
        c, n = forget * c + enter * torch.tanh(z_raw), forget * n + enter
        h = torch.sigmoid(o_raw) * c / n
        out[:, i] = h
    return out, torch.stack([h, c, n, m])


@stranger(
    make_memory,
    memory_ref,
    {"b": 5, "t": 11, "heads": 2, "d": 16},
    {"b": 128, "t": 256, "heads": 8, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def slstm_scan(x, r, bias):
    """Beck and others, 2024 (xLSTM's sLSTM): exponential gates under a running maximum, four matrices a step."""
    b, t, _, heads, d = x.shape
    out = torch.empty(b, t, heads, d, dtype=x.dtype, device=x.device)
    last = torch.empty(4, b, heads, d, device=x.device)
    for tb, th in tfl.tile([b, heads], block_size=[None, 1]):
        head = th.id
        matrices = [r[head, g, :, :] for g in range(4)]
        biases = [bias[g, head, :] for g in range(4)]
        h, c, n, m = (tfl.zeros([tb, d]) for _ in range(4))
        for i in range(t):
            before = h.to(x.dtype)
            raw = [x[tb, i, g, head, :] + biases[g] + tfl.dot(before, matrices[g]) for g in range(4)]
            kept = F.logsigmoid(raw[1]) + m
            m = torch.maximum(kept, raw[0])
            forget, enter = torch.exp(kept - m), torch.exp(raw[0] - m)
            c = forget * c + enter * torch.tanh(raw[2])
            n = forget * n + enter
            h = torch.sigmoid(raw[3]) * c / n
            out[tb, i, head, :] = h
        for j, state in enumerate((h, c, n, m)):
            last[j, tb, head, :] = state
    return out, last
