# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (end.0 <= out.shape.0)) and (n <= out.shape.1)) and (end.0 <= 2147483646)) and (n <= 2147479551)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (n % 16))) and (-2147483647 <= n)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# n: i32 % 16 = n
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax_online_0(
    out_ptr,
    x_ptr,
    end_0,
    n,
    out_stride_0,
    x_stride_0,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    c1 = v1
    for tile_n_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < n
        v2 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=float('-inf'))
        v3 = v2.to(tl.float32)
        v4 = tl.reduce(v3, 1, _maximum)
        v5 = tl.maximum(c0, v4, propagate_nan=tl.PropagateNan.ALL)
        v6 = c0 - v5
        v7 = tl.exp2(v6 * 1.4426950408889634)
        v8 = c1 * v7
        v9 = v5[:, None]
        v10 = v3 - v9
        v11 = tl.exp2(v10 * 1.4426950408889634)
        v12 = tl.where(tile_n_mask[None, :], v11, 0.0)
        v13 = tl.sum(v12, axis=1)
        v14 = v8 + v13
        c0 = v5
        c1 = v14
    for tile_n_1_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < n
        v15 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_1_idx[None, :], mask=tile_m_mask[:, None] & tile_n_1_mask[None, :], other=0.0)
        v16 = v15.to(tl.float32)
        v17 = c0[:, None]
        v18 = v16 - v17
        v19 = tl.exp2(v18 * 1.4426950408889634)
        v20 = c1[:, None]
        v21 = v19 / v20
        v22 = v21.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_1_idx[None, :], v22, mask=tile_m_mask[:, None] & tile_n_1_mask[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (end.0 <= out.shape.0)) and (n <= out.shape.1)) and (end.0 <= 2147483646)) and (n <= 2147479551)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (-2147483647 <= n)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# n: i32 = n
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax_online_0(
    out_ptr,
    x_ptr,
    end_0,
    n,
    out_stride_0,
    x_stride_0,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    c1 = v1
    for tile_n_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < n
        v2 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=float('-inf'))
        v3 = v2.to(tl.float32)
        v4 = tl.reduce(v3, 1, _maximum)
        v5 = tl.maximum(c0, v4, propagate_nan=tl.PropagateNan.ALL)
        v6 = c0 - v5
        v7 = tl.exp2(v6 * 1.4426950408889634)
        v8 = c1 * v7
        v9 = v5[:, None]
        v10 = v3 - v9
        v11 = tl.exp2(v10 * 1.4426950408889634)
        v12 = tl.where(tile_n_mask[None, :], v11, 0.0)
        v13 = tl.sum(v12, axis=1)
        v14 = v8 + v13
        c0 = v5
        c1 = v14
    for tile_n_1_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < n
        v15 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_1_idx[None, :], mask=tile_m_mask[:, None] & tile_n_1_mask[None, :], other=0.0)
        v16 = v15.to(tl.float32)
        v17 = c0[:, None]
        v18 = v16 - v17
        v19 = tl.exp2(v18 * 1.4426950408889634)
        v20 = c1[:, None]
        v21 = v19 / v20
        v22 = v21.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_1_idx[None, :], v22, mask=tile_m_mask[:, None] & tile_n_1_mask[None, :])
