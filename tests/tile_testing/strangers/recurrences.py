"""State spaces, linear attention and gated recurrences."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

# ---- selective state spaces (Gu and Dao, 2023, arXiv:2312.00752) ----------------------------------------------------


def make_ssm(b: int, t: int, d: int, n: int) -> tuple[Any, ...]:
    return randn(b, t, d), F.softplus(randn(b, t, d)), -torch.rand(d, n), randn(b, t, n), randn(b, t, n), randn(d)


def ssm(x: Any, dt: Any, a: Any, b: Any, c: Any, skip: Any) -> torch.Tensor:
    state, out = x.new_zeros(x.size(0), x.size(2), a.size(1)), torch.empty_like(x)
    for t in range(x.size(1)):
        state = torch.exp(dt[:, t, :, None] * a) * state + (dt[:, t] * x[:, t])[..., None] * b[:, t, None, :]
        out[:, t] = (state * c[:, t, None, :]).sum(-1) + skip * x[:, t]
    return out


@stranger(make_ssm, ssm, {"b": 2, "t": 11, "d": 13, "n": 5}, {"b": 8, "t": 256, "d": 2048, "n": 16})
@tileflow.kernel
def selective_state_space(x, dt, a, b, c, skip):
    out = torch.empty_like(x)
    for tile_b, tile_d in tfl.tile([x.size(0), x.size(2)], block_size=[1, None]):
        i = tile_b.begin
        rate, state = a[tile_d, :], tfl.zeros([tile_d, a.size(1)])
        for t in range(x.size(1)):
            step, value = dt[i, t, tile_d], x[i, t, tile_d]
            state = torch.exp(step[:, None] * rate) * state + (step * value)[:, None] * b[i, t, :][None, :]
            out[i, t, tile_d] = (state * c[i, t, :][None, :]).sum(-1) + skip[tile_d] * value
    return out


# ---- the chunks of Mamba-2 (Dao and Gu, 2024, arXiv:2405.21060) -----------------------------------------------------


def make_chunks(b: int, chunks: int, size: int, h: int, p: int, n: int) -> tuple[Any, ...]:
    decay = -torch.rand(b, h, chunks, size).cumsum(-1) * 0.1
    return randn(b, chunks * size, h, p), randn(b, chunks * size, n), decay, torch.rand(b, h, chunks, size)


def chunk_states(x: Any, keys: Any, decay: Any, dt: Any) -> torch.Tensor:
    chunks, size = decay.shape[2:]
    weight = torch.exp(decay[..., -1:] - decay) * dt
    return torch.einsum("bclhp,bcln,bhcl->bchpn", x.unflatten(1, (chunks, size)), keys.unflatten(1, (chunks, size)),
                        weight)  # fmt: skip


@stranger(make_chunks, chunk_states, {"b": 1, "chunks": 3, "size": 16, "h": 2, "p": 16, "n": 16},
          {"b": 8, "chunks": 16, "size": 256, "h": 80, "p": 64, "n": 128})  # fmt: skip
@tileflow.kernel
def chunk_state(x, keys, decay, dt):
    batch, _, heads, p = x.shape
    chunks, size = decay.size(2), decay.size(3)
    n = keys.size(-1)
    out = torch.empty(batch, chunks, heads, p, n, dtype=x.dtype, device=x.device)
    for ib, ic, ih, tile_p, tile_n in tfl.tile([batch, chunks, heads, p, n], block_size=[1, 1, 1, None, None]):
        last = decay[ib.begin, ih.begin, ic.begin, size - 1]
        acc = tfl.zeros([tile_p, tile_n])
        for tile_l in tfl.tile(size):
            rows = tile_l + ic.begin * size
            weight = torch.exp(last - decay[ib.begin, ih.begin, ic.begin, tile_l])
            weight = weight * dt[ib.begin, ih.begin, ic.begin, tile_l]
            value = x[ib.begin, rows, ih.begin, tile_p] * weight[:, None]
            acc = tfl.dot(value.T, keys[ib.begin, rows, tile_n], acc=acc)
        out[ib.begin, ic.begin, ih.begin, tile_p, tile_n] = acc
    return out


def make_passing(b: int, chunks: int, h: int, d: int) -> tuple[Any, ...]:
    return randn(b, chunks, h, d), -torch.rand(b, h, chunks)


def passed(states: Any, decay: Any) -> torch.Tensor:
    out, state = torch.empty_like(states), torch.zeros_like(states[:, 0])
    for c in range(states.size(1)):
        out[:, c] = state
        state = torch.exp(decay[:, :, c, None]) * state + states[:, c]
    return out


@stranger(make_passing, passed, {"b": 2, "chunks": 5, "h": 3, "d": 37}, {"b": 8, "chunks": 64, "h": 80, "d": 8192})
@tileflow.kernel
def state_passing(states, decay):
    batch, chunks, heads, d = states.shape
    out = torch.empty_like(states)
    for tile_b, tile_h, tile_d in tfl.tile([batch, heads, d]):
        state = tfl.zeros([tile_b, tile_h, tile_d])
        for c in range(chunks):
            out[tile_b, c, tile_h, tile_d] = state
            state = torch.exp(decay[tile_b, tile_h, c])[:, :, None] * state + states[tile_b, c, tile_h, tile_d]
    return out


# ---- linear attention -----------------------------------------------------------------------------------------------


def make_heads(bh: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return tuple(randn(bh, t, d, dtype=dtype) * d**-0.5 for _ in range(3))


def linear(q: Any, k: Any, v: Any) -> torch.Tensor:
    return ((q.float() @ k.float().mT).tril() @ v.float()).to(q.dtype)


@stranger(make_heads, linear, {"bh": 2, "t": 37, "d": 16}, {"bh": 64, "t": 4096, "d": 128, "dtype": torch.bfloat16})
@tileflow.kernel
def linear_attention(q, k, v):
    """Causal, without a feature map: a state between chunks, products within them (arXiv:2006.16236)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, tile_v in tfl.tile([heads, d], block_size=[1, None]):
        state = tfl.zeros([d, tile_v])
        for rows in tfl.tile(t):
            query, key, value = q[head.begin, rows, :], k[head.begin, rows, :], v[head.begin, rows, tile_v]
            scores = tfl.dot(query, key.T)
            scores = torch.where(rows.index[:, None] >= rows.index[None, :], scores, 0.0)
            inner = tfl.dot(scores.to(value.dtype), value)
            out[head.begin, rows, tile_v] = tfl.dot(query, state.to(query.dtype), acc=inner)
            state = tfl.dot(key.T, value, acc=state)
    return out


def make_retention(h: int, t: int, d: int) -> tuple[Any, ...]:
    return *make_heads(h, t, d), torch.log(1 - 2.0 ** (-5 - torch.arange(h).float()))


def retained(q: Any, k: Any, v: Any, decay: Any) -> torch.Tensor:
    place = torch.arange(q.size(1), device=q.device)
    apart = (place[:, None] - place[None, :]).clamp(min=0)
    return ((q @ k.mT) * torch.exp(apart * decay[:, None, None])).tril() @ v


@stranger(make_retention, retained, {"h": 3, "t": 29, "d": 16}, {"h": 64, "t": 2048, "d": 64})
@tileflow.kernel
def retention(q, k, v, decay):
    """The parallel form of a retention (Sun et al., 2023, arXiv:2307.08621)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, tile_m in tfl.tile([heads, t], block_size=[1, None]):
        rate, query = decay[head.begin], q[head.begin, tile_m, :]
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(tile_m.end):
            apart = tile_m.index[:, None] - tile_n.index[None, :]
            weight = torch.where(apart >= 0, torch.exp(apart * rate), 0.0)
            scores = tfl.dot(query, k[head.begin, tile_n, :].T) * weight
            acc = tfl.dot(scores, v[head.begin, tile_n, :], acc=acc)
        out[head.begin, tile_m, :] = acc
    return out


def make_delta(bh: int, t: int, d: int) -> tuple[Any, ...]:
    q, k, v = make_heads(bh, t, d)
    return q, F.normalize(k, dim=-1), v, torch.rand(bh, t), torch.rand(bh, t) * 0.2 + 0.8


def gated_delta(q: Any, k: Any, v: Any, beta: Any, gate: Any) -> torch.Tensor:
    state, out = q.new_zeros(q.size(0), q.size(2), v.size(2)), torch.empty_like(v)
    for t in range(q.size(1)):
        state = gate[:, t, None, None] * state
        change = beta[:, t, None] * (v[:, t] - (k[:, t, :, None] * state).sum(1))
        state = state + k[:, t, :, None] * change[:, None, :]
        out[:, t] = (q[:, t, :, None] * state).sum(1)
    return out


@stranger(make_delta, gated_delta, {"bh": 2, "t": 9, "d": 17}, {"bh": 64, "t": 512, "d": 128})
@tileflow.kernel
def gated_delta_rule(q, k, v, beta, gate):
    """Step by step (Yang et al., 2024, arXiv:2412.06464)."""
    heads, t, d = q.shape
    out = torch.empty_like(v)
    for head, tile_v in tfl.tile([heads, v.size(2)], block_size=[1, None]):
        h = head.begin
        state = tfl.zeros([d, tile_v])
        for i in range(t):
            key = k[h, i, :]
            state = state * gate[h, i]
            change = (v[h, i, tile_v] - (key[:, None] * state).sum(0)) * beta[h, i]
            state = state + key[:, None] * change[None, :]
            out[h, i, tile_v] = (q[h, i, :][:, None] * state).sum(0)
    return out


def make_gla(bh: int, t: int, d: int) -> tuple[Any, ...]:
    return *make_heads(bh, t, d), torch.sigmoid(randn(bh, t, d) + 3)


def gla(q: Any, k: Any, v: Any, gate: Any) -> torch.Tensor:
    state, out = q.new_zeros(q.size(0), q.size(2), v.size(2)), torch.empty_like(v)
    for t in range(q.size(1)):
        state = gate[:, t, :, None] * state + k[:, t, :, None] * v[:, t, None, :]
        out[:, t] = (q[:, t, :, None] * state).sum(1)
    return out


@stranger(make_gla, gla, {"bh": 2, "t": 11, "d": 13}, {"bh": 64, "t": 512, "d": 128})
@tileflow.kernel
def gated_linear_attention(q, k, v, gate):
    """A gate for each channel of the keys (Yang et al., 2023, arXiv:2312.06635)."""
    out = torch.empty_like(v)
    for tile_h, tile_v in tfl.tile([q.size(0), v.size(2)]):
        state = tfl.zeros([tile_h, q.size(2), tile_v])
        for t in range(q.size(1)):
            state = gate[tile_h, t, :][:, :, None] * state + k[tile_h, t, :][:, :, None] * v[tile_h, t, tile_v][:, None]
            out[tile_h, t, tile_v] = (q[tile_h, t, :][:, :, None] * state).sum(1)
    return out


def make_wkv(b: int, t: int, c: int) -> tuple[Any, ...]:
    return torch.rand(c), randn(c), randn(b, t, c), randn(b, t, c)


def wkv(w: Any, u: Any, k: Any, v: Any) -> torch.Tensor:
    num, den, out = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.empty_like(k)
    for t in range(k.size(1)):
        now = torch.exp(u + k[:, t])
        out[:, t] = (num + now * v[:, t]) / (den + now)
        num = torch.exp(-w) * num + torch.exp(k[:, t]) * v[:, t]
        den = torch.exp(-w) * den + torch.exp(k[:, t])
    return out


@stranger(make_wkv, wkv, {"b": 3, "t": 13, "c": 21}, {"b": 8, "t": 512, "c": 2048})
@tileflow.kernel
def rwkv(w, u, k, v):
    """The weighted sums of RWKV-4 with their running maximum (Peng et al., 2023, arXiv:2305.13048)."""
    batch, length, channels = k.shape
    out = torch.empty_like(k)
    for tb, tc in tfl.tile([batch, channels]):
        decay, first = w[tc], u[tc]
        top, num, den = tfl.full([tb, tc], -1e30), tfl.zeros([tb, tc]), tfl.zeros([tb, tc])
        for t in range(length):
            key, value = k[tb, t, tc], v[tb, t, tc]
            high = torch.maximum(top, first + key)
            old, now = torch.exp(top - high), torch.exp(first + key - high)
            out[tb, t, tc] = (old * num + now * value) / (old * den + now)
            high = torch.maximum(top - decay, key)
            old, now = torch.exp(top - decay - high), torch.exp(key - high)
            num, den, top = old * num + now * value, old * den + now, high
    return out


def make_min_gru(b: int, t: int, d: int) -> tuple[Any, ...]:
    return randn(b, t, d), randn(b, t, d)


def min_gru_steps(gate: Any, hidden: Any) -> torch.Tensor:
    z, state, out = torch.sigmoid(gate), torch.zeros_like(gate[:, 0]), torch.empty_like(gate)
    for t in range(gate.size(1)):
        state = (1 - z[:, t]) * state + z[:, t] * hidden[:, t]
        out[:, t] = state
    return out


@stranger(make_min_gru, min_gru_steps, {"b": 2, "t": 23, "d": 11}, {"b": 8, "t": 1024, "d": 1024})
@tileflow.kernel
def min_gru(gate, hidden):
    """All steps at once by an associative scan (Feng et al., 2024, arXiv:2410.01201)."""

    def compose(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    out = torch.empty_like(gate)
    for tile_b, tile_d in tfl.tile([gate.size(0), gate.size(2)], block_size=[1, None]):
        z = torch.sigmoid(gate[tile_b.begin, :, tile_d])
        _, state = tfl.associative_scan(compose, (1 - z, z * hidden[tile_b.begin, :, tile_d]), 0)
        out[tile_b.begin, :, tile_d] = state
    return out


def make_lstm(b: int, h: int) -> tuple[Any, ...]:
    return randn(b, 4 * h), randn(4 * h), randn(b, h)


def lstm_step(gates: Any, bias: Any, cell: Any) -> tuple[Any, Any]:
    i, f, g, o = (gates + bias).chunk(4, 1)
    new = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(new), new


@stranger(make_lstm, lstm_step, {"b": 5, "h": 19}, {"b": 8192, "h": 1024})
@tileflow.kernel
def lstm_cell(gates, bias, cell):
    n = cell.size(1)
    hidden, new = torch.empty_like(cell), torch.empty_like(cell)
    for tile_b, tile_h in tfl.tile(cell.shape):
        i, f, g, o = (gates[tile_b, tile_h + part * n] + bias[tile_h + part * n] for part in range(4))
        state = torch.sigmoid(f) * cell[tile_b, tile_h] + torch.sigmoid(i) * torch.tanh(g)
        new[tile_b, tile_h] = state
        hidden[tile_b, tile_h] = torch.sigmoid(o) * torch.tanh(state)
    return hidden, new


def make_conv(b: int, d: int, t: int, taps: int) -> tuple[Any, ...]:
    return randn(b, d, t), randn(d, taps), randn(d)


def convolved(x: Any, w: Any, bias: Any) -> torch.Tensor:
    return F.silu(F.conv1d(F.pad(x, (w.size(1) - 1, 0)), w[:, None], bias, groups=x.size(1)))


@stranger(make_conv, convolved, {"b": 2, "d": 3, "t": 37, "taps": 4}, {"b": 8, "d": 2048, "t": 2048, "taps": 4})
@tileflow.kernel
def causal_convolution(x, w, bias):
    taps = w.size(1)
    out = torch.empty_like(x)
    for tb, td, tt in tfl.tile(x.shape):
        acc = tfl.zeros([tb, td, tt]) + bias[td][None, :, None]
        for j in range(taps):
            acc = acc + x[tb, td, tt - (taps - 1 - j)] * w[td, j][None, :, None]
        out[tb, td, tt] = F.silu(acc)
    return out
