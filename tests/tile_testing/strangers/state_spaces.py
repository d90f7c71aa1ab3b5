"""State spaces and gated memories of 2024 to 2026: several groups of heads, oscillators, trapezoids, momentum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_ssd(b: int, t: int, heads: int, groups: int, p: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        randn(b, t, heads, p, dtype=dtype),
        randn(b, t, heads, dtype=dtype),
        torch.log(1 + 15 * torch.rand(heads)),
        *((torch.randn(b, t, groups, n) * n**-0.5).to(dtype) for _ in range(2)),
        torch.randn(heads),
        torch.randn(heads) - 4,
    )


def ssd_ref(x: Any, dt: Any, a_log: Any, b: Any, c: Any, skip: Any, bias: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    heads, groups = x.size(2), b.size(2)
    b, c = (one.to(wide).repeat_interleave(heads // groups, 2) for one in (b, c))
    step = F.softplus(dt.to(wide) + bias.to(wide))
    fade = torch.exp(-torch.exp(a_log.to(wide)) * step)
    state = torch.zeros(x.size(0), heads, b.size(3), x.size(3), dtype=wide)
    out = torch.empty_like(x)
    for i in range(x.size(1)):
        new = (step[:, i, :, None] * b[:, i])[..., None] * x[:, i].to(wide)[:, :, None]
        state = fade[:, i, :, None, None] * state + new
        y = (c[:, i][..., None] * state).sum(2) + skip.to(wide)[:, None] * x[:, i].to(wide)
        out[:, i] = y.to(x.dtype)
    return out


@stranger(
    make_ssd,
    ssd_ref,
    {"b": 2, "t": 37, "heads": 4, "groups": 2, "p": 16, "n": 16},
    {"b": 4, "t": 4096, "heads": 32, "groups": 8, "p": 64, "n": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def grouped_state_space(x, dt, a_log, b, c, skip, bias):
    """Dao and Gu, 2024 (Mamba-2), several heads to a group: chunk after chunk, with what skips the state."""
    batch, t, heads, p = x.shape
    _, _, groups, n = b.shape
    shared = heads // groups
    out = torch.empty_like(x)
    for tb, th in tfl.tile([batch, heads], block_size=[1, 1]):
        i, h = tb.begin, th.begin
        g = h // shared
        a = -torch.exp(a_log[h])
        state = tfl.zeros([n, p])
        for tt in tfl.tile(t):
            step = F.softplus(dt[i, tt, h].float() + bias[h])
            gone = torch.cumsum(a * step, 0)
            values = x[i, tt, h, :]
            keys = b[i, tt, g, :]
            queries = c[i, tt, g, :]
            causal = tt.index[:, None] >= tt.index[None, :]
            decay = torch.where(causal, torch.exp(gone[:, None] - gone[None, :]) * step[None, :], 0.0)
            within = ((queries @ keys.T) * decay).to(x.dtype) @ values
            before = (queries @ state.to(x.dtype)) * torch.exp(gone)[:, None]
            out[i, tt, h, :] = within + before + skip[h] * values
            left = (a * step).sum(0)
            kept = torch.exp(left - gone) * step
            state = torch.exp(left) * state + (keys * kept[:, None]).to(x.dtype).T @ values
    return out


def make_oscillators(b: int, t: int, p: int, dtype: torch.dtype = torch.float32) -> Any:
    return randn(b, t, p, dtype=dtype), 4 * torch.rand(p), torch.sigmoid(torch.randn(p)), torch.randn(p)


def oscillators_ref(u: Any, stiff: Any, dt: Any, skip: Any) -> Any:
    wide = torch.promote_types(u.dtype, torch.float32)
    stiff, dt, skip = stiff.to(wide), dt.to(wide), skip.to(wide)
    s = 1 / (1 + dt**2 * stiff)
    z, y = (torch.zeros(u.size(0), u.size(2), dtype=wide) for _ in range(2))
    out = torch.empty_like(u)
    for i in range(u.size(1)):
        force = u[:, i].to(wide)
        z, y = s * (z - dt * stiff * y + dt * force), s * (y + dt * z + dt**2 * force)
        out[:, i] = (F.gelu(y) + skip * force).to(u.dtype)
    return out


@stranger(
    make_oscillators,
    oscillators_ref,
    {"b": 3, "t": 41, "p": 9},
    {"b": 16, "t": 2048, "p": 512, "dtype": torch.bfloat16},
)
@tileflow.kernel
def oscillatory_states(u, stiff, dt, skip):
    """Rusch and Rus, 2024 (LinOSS): forced oscillators, each implicit step a matrix of two by two, by a scan."""
    b, _, p = u.shape
    out = torch.empty_like(u)

    def after(first, then):
        a, b, c, d, z, y = first
        e, f, g, h, w, v = then
        return (
            e * a + f * c,
            e * b + f * d,
            g * a + h * c,
            g * b + h * d,
            e * z + f * y + w,
            g * z + h * y + v,
        )

    for tb, tp in tfl.tile([b, p]):
        force = u[tb, :, tp].float()
        step, k = dt[tp], stiff[tp]
        s = 1 / (1 + step * step * k)
        system = (s, -s * step * k, s * step, s, s * step * force, s * step * step * force)
        _, _, _, _, _, y = tfl.associative_scan(after, system, dim=1)
        out[tb, :, tp] = F.gelu(y) + skip[tp] * force
    return out


def make_trapezoid(b: int, heads: int, p: int, n: int, rank: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        *(randn(b, heads, p, dtype=dtype) for _ in range(2)),
        torch.randn(b, heads) - 2,
        -torch.rand(b, heads),
        torch.randn(b, heads),
        *(randn(b, rank, n, dtype=dtype) for _ in range(2)),
        torch.randn(b, n // 2),
        *(torch.randn(heads, rank, n) for _ in range(2)),
        *(torch.randn(heads, rank, p) for _ in range(2)),
        torch.randn(heads),
        torch.randn(b, heads, p, n),
        randn(b, heads, rank, n, dtype=dtype),
        randn(b, heads, rank, p, dtype=dtype),
        6 * torch.rand(b, heads, n // 2),
    )


def turned(x: Any, angle: Any) -> Any:
    pairs = x.unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    cos, sin = angle.cos()[:, :, None], angle.sin()[:, :, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def trapezoid_ref(
    x: Any, z: Any, dt: Any, a: Any, trap: Any, b: Any, c: Any, turn: Any, b_bias: Any, c_bias: Any,
    spread: Any, gather: Any, skip: Any, state: Any, key: Any, value: Any, angle: Any,
) -> Any:  # fmt: skip
    wide = state.dtype
    n = b.size(2)
    step = F.softplus(dt)
    fade, share = torch.exp(step * a), torch.sigmoid(trap)
    angle.copy_(angle + step[:, :, None] * turn[:, None])
    k = turned(F.rms_norm(b.to(wide), (n,), eps=1e-5)[:, None] + b_bias, angle)
    q = turned(F.rms_norm(c.to(wide), (n,), eps=1e-5)[:, None] + c_bias, angle)
    v = x.to(wide)[:, :, None] * spread
    old = value.to(wide).mT @ key.to(wide)
    new = fade[..., None, None] * (state + ((1 - share) * step)[..., None, None] * old)
    new = new + (share * step)[..., None, None] * (v.mT @ k)
    y = ((q @ new.mT) * gather).sum(2) + skip[:, None] * x.to(wide)
    state.copy_(new)
    key.copy_(k)
    value.copy_(v)
    return (y * F.silu(z.to(wide))).to(x.dtype), state, key, value, angle


def rotate(rows, cos, sin):
    rank, n = rows.shape
    first, second = tfl.split(rows.reshape(rank, n // 2, 2))
    return tfl.join(first * cos - second * sin, first * sin + second * cos).reshape(rank, n)


@stranger(
    make_trapezoid,
    trapezoid_ref,
    {"b": 3, "heads": 4, "p": 16, "n": 32, "rank": 4},
    {"b": 128, "heads": 64, "p": 64, "n": 128, "rank": 4, "dtype": torch.bfloat16},
)
@tileflow.kernel
def trapezoid_decode(
    x, z, dt, a, trap, b, c, turn, b_bias, c_bias, spread, gather, skip, state, key, value, angle
):  # fmt: skip
    """Lahoti and others, 2026 (Mamba-3): one token; trapezoidal steps, states that turn, several inputs to a head."""
    batch, heads, _ = x.shape
    n = b.size(2)
    out = torch.empty_like(x)
    for tb, th in tfl.tile([batch, heads], block_size=[1, 1]):
        i, h = tb.begin, th.begin
        step = F.softplus(dt[i, h])
        fade = torch.exp(step * a[i, h])
        share = torch.sigmoid(trap[i, h])
        theta = angle[i, h, :] + step * turn[i, :]
        cos, sin = torch.cos(theta), torch.sin(theta)
        k = rotate(F.rms_norm(b[i, :, :].float(), (n,), eps=1e-5) + b_bias[h, :, :], cos, sin)
        q = rotate(F.rms_norm(c[i, :, :].float(), (n,), eps=1e-5) + c_bias[h, :, :], cos, sin)
        token = x[i, h, :].float()
        v = token[None, :] * spread[h, :, :]
        old = value[i, h, :, :].float().T @ key[i, h, :, :].float()
        new = fade * (state[i, h, :, :] + (1 - share) * step * old) + share * step * (v.T @ k)
        y = ((q @ new.T) * gather[h, :, :]).sum(0) + skip[h] * token
        out[i, h, :] = y * F.silu(z[i, h, :].float())
        state[i, h, :, :] = new
        key[i, h, :, :] = k
        value[i, h, :, :] = v
        angle[i, h, :] = theta
    return out, state, key, value, angle


def make_matrix_memory(b: int, heads: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k, v = (randn(b, heads, t, d, dtype=dtype) for _ in range(3))
    return q, k, v, 2 * torch.randn(b, heads, t), torch.randn(b, heads, t) + 3, torch.rand(heads, d) + 0.5


def matrix_memory_ref(q: Any, k: Any, v: Any, enter: Any, forget: Any, gain: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    _, heads, t, d = q.shape
    gone = F.logsigmoid(forget.to(wide)).cumsum(-1)
    seen = torch.ones(t, t).tril() > 0
    out = torch.empty_like(q)
    for h in range(heads):
        weight = gone[:, h, :, None] - gone[:, h, None] + enter[:, h, None].to(wide)
        weight = weight.masked_fill(~seen, float("-inf"))
        top = weight.amax(-1, keepdim=True)
        scores = (q[:, h].to(wide) @ k[:, h].to(wide).mT) * d**-0.5 * torch.exp(weight - top)
        norm = torch.maximum(scores.sum(-1, keepdim=True).abs(), torch.exp(-top))
        y = (scores / (norm + 1e-6)) @ v[:, h].to(wide)
        out[:, h] = (F.layer_norm(y, (d,), eps=1e-6) * gain[h].to(wide)).to(q.dtype)
    return out


@stranger(
    make_matrix_memory,
    matrix_memory_ref,
    {"b": 2, "heads": 2, "t": 45, "d": 16},
    {"b": 4, "heads": 8, "t": 4096, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def matrix_memory(q, k, v, enter, forget, gain):
    """Beck and others, 2024 (xLSTM's mLSTM), in parallel: exponential gates under a maximum, and a norm by head."""
    b, heads, t, d = q.shape
    gone = torch.empty(b, heads, t, device=q.device)
    out = torch.empty_like(q)
    for tb, th in tfl.tile([b, heads]):
        gone[tb, th, :] = torch.cumsum(F.logsigmoid(forget[tb, th, :]), -1)
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        queries = q[i, h, tq, :]
        here = gone[i, h, tq]
        top = tfl.full([tq], float("-inf"))
        total = tfl.zeros([tq])
        acc = tfl.zeros([tq, d])
        for tk in tfl.tile(tq.end):
            weight = here[:, None] - gone[i, h, tk][None, :] + enter[i, h, tk][None, :]
            weight = torch.where(tq.index[:, None] >= tk.index[None, :], weight, float("-inf"))
            new = torch.maximum(top, weight.amax(1))
            scores = (queries @ k[i, h, tk, :].T) * d**-0.5 * torch.exp(weight - new[:, None])
            fade = torch.exp(top - new)
            total = total * fade + scores.sum(1)
            acc = acc * fade[:, None] + scores.to(v.dtype) @ v[i, h, tk, :]
            top = new
        norm = torch.maximum(total.abs(), torch.exp(-top)) + 1e-6
        out[i, h, tq, :] = F.layer_norm(acc / norm[:, None], (d,), eps=1e-6) * gain[h, :]
    return out


def make_log_lstm(b: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    return *(randn(b, t, d, dtype=dtype) for _ in range(3)), torch.rand(b, d) + 0.1


def log_lstm_ref(forget: Any, enter: Any, hidden: Any, before: Any) -> Any:
    wide = torch.promote_types(forget.dtype, torch.float32)
    f, i = torch.sigmoid(forget.to(wide)), torch.sigmoid(enter.to(wide))
    new = torch.where(hidden >= 0, hidden.to(wide) + 0.5, torch.sigmoid(hidden.to(wide)))
    state, out = before.to(wide), torch.empty_like(forget)
    for n in range(f.size(1)):
        state = (f[:, n] * state + i[:, n] * new[:, n]) / (f[:, n] + i[:, n])
        out[:, n] = state.to(forget.dtype)
    return out


@stranger(
    make_log_lstm,
    log_lstm_ref,
    {"b": 3, "t": 29, "d": 19},
    {"b": 16, "t": 2048, "d": 1024, "dtype": torch.bfloat16},
)
@tileflow.kernel
def log_space_lstm(forget, enter, hidden, before):
    """Feng and others, 2024 (minLSTM), as they print it: sums and sums of exponentials of logarithms along time."""
    b, _, d = forget.shape
    out = torch.empty_like(forget)
    for tb, td in tfl.tile([b, d]):
        x = hidden[tb, :, td].float()
        difference = F.softplus(-forget[tb, :, td].float()) - F.softplus(-enter[tb, :, td].float())
        log_f = -F.softplus(difference)
        log_i = -F.softplus(-difference)
        log_h = torch.where(x >= 0, torch.log(F.relu(x) + 0.5), -F.softplus(-x))
        gone = torch.cumsum(log_f, 1)
        entered = torch.logcumsumexp(log_i + log_h - gone, 1)
        first = torch.log(before[tb, td])[:, None, :]
        out[tb, :, td] = torch.exp(gone + torch.logaddexp(first, entered))
    return out


def make_momentum(b: int, t: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k = (F.normalize(torch.randn(b, t, heads, d), dim=-1).to(dtype) for _ in range(2))
    gates = torch.randn(3, b, t, heads) + torch.tensor([-3.0, 0.0, 1.0])[:, None, None, None]
    return q, k, randn(b, t, heads, d, dtype=dtype), *torch.sigmoid(gates), 0.1 * torch.randn(heads, d, d)


def momentum_ref(q: Any, k: Any, v: Any, forget: Any, rate: Any, keep: Any, start: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    memory = start.to(wide).expand(q.size(0), *start.shape)
    surprise = torch.zeros_like(memory)
    out, worst = torch.empty_like(q), torch.zeros(q.size(0), q.size(2), dtype=wide)
    for i in range(q.size(1)):
        key = k[:, i].to(wide)
        miss = (key[..., None] * memory).sum(2) - v[:, i].to(wide)
        worst = torch.maximum(worst, miss.square().mean(-1))
        gates = [one[:, i, :, None, None].to(wide) for one in (forget, rate, keep)]
        surprise = gates[2] * surprise - gates[1] * key[..., None] * miss[:, :, None]
        memory = (1 - gates[0]) * memory + surprise
        out[:, i] = (q[:, i].to(wide)[..., None] * memory).sum(2).to(q.dtype)
    return out, memory, worst


@stranger(
    make_momentum,
    momentum_ref,
    {"b": 2, "t": 23, "heads": 3, "d": 16},
    {"b": 8, "t": 1024, "heads": 16, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def surprise_momentum(q, k, v, forget, rate, keep, start):
    """Behrouz, Zhong and Mirrokni, 2025 (Titans), a linear memory: descent with momentum and decay, a token a step."""
    b, t, heads, d = q.shape
    out = torch.empty_like(q)
    memories = torch.empty(b, heads, d, d, device=q.device)
    worst = torch.empty(b, heads, device=q.device)
    for tb, th in tfl.tile([b, heads], block_size=[1, 1]):
        i, h = tb.begin, th.begin
        memory = start[h, :, :]
        surprise = torch.zeros_like(memory)
        largest = 0.0
        for n in range(t):
            key = k[i, n, h, :].float()
            miss = key @ memory - v[i, n, h, :].float()
            largest = max(largest, miss.square().mean())
            surprise = keep[i, n, h] * surprise - rate[i, n, h] * torch.outer(key, miss)
            memory = (1 - forget[i, n, h]) * memory + surprise
            out[i, n, h, :] = q[i, n, h, :].float() @ memory
        memories[i, h, :, :] = memory
        worst[i, h] = largest
    return out, memories, worst
