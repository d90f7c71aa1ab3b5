"""A matrix product whose second operand is packed: a byte holds two signed 4-bit rows, the even one in its low half.

The bytes are unpacked in registers: shifting left and back extends the sign of the low half, shifting right that of the
high one, and stacking the two in the dimension of the rows brings them into the order of the columns of ``x``. With few
rows of ``x`` there are not enough output tiles to read the bytes at the memory's speed. Several programs then share one
tile, each over a part of the inner dimension, and a second launch adds up their sums.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

CHUNK = 128  # bytes: parts are whole multiples of it, so that the blocks of most configs divide them


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random matrix, (m, k), and random bytes, (k / 2, n), of which each holds two rows."""
    x = torch.randn(m, k, dtype=dtype, device=device)
    return x, torch.randint(-128, 128, (k // 2, n), dtype=torch.int8, device=device)


def unpacked(packed: torch.Tensor) -> torch.Tensor:
    """(rows, n) bytes as (2 * rows, n) numbers from -8 to 7."""
    low, high = (packed << 4) >> 4, packed >> 4
    return torch.stack([low, high], dim=1).reshape(2 * packed.shape[0], packed.shape[1])


def reference(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """Unpack the whole second operand and multiply with torch."""
    return x @ unpacked(packed).to(x.dtype)


@tileflow.kernel(inputs=inputs, reference=reference)
def int4_matmul(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    rows, n = packed.shape
    assert k == 2 * rows, f"{rows} bytes a column hold {2 * rows} numbers, not {k}"
    parts = tfl.register_tunable("split_k", [8, 4, 2, 1, 16] if m <= 16 else [4, 2, 1, 8] if m <= 64 else [1, 2, 4])
    length = -(-rows // (parts * CHUNK)) * CHUNK
    is_whole = parts == 1
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    sums = out[None] if is_whole else torch.empty(parts, m, n, dtype=torch.float32, device=x.device)
    block_k = tfl.register_block_size(CHUNK)
    for part, tile_m, tile_n in tfl.tile([parts, m, n], block_size=[1, None, None]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
            begin = tile_k.begin
            y = unpacked(packed[tile_k, tile_n]).to(x.dtype)
            acc = torch.addmm(acc, x[tile_m, 2 * begin : 2 * begin + 2 * block_k], y)
        sums[part.begin, tile_m, tile_n] = acc
    if not is_whole:
        for tile_m, tile_n in tfl.tile([m, n]):
            out[tile_m, tile_n] = sums[:, tile_m, tile_n].sum(dim=0)
    return out
