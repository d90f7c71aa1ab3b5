# config: block:block_n=128, block:tile_m=64, descending=True, load:k#0.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, store:out#0.access=descriptor
# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == causal)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (1 == with_lse)) and (end.0 <= q.shape.0)) and (end.1 <= q.shape.1)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.1)) and (k.shape.2 == q.shape.2)) and (end.0 <= v.shape.0)) and (end.1 <= v.shape.1)) and (d == v.shape.2)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.0 <= lse.shape.0)) and (end.1 <= lse.shape.1)) and (((-(-end.1 // 64)) + -1) <= 2147483647)) and (end.1 <= 2147483583)) and (end.0 <= 2147483646)) and (k.shape.2 <= 32)) and (1 <= q.shape.0)) and (1 <= q.shape.1)) and (1 <= q.shape.2)) and (0 == ((2 * q.stride.0) % 16))) and (0 == ((2 * q.stride.1) % 16))) and (end.1 == q.shape.1)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (1 <= out.shape.0)) and (1 <= out.shape.1)) and (1 <= out.shape.2)) and (0 == ((2 * out.stride.0) % 16))) and (0 == ((2 * out.stride.1) % 16))) and (end.1 == out.shape.1)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (k.shape.2 % 16))) and (k.shape.2 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647)) and (0 == (out.shape.2 % 16))) and (out.shape.2 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# v_ptr: *bf16 % 16 = v
# q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = q
# out_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = out
# scale: fp32 = scale
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# k_shape_2: i32 % 16 = k.shape.2
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# lse_stride_0: i32 % 16 = lse.stride.0
# out_shape_2: i32 % 16 = out.shape.2
# v_stride_0: i32 % 16 = v.stride.0
# v_stride_1: i32 % 16 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_0(
    k_ptr,
    lse_ptr,
    v_ptr,
    q_desc_1x64x32,
    out_desc_1x64x32,
    scale,
    end_0,
    end_1,
    k_shape_2,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    out_shape_2,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = ((tl.cdiv(end_1, 64) + -1) - (pid % tl.cdiv(end_1, 64))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 64))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.reshape(q_desc_1x64x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    v5 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v5
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, v4, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < v4
        v6 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v7 = tl.permute(v6, (1, 0))
        v8 = tl.dot(v0, v7)
        v9 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v4)
        v10 = v9.to(tl.int64)
        v11 = tile_m_begin.to(tl.int64)
        v12 = v10 > v11
        if v12:
            v13 = tile_m_idx[:, None]
            v14 = tile_n_idx[None, :]
            v15 = v13 >= v14
            v16 = tl.where(v15, v8, float('-inf'))
            b0 = v16
        else:
            b0 = v8
        v17 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v18 = tl.where(tile_n_mask[None, :], b0, float('-inf'))
        v19 = tl.reduce(v18, 1, _maximum)
        v20 = v19 * scale
        v21 = tl.maximum(c1, v20, propagate_nan=tl.PropagateNan.ALL)
        v22 = b0 * scale
        v23 = v21[:, None]
        v24 = v22 - v23
        v25 = tl.exp2(v24)
        v26 = c1 - v21
        v27 = tl.exp2(v26)
        v28 = v25.to(tl.bfloat16)
        v29 = v27[:, None]
        v30 = c0 * v29
        v31 = tl.where(tile_n_mask[None, :], v28, 0.0)
        v32 = tl.dot(v31, v17, acc=v30)
        v33 = c2 * v27
        v34 = tl.where(tile_n_mask[None, :], v25, 0.0)
        v35 = tl.sum(v34, axis=1)
        v36 = v33 + v35
        c0 = v32
        c1 = v21
        c2 = v36
    v37 = c2[:, None]
    v38 = c0 / v37
    v39 = tl.broadcast_to(v38, [BLOCK_TILE_M, 32])
    v40 = v39.to(tl.bfloat16)
    out_desc_1x64x32.store([head_begin, tile_m_begin, 0], tl.reshape(v40, [1, 64, 32]))
    v41 = tl.log2(c2)
    v42 = c1 + v41
    v43 = v42 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v43, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == causal)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (1 == with_lse)) and (end.0 <= q.shape.0)) and (end.1 <= q.shape.1)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.1)) and (k.shape.2 == q.shape.2)) and (end.0 <= v.shape.0)) and (end.1 <= v.shape.1)) and (d == v.shape.2)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.0 <= lse.shape.0)) and (end.1 <= lse.shape.1)) and (((-(-end.1 // 64)) + -1) <= 2147483647)) and (end.1 <= 2147483583)) and (end.0 <= 2147483646)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (k.shape.2 <= 32)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (k.shape.2 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (out.shape.2 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# scale: fp32 = scale
# end_0: i32 = end.0
# end_1: i32 = end.1
# k_shape_2: i32 = k.shape.2
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# lse_stride_0: i32 = lse.stride.0
# out_shape_2: i32 = out.shape.2
# out_stride_0: i32 = out.stride.0
# out_stride_1: i32 = out.stride.1
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# v_stride_0: i32 = v.stride.0
# v_stride_1: i32 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_0(
    k_ptr,
    lse_ptr,
    out_ptr,
    q_ptr,
    v_ptr,
    scale,
    end_0,
    end_1,
    k_shape_2,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    out_shape_2,
    out_stride_0,
    out_stride_1,
    q_stride_0,
    q_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = ((tl.cdiv(end_1, 64) + -1) - (pid % tl.cdiv(end_1, 64))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 64))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.load(q_ptr + head_begin * q_stride_0 + tile_m_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    v5 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v5
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, v4, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < v4
        v6 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v7 = tl.permute(v6, (1, 0))
        v8 = tl.dot(v0, v7)
        v9 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v4)
        v10 = v9.to(tl.int64)
        v11 = tile_m_begin.to(tl.int64)
        v12 = v10 > v11
        if v12:
            v13 = tile_m_idx[:, None]
            v14 = tile_n_idx[None, :]
            v15 = v13 >= v14
            v16 = tl.where(v15, v8, float('-inf'))
            b0 = v16
        else:
            b0 = v8
        v17 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v18 = tl.where(tile_n_mask[None, :], b0, float('-inf'))
        v19 = tl.reduce(v18, 1, _maximum)
        v20 = v19 * scale
        v21 = tl.maximum(c1, v20, propagate_nan=tl.PropagateNan.ALL)
        v22 = b0 * scale
        v23 = v21[:, None]
        v24 = v22 - v23
        v25 = tl.exp2(v24)
        v26 = c1 - v21
        v27 = tl.exp2(v26)
        v28 = v25.to(tl.bfloat16)
        v29 = v27[:, None]
        v30 = c0 * v29
        v31 = tl.where(tile_n_mask[None, :], v28, 0.0)
        v32 = tl.dot(v31, v17, acc=v30)
        v33 = c2 * v27
        v34 = tl.where(tile_n_mask[None, :], v25, 0.0)
        v35 = tl.sum(v34, axis=1)
        v36 = v33 + v35
        c0 = v32
        c1 = v21
        c2 = v36
    v37 = c2[:, None]
    v38 = c0 / v37
    v39 = tl.broadcast_to(v38, [BLOCK_TILE_M, 32])
    v40 = v39.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], v40, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :])
    v41 = tl.log2(c2)
    v42 = c1 + v41
    v43 = v42 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v43, mask=tile_m_mask)
