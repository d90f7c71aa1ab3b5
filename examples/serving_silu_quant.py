"""SwiGLU's elementwise part and quantisation in one pass, as before the second product of a decoder's MLP.

The two halves of each row are the gate and the values it scales, as one product with both weights leaves them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .serving_norm_quant import GROUP, LEAST, largest, quantised, to_eight_bits


def inputs(
    m: int,
    n: int,
    dtype: torch.dtype = torch.bfloat16,
    out_dtype: torch.dtype = torch.float8_e4m3fn,
    device: str = "cpu",
) -> tuple[torch.Tensor, torch.dtype]:
    """Return a random matrix and the result's dtype. ``n``: the columns of the result; rows are twice as long."""
    return torch.randn(m, 2 * n, dtype=dtype, device=device), out_dtype


def gated(x: torch.Tensor) -> torch.Tensor:
    """Return ``silu(first half) * second half`` of each row."""
    gate, up = x.chunk(2, dim=1)
    return F.silu(gate) * up


def reference(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute in torch, with a scale for each row."""
    values, scales = quantised(gated(x), dtype, x.size(1) // 2)
    return values, scales[:, 0]


def grouped_reference(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute in torch, with a scale for each group of 128 columns."""
    return quantised(gated(x), dtype, GROUP)


@tileflow.kernel(inputs=inputs, reference=reference, max_mismatch_ratio=1e-3)
def silu_mul_quant(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[torch.Tensor, torch.Tensor]:
    """``silu(first half) * second half`` in ``dtype``, and a scale for each row in float32."""
    m, n = x.size(0), x.size(1) // 2
    out = torch.empty(m, n, dtype=dtype, device=x.device)
    scales = torch.empty(m, dtype=torch.float32, device=x.device)
    most = largest(dtype)
    for tile_m in tfl.tile(m):
        values = F.silu(x[tile_m, :n].float()) * x[tile_m, n:].float()
        scale = torch.clamp(torch.amax(torch.abs(values), dim=1) / most, min=LEAST)
        scales[tile_m] = scale
        out[tile_m, :] = to_eight_bits(torch.clamp(values / scale[:, None], -most, most), dtype)
    return out, scales


@tileflow.kernel(inputs=inputs, reference=grouped_reference, max_mismatch_ratio=1e-3)
def silu_mul_quant_grouped(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with a scale for each group of 128 columns, (m, n / 128)."""
    m, n = x.size(0), x.size(1) // 2
    assert n % GROUP == 0, f"a row of {n} has no whole groups of {GROUP}"
    groups = n // GROUP
    out = torch.empty(m, n, dtype=dtype, device=x.device)
    scales = torch.empty(m, groups, dtype=torch.float32, device=x.device)
    most = largest(dtype)
    x, out_parts = x.unflatten(1, (2 * groups, GROUP)), out.unflatten(1, (groups, GROUP))
    for tile_m, tile_g in tfl.tile([m, groups]):
        values = F.silu(x[tile_m, tile_g, :].float()) * x[tile_m, tile_g + groups, :].float()
        scale = torch.clamp(torch.amax(torch.abs(values), dim=2) / most, min=LEAST)
        scales[tile_m, tile_g] = scale
        out_parts[tile_m, tile_g, :] = to_eight_bits(torch.clamp(values / scale[:, :, None], -most, most), dtype)
    return out, scales
