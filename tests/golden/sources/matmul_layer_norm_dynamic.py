# config: block:tile_k=64, block:tile_m=64, load:bias#0.eviction=, load:weight#0.eviction=, load:x#0.access=pointer, load:x#0.eviction=, load:y#0.access=pointer, load:y#0.eviction=, num_stages=4, num_warps=4, persistent=0
# region 0, dynamic
# grid: (-(-end.0 // 64)), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (k <= 2147483647)) and (end.0 <= x.shape.0)) and (k <= x.shape.1)) and (k <= y.shape.0)) and (n == y.shape.1)) and (weight.shape.0 == y.shape.1)) and (bias.shape.0 == weight.shape.0)) and (end.0 <= out.shape.0)) and (bias.shape.0 == out.shape.1)) and (bias.shape.0 <= 256)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (bias.shape.0 % 16))) and (bias.shape.0 <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (k % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647)) and (0 == (y.shape.1 % 16))) and (y.shape.1 <= 2147483647)) and (0 == (y.stride.0 % 16))) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=64
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# eps: fp32 = eps
# bias_shape_0: i32 % 16 = bias.shape.0
# end_0: i32 % 16 = end.0
# k: i32 % 16 = k
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
# y_shape_1: i32 % 16 = y.shape.1
# y_stride_0: i32 % 16 = y.stride.0
import triton
import triton.language as tl


@triton.jit
def matmul_layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    y_ptr,
    eps,
    bias_shape_0,
    end_0,
    k,
    out_stride_0,
    x_stride_0,
    y_shape_1,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M, 256], 0.0, tl.float32)
    v1 = tl.broadcast_to(v0, [BLOCK_TILE_M, 256])
    c0 = v1
    for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
        tile_k_mask = tile_k_idx < k
        v2 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
        v3 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tl.arange(0, 256)[None, :], mask=tile_k_mask[:, None] & (tl.arange(0, 256) < bias_shape_0)[None, :], other=0.0)
        v4 = tl.dot(v2, v3, acc=c0)
        c0 = v4
    v5 = tl.where((tl.arange(0, 256) < bias_shape_0)[None, :], c0, 0.0)
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    v8 = y_shape_1.to(tl.float32)
    v9 = v7 / v8
    v10 = c0 - v9
    v11 = v10 * v10
    v12 = tl.where((tl.arange(0, 256) < bias_shape_0)[None, :], v11, 0.0)
    v13 = tl.sum(v12, axis=1)
    v14 = v13[:, None]
    v15 = y_shape_1.to(tl.float32)
    v16 = v14 / v15
    v17 = c0 - v9
    v18 = v16 + eps
    v19 = tl.rsqrt(v18)
    v20 = v17 * v19
    v21 = tl.load(weight_ptr + tl.arange(0, 256), mask=(tl.arange(0, 256) < bias_shape_0), other=0.0)
    v22 = v21.to(tl.float32)
    v23 = v22[None, :]
    v24 = v20 * v23
    v25 = tl.load(bias_ptr + tl.arange(0, 256), mask=(tl.arange(0, 256) < bias_shape_0), other=0.0)
    v26 = v25.to(tl.float32)
    v27 = v26[None, :]
    v28 = v24 + v27
    v29 = tl.broadcast_to(v28, [BLOCK_TILE_M, 256])
    v30 = v29.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 256)[None, :], v30, mask=tile_m_mask[:, None] & (tl.arange(0, 256) < bias_shape_0)[None, :])

# region 0, dynamic
# grid: (-(-end.0 // 64)), 1, 1
# guards: ((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (k <= 2147483647)) and (end.0 <= x.shape.0)) and (k <= x.shape.1)) and (k <= y.shape.0)) and (n == y.shape.1)) and (weight.shape.0 == y.shape.1)) and (bias.shape.0 == weight.shape.0)) and (end.0 <= out.shape.0)) and (bias.shape.0 == out.shape.1)) and (bias.shape.0 <= 256)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (bias.shape.0 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647)) and (y.shape.1 <= 2147483647)) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=64
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# eps: fp32 = eps
# bias_shape_0: i32 = bias.shape.0
# end_0: i32 = end.0
# k: i32 = k
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
# y_shape_1: i32 = y.shape.1
# y_stride_0: i32 = y.stride.0
import triton
import triton.language as tl


@triton.jit
def matmul_layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    y_ptr,
    eps,
    bias_shape_0,
    end_0,
    k,
    out_stride_0,
    x_stride_0,
    y_shape_1,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M, 256], 0.0, tl.float32)
    v1 = tl.broadcast_to(v0, [BLOCK_TILE_M, 256])
    c0 = v1
    for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
        tile_k_mask = tile_k_idx < k
        v2 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
        v3 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tl.arange(0, 256)[None, :], mask=tile_k_mask[:, None] & (tl.arange(0, 256) < bias_shape_0)[None, :], other=0.0)
        v4 = tl.dot(v2, v3, acc=c0)
        c0 = v4
    v5 = tl.where((tl.arange(0, 256) < bias_shape_0)[None, :], c0, 0.0)
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    v8 = y_shape_1.to(tl.float32)
    v9 = v7 / v8
    v10 = c0 - v9
    v11 = v10 * v10
    v12 = tl.where((tl.arange(0, 256) < bias_shape_0)[None, :], v11, 0.0)
    v13 = tl.sum(v12, axis=1)
    v14 = v13[:, None]
    v15 = y_shape_1.to(tl.float32)
    v16 = v14 / v15
    v17 = c0 - v9
    v18 = v16 + eps
    v19 = tl.rsqrt(v18)
    v20 = v17 * v19
    v21 = tl.load(weight_ptr + tl.arange(0, 256), mask=(tl.arange(0, 256) < bias_shape_0), other=0.0)
    v22 = v21.to(tl.float32)
    v23 = v22[None, :]
    v24 = v20 * v23
    v25 = tl.load(bias_ptr + tl.arange(0, 256), mask=(tl.arange(0, 256) < bias_shape_0), other=0.0)
    v26 = v25.to(tl.float32)
    v27 = v26[None, :]
    v28 = v24 + v27
    v29 = tl.broadcast_to(v28, [BLOCK_TILE_M, 256])
    v30 = v29.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 256)[None, :], v30, mask=tile_m_mask[:, None] & (tl.arange(0, 256) < bias_shape_0)[None, :])
