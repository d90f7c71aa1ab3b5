"""Sequences: recurrences of matrices, dynamic programs over labels, long convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_rwkv7(b: Any, h: Any, t: Any, d: Any) -> Any:
    return (
        randn(b, t, h, d) * 0.5,
        torch.rand(b, t, h, d) * 0.1 + 0.9,
        randn(b, t, h, d) * 0.5,
        randn(b, t, h, d),
        F.normalize(torch.randn(b, t, h, d), dim=-1),
        torch.rand(b, t, h, d),
    )


def rwkv7_ref(r: Any, w: Any, k: Any, v: Any, kk: Any, a: Any) -> Any:
    b, t, h, d = r.shape
    S = r.new_zeros(b, h, d, d)
    out = []
    for i in range(t):
        S = (
            S * w[:, i, :, None, :]
            + torch.einsum("bhij,bhj->bhi", S, -kk[:, i])[..., None] * (kk[:, i] * a[:, i])[:, :, None, :]
            + v[:, i][..., None] * k[:, i][:, :, None, :]
        )
        out.append(torch.einsum("bhij,bhj->bhi", S, r[:, i]))
    return torch.stack(out, 1)


@stranger(make_rwkv7, rwkv7_ref, {"b": 1, "h": 2, "t": 9, "d": 16}, {"b": 8, "h": 32, "t": 1024, "d": 64})
@tileflow.kernel
def rwkv7(r, w, k, v, kk, a):
    b, t, h, d = r.shape
    out = torch.empty_like(v)
    for ib, ih in tfl.grid([b, h]):
        state = tfl.zeros([d, d])
        for i in range(t):
            ki = kk[ib, i, ih, :]
            sa = (state * -ki[None, :]).sum(1)
            state = (
                state * w[ib, i, ih, :][None, :]
                + sa[:, None] * (ki * a[ib, i, ih, :])[None, :]
                + v[ib, i, ih, :][:, None] * k[ib, i, ih, :][None, :]
            )
            out[ib, i, ih, :] = (state * r[ib, i, ih, :][None, :]).sum(1)
    return out


def make_ssd(b: Any, c: Any, chunk: Any, h: Any, g: Any, p: Any, n: Any, dtype: Any = torch.float32) -> Any:
    t = c * chunk
    return (
        randn(b, t, h, p, dtype=dtype),
        -torch.rand(b, t, h),
        randn(b, t, g, n, dtype=dtype) * 0.3,
        randn(b, t, g, n, dtype=dtype) * 0.3,
        chunk,
    )


def ssd_ref(x: Any, a: Any, B: Any, C: Any, chunk: Any) -> Any:
    _b, t, h, _p = x.shape
    g = B.size(2)
    B = B.repeat_interleave(h // g, 2).float()
    C = C.repeat_interleave(h // g, 2).float()
    x_, B_, C_, a_ = (z.float().unflatten(1, (t // chunk, chunk)) for z in (x, B, C, a))
    cs = a_.cumsum(2)
    L = torch.exp(cs[:, :, :, None] - cs[:, :, None]).masked_fill(
        torch.ones(chunk, chunk, dtype=torch.bool, device=x.device).triu(1)[None, None, :, :, None], 0
    )
    y = torch.einsum("bclhn,bcshn,bclsh,bcshp->bclhp", C_, B_, L, x_)
    return y.flatten(1, 2).to(x.dtype)


@stranger(
    make_ssd,
    ssd_ref,
    {"b": 2, "c": 2, "chunk": 16, "h": 4, "g": 2, "p": 16, "n": 16},
    {"b": 4, "c": 16, "chunk": 256, "h": 80, "g": 8, "p": 64, "n": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ssd_chunk_output(x, a, B, C, chunk: tfl.constexpr):
    b, t, h, _p = x.shape
    per_group = h // B.size(2)
    y = torch.empty_like(x)
    for tb, tc, th in tfl.tile([b, t // chunk, h], block_size=[1, 1, 1]):
        ib, ih, start = tb.begin, th.begin, tc.begin * chunk
        g = ih // per_group
        cs = torch.cumsum(a[ib, start : start + chunk, ih], 0)
        cmat = C[ib, start : start + chunk, g, :]
        bmat = B[ib, start : start + chunk, g, :]
        s = cmat @ bmat.T
        i = tfl.arange(chunk)
        decay = torch.where(i[:, None] >= i[None, :], torch.exp(cs[:, None] - cs[None, :]), 0.0)
        y[ib, start : start + chunk, ih, :] = (s * decay).to(x.dtype) @ x[ib, start : start + chunk, ih, :]
    return y


def make_hyena(b: Any, c: Any, t: Any) -> Any:
    return randn(b, c, t), randn(c, t) * t**-0.5, randn(c)


def hyena_ref(x: Any, f: Any, bias: Any) -> Any:
    n = 2 * x.size(-1)
    y = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(f, n), n)[..., : x.size(-1)]
    return y + x * bias[:, None]


@stranger(make_hyena, hyena_ref, {"b": 3, "c": 2, "t": 37}, {"b": 16, "c": 768, "t": 2048})
@tileflow.kernel
def long_convolution(x, f, bias):
    b, c, t = x.shape
    out = torch.empty_like(x)
    for tc, tb, tt in tfl.tile([c, b, t], block_size=[1, None, None]):
        ic = tc.begin
        acc = x[tb, ic, tt] * bias[ic]
        for ts in tfl.tile(tt.end):
            toeplitz = f[ic, tt.index[None, :] - ts.index[:, None]]
            acc = acc + tfl.dot(x[tb, ic, ts], toeplitz)
        out[tb, ic, tt] = acc
    return out


def make_ctc(b: Any, t: Any, v: Any, n: Any) -> Any:
    return torch.log_softmax(randn(b, t, v), -1), torch.randint(1, v, (b, n))


def ctc_ref(lp: Any, labels: Any) -> Any:
    b, t, _v = lp.shape
    n = labels.size(1)
    return F.ctc_loss(
        lp.transpose(0, 1), labels, torch.full((b,), t), torch.full((b,), n), reduction="none", zero_infinity=False
    )


@stranger(make_ctc, ctc_ref, {"b": 3, "t": 9, "v": 7, "n": 3}, {"b": 512, "t": 256, "v": 128, "n": 32})
@tileflow.kernel
def ctc_loss(log_probs, labels):
    b, t, _v = log_probs.shape
    s = 2 * labels.size(1) + 1
    loss = torch.empty(b, device=log_probs.device)
    for ib in tfl.grid(b):
        i = tfl.arange(s)
        label = torch.where(i % 2 == 1, labels[ib, i // 2], 0)
        before = torch.where((i % 2 == 1) & (i >= 2), labels[ib, i // 2 - 1], 0)
        skip = (i % 2 == 1) & (label != before)
        alpha = torch.where(i < 2, log_probs[ib, 0, label], -1e30)
        for n in range(1, t):
            one = torch.where(i >= 1, torch.roll(alpha, 1, 0), -1e30)
            two = torch.where(skip & (i >= 2), torch.roll(alpha, 2, 0), -1e30)
            top = torch.maximum(alpha, torch.maximum(one, two))
            total = torch.exp(alpha - top) + torch.exp(one - top) + torch.exp(two - top)
            alpha = top + torch.log(total) + log_probs[ib, n, label]
        loss[ib] = -torch.logaddexp(alpha[s - 1], alpha[s - 2])
    return loss


def vit_ref(e: Any, tr: Any) -> Any:
    _b, t, _k = e.shape
    s = e[:, 0]
    bp = []
    for i in range(1, t):
        m, a = (s[:, :, None] + tr).max(1)
        bp.append(a)
        s = m + e[:, i]
    path = [s.argmax(1)]
    for a in reversed(bp):
        path.append(a.gather(1, path[-1][:, None])[:, 0])
    return s.amax(1), torch.stack(path[::-1], 1)


@stranger(
    lambda b, t, k: (randn(b, t, k), randn(k, k)), vit_ref, {"b": 3, "t": 6, "k": 5}, {"b": 4096, "t": 128, "k": 32}
)
@tileflow.kernel
def viterbi(emissions, transitions):
    b, t, k = emissions.shape
    back = torch.empty(b, t, k, dtype=torch.int64, device=emissions.device)
    best = torch.empty(b, device=emissions.device)
    path = torch.empty(b, t, dtype=torch.int64, device=emissions.device)
    for ib in tfl.grid(b):
        score = emissions[ib, 0, :]
        for i in range(1, t):
            step = score[:, None] + transitions[:, :]
            back[ib, i, :] = step.argmax(0)
            score = step.amax(0) + emissions[ib, i, :]
        best[ib] = score.amax(0)
        state = score.argmax(0)
        path[ib, t - 1] = state
        for j in range(1, t):
            state = back[ib, t - j, state]
            path[ib, t - 1 - j] = state
    return best, path


def make_crf(b: Any, t: Any, k: Any) -> Any:
    return randn(b, t, k), randn(k, k), torch.randint(1, t + 1, (b,))


def crf_ref(e: Any, tr: Any, lengths: Any) -> Any:
    a = e[:, 0]
    for i in range(1, e.size(1)):
        further = torch.logsumexp(a[:, :, None] + tr, 1) + e[:, i]
        a = torch.where((i < lengths)[:, None], further, a)
    return torch.logsumexp(a, 1)


@stranger(make_crf, crf_ref, {"b": 3, "t": 7, "k": 11}, {"b": 1024, "t": 256, "k": 64})
@tileflow.kernel
def crf_partition(emissions, transitions, lengths):
    b, _t, _k = emissions.shape
    out = torch.empty(b, device=emissions.device)
    for ib in tfl.grid(b):
        alpha = emissions[ib, 0, :]
        for i in range(1, lengths[ib]):
            alpha = torch.logsumexp(alpha[:, None] + transitions[:, :], 0) + emissions[ib, i, :]
        out[ib] = torch.logsumexp(alpha, 0)
    return out


def dtw_ref(x: Any, y: Any) -> Any:
    b, n = x.shape
    m = y.size(1)
    D = torch.full((b, n + 1, m + 1), float("inf"))
    D[:, 0, 0] = 0
    for i in range(n):
        for j in range(m):
            D[:, i + 1, j + 1] = (x[:, i] - y[:, j]).abs() + torch.minimum(
                torch.minimum(D[:, i, j + 1], D[:, i + 1, j]), D[:, i, j]
            )
    return D[:, n, m]


@stranger(lambda b, n: (randn(b, n), randn(b, n)), dtw_ref, {"b": 3, "n": 9}, {"b": 4096, "n": 128})
@tileflow.kernel
def dtw(x, y):
    b, n = x.shape
    m = y.size(1)
    out = torch.empty(b, device=x.device)
    for ib in tfl.grid(b):
        i = tfl.arange(n)
        inf = float("inf")
        one = tfl.full([n], inf)
        two = tfl.full([n], inf)
        for d in range(n + m - 1):
            j = d - i
            cost = (x[ib, :] - y[ib, j]).abs()
            up = torch.where(i > 0, torch.roll(one, 1, 0), inf)
            diag = torch.where(i > 0, torch.roll(two, 1, 0), torch.where(j == 0, 0.0, inf))
            best = torch.minimum(torch.minimum(up, one), diag)
            best = torch.where((i == 0) & (j == 0), 0.0, best)
            two = one
            one = torch.where((j >= 0) & (j < m), cost + best, inf)
        out[ib] = one[n - 1]
    return out


def lev_ref(a: Any, b: Any) -> Any:
    above = [torch.full_like(a[:, 0], j) for j in range(b.size(1) + 1)]
    for i in range(a.size(1)):
        row = [torch.full_like(a[:, 0], i + 1)]
        for j in range(b.size(1)):
            step = torch.minimum(above[j + 1], row[j]) + 1
            row.append(torch.minimum(step, above[j] + (a[:, i] != b[:, j])))
        above = row
    return above[-1].int()


@stranger(
    lambda b, n, m: (torch.randint(0, 4, (b, n)), torch.randint(0, 4, (b, m))),
    lev_ref,
    {"b": 3, "n": 7, "m": 9},
    {"b": 4096, "n": 128, "m": 128},
)
@tileflow.kernel
def edit_distance(a, b):
    count, n = a.shape
    m = b.size(1)
    out = torch.empty(count, dtype=torch.int32, device=a.device)
    for k in tfl.grid(count):
        col = tfl.arange(m + 1)
        row = col
        for i in range(n):
            differ = a[k, i] != b[k, col - 1]
            left = torch.roll(row, 1, 0)
            best = torch.minimum(row + 1, torch.where(col == 0, i + 1, left + differ.int()))
            # min over insertions: running minimum of best - col, plus col
            row = torch.cummin(best - col, 0).values + col
        out[k] = row[m]
    return out


def gae_ref(r: Any, v: Any, done: Any, g: Any, lam: Any) -> Any:
    t = r.size(0)
    adv = torch.zeros_like(r)
    a = torch.zeros_like(r[0])
    for i in reversed(range(t)):
        nd = (~done[i]).float()
        d = r[i] + g * v[i + 1] * nd - v[i]
        a = d + g * lam * nd * a
        adv[i] = a
    return adv, adv + v[:-1]


@stranger(
    lambda t, n: (randn(t, n), randn(t + 1, n), torch.rand(t, n) < 0.1, 0.99, 0.95),
    gae_ref,
    {"t": 11, "n": 13},
    {"t": 256, "n": 16384},
)
@tileflow.kernel
def gae(rewards, values, done, gamma, lam):
    t, n = rewards.shape
    adv, ret = torch.empty_like(rewards), torch.empty_like(rewards)
    for tn in tfl.tile(n):
        a = tfl.zeros([tn])
        for k in range(t):
            i = t - 1 - k
            alive = (~done[i, tn]).float()
            v = values[i, tn]
            delta = rewards[i, tn] + gamma * values[i + 1, tn] * alive - v
            a = delta + gamma * lam * alive * a
            adv[i, tn] = a
            ret[i, tn] = a + v
    return adv, ret
