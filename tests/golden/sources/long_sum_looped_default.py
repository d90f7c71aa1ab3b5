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


@triton.jit
def long_sum_looped_0(
    out_ptr,
    x_ptr,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.full([BLOCK_TILE_M, BLOCK_BLOCK_N], 0.0, tl.float32)
    c0 = v0
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        v2 = v1.to(tl.float32)
        v3 = c0 + v2
        v4 = tl.where(tile_n_mask[None, :], v3, c0)
        c0 = v4
    v5 = tl.sum(c0, axis=1)
    v6 = v5.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx, v6)
