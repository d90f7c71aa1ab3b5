# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((0 == begin.0) and (4000 == end.0)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (1 == out.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.long_sum:long_sum_looped (long_sum.py:34), launch 0, static sizes
#   block:block_n=4096, block:tile_m=1, num_stages=3
@triton.jit
def long_sum_looped_0(
    out_ptr,
    x_ptr,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # sums = tfl.zeros([tile_m, block_n])
    sums_start = tl.full([BLOCK_TILE_M, BLOCK_BLOCK_N], 0.0, tl.float32)
    # for tile_n in tfl.tile(n, block_size=block_n):
    sums = sums_start
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        # sums += x[tile_m, tile_n]
        v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        v1 = v0.to(tl.float32)
        sums_1 = sums + v1
        # for tile_n in tfl.tile(n, block_size=block_n):
        v2 = tl.where(tile_n_mask[None, :], sums_1, sums)
        sums = v2
    # out[tile_m] = sums.sum(1)
    v3 = tl.sum(sums, axis=1)
    v4 = v3.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx, v4)
