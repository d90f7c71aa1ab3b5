"""A matrix product of fp8 (e4m3) operands with a float32 scale for each row of the first and column of the second.

The second operand is stored transposed, (n, k): the matrix units take 8-bit operands whose inner dimension is
contiguous.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.dtype]:
    """Return random fp8 operands, (m, k) and (n, k), a scale for each of their rows, and the result's dtype."""
    x, y = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    return x, y, torch.rand(m, device=device), torch.rand(n, device=device), dtype


def reference(
    x: torch.Tensor, y: torch.Tensor, x_scale: torch.Tensor, y_scale: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Multiply by the device's own product of scaled fp8 matrices where it has one, else in float32."""
    if x.is_cuda and x.dtype == torch.float8_e4m3fn and dtype == torch.bfloat16:
        row_wise = F.ScalingType.RowWise
        return F.scaled_mm(x, y.T, x_scale[:, None], row_wise, y_scale[None, :], row_wise, output_dtype=dtype)
    return (x.float() @ y.float().T * x_scale[:, None] * y_scale).to(dtype)


@tileflow.kernel(inputs=inputs, reference=reference)
def fp8_matmul(
    x: torch.Tensor, y: torch.Tensor, x_scale: torch.Tensor, y_scale: torch.Tensor, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """(m, k) by (n, k) to (m, n) in ``dtype``."""
    m, k = x.shape
    n = y.size(0)
    out = torch.empty(m, n, dtype=dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = tfl.dot(x[tile_m, tile_k], y[tile_n, tile_k].T, acc=acc)
        out[tile_m, tile_n] = acc * x_scale[tile_m][:, None] * y_scale[tile_n]
    return out
