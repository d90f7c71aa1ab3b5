"""Spectra and ranks: single frequencies, resampled signals, kernels of state spaces, peaks matched, digests."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def goertzel_ref(x: Any, frequency: Any) -> Any:
    n = x.shape[1]
    angle = 2 * math.pi * frequency.double()[:, None] * torch.arange(n)
    real, imaginary = x.double() @ torch.cos(angle).T, x.double() @ torch.sin(angle).T
    return (real * real + imaginary * imaginary).float()


@stranger(
    lambda b, n, f: (randn(b, n), 0.05 + 0.4 * torch.rand(f)),
    goertzel_ref,
    {"b": 5, "n": 37, "f": 7},
    {"b": 512, "n": 205, "f": 512},
)
@tileflow.kernel
def goertzel(x, frequency):
    """Goertzel, 1958: the power of a signal at single frequencies by a recurrence of two numbers."""
    b, n = x.shape
    f = frequency.numel()
    power = torch.empty(b, f, device=x.device)
    for tb, tf in tfl.tile([b, f]):
        c = 2 * torch.cos(2 * math.pi * frequency[tf])[None, :]
        s1 = tfl.zeros([tb, tf])
        s2 = tfl.zeros([tb, tf])
        for i in range(n):
            s0 = x[tb, i][:, None] + c * s1 - s2
            s2 = s1
            s1 = s0
        power[tb, tf] = s1 * s1 + s2 * s2 - c * s1 * s2
    return power


def resample_ref(x: Any, taps: Any, up: int, down: int) -> Any:
    _, n = x.shape
    _, width = taps.shape
    m = n * up // down
    at = torch.arange(m) * down
    base, phase = at // up, at % up
    index = base[:, None] - torch.arange(width)
    value = torch.where((index >= 0) & (index < n), x[:, index.clamp(0, n - 1)], 0.0)
    return (value * taps[phase]).sum(2)


@stranger(
    lambda c, n, up, down, width: (randn(c, n), randn(up, width) / width, up, down),
    resample_ref,
    {"c": 3, "n": 50, "up": 3, "down": 2, "width": 5},
    {"c": 64, "n": 1 << 17, "up": 147, "down": 160, "width": 24},
)
@tileflow.kernel
def resample_polyphase(x, taps, up: int, down: int):
    """A rate of samples by another one, up / down, with a filter's taps by phase."""
    c, n = x.shape
    _, width = taps.shape
    m = n * up // down
    out = torch.empty(c, m, device=x.device)
    for tc, tm in tfl.tile([c, m]):
        at = tm.index * down
        base, phase = at // up, at % up
        total = tfl.zeros([tc, tm])
        for k in range(width):
            index = base - k
            inside = (index >= 0) & (index < n)
            value = tfl.load(x, [tc.index[:, None], index.clamp(0, n - 1)[None, :]])
            total += torch.where(inside[None, :], value, 0.0) * taps[phase, k][None, :]
        out[tc, tm] = total
    return out


def vandermonde_ref(re: Any, im: Any, cr: Any, ci: Any, step: Any, n: int) -> Any:
    a, c = torch.complex(re, im), torch.complex(cr, ci)
    dt = a * step[:, None]
    weight = c * (torch.exp(dt) - 1) / a
    return 2 * (weight[:, :, None] * torch.exp(dt[:, :, None] * torch.arange(n))).sum(1).real


@stranger(
    lambda h, s, n: (
        -torch.rand(h, s) - 0.1,
        torch.arange(s).float().expand(h, s).contiguous() * math.pi,
        randn(h, s),
        randn(h, s),
        0.001 + 0.05 * torch.rand(h),
        n,
    ),
    vandermonde_ref,
    {"h": 3, "s": 8, "n": 41},
    {"h": 512, "s": 32, "n": 4096},
)
@tileflow.kernel
def diagonal_state_kernel(re, im, cr, ci, step, n: int):
    """Gu and others, 2022: the convolution that a diagonal state space is, sums of damped waves."""
    h, _ = re.shape
    out = torch.empty(h, n, device=re.device)
    for th, tn in tfl.tile([h, n], block_size=[1, None]):
        i = th.id
        dt = step[i]
        ar, ai = re[i, :], im[i, :]
        er = torch.exp(ar * dt)
        gr, gi = er * torch.cos(ai * dt) - 1, er * torch.sin(ai * dt)
        tr, ti = cr[i, :] * gr - ci[i, :] * gi, cr[i, :] * gi + ci[i, :] * gr
        square = ar * ar + ai * ai
        wr, wi = (tr * ar + ti * ai) / square, (ti * ar - tr * ai) / square
        time = tn.index.to(torch.float32) * dt
        size = torch.exp(ar[:, None] * time[None, :])
        angle = ai[:, None] * time[None, :]
        out[i, tn] = 2 * (size * (wr[:, None] * torch.cos(angle) - wi[:, None] * torch.sin(angle))).sum(0)
    return out


def kendall_ref(x: Any, y: Any) -> Any:
    signs = torch.sign(x[:, :, None] - x[:, None]) * torch.sign(y[:, :, None] - y[:, None])
    n = x.shape[1]
    return signs.sum((1, 2)) / (n * (n - 1))


@stranger(
    lambda b, n: (randn(b, n), randn(b, n)),
    kendall_ref,
    {"b": 3, "n": 37},
    {"b": 64, "n": 3000},
)
@tileflow.kernel
def kendall_tau(x, y):
    """Kendall, 1938: how many pairs are in the same order in two series, less those that are not."""
    b, n = x.shape
    agreed = torch.zeros(b, dtype=torch.int32, device=x.device)
    tau = torch.empty(b, device=x.device)
    for tb, ti in tfl.tile([b, n], block_size=[1, None]):
        total = tfl.zeros([ti], dtype=torch.int32)
        for tj in tfl.tile(n):
            dx = x[tb.id, ti][:, None] - x[tb.id, tj][None, :]
            dy = y[tb.id, ti][:, None] - y[tb.id, tj][None, :]
            up, down = (dx * dy > 0).to(torch.int32), (dx * dy < 0).to(torch.int32)
            total += (up - down).sum(1)
        tfl.atomic_add(agreed, [tb.id], total.sum())
    for tb in tfl.tile(b):
        tau[tb] = agreed[tb].to(torch.float32) / (n * (n - 1))
    return tau


def make_spectra(n: int, library: int, peaks: int) -> Any:
    def some(count: int) -> Any:
        mass = (torch.rand(count, peaks) * 900 + 100).sort(1).values
        size = torch.rand(count, peaks)
        return mass, size / size.square().sum(1, keepdim=True).sqrt()

    return *some(n), *some(library)


def match_spectra_ref(mass: Any, size: Any, masses: Any, sizes: Any) -> Any:
    found = []
    for m, s in zip(mass, size, strict=True):
        near = (m[None, :, None] - masses[:, None, :]).abs() <= 0.5
        found.append((near * (s[None, :, None] * sizes[:, None, :])).sum((1, 2)))
    return torch.stack(found)


@stranger(make_spectra, match_spectra_ref, {"n": 3, "library": 13, "peaks": 9}, {"n": 64, "library": 4096, "peaks": 64})
@tileflow.kernel
def match_spectra(mass, size, masses, sizes):
    """Stein and Scott, 1994: a cosine of two mass spectra, over peaks that are half a unit apart at most."""
    n, p = mass.shape
    library = masses.shape[0]
    out = torch.empty(n, library, device=mass.device)
    for tn, tl in tfl.tile([n, library], block_size=[1, None]):
        total = tfl.zeros([tl])
        for j in range(p):
            near = (masses[tl, :] - mass[tn.id, j]).abs() <= 0.5
            total += torch.where(near, sizes[tl, :], 0.0).sum(1) * size[tn.id, j]
        out[tn.id, tl] = total
    return out


ROUNDS = [int(abs(math.modf(p ** (1 / 3))[0]) * (1 << 32)) for p in range(2, 312) if all(p % q for q in range(2, p))]


def digest_ref(words: Any) -> Any:
    """Of messages of 32 bytes: what hashlib says."""
    found = []
    for row in words.tolist():
        message = b"".join((int(word) & 0xFFFFFFFF).to_bytes(4, "big") for word in row)
        digest = hashlib.sha256(message).digest()
        found.append([int.from_bytes(digest[i : i + 4], "big", signed=True) for i in range(0, 32, 4)])
    return torch.tensor(found, dtype=torch.int32)


@stranger(
    lambda n: (torch.randint(-(1 << 31), 1 << 31, (n, 8)).int(),),
    digest_ref,
    {"n": 21},
    {"n": 1 << 18},
    loops=True,
)
@tileflow.kernel
def sha256_of_32_bytes(words):
    """FIPS 180-4: the digests of keys of 32 bytes, one block each."""
    n = words.shape[0]
    out = torch.empty_like(words)

    def turned(x, by):
        return (x >> by) | (x << (32 - by))

    for t in tfl.tile(n):
        w = [words[t, i].to(torch.uint32) for i in range(8)]
        zero = tfl.zeros([t], dtype=torch.uint32)
        w += [zero + 0x80000000] + [zero] * 6 + [zero + 256]
        start = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
        a, b, c, d, e, f, g, h = (zero + s for s in start)
        for i in tfl.static_range(64):
            if i >= 16:
                x, y = w[i - 15], w[i - 2]
                s0 = turned(x, 7) ^ turned(x, 18) ^ (x >> 3)
                s1 = turned(y, 17) ^ turned(y, 19) ^ (y >> 10)
                w.append(w[i - 16] + s0 + w[i - 7] + s1)
            s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)
            chosen = (e & f) ^ (~e & g)
            first = h + s1 + chosen + ROUNDS[i] + w[i]
            s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)
            most = (a & b) ^ (a & c) ^ (b & c)
            h, g, f, e, d, c, b, a = g, f, e, d + first, c, b, a, first + s0 + most
        for i, state in enumerate((a, b, c, d, e, f, g, h)):
            out[t, i] = (state + start[i]).to(torch.int32)
    return out
