# config: block:block_m=128, block:tile_k=64, block:tile_n=256, group=8, load:offsets#0.eviction=, load:offsets#1.eviction=, load:x#0.access=pointer, load:x#0.eviction=, load:y#0.access=pointer, load:y#0.eviction=, num_stages=3, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 256)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == offsets.align)) and (1 == offsets.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.2)) and (1 <= offsets.shape.0)) and (not ((offsets.shape.0 + -1) < 0))) and (offsets.shape.0 <= 2147483647)) and (out.shape.0 <= 2147483647)) and (out.shape.1 <= 2147483647)) and (x.shape.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (y.shape.0 <= 2147483647)) and (y.shape.1 <= 2147483647)) and (y.shape.2 <= 2147483647)) and (k <= 2147483647)) and (k <= x.shape.1)) and (k <= y.shape.1)) and (end.1 <= y.shape.2)) and (end.1 <= out.shape.1)) and ((offsets.shape.0 + -1) <= 2147483647)) and ((offsets.shape.0 + -1) <= 64)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (-1 * y.stride.1) + (y.shape.0 * y.stride.0) + (y.shape.1 * y.stride.1) + y.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (groups % 16))) and (groups <= 2147483647)) and (0 == (k % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647)) and (0 == (y.stride.0 % 16))) and (y.stride.0 <= 2147483647)) and (0 == (y.stride.1 % 16))) and (y.stride.1 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_M=128, BLOCK_TILE_K=64, BLOCK_TILE_N=256
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# groups: i32 % 16 = groups
# k: i32 % 16 = k
# offsets_shape_0: i32 = offsets.shape.0
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
# y_stride_0: i32 % 16 = y.stride.0
# y_stride_1: i32 % 16 = y.stride.1
import triton
import triton.language as tl


@triton.jit
def grouped_matmul_flat_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    groups,
    k,
    offsets_shape_0,
    out_stride_0,
    x_stride_0,
    y_stride_0,
    y_stride_1,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 256))
    height = tl.minimum(end_0 - band * 8, 8)
    tile_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 256)) % height)
    tile_idx = tile_begin + tl.arange(0, 1)
    tile_mask = tile_idx < end_0
    tile_n_begin = (pid % (8 * tl.cdiv(end_1, 256)) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    v0 = tl.load(offsets_ptr + (1 + tl.arange(0, 64)), mask=(tl.arange(0, 64) < (offsets_shape_0 + -1)), other=0)
    v1 = tl.load(offsets_ptr + tl.arange(0, 64), mask=(tl.arange(0, 64) < (offsets_shape_0 + -1)), other=0)
    v2 = v0 - v1
    v3 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v4 = v2 + v3
    v5 = v4 - 1
    v6 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v7 = v5 // v6 - ((v5 % v6 != 0) & ((v5 < 0) != (v6 < 0)))
    v8 = v7.to(tl.int64)
    v9 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v8, 0)
    v10 = tl.cumsum(v9, axis=0)
    v11 = tile_begin.to(tl.int64)
    v12 = v10 <= v11
    v13 = v12.to(tl.int64)
    v14 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v13, 0)
    v15 = tl.sum(v14, axis=0)
    v16 = (groups + -1)
    v17 = v16.to(tl.int64)
    v18 = tl.minimum(v15, v17)
    v19 = tl.load(offsets_ptr + v18)
    v20 = tl.where(v12, v7, 0)
    v21 = v20.to(tl.int64)
    v22 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v21, 0)
    v23 = tl.sum(v22, axis=0)
    v24 = tile_begin.to(tl.int64)
    v25 = v24 - v23
    v26 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v27 = v26.to(tl.int64)
    v28 = v25 * v27
    v29 = v19.to(tl.int64)
    v30 = v29 + v28
    v31 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v32 = v31.to(tl.int64)
    v33 = v30 + v32
    v34 = v18 + 1
    v35 = tl.load(offsets_ptr + v34)
    v36 = v35.to(tl.int64)
    v37 = tl.minimum(v33, v36)
    v38 = v30.to(tl.int32)
    v39 = v37.to(tl.int32)
    for tile_m_begin in tl.range(v38, v39, BLOCK_BLOCK_M):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_mask = tile_m_idx < v39
        v40 = tl.full([BLOCK_BLOCK_M, BLOCK_TILE_N], 0.0, tl.float32)
        c0 = v40
        for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < k
            v41 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
            v42 = tl.load(y_ptr + v18 * y_stride_0 + tile_k_idx[:, None] * y_stride_1 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0.0)
            v43 = tl.dot(v41, v42, acc=c0)
            c0 = v43
        v44 = c0.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v44, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 256)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == offsets.align)) and (1 == offsets.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.2)) and (1 <= offsets.shape.0)) and (not ((offsets.shape.0 + -1) < 0))) and (offsets.shape.0 <= 2147483647)) and (out.shape.0 <= 2147483647)) and (out.shape.1 <= 2147483647)) and (x.shape.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (y.shape.0 <= 2147483647)) and (y.shape.1 <= 2147483647)) and (y.shape.2 <= 2147483647)) and (k <= 2147483647)) and (k <= x.shape.1)) and (k <= y.shape.1)) and (end.1 <= y.shape.2)) and (end.1 <= out.shape.1)) and ((offsets.shape.0 + -1) <= 2147483647)) and ((offsets.shape.0 + -1) <= 64)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (-1 * y.stride.1) + (y.shape.0 * y.stride.0) + (y.shape.1 * y.stride.1) + y.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (groups <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647)) and (y.stride.0 <= 2147483647)) and (y.stride.1 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_M=128, BLOCK_TILE_K=64, BLOCK_TILE_N=256
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 = end.1
# groups: i32 = groups
# k: i32 = k
# offsets_shape_0: i32 = offsets.shape.0
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
# y_stride_0: i32 = y.stride.0
# y_stride_1: i32 = y.stride.1
import triton
import triton.language as tl


@triton.jit
def grouped_matmul_flat_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    groups,
    k,
    offsets_shape_0,
    out_stride_0,
    x_stride_0,
    y_stride_0,
    y_stride_1,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 256))
    height = tl.minimum(end_0 - band * 8, 8)
    tile_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 256)) % height)
    tile_idx = tile_begin + tl.arange(0, 1)
    tile_mask = tile_idx < end_0
    tile_n_begin = (pid % (8 * tl.cdiv(end_1, 256)) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    v0 = tl.load(offsets_ptr + (1 + tl.arange(0, 64)), mask=(tl.arange(0, 64) < (offsets_shape_0 + -1)), other=0)
    v1 = tl.load(offsets_ptr + tl.arange(0, 64), mask=(tl.arange(0, 64) < (offsets_shape_0 + -1)), other=0)
    v2 = v0 - v1
    v3 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v4 = v2 + v3
    v5 = v4 - 1
    v6 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v7 = v5 // v6 - ((v5 % v6 != 0) & ((v5 < 0) != (v6 < 0)))
    v8 = v7.to(tl.int64)
    v9 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v8, 0)
    v10 = tl.cumsum(v9, axis=0)
    v11 = tile_begin.to(tl.int64)
    v12 = v10 <= v11
    v13 = v12.to(tl.int64)
    v14 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v13, 0)
    v15 = tl.sum(v14, axis=0)
    v16 = (groups + -1)
    v17 = v16.to(tl.int64)
    v18 = tl.minimum(v15, v17)
    v19 = tl.load(offsets_ptr + v18)
    v20 = tl.where(v12, v7, 0)
    v21 = v20.to(tl.int64)
    v22 = tl.where((tl.arange(0, 64) < (offsets_shape_0 + -1)), v21, 0)
    v23 = tl.sum(v22, axis=0)
    v24 = tile_begin.to(tl.int64)
    v25 = v24 - v23
    v26 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v27 = v26.to(tl.int64)
    v28 = v25 * v27
    v29 = v19.to(tl.int64)
    v30 = v29 + v28
    v31 = tl.full([], BLOCK_BLOCK_M, tl.int32)
    v32 = v31.to(tl.int64)
    v33 = v30 + v32
    v34 = v18 + 1
    v35 = tl.load(offsets_ptr + v34)
    v36 = v35.to(tl.int64)
    v37 = tl.minimum(v33, v36)
    v38 = v30.to(tl.int32)
    v39 = v37.to(tl.int32)
    for tile_m_begin in tl.range(v38, v39, BLOCK_BLOCK_M):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_mask = tile_m_idx < v39
        v40 = tl.full([BLOCK_BLOCK_M, BLOCK_TILE_N], 0.0, tl.float32)
        c0 = v40
        for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < k
            v41 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
            v42 = tl.load(y_ptr + v18 * y_stride_0 + tile_k_idx[:, None] * y_stride_1 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0.0)
            v43 = tl.dot(v41, v42, acc=c0)
            c0 = v43
        v44 = c0.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v44, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
