# config: block:tile_m=1, block:tile_n=4096, load:x#0.access=pointer, load:x#0.eviction=, num_stages=3, num_warps=8, persistent=0
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (end.0 <= out.shape.0)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((out.shape.0 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (n % 16))) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# n: i32 % 16 = n
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def long_sum_looped_0(
    out_ptr,
    x_ptr,
    end_0,
    n,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    for tile_n_begin in tl.range(0, n, BLOCK_TILE_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < n
        v1 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v2 = v1.to(tl.float32)
        v3 = tl.sum(v2, axis=1)
        v4 = c0 + v3
        c0 = v4
    v5 = c0.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx, v5, mask=tile_m_mask)

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (end.0 <= out.shape.0)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((out.shape.0 + -1) <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# n: i32 = n
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def long_sum_looped_0(
    out_ptr,
    x_ptr,
    end_0,
    n,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    for tile_n_begin in tl.range(0, n, BLOCK_TILE_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < n
        v1 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v2 = v1.to(tl.float32)
        v3 = tl.sum(v2, axis=1)
        v4 = c0 + v3
        c0 = v4
    v5 = c0.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx, v5, mask=tile_m_mask)
