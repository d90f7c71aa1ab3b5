"""Layers of few weights: decomposed magnitudes, Kronecker factors, trains of tensors, bases, small fields, volumes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def dora_ref(x: Any, w: Any, a: Any, b: Any, m: Any, scale: float) -> Any:
    whole = w.float() + scale * b.float() @ a.float()
    return (x.float() @ (whole * (m / whole.norm(dim=1))[:, None]).T).to(x.dtype)


@stranger(
    lambda t, n, k, r, dtype=torch.float32: (
        randn(t, k, dtype=dtype),
        randn(n, k, dtype=dtype) * k**-0.5,
        randn(r, k, dtype=dtype) * k**-0.5,
        randn(n, r, dtype=dtype) * 0.5,
        torch.rand(n) + 0.5,
        0.5,
    ),
    dora_ref,
    {"t": 19, "n": 21, "k": 37, "r": 16},
    {"t": 4096, "n": 2048, "k": 2048, "r": 16, "dtype": torch.bfloat16},
)
@tileflow.kernel
def dora_linear(x, w, a, b, m, scale):
    """Liu et al., 2024, arXiv:2402.09353: the adapted weight's rows have lengths of their own; never stored whole."""
    t, k = x.shape
    n = w.size(0)
    length = torch.empty(n, device=x.device)
    for tn in tfl.tile(n):
        total = tfl.zeros([tn])
        for tk in tfl.tile(k):
            whole = w[tn, tk].float() + scale * tfl.dot(b[tn, :], a[:, tk])
            total += (whole * whole).sum(1)
        length[tn] = torch.sqrt(total)
    out = torch.empty(t, n, dtype=x.dtype, device=x.device)
    for tt, tn in tfl.tile([t, n]):
        acc = tfl.zeros([tt, tn])
        low = tfl.zeros([tt, a.size(0)])
        for tk in tfl.tile(k):
            rows = x[tt, tk]
            acc = tfl.dot(rows, w[tn, tk].T, acc=acc)
            low = tfl.dot(rows, a[:, tk].T, acc=low)
        acc = acc + scale * tfl.dot(low.to(x.dtype), b[tn, :].T)
        out[tt, tn] = acc * (m[tn] / length[tn])[None, :]
    return out


def kronecker_ref(x: Any, a: Any, b: Any, bias: Any) -> Any:
    y = x.float().unflatten(1, (a.size(1), b.size(1)))
    return ((a.float() @ y @ b.float().T).flatten(1) + bias).to(x.dtype)


@stranger(
    lambda t, p, q, m, n, dtype=torch.float32: (
        randn(t, p * q, dtype=dtype),
        randn(m, p, dtype=dtype) * p**-0.5,
        randn(n, q, dtype=dtype) * q**-0.5,
        randn(m * n),
    ),
    kronecker_ref,
    {"t": 5, "p": 4, "q": 16, "m": 8, "n": 16},
    {"t": 16384, "p": 32, "q": 64, "m": 32, "n": 64, "dtype": torch.float16},
)
@tileflow.kernel
def kronecker_linear(x, a, b, bias):
    """A weight that is the Kronecker product of two (KronA, arXiv:2212.10650): a token is a matrix between them."""
    t = x.size(0)
    m, p = a.shape
    n, q = b.shape
    y, out = x.view(t, p, q), torch.empty(t, m, n, dtype=x.dtype, device=x.device)
    wide = bias.view(m, n)
    for i in tfl.grid(t):
        out[i, :, :] = a[:, :] @ (y[i, :, :] @ b[:, :].T) + wide[:, :]
    return out.view(t, m * n)


def train_ref(index: Any, one: Any, two: Any, three: Any, sizes: Any) -> Any:
    i, rest = index // (sizes[1] * sizes[2]), index % (sizes[1] * sizes[2])
    j, k = rest // sizes[2], rest % sizes[2]
    out = torch.einsum("tar,trbs,tsc->tabc", one[i.long()], two[j.long()], three[k.long()])
    return out.flatten(1)


@stranger(
    lambda t, sizes, dims, r: (
        torch.randint(0, math.prod(sizes), (t,), dtype=torch.int32),
        randn(sizes[0], dims[0], r),
        randn(sizes[1], r, dims[1], r) / r,
        randn(sizes[2], r, dims[2]),
        sizes,
    ),
    train_ref,
    {"t": 13, "sizes": (5, 4, 3), "dims": (2, 4, 2), "r": 4},
    {"t": 1 << 17, "sizes": (100, 120, 125), "dims": (4, 4, 8), "r": 16},
)
@tileflow.kernel
def tensor_train_embedding(index, one, two, three, sizes: tfl.constexpr):
    """TT-Rec, arXiv:2101.11714: a row of a large table is a product of a slice of each of three cores."""
    t = index.size(0)
    a, _r = one.shape[1:]
    b, c = two.size(2), three.size(2)
    out = torch.empty(t, a, b, c, device=one.device)
    for i in tfl.grid(t):
        place = index[i]
        rest = place % (sizes[1] * sizes[2])
        left = one[place // (sizes[1] * sizes[2]), :, :]
        middle = two[rest // sizes[2], :, :, :]
        right = three[rest % sizes[2], :, :]
        both = (left[:, :, None, None] * middle[None, :, :, :]).sum(1)
        out[i, :, :, :] = (both[:, :, :, None] * right[None, None, :, :]).sum(2)
    return out.view(t, a * b * c)


def basis_ref(x: Any, w: Any) -> Any:
    y = torch.tanh(x.float())
    t = [torch.ones_like(y), y]
    while len(t) < w.size(0):
        t.append(2 * y * t[-1] - t[-2])
    return sum(b @ m.float() for b, m in zip(t, w, strict=True)).to(x.dtype)


@stranger(
    lambda t, k, n, order, dtype=torch.float32: (
        randn(t, k, dtype=dtype),
        randn(order, k, n, dtype=dtype) * (order * k) ** -0.5,
    ),
    basis_ref,
    {"t": 19, "k": 21, "n": 13, "order": 4},
    {"t": 8192, "k": 512, "n": 512, "order": 5, "dtype": torch.bfloat16},
)
@tileflow.kernel
def chebyshev_layer(x, w):
    """A Kolmogorov-Arnold layer (arXiv:2405.07200): polynomials of each input, a weight for each of them."""
    t, k = x.shape
    order, _, n = w.shape
    out = torch.empty(t, n, dtype=x.dtype, device=x.device)
    for tt, tn in tfl.tile([t, n]):
        acc = tfl.zeros([tt, tn])
        for tk in tfl.tile(k):
            y = torch.tanh(x[tt, tk].float())
            before, now = torch.ones_like(y), y
            acc = acc + before.to(x.dtype) @ w[0, tk, tn]
            for j in range(1, order):
                acc = acc + now.to(x.dtype) @ w[j, tk, tn]
                before, now = now, 2 * y * now - before
        out[tt, tn] = acc
    return out


def field_ref(x: Any, first: Any, w: Any, bias: Any, last: Any) -> Any:
    angles = (x[:, :, None] * 2.0 ** torch.arange(first.size(0) // 6)).flatten(1)
    h = torch.cat([torch.sin(angles), torch.cos(angles)], 1).to(w.dtype).float()
    h = F.relu(h @ first.float()).to(w.dtype)
    for m, v in zip(w, bias, strict=True):
        h = F.relu(h.float() @ m.float() + v).to(w.dtype)
    return torch.sigmoid(h.float() @ last.float())


@stranger(
    lambda n, f, d, depth, dtype=torch.float32: (
        torch.rand(n, 3),
        randn(6 * f, d, dtype=dtype) * 0.4,
        randn(depth, d, d, dtype=dtype) * (2 / d) ** 0.5,
        randn(depth, d) * 0.1,
        randn(d, 4, dtype=dtype) * d**-0.5,
    ),
    field_ref,
    {"n": 19, "f": 4, "d": 16, "depth": 2},
    {"n": 1 << 18, "f": 8, "d": 64, "depth": 3, "dtype": torch.float16},
)
@tileflow.kernel
def radiance_field(x, first, w, bias, last):
    """A small network over positions, waves of them first (arXiv:2003.08934); its layers never leave the chip."""
    n = x.size(0)
    waves = first.size(0) // 6
    depth = w.size(0)
    out = torch.empty(n, 4, device=x.device)
    for t in tfl.tile(n):
        angles = (x[t, :][:, :, None] * torch.exp2(tfl.arange(waves).float())).flatten(1)
        h = (
            torch.sin(angles).to(w.dtype) @ first[: 3 * waves, :]
            + torch.cos(angles).to(w.dtype) @ first[3 * waves :, :]
        )
        h = F.relu(h)
        for layer in range(depth):
            h = F.relu(h.to(w.dtype) @ w[layer, :, :] + bias[layer, :])
        out[t, :] = torch.sigmoid((h.to(w.dtype) @ last[:, :]).float())
    return out


def volume_ref(x: Any, w: Any) -> Any:
    return F.conv3d(x.float(), w.float(), padding=1).to(x.dtype)


@stranger(
    lambda b, c, o, d, h, dtype=torch.float32: (
        randn(b, c, d, h, h, dtype=dtype),
        randn(o, c, 3, 3, 3, dtype=dtype) / math.sqrt(27 * c),
    ),
    volume_ref,
    {"b": 1, "c": 4, "o": 5, "d": 2, "h": 4},
    {"b": 2, "c": 32, "o": 32, "d": 32, "h": 64, "dtype": torch.float16},
)
@tileflow.kernel
def convolve_volumes(x, w):
    """Three by three by three, zero outside: a product for each shift."""
    b, _c, d, h, wide = x.shape
    o = w.size(0)
    out = torch.empty(b, o, d, h, wide, dtype=x.dtype, device=x.device)
    for tb, tz, ty, tx in tfl.tile([b, d, h, wide], block_size=[1, 1, 1, None]):
        acc = tfl.zeros([o, tx])
        for dz in range(3):
            for dy in range(3):
                for dx in range(3):
                    near = x[tb.begin, :, tz.begin + (dz - 1), ty.begin + (dy - 1), tx + (dx - 1)]
                    acc = acc + w[:, :, dz, dy, dx] @ near
        out[tb.begin, :, tz.begin, ty.begin, tx] = acc
    return out
