"""A matrix product whose inner dimension is split over programs, for outputs too small to fill the device.

Each program adds its partial product atomically to a float32 output. A knob of the kernel sets how many programs share
an output tile; with one, the product is stored directly.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

CHUNK = 128  # parts are whole multiples of it, so that the blocks of most configs divide them


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random matrices, (m, k) and (k, n)."""
    return torch.randn(m, k, dtype=dtype, device=device), torch.randn(k, n, dtype=dtype, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply with torch."""
    return x @ y


@tileflow.kernel(inputs=inputs, reference=reference)
def split_k_matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = y.size(1)
    parts = tfl.register_tunable("split_k", [4, 1, 2, 8, 16, 32])
    length = -(-k // (parts * CHUNK)) * CHUNK
    is_whole = parts == 1
    if is_whole:
        out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    else:
        out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, parts], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        if is_whole:
            out[tile_m, tile_n] = acc
        else:
            tfl.atomic_add(out, [tile_m, tile_n], acc)
    return out.to(x.dtype)
