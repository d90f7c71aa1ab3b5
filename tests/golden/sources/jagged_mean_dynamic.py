# config: block:tile_m=1, block:tile_n=4096, group=1, load:x#0.access=pointer, load:x#0.eviction=, num_stages=3, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == offsets.align)) and (1 == offsets.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.1 <= x.shape.1)) and (end.1 <= out.shape.1)) and ((offsets.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def jagged_mean_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    end_0,
    end_1,
    out_stride_0,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    tile_b_begin = (pid // tl.cdiv(end_1, 4096))
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    tile_b_mask = tile_b_idx < end_0
    v0 = tl.load(offsets_ptr + tile_b_begin)
    v1 = tile_b_begin + 1
    v2 = tl.load(offsets_ptr + v1)
    v3 = tl.full([BLOCK_TILE_N], 0.0, tl.float32)
    c0 = v3
    for tile_m_begin in tl.range(v0, v2, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v4 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        v5 = v4.to(tl.float32)
        v6 = tl.sum(v5, axis=0)
        v7 = c0 + v6
        c0 = v7
    v8 = v2 - v0
    v9 = tl.maximum(v8, 1)
    v10 = v9.to(tl.float32)
    v11 = c0 / v10
    v12 = v11.to(tl.bfloat16)
    tl.store(out_ptr + tile_b_begin * out_stride_0 + tile_n_idx, v12, mask=tile_n_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == offsets.align)) and (1 == offsets.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.1 <= x.shape.1)) and (end.1 <= out.shape.1)) and ((offsets.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# end_1: i32 = end.1
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def jagged_mean_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    end_0,
    end_1,
    out_stride_0,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    tile_b_begin = (pid // tl.cdiv(end_1, 4096))
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    tile_b_mask = tile_b_idx < end_0
    v0 = tl.load(offsets_ptr + tile_b_begin)
    v1 = tile_b_begin + 1
    v2 = tl.load(offsets_ptr + v1)
    v3 = tl.full([BLOCK_TILE_N], 0.0, tl.float32)
    c0 = v3
    for tile_m_begin in tl.range(v0, v2, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v4 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        v5 = v4.to(tl.float32)
        v6 = tl.sum(v5, axis=0)
        v7 = c0 + v6
        c0 = v7
    v8 = v2 - v0
    v9 = tl.maximum(v8, 1)
    v10 = v9.to(tl.float32)
    v11 = c0 / v10
    v12 = v11.to(tl.bfloat16)
    tl.store(out_ptr + tile_b_begin * out_stride_0 + tile_n_idx, v12, mask=tile_n_mask)
