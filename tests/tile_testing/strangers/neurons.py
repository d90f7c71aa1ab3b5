"""Neurons and dynamical memories: spikes, plasticity, reservoirs, associations, lateral inhibition."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def izhikevich_ref(current: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    v = torch.full_like(a, -65.0)
    u, spikes = b * v, []
    for t in range(current.size(0)):
        v = v + 0.5 * (0.04 * v * v + 5 * v + 140 - u + current[t])
        v = v + 0.5 * (0.04 * v * v + 5 * v + 140 - u + current[t])
        u = u + a * (b * v - u)
        fired = v >= 30
        spikes.append(fired)
        v, u = torch.where(fired, c, v), torch.where(fired, u + d, u)
    return torch.stack(spikes).to(torch.uint8)


@stranger(
    lambda t, n: (
        10 * torch.rand(t, n),
        0.02 + 0.08 * torch.rand(n),
        0.2 + 0.05 * torch.rand(n),
        -65 + 15 * torch.rand(n),
        2 + 6 * torch.rand(n),
    ),
    izhikevich_ref,
    {"t": 23, "n": 37},
    {"t": 256, "n": 1 << 18},
)
@tileflow.kernel
def izhikevich_spikes(current, a, b, c, d):
    """Izhikevich, 2003: two equations, two half steps of the first, and a reset."""
    steps, n = current.shape
    spikes = torch.empty(steps, n, dtype=torch.uint8, device=current.device)
    for i in tfl.tile(n):
        v = tfl.full([i], -65.0)
        u = b[i] * v
        for t in range(steps):
            drive = current[t, i]
            v = v + 0.5 * (0.04 * v * v + 5 * v + 140 - u + drive)
            v = v + 0.5 * (0.04 * v * v + 5 * v + 140 - u + drive)
            u = u + a[i] * (b[i] * v - u)
            fired = v >= 30
            spikes[t, i] = fired
            v = torch.where(fired, c[i], v)
            u = torch.where(fired, u + d[i], u)
    return spikes


def spiking_ref(x: Any, w: Any, beta: Any, threshold: Any) -> Any:
    drive = x.float() @ w.float().T
    v, out = torch.zeros_like(drive[0]), []
    for t in range(x.size(0)):
        v = beta * v + drive[t]
        spike = v > threshold
        v = torch.where(spike, v - threshold, v)
        out.append(spike)
    return torch.stack(out).sum(0, dtype=torch.int32), v


@stranger(
    lambda t, b, k, n, dtype=torch.float32: (
        (torch.rand(t, b, k) < 0.2).to(dtype),
        (torch.randint(-8, 9, (n, k)) / 16).to(dtype),
        0.5,
        1.0,
    ),
    spiking_ref,
    {"t": 5, "b": 7, "k": 19, "n": 13},
    {"t": 25, "b": 512, "k": 1024, "n": 1024, "dtype": torch.float16},
)
@tileflow.kernel
def spiking_layer(x, w, beta, threshold):
    """Leaky integrators that fire and lose a threshold: a product at each moment, and how often each one fired."""
    steps, b, k = x.shape
    n = w.size(0)
    count = torch.empty(b, n, dtype=torch.int32, device=x.device)
    potential = torch.empty(b, n, device=x.device)
    for tb, tn in tfl.tile([b, n]):
        v = tfl.zeros([tb, tn])
        fired = tfl.zeros([tb, tn], dtype=torch.int32)
        for t in range(steps):
            drive = tfl.zeros([tb, tn])
            for tk in tfl.tile(k):
                drive = tfl.dot(x[t, tb, tk], w[tn, tk].T, acc=drive)
            v = beta * v + drive
            spike = v > threshold
            v = torch.where(spike, v - threshold, v)
            fired += spike.int()
        count[tb, tn] = fired
        potential[tb, tn] = v
    return count, potential


def plasticity_ref(pre: Any, post: Any, w: Any, decay: Any, up: Any, down: Any) -> Any:
    a, b = torch.zeros_like(pre[0], dtype=torch.float32), torch.zeros_like(post[0], dtype=torch.float32)
    for t in range(pre.size(0)):
        a, b = a * decay + pre[t], b * decay + post[t]
        w = w + up * torch.outer(post[t].float(), a) - down * torch.outer(b, pre[t].float())
        w = w.clamp(0, 1)
    return w


@stranger(
    lambda t, n, m: (
        (torch.rand(t, n) < 0.1).to(torch.uint8),
        (torch.rand(t, m) < 0.1).to(torch.uint8),
        torch.rand(m, n),
        0.9,
        0.01,
        0.012,
    ),
    plasticity_ref,
    {"t": 9, "n": 21, "m": 13},
    {"t": 100, "n": 8192, "m": 4096},
)
@tileflow.kernel
def spike_timing(pre, post, w, decay, up, down):
    """Song, Miller and Abbott, 2000: a synapse grows where its cell fires after it did, and shrinks where before."""
    steps, n = pre.shape
    m = post.size(1)
    out = torch.empty_like(w)
    for tm, tn in tfl.tile([m, n]):
        before, after = tfl.zeros([tn]), tfl.zeros([tm])
        weight = w[tm, tn]
        for t in range(steps):
            x, y = pre[t, tn].float(), post[t, tm].float()
            before = before * decay + x
            after = after * decay + y
            weight = weight + up * torch.outer(y, before) - down * torch.outer(after, x)
            weight = weight.clamp(0, 1)
        out[tm, tn] = weight
    return out


def reservoir_ref(x: Any, win: Any, w: Any, leak: Any) -> Any:
    h, out = torch.zeros(x.size(0), w.size(0)), []
    for t in range(x.size(1)):
        h = (1 - leak) * h + leak * torch.tanh(x[:, t] @ win.T + h @ w.T)
        out.append(h)
    return torch.stack(out, 1)


@stranger(
    lambda b, t, k, n: (randn(b, t, k), randn(n, k) * 0.3, randn(n, n) * 0.5 * n**-0.5, 0.3),
    reservoir_ref,
    {"b": 5, "t": 7, "k": 3, "n": 32},
    {"b": 4096, "t": 128, "k": 8, "n": 128},
)
@tileflow.kernel
def echo_state(x, win, w, leak):
    """Jaeger, 2001: a fixed random network driven by a series; all of its weights are kept at hand."""
    b, steps, _ = x.shape
    n = w.size(0)
    out = torch.empty(b, steps, n, device=x.device)
    for tb in tfl.tile(b):
        inner = w[:, :]
        outer = win[:, :]
        h = tfl.zeros([tb, n])
        for t in range(steps):
            drive = (x[tb, t, :][:, None, :] * outer[None, :, :]).sum(-1)
            h = (1 - leak) * h + leak * torch.tanh(drive + h @ inner.T)
            out[tb, t, :] = h
    return out


def recall_ref(x: Any, memory: Any, beta: Any) -> Any:
    state, stored = x.float(), memory.float()
    for _ in range(2):
        state = torch.softmax(beta * state @ stored.T, -1) @ stored
    return state.to(x.dtype)


@stranger(
    lambda b, m, d, dtype=torch.float32: (randn(b, d, dtype=dtype), randn(m, d, dtype=dtype), 0.5 * d**-0.5),
    recall_ref,
    {"b": 19, "m": 21, "d": 16},
    {"b": 16384, "m": 256, "d": 64, "dtype": torch.float16},
)
@tileflow.kernel
def hopfield_recall(x, memory, beta):
    """Ramsauer et al., 2020, arXiv:2008.02217: two updates of each state by all memories."""
    out = torch.empty_like(x)
    for tb in tfl.tile(x.size(0)):
        stored = memory[:, :]
        state = x[tb, :]
        for _ in range(2):
            weights = torch.softmax((state @ stored.T).float() * beta, dim=-1)
            state = weights.to(x.dtype) @ stored
        out[tb, :] = state
    return out


def response_norm_ref(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    return torch.nn.functional.local_response_norm(x.float(), size, alpha, beta, k).to(x.dtype)


@stranger(
    lambda b, c, hw, dtype=torch.float32: (randn(b, c, hw, dtype=dtype), 5, 1e-1, 0.75, 2.0),
    response_norm_ref,
    {"b": 2, "c": 11, "hw": 17},
    {"b": 64, "c": 96, "hw": 3025, "dtype": torch.float16},
)
@tileflow.kernel
def local_response_norm(x, size: tfl.constexpr, alpha, beta, k):
    """AlexNet's: each channel is divided by what its neighbours show."""
    out = torch.empty_like(x)
    for tb, tc, tp in tfl.tile(x.shape):
        near = tfl.zeros([tb, tc, tp])
        for j in range(size):
            value = x[tb, tc + (j - size // 2), tp].float()
            near += value * value
        out[tb, tc, tp] = x[tb, tc, tp].float() / (k + alpha / size * near) ** beta
    return out
