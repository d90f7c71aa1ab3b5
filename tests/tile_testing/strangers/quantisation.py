"""Quantisation, products of quantised matrices, and the rotations before it."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_rows(m: int, n: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return (randn(m, n, dtype=dtype),)


def by_rows(x: Any) -> tuple[Any, Any]:
    scale = x.float().abs().amax(1).clamp(min=1e-6) / 127
    return torch.round(x.float() / scale[:, None]).clamp(-127, 127).to(torch.int8), scale


@stranger(make_rows, by_rows, {"m": 13, "n": 37}, {"m": 8192, "n": 8192, "dtype": torch.bfloat16})
@tileflow.kernel
def quantise_rows(x):
    m, n = x.shape
    out = torch.empty(m, n, dtype=torch.int8, device=x.device)
    scales = torch.empty(m, device=x.device)
    for rows in tfl.tile(m):
        values = x[rows, :].float()
        scale = values.abs().amax(1).clamp(min=1e-6) / 127
        out[rows, :] = torch.round(values / scale[:, None]).clamp(-127, 127).to(torch.int8)
        scales[rows] = scale
    return out, scales


GROUP = 16


def by_groups(x: Any) -> tuple[Any, Any]:
    parts = x.unflatten(1, (-1, GROUP)).float()
    scale = parts.abs().amax(-1).clamp(min=1e-6) / 448.0
    return (parts / scale[..., None]).to(torch.float8_e4m3fn).flatten(1), scale


@stranger(make_rows, by_groups, {"m": 5, "n": 48}, {"m": 8192, "n": 8192, "dtype": torch.bfloat16})
@tileflow.kernel
def quantise_groups(x):
    """To float8, a scale for each group of a row (as arXiv:2412.19437 does)."""
    m, n = x.shape
    out = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(m, n // GROUP, device=x.device)
    for rows, groups in tfl.tile([m, n], block_size=[None, GROUP]):
        values = x[rows, groups].float()
        scale = values.abs().amax(1).clamp(min=1e-6) / 448.0
        out[rows, groups] = (values / scale[:, None]).to(torch.float8_e4m3fn)
        scales[rows, groups.id] = scale
    return out, scales


def make_int8(m: int, k: int, n: int) -> tuple[Any, ...]:
    x, w = torch.randint(-127, 128, (m, k), dtype=torch.int8), torch.randint(-127, 128, (n, k), dtype=torch.int8)
    return x, w, torch.rand(m) / 127, torch.rand(n) / 127


def int8_product(x: Any, w: Any, sx: Any, sw: Any) -> torch.Tensor:
    return (x.double() @ w.double().mT * sx[:, None] * sw[None, :]).float()


@stranger(make_int8, int8_product, {"m": 21, "k": 37, "n": 19}, {"m": 4096, "k": 4096, "n": 4096})
@tileflow.kernel
def int8_matmul(x, w, scale_x, scale_w):
    m, k = x.shape
    n = w.size(0)
    out = torch.empty(m, n, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n], dtype=torch.int32)
        for tile_k in tfl.tile(k):
            acc = tfl.dot(x[tile_m, tile_k], w[tile_n, tile_k].T, acc=acc)
        out[tile_m, tile_n] = acc.float() * scale_x[tile_m][:, None] * scale_w[tile_n][None, :]
    return out


def make_codes(m: int, k: int, n: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return randn(m, k, dtype=dtype), torch.randint(0, 16, (k, n), dtype=torch.uint8), randn(16), torch.rand(n)


def coded_product(x: Any, codes: Any, book: Any, scale: Any) -> torch.Tensor:
    return (x.float() @ book[codes.long()].to(x.dtype).float() * scale).to(x.dtype)


@stranger(make_codes, coded_product, {"m": 21, "k": 37, "n": 19},
          {"m": 4096, "k": 4096, "n": 4096, "dtype": torch.bfloat16})  # fmt: skip
@tileflow.kernel
def codebook_matmul(x, codes, book, scale):
    """Weights are places in a book of 16 values, as NF4's are (arXiv:2305.14314)."""
    m, k = x.shape
    n = codes.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            weight = book[codes[tile_k, tile_n].to(torch.int32)].to(x.dtype)
            acc = tfl.dot(x[tile_m, tile_k], weight, acc=acc)
        out[tile_m, tile_n] = acc * scale[tile_n][None, :]
    return out


def ternary(x: Any) -> tuple[Any, Any]:
    scale = x.float().abs().mean(1).clamp(min=1e-5)
    return torch.round(x.float() / scale[:, None]).clamp(-1, 1).to(torch.int8), scale


@stranger(make_rows, ternary, {"m": 13, "n": 37}, {"m": 8192, "n": 8192})
@tileflow.kernel
def ternary_weights(x):
    """-1, 0 and 1 of the mean magnitude (arXiv:2402.17764)."""
    out = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scales = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        scale = x[rows, :].abs().mean(1).clamp(min=1e-5)
        scales[rows] = scale
        out[rows, :] = torch.round(x[rows, :] / scale[:, None]).clamp(-1, 1).to(torch.int8)
    return out, scales


def hadamard(x: Any) -> torch.Tensor:
    made = torch.ones(1, 1, device=x.device)
    while made.size(0) < x.size(1):
        made = torch.cat([torch.cat([made, made], 1), torch.cat([made, -made], 1)])
    return x @ made * x.size(1) ** -0.5


@stranger(make_rows, hadamard, {"m": 7, "n": 32}, {"m": 32768, "n": 1024})
@tileflow.kernel
def hadamard_transform(x):
    """Butterflies over a whole row, of a length that is a power of two."""
    m, n = x.shape
    out = torch.empty_like(x)
    for rows in tfl.tile(m):
        row = x[rows, :]
        half = 1
        while half < n:
            pairs = row.reshape(row.size(0), n // (2 * half), 2, half)
            a, b = tfl.split(pairs.permute(0, 1, 3, 2))
            row = torch.stack((a + b, a - b), dim=2).reshape(row.size(0), n)
            half *= 2
        out[rows, :] = row * n**-0.5
    return out
