"""Kernels of views, packing and products, with what they must give beside them: ``CASES``."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import SHORT_TILES, Cases, ints, rand
from tileflow.language.scaled import widened

CASES = Cases()
case = CASES.case

X, Y = rand(13, 16), rand(13, 16, seed=1)

# ---- joins and splits ---------------------------------------------------------------------------


@case(X, Y, wanted=lambda x, y: torch.stack([x, y], -1), tile=4)
@tileflow.kernel
def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1), 2, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :, :] = tfl.join(x[tile, :], y[tile, :])
    return out


@case(X, wanted=lambda x: x[:, ::2] - x[:, 1::2], tile=4)
@tileflow.kernel
def split_pairs(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1) // 2, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        even, odd = tfl.split(x[tile, :].reshape(tile, x.size(1) // 2, 2))
        out[tile, :] = even - odd
    return out


@case(X, Y, wanted=lambda x, y: torch.stack([x, y, x + y, x * y, x - y], 1), tile=4)
@tileflow.kernel
def stack_of_five(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 5, x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        a, b = x[tile, :], y[tile, :]
        out[tile, :, :] = torch.stack([a, b, a + b, a * b, a - b], dim=1)
    return out


@case(X, Y, wanted=lambda x, y: torch.stack([x, y, x + y, x * y]).amax(0), tile_m=4, tile_n=4)
@tileflow.kernel
def largest_of_four(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        a, b = x[tile_m, tile_n], y[tile_m, tile_n]
        out[tile_m, tile_n] = torch.stack([a, b, a + b, a * b]).amax(0)
    return out


@case(X, Y, wanted=lambda x, y: torch.cat([x, y, -x], 1), tile=4)
@tileflow.kernel
def cat_of_three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 3 * x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.cat([x[tile, :], y[tile, :], -x[tile, :]], dim=1)
    return out


@case(rand(13, 5), wanted=lambda x: torch.cat([torch.cat([x, -x, x], 1) + 1, torch.hstack([x, x])], 1), tile=4)
@tileflow.kernel
def cat_of_odd_sizes(x: torch.Tensor) -> torch.Tensor:
    """Parts whose registers are padded, of a size that each launch brings along in dynamic mode."""
    n = x.size(1)
    out = torch.empty(x.size(0), 5 * n, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, : 3 * n] = torch.cat([row, -row, row], dim=1) + 1
        out[tile, 3 * n :] = torch.hstack([row, row])
    return out


@case(rand(3, 13), rand(3, 13, seed=2), wanted=lambda x, y: torch.exp(torch.cat([x, y], 1)).sum(1) * 1.0, tile_n=4)
@tileflow.kernel
def cat_of_tiles(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Both halves have lanes past the end of n: exp(0) must not count."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for i in tfl.grid(x.size(0)):
        total = 0.0
        for tile_n in tfl.tile(x.size(1)):
            total = total + torch.exp(torch.cat([x[i, tile_n], y[i, tile_n]])).sum()
        out[i] = total
    return out


@case(X, wanted=lambda x: torch.cat([-x[:, 8:], x[:, :8]], 1), tile=4)
@tileflow.kernel
def rotate_half(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        first, second = x[tile, :].chunk(2, dim=-1)
        out[tile, :] = torch.cat([-second, first], dim=-1)
    return out


@case(rand(13, 3, 8), wanted=lambda x: x[:, 0] * x[:, 1] + x[:, 2], tile=4)
@tileflow.kernel
def unbind_three(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(2), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        a, b, c = x[tile, :, :].unbind(1)
        out[tile, :] = a * b + c
    return out


@case(X, wanted=lambda x: sum(x.split(4, 1)) + x.unflatten(1, (4, 4))[:, :, 1], tile=4)
@tileflow.kernel
def split_in_fours(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 4, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        a, b, c, d = torch.split(x[tile, :], 4, dim=1)
        second = x[tile, :].unflatten(1, (4, 4)).unbind(2)[1]
        out[tile, :] = a + b + c + d + second
    return out


# ---- reshapes that merge a tile's dimension -----------------------------------------------------


@case(rand(11, 4), wanted=lambda x: torch.exp(x).sum()[None], tile=8)
@tileflow.kernel
def merged_lanes_are_masked(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, dtype=x.dtype, device=x.device)
    for _ in tfl.grid(1):
        total = 0.0
        for tile in tfl.tile(x.size(0)):
            total = total + torch.exp(x[tile, :].reshape(-1)).sum()
        out[0] = total
    return out


@case(rand(4, 11), wanted=lambda x: x.amax()[None] - 9, tile=8)
@tileflow.kernel
def merged_outside_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, dtype=x.dtype, device=x.device)
    for _ in tfl.grid(1):
        best = tfl.full([], float("-inf"))
        for tile in tfl.tile(x.size(1)):
            best = torch.maximum(best, (x[:, tile] - 9).flatten().amax())
        out[0] = best
    return out


@case(rand(11, 4), wanted=lambda x: torch.stack([x[:8].mean(), x[8:].mean()]))
@tileflow.kernel
def mean_of_merged_lanes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0), block_size=8):
        out[tile.id] = x[tile, :].flatten().mean()
    return out


@case(rand(11, 4), wanted=lambda x: (x * 2).sum(1), tile=8)
@tileflow.kernel
def merged_and_taken_apart(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        flat = x[tile, :].flatten() * 2
        out[tile] = flat.reshape(-1, 4).sum(1)
    return out


@case(X, wanted=lambda x: x.repeat_interleave(2, 1).mean(1), tile_m=4)
@tileflow.kernel
def repeated(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m] = x[tile_m, :].repeat_interleave(2, dim=1).mean(1)
    return out


# ---- elements -----------------------------------------------------------------------------------


@case(X, wanted=lambda x: x[:, 0] + x[:, -1] * x[:, 5], tile=4)
@tileflow.kernel
def elements_of_a_row(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile] = row[:, 0] + row[:, -1] * row[:, 5]
    return out


@case(X, wanted=lambda x: x - x[[3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 12]])
@tileflow.kernel
def last_lane_of_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=4):
        out[tile, :] = x[tile, :] - x[tile, :][-1]
    return out


@case(rand(3, 700), ints(700, 3, 600), wanted=lambda x, index: x.gather(1, index), tile=2)
@tileflow.kernel
def gathered_along_long_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """As one of a vector (emit.views)."""
    out = torch.empty(index.shape, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.gather(x[tile, :], 1, index[tile, :])
    return out


@case(X, ints(16, 13, 16), wanted=lambda x, index: x.gather(1, index), tile=4)
@tileflow.kernel
def gathered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.gather(x[tile, :], 1, index[tile, :])
    return out


@case(rand(3, 5, 8), wanted=lambda x: x.permute(2, 0, 1) + x.permute(2, 0, 1).mT.mT, tile=4)
@tileflow.kernel
def three_dimensions_turned(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(2), x.size(0), x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(2)):
        y = x[:, :, tile]
        out[tile, :, :] = y.movedim(2, 0) + y.mT.transpose(0, 1)
    return out


# ---- packed integers ----------------------------------------------------------------------------


def _unpacked(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack([(packed << 4) >> 4, packed >> 4], 1).reshape(2 * packed.size(0), -1)


@case(rand(9, 44), (rand(22, 20, seed=1) * 60).to(torch.int8), wanted=lambda x, b: x @ _unpacked(b).float(),
      eager=SHORT_TILES, tile_m=16, tile_n=16, block_k=16)  # fmt: skip
@tileflow.kernel
def packed_int4_product(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Row i of ``b`` holds rows 2i (the low bits) and 2i + 1 of a matrix of 4-bit ints."""
    (m, _), n = x.shape, b.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    block_k = tfl.register_block_size(b.size(0))
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(b.size(0), block_size=block_k):
            packed = b[tile_k, tile_n]
            both = torch.stack([(packed << 4) >> 4, packed >> 4], dim=1).reshape(2 * tile_k.block_size, tile_n)
            begin = tile_k.begin * 2
            acc = torch.addmm(acc, x[tile_m, begin : begin + 2 * block_k], both.float())
        out[tile_m, tile_n] = acc
    return out


EVERY_BYTE = torch.arange(256).reshape(16, 16)


@case(EVERY_BYTE.to(torch.int8), wanted=lambda b: torch.cat([(b << 4) >> 4, b >> 4]).bfloat16(), tile=8)
@tileflow.kernel
def signed_nibbles(b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2 * b.size(0), b.size(1), dtype=torch.bfloat16, device=b.device)
    for tile in tfl.tile(b.size(1)):
        rows = b[:, tile]
        out[:, tile] = torch.stack([(rows << 4) >> 4, rows >> 4], dim=0).reshape(2 * b.size(0), tile).bfloat16()
    return out


@case(EVERY_BYTE.to(torch.uint8), wanted=lambda b: (b & 15).half() - (b >> 4).half(), tile=8)
@tileflow.kernel
def unsigned_nibbles(b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(b.shape, dtype=torch.float16, device=b.device)
    for tile in tfl.tile(b.size(1)):
        out[:, tile] = (b[:, tile] & 15).half() - (b[:, tile] >> 4).half()
    return out


@case(EVERY_BYTE.to(torch.int8), wanted=lambda b: (b & 15).half() - (b >> 4).half() * ((b >> 4) & 15).half(), tile=8)
@tileflow.kernel
def nibbles_with_and_without_sign(b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(b.shape, dtype=torch.float16, device=b.device)
    for tile in tfl.tile(b.size(1)):
        high = b[:, tile] >> 4
        out[:, tile] = (b[:, tile] & 15).half() - high.half() * (high & 15).half()
    return out


# ---- products -----------------------------------------------------------------------------------


@case(rand(2, 3, 17, 20), rand(2, 3, 20, 9, seed=1), wanted=torch.matmul, tile_m=16, tile_n=16, tile_k=16, tile_h=2)
@tileflow.kernel
def product_of_two_batches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, h, m, k = x.shape
    n = y.size(3)
    out = torch.empty(b, h, m, n, dtype=x.dtype, device=x.device)
    for tile_b, tile_h, tile_m, tile_n in tfl.tile([b, h, m, n], block_size=[1, None, None, None]):
        acc = tfl.zeros([tile_b, tile_h, tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = acc + x[tile_b, tile_h, tile_m, tile_k] @ y[tile_b, tile_h, tile_k, tile_n]
        out[tile_b, tile_h, tile_m, tile_n] = acc
    return out


@case(rand(3, 17, 20).half(), rand(20, 9, seed=1).half(), wanted=torch.matmul, tile_b=2, tile_m=16, tile_n=16)
@tileflow.kernel
def batches_by_a_matrix(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, m, _ = x.shape
    out = torch.empty(b, m, y.size(1), dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([b, m, y.size(1)]):
        out[tile_b, tile_m, tile_n] = torch.matmul(x[tile_b, tile_m, :], y[:, tile_n])
    return out


@case(rand(17, 20), rand(3, 20, 9, seed=1), wanted=torch.matmul, tile_b=2, tile_m=16, tile_n=16)
@tileflow.kernel
def matrix_by_batches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, _, n = y.shape
    out = torch.empty(b, x.size(0), n, dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([b, x.size(0), n]):
        out[tile_b, tile_m, tile_n] = x[tile_m, :] @ y[tile_b, :, tile_n]
    return out


@case(rand(17, 5).half(), rand(5, 9, seed=1).half(), wanted=torch.mm, tile_m=16, tile_n=16)
@tileflow.kernel
def short_inner_dimension(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        out[tile_m, tile_n] = torch.mm(x[tile_m, :], y[:, tile_n])
    return out


@case(rand(3, 17, 2), rand(3, 2, 9, seed=1), wanted=torch.bmm, tile_b=2, tile_m=16, tile_n=16)
@tileflow.kernel
def short_inner_dimension_of_batches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1), y.size(2), dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([x.size(0), x.size(1), y.size(2)]):
        out[tile_b, tile_m, tile_n] = torch.bmm(x[tile_b, tile_m, :], y[tile_b, :, tile_n])
    return out


@case(rand(17, 40), rand(40, 9, seed=1), wanted=torch.mm, tile_k=16)
@tileflow.kernel
def few_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Blocks of 4 rows by all of the columns."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0), block_size=4):
        acc = torch.zeros(4, y.size(1))
        for tile_k in tfl.tile(x.size(1)):
            acc = acc + x[tile_m, tile_k] @ y[tile_k, :]
        out[tile_m, :] = acc
    return out


@case(rand(40), rand(40, 9, seed=1), rand(9, seed=2), tile_k=16,
      wanted=lambda v, a, w: torch.stack([v @ a, v @ a * 2, (a @ w)[:9]]))  # fmt: skip
@tileflow.kernel
def products_of_vectors(v: torch.Tensor, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    k, n = a.shape
    out = torch.empty(3, n, dtype=v.dtype, device=v.device)
    for _ in tfl.grid(1):
        acc = tfl.zeros([n])
        for tile_k in tfl.tile(k):
            acc = acc + v[tile_k] @ a[tile_k, :]
        out[0, :] = acc
        out[1, :] = torch.dot(v[:], v[:]) * 0 + torch.matmul(v[:], a[:, :]) * 2
        out[2, :] = torch.mv(a[0:n, :], w[:])
    return out


@case(ints(99, 8, 16), ints(99, 16, 4, seed=1), wanted=torch.mm, tile=4)
@tileflow.kernel
def product_of_longs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] @ y[:, :]
    return out


@case(rand(17, 40), rand(40, 9, seed=1), torch.full((17, 9), float("nan")), tile_m=16, tile_n=16,
      wanted=lambda x, y, c: torch.addmm(c, x, y, beta=0, alpha=3))  # fmt: skip
@tileflow.kernel
def beta_of_zero(x: torch.Tensor, y: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(c)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        out[tile_m, tile_n] = torch.addmm(c[tile_m, tile_n], x[tile_m, :], y[:, tile_n], beta=0, alpha=3)
    return out


@case(rand(17, 40), rand(40, 9, seed=1), rand(9, seed=2), 0.25, tile_m=16, tile_n=16,
      wanted=lambda x, y, c, s: torch.addmm(c, x, y, beta=2, alpha=s))  # fmt: skip
@tileflow.kernel
def scaled_sum(x: torch.Tensor, y: torch.Tensor, c: torch.Tensor, alpha: float) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        out[tile_m, tile_n] = torch.addmm(c[tile_n], x[tile_m, :], y[:, tile_n], beta=2, alpha=alpha)
    return out


def _fp8(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    return x.to(dtype)


@case(_fp8(rand(17, 40)), _fp8(rand(40, 9, seed=1), torch.float8_e5m2), tile_m=16, tile_n=16, tile_k=32,
      wanted=lambda x, y: (x.float() @ y.float()).half())  # fmt: skip
@tileflow.kernel
def product_of_fp8(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=torch.float16, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = acc
    return out


@case(rand(17, 40), rand(40, 9, seed=1), wanted=lambda x, y: _decayed(x, y), tile_m=16, tile_n=16)
@tileflow.kernel
def rescaled_accumulator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As attention does: what was summed so far is scaled by a factor for each row before more is added."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1), block_size=16):
            p = x[tile_m, tile_k]
            acc = acc * torch.sigmoid(p.sum(1))[:, None] + p @ y[tile_k, tile_n]
        out[tile_m, tile_n] = acc
    return out


def _decayed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    acc = torch.zeros(x.size(0), y.size(1))
    for begin in range(0, x.size(1), 16):
        p = x[:, begin : begin + 16]
        acc = acc * torch.sigmoid(p.sum(1))[:, None] + p @ y[begin : begin + 16]
    return acc


SCALES = ints(6, 17, 5, seed=8).byte() + 124, ints(6, 9, 5, seed=9).byte() + 124


@case(ints(256, 17, 80).byte(), SCALES[0], ints(256, 80, 9, seed=1).byte(), SCALES[1], tile_m=16, tile_n=16, block_g=2,
      eager=SHORT_TILES, wanted=lambda a, s, b, r: widened(a, s, "e2m1", 1) @ widened(b, r, "e2m1", 0))  # fmt: skip
@tileflow.kernel
def product_of_mxfp4(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """Groups of 32 numbers, 16 bytes each."""
    m, n, groups = a.size(0), b.size(1), a_scale.size(1)
    out = torch.empty(m, n, device=a.device)
    block_g = tfl.register_block_size(groups)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_g in tfl.tile(groups, block_size=block_g):
            begin = tile_g.begin * 16
            left, right = a[tile_m, begin : begin + 16 * block_g], b[begin : begin + 16 * block_g, tile_n]
            acc = tfl.dot_scaled(left, a_scale[tile_m, tile_g], "e2m1", right, b_scale[tile_n, tile_g], "e2m1", acc)
        out[tile_m, tile_n] = acc
    return out


@case(_fp8(rand(17, 64)), SCALES[0][:, :2], rand(64, 9, seed=1).bfloat16(), tile_m=16, tile_n=16,
      wanted=lambda a, s, b: widened(a, s, "e4m3", 1) @ b.float())  # fmt: skip
@tileflow.kernel
def product_of_mxfp8(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Only one side has scales."""
    out = torch.empty(a.size(0), b.size(1), device=a.device)
    for tile_m, tile_n in tfl.tile([a.size(0), b.size(1)]):
        out[tile_m, tile_n] = tfl.dot_scaled(a[tile_m, :], a_scale[tile_m, :], "e4m3", b[:, tile_n], None, "bf16")
    return out


def _kept_lanes(x: torch.Tensor) -> torch.Tensor:
    zero = torch.zeros_like(x[:, :1])
    parts = [x[:, :9].sum(1), x[:, :9].amin(1), F.pad(x, (0, 2), value=3.0).sum(1), F.pad(x, (0, 2)).amax(1)]
    first, rest = torch.split(x, [10, 3], 1)
    parts += [first.sum(1), rest.sum(1), torch.cat([x, rest], 1).amin(1), x.diff(dim=1).abs().sum(1)]
    ends = (x.diff(dim=1, prepend=zero), x.diff(dim=1, append=zero), x.diff(n=3, dim=1, prepend=x[:, :2], append=zero))
    return torch.stack([*parts, *(d.abs().sum(1) for d in ends)])


@case(rand(17, 13) - 2.0, wanted=_kept_lanes, tile=8)
@tileflow.kernel
def lanes_that_stay(x: torch.Tensor) -> torch.Tensor:
    """The first lanes of a dimension, alone and with others behind them: reductions take no more and no less."""
    out = torch.empty(11, x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        zero = torch.zeros_like(row[:, :1])
        out[0, tile], out[1, tile] = row[:, :9].sum(1), row[:, :9].amin(1)
        out[2, tile], out[3, tile] = F.pad(row, (0, 2), value=3.0).sum(1), F.pad(row, (0, 2)).amax(1)
        first, rest = torch.split(row, [10, 3], 1)
        out[4, tile], out[5, tile], out[6, tile] = first.sum(1), rest.sum(1), torch.cat([row, rest], 1).amin(1)
        out[7, tile] = row.diff(dim=1).abs().sum(1)
        out[8, tile] = torch.diff(row, dim=1, prepend=zero).abs().sum(1)
        out[9, tile] = torch.diff(row, dim=1, append=zero).abs().sum(1)
        out[10, tile] = torch.diff(row, n=3, dim=1, prepend=row[:, :2], append=zero).abs().sum(1)
    return out
