# config: block:part=4096, block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == partial.align)) and (4000 == partial.shape.0)) and (1 == partial.shape.1)) and (1 == partial.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_PART=4096, BLOCK_TILE_M=1
# partial_ptr: *fp32 % 16 = partial
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.long_sum:long_sum_split (long_sum.py:47), launch 0, static sizes
#   block:part=4096, block:tile_m=1
@triton.jit
def long_sum_split_0(
    partial_ptr,
    x_ptr,
    BLOCK_PART: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n], block_size=[None, part]):
    pid = tl.program_id(0)
    tile_n_count: tl.constexpr = (2992 + BLOCK_PART - 1) // BLOCK_PART
    tile_n_begin = (pid % tile_n_count) * BLOCK_PART
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_PART)
    tile_n_mask = tile_n_idx < 2992
    tile_m_begin = (pid // tile_n_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # partial[tile_m, tile_n.id] = x[tile_m, tile_n].float().sum(1)
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.sum(v1, axis=1)
    v3 = tile_n_begin // BLOCK_PART
    tl.store(partial_ptr + tile_m_idx + v3, v2)
