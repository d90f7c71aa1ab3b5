"""Products with something before or after them: complex numbers, proteins' pairs, kernels of points, structure."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_complex(m: Any, n: Any, k: Any, dtype: Any = torch.float32) -> Any:
    left = [randn(m, k, dtype=dtype) * k**-0.5 for _ in range(2)]
    return [*left, randn(k, n, dtype=dtype), randn(k, n, dtype=dtype)]


def power_ref(ar: Any, ai: Any, br: Any, bi: Any) -> Any:
    a, b, c, d = (x.float() if x.dtype != torch.float64 else x for x in (ar, ai, br, bi))
    real, imag = a @ c - b @ d, a @ d + b @ c
    power = real**2 + imag**2
    return power, power.amax(0)


@stranger(
    make_complex,
    power_ref,
    {"m": 21, "n": 19, "k": 37},
    {"m": 2048, "n": 4096, "k": 2048, "dtype": torch.bfloat16},
)
@tileflow.kernel
def beam_power(ar, ai, br, bi):
    """Antennas' weights by their signals: the power in each direction, and the most that each moment has."""
    m, k = ar.shape
    n = br.size(1)
    power = torch.empty(m, n, device=ar.device)
    most = torch.zeros(n, device=ar.device)
    for tm, tn in tfl.tile([m, n]):
        real, imag = tfl.zeros([tm, tn]), tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            a, b, c, d = ar[tm, tk], ai[tm, tk], br[tk, tn], bi[tk, tn]
            real += a @ c - b @ d
            imag += a @ d + b @ c
        p = real * real + imag * imag
        power[tm, tn] = p
        tfl.atomic_max(most, [tn], p.amax(0))
    return power, most


def triangle_ref(a: Any, b: Any, gate: Any) -> Any:
    z = torch.einsum("ikc,jkc->ijc", a, b)
    return (z.float() if z.dtype != torch.float64 else z).mul(torch.sigmoid(gate)).to(a.dtype)


@stranger(
    lambda n, c, dtype=torch.float32: [randn(n, n, c, dtype=dtype) * n**-0.25 for _ in range(3)],
    triangle_ref,
    {"n": 19, "c": 4},
    {"n": 512, "c": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def triangle_update(a, b, gate):
    """AlphaFold's outgoing edges: a product for each channel, whose numbers lie side by side in memory."""
    n, _, c = a.shape
    out = torch.empty_like(a)
    for tc, ti, tj in tfl.tile([c, n, n], block_size=[1, None, None]):
        ic = tc.begin
        acc = tfl.zeros([ti, tj])
        for tk in tfl.tile(n):
            acc += a[ti, tk, ic] @ b[tj, tk, ic].T
        out[ti, tj, ic] = acc * torch.sigmoid(gate[ti, tj, ic].float())
    return out


def make_outer(s: Any, r: Any, c: Any, z: Any, dtype: Any = torch.float32) -> Any:
    return randn(s, r, c, dtype=dtype), randn(s, r, c, dtype=dtype), randn(c, c, z, dtype=dtype) / c, randn(z)


def outer_ref(a: Any, b: Any, w: Any, bias: Any) -> Any:
    out = [torch.einsum("sic,sjd->ijcd", part, b) for part in a.split(32, 1)]
    return torch.cat([(o / a.size(0)).to(w.dtype).flatten(2) @ w.flatten(0, 1) for o in out]) + bias


@stranger(
    make_outer,
    outer_ref,
    {"s": 17, "r": 5, "c": 16, "z": 16},
    {"s": 256, "r": 256, "c": 32, "z": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def outer_product_mean(a, b, w, bias):
    """AlphaFold's way from sequences to pairs: all products of two columns' channels, averaged, then projected."""
    s, r, c = a.shape
    n, z = r * c, w.size(2)
    left, right = a.view(s, n), b.view(s, n)
    means = torch.empty(n, n, dtype=a.dtype, device=a.device)
    for ti, tj in tfl.tile([n, n]):
        acc = tfl.zeros([ti, tj])
        for ts in tfl.tile(s):
            acc += left[ts, ti].T @ right[ts, tj]
        means[ti, tj] = acc / s
    pairs = means.view(r, c, r, c)
    out = torch.empty(r, r, z, device=a.device)
    for ti, tj in tfl.tile([r, r], block_size=[1, None]):
        acc = tfl.zeros([tj, z]) + bias[:]
        for k in range(c):
            acc += pairs[ti.begin, k, tj, :] @ w[k, :, :]
        out[ti.begin, tj, :] = acc
    return out


def gram_ref(left: Any, right: Any, g: Any, beta: Any) -> Any:
    x = g.double()
    rows, columns = x @ x.T, x.T @ x
    new_left, new_right = beta * left + (1 - beta) * rows, beta * right + (1 - beta) * columns
    return new_left.to(left.dtype), new_right.to(left.dtype), new_left.trace().to(left.dtype)


@stranger(
    lambda m, n, dtype=torch.float32: (randn(m, m), randn(n, n), randn(m, n, dtype=dtype), 0.95),
    gram_ref,
    {"m": 21, "n": 37},
    {"m": 4096, "n": 4096, "dtype": torch.bfloat16},
)
@tileflow.kernel
def shampoo_statistics(left, right, g, beta: float):
    """Gupta, Koren and Singer, 2018, arXiv:1802.09568: moving averages of both sides' products."""
    m, n = g.shape
    new_left, new_right = torch.empty_like(left), torch.empty_like(right)
    trace = torch.zeros((), device=g.device)
    for ti, tj in tfl.tile([m, m]):
        acc = tfl.zeros([ti, tj])
        for tk in tfl.tile(n):
            acc = torch.addmm(acc, g[ti, tk], g[tj, tk].T)
        new = beta * left[ti, tj] + (1 - beta) * acc
        new_left[ti, tj] = new
        tfl.atomic_add(trace, [], torch.where(ti.index[:, None] == tj.index[None, :], new, 0.0).sum())
    for ti, tj in tfl.tile([n, n]):
        acc = tfl.zeros([ti, tj])
        for tk in tfl.tile(m):
            acc = torch.addmm(acc, g[tk, ti].T, g[tk, tj])
        new_right[ti, tj] = beta * right[ti, tj] + (1 - beta) * acc
    return new_left, new_right, trace


def rbf_ref(x: Any, y: Any, v: Any, width: Any) -> Any:
    out = []
    for part in x.split(2048):
        d2 = (part**2).sum(1)[:, None] + (y**2).sum(1) - 2 * part @ y.T
        out.append(torch.exp(-d2.clamp(min=0) / (2 * width**2)) @ v)
    return torch.cat(out)


@stranger(
    lambda m, n, d, c: (randn(m, d), randn(n, d), randn(n, c), 2.0 * d**0.5),
    rbf_ref,
    {"m": 21, "n": 37, "d": 16, "c": 16},
    {"m": 16384, "n": 32768, "d": 32, "c": 16},
)
@tileflow.kernel
def kernel_apply(x, y, v, width: float):
    """KeOps, arXiv:2004.11127: a Gaussian kernel's matrix times vectors, without the matrix."""
    m, n = x.size(0), y.size(0)
    out = torch.empty(m, v.size(1), device=x.device)
    for ti in tfl.tile(m):
        a = x[ti, :]
        na = (a * a).sum(1)
        acc = tfl.zeros([ti, v.size(1)])
        for tj in tfl.tile(n):
            b = y[tj, :]
            d2 = na[:, None] + (b * b).sum(1)[None, :] - 2 * (a @ b.T)
            acc += torch.exp(-d2.clamp(min=0) / (2 * width**2)) @ v[tj, :]
        out[ti, :] = acc
    return out


def monarch_ref(x: Any, first: Any, second: Any) -> Any:
    k, p, _ = first.shape
    y = torch.einsum("bkp,kpq->bkq", x.unflatten(1, (k, p)), first)
    return torch.einsum("bkq,qkr->bqr", y, second).flatten(1)


@stranger(
    lambda b, k, p, q, r, dtype=torch.float32: (
        randn(b, k * p, dtype=dtype), randn(k, p, q, dtype=dtype) * p**-0.5, randn(q, k, r, dtype=dtype) * k**-0.5,
    ),
    monarch_ref,
    {"b": 13, "k": 3, "p": 16, "q": 4, "r": 16},
    {"b": 16384, "k": 64, "p": 64, "q": 64, "r": 64, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def monarch_product(x, first, second):
    """Dao et al., 2022, arXiv:2204.00595: two matrices of blocks, with a transposition between."""
    b = x.size(0)
    k, p, q = first.shape
    r = second.size(2)
    rows, out = x.view(b, k, p), torch.empty(b, q, r, dtype=x.dtype, device=x.device)
    middle = torch.empty(b, k, q, dtype=x.dtype, device=x.device)
    for ik, tb in tfl.tile([k, b], block_size=[1, None]):
        middle[tb, ik.begin, :] = rows[tb, ik.begin, :] @ first[ik.begin, :, :]
    for iq, tb in tfl.tile([q, b], block_size=[1, None]):
        out[tb, iq.begin, :] = middle[tb, :, iq.begin] @ second[iq.begin, :, :]
    return out.view(b, q * r)


def loha_ref(w: Any, a: Any, b: Any, c: Any, d: Any, scale: Any) -> Any:
    wide = [x.float() if x.dtype != torch.float64 else x for x in (w, a, b, c, d)]
    return (wide[0] + scale * (wide[1] @ wide[2]) * (wide[3] @ wide[4])).to(w.dtype)


def make_loha(m: Any, n: Any, r: Any, dtype: Any = torch.float32) -> Any:
    a, b, c, d = (randn(*s, dtype=dtype) for s in ((m, r), (r, n), (m, r), (r, n)))
    return randn(m, n, dtype=dtype), a, b, c, d, 0.1


@stranger(make_loha, loha_ref, {"m": 21, "n": 37, "r": 16}, {"m": 8192, "n": 8192, "r": 32, "dtype": torch.bfloat16})
@helion.kernel(static_shapes=True)
def merge_hadamard(
    w: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, scale: float
) -> torch.Tensor:
    """FedPara, arXiv:2108.06098: a product of two products of low rank, added to the weights."""
    m, n = w.size()
    out = torch.empty_like(w)
    for tile_m, tile_n in hl.tile([m, n]):
        one = hl.dot(a[tile_m, :], b[:, tile_n])
        two = hl.dot(c[tile_m, :], d[:, tile_n])
        out[tile_m, tile_n] = (w[tile_m, tile_n].to(torch.float32) + scale * one * two).to(w.dtype)
    return out
