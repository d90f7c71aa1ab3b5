"""A residual's addition, RMSNorm and quantisation in one pass, as before an 8-bit product in a decoder.

The sum becomes the next residual. A scale is the largest magnitude of its values over the largest number of the 8-bit
type: of a token, or of each group of 128 columns of it, as products with block scales read them.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

EPS = 1e-5
GROUP = 128
LEAST = 1e-10  # a row of zeros has a scale too

Quantised = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def largest(dtype: torch.dtype) -> float:
    """Return the largest number of an 8-bit type, symmetric for int8."""
    return float(torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max)


def quantised(values: torch.Tensor, dtype: torch.dtype, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise ``values`` by groups of columns. Returns the numbers in ``dtype`` and the scales, (rows, groups)."""
    parts = values.unflatten(-1, (-1, group))
    scales = (parts.abs().amax(-1) / largest(dtype)).clamp(min=LEAST)
    scaled = parts / scales[..., None]
    scaled = scaled if dtype.is_floating_point else scaled.round()
    return scaled.flatten(-2).clamp(-largest(dtype), largest(dtype)).to(dtype), scales.float()


def inputs(
    m: int,
    n: int,
    dtype: torch.dtype = torch.bfloat16,
    out_dtype: torch.dtype = torch.float8_e4m3fn,
    device: str = "cpu",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float, torch.dtype]:
    """Return a random matrix, a random residual, weights of the columns, epsilon, and the result's dtype."""
    x, residual = (torch.randn(m, n, dtype=dtype, device=device) for _ in range(2))
    return x, residual, torch.randn(n, dtype=dtype, device=device), EPS, out_dtype


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype
) -> Quantised:
    """Add, normalise and quantise with a scale for each row."""
    summed = x + residual
    normed = summed * torch.rsqrt(summed.square().mean(-1, keepdim=True) + eps) * weight
    values, scales = quantised(normed, dtype, x.size(1))
    return values, scales[:, 0], summed


def grouped_reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype
) -> Quantised:
    """Add, normalise and quantise with a scale for each group of 128 columns."""
    summed = x + residual
    normed = summed * torch.rsqrt(summed.square().mean(-1, keepdim=True) + eps) * weight
    return *quantised(normed, dtype, GROUP), summed


def to_eight_bits(values, dtype):  # type: ignore[no-untyped-def]
    """Rounded to the nearest number of ``dtype``; a float's own conversion rounds."""
    return values.to(dtype) if dtype.is_floating_point else torch.round(values).to(dtype)


@tileflow.kernel(inputs=inputs, reference=reference, max_mismatch_ratio=1e-3)
def add_rms_norm_quant(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> Quantised:
    """The normalised sum in ``dtype``, a scale for each row in float32, and the sum."""
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out = torch.empty(m, n, dtype=dtype, device=x.device)
    scales = torch.empty(m, dtype=torch.float32, device=x.device)
    summed = torch.empty_like(x)
    most = largest(dtype)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float() + residual[tile_m, :].float()
        summed[tile_m, :] = row
        factor = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
        normed = row * factor * weight[:].float()
        scale = torch.clamp(torch.amax(torch.abs(normed), dim=1) / most, min=LEAST)
        scales[tile_m] = scale
        out[tile_m, :] = to_eight_bits(torch.clamp(normed / scale[:, None], -most, most), dtype)
    return out, scales, summed


@tileflow.kernel(inputs=inputs, reference=grouped_reference, max_mismatch_ratio=1e-3)
def add_rms_norm_quant_grouped(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> Quantised:
    """The same with a scale for each group of 128 columns, (m, n / 128)."""
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    assert n % GROUP == 0, f"a row of {n} has no whole groups of {GROUP}"
    out = torch.empty(m, n, dtype=dtype, device=x.device)
    scales = torch.empty(m, n // GROUP, dtype=torch.float32, device=x.device)
    summed = torch.empty_like(x)
    most = largest(dtype)
    parts, out_parts = (n // GROUP, GROUP), out.unflatten(1, (n // GROUP, GROUP))
    x, residual, sums, weight = (
        x.unflatten(1, parts),
        residual.unflatten(1, parts),
        summed.unflatten(1, parts),
        weight.unflatten(0, parts),
    )
    for tile_m in tfl.tile(m, block_size=1):
        row = x[tile_m, :, :].float() + residual[tile_m, :, :].float()
        sums[tile_m, :, :] = row
        factor = torch.rsqrt((row * row).sum(dim=(1, 2)) / n + eps)
        normed = row * factor[:, None, None] * weight[:, :].float()[None]
        scale = torch.clamp(torch.amax(torch.abs(normed), dim=2) / most, min=LEAST)
        scales[tile_m, :] = scale
        out_parts[tile_m, :, :] = to_eight_bits(torch.clamp(normed / scale[:, :, None], -most, most), dtype)
    return out, scales, summed
