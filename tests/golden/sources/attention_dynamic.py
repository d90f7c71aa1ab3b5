# config: block:block_n=128, block:tile_m=128, descending=True, load:k#0.access=descriptor, load:k#1.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, load:v#1.access=descriptor, num_warps=8, store:out#0.access=descriptor
# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (k.shape.2 == q.shape.2)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.1 <= lse.shape.1)) and (k.shape.2 <= 32)) and (1 <= q.shape.0)) and (1 <= q.shape.1)) and (1 <= q.shape.2)) and (0 == ((2 * q.stride.0) % 16))) and (0 == ((2 * q.stride.1) % 16))) and (end.1 == q.shape.1)) and (out.shape.2 <= 32)) and (1 <= k.shape.0)) and (1 <= k.shape.1)) and (1 <= k.shape.2)) and (0 == ((2 * k.stride.0) % 16))) and (0 == ((2 * k.stride.1) % 16))) and (1 <= v.shape.0)) and (1 <= v.shape.1)) and (1 <= v.shape.2)) and (0 == ((2 * v.stride.0) % 16))) and (0 == ((2 * v.stride.1) % 16))) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (1 <= out.shape.0)) and (1 <= out.shape.1)) and (1 <= out.shape.2)) and (0 == ((2 * out.stride.0) % 16))) and (0 == ((2 * out.stride.1) % 16))) and (end.1 == out.shape.1)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (k.shape.2 % 16))) and (k.shape.2 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647)) and (0 == (out.shape.2 % 16))) and (out.shape.2 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M=128
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# v_ptr: *bf16 % 16 = v
# q_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = q
# k_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = k
# v_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = v
# out_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = out
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
    q_desc_1x128x32,
    k_desc_1x128x32,
    v_desc_1x128x32,
    out_desc_1x128x32,
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
    tile_m_begin = ((tl.cdiv(end_1, 128) + -1) - (pid % tl.cdiv(end_1, 128))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 128))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.reshape(q_desc_1x128x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v4
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        v5 = tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32])
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32])
        v9 = tl.reduce(v7, 1, _maximum)
        v10 = v9 * scale
        v11 = tl.maximum(c1, v10, propagate_nan=tl.PropagateNan.ALL)
        v12 = v7 * scale
        v13 = v11[:, None]
        v14 = v12 - v13
        v15 = tl.exp2(v14)
        v16 = c1 - v11
        v17 = tl.exp2(v16)
        v18 = v15.to(tl.bfloat16)
        v19 = v17[:, None]
        v20 = c0 * v19
        v21 = tl.dot(v18, v8, acc=v20)
        v22 = c2 * v17
        v23 = tl.sum(v15, axis=1)
        v24 = v22 + v23
        c0 = v21
        c1 = v11
        c2 = v24
    v25 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    c3 = c0
    c4 = c1
    c5 = c2
    for tile_n_1_begin in tl.range(tile_m_begin, v25, BLOCK_BLOCK_N):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < v25
        v26 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_1_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v27 = tl.permute(v26, (1, 0))
        v28 = tl.dot(v0, v27)
        v29 = tile_m_idx[:, None]
        v30 = tile_n_1_idx[None, :]
        v31 = v29 >= v30
        v32 = tl.where(v31, v28, float('-inf'))
        v33 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_1_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v34 = tl.where(tile_n_1_mask[None, :], v32, float('-inf'))
        v35 = tl.reduce(v34, 1, _maximum)
        v36 = v35 * scale
        v37 = tl.maximum(c4, v36, propagate_nan=tl.PropagateNan.ALL)
        v38 = v32 * scale
        v39 = v37[:, None]
        v40 = v38 - v39
        v41 = tl.exp2(v40)
        v42 = c4 - v37
        v43 = tl.exp2(v42)
        v44 = v41.to(tl.bfloat16)
        v45 = v43[:, None]
        v46 = c3 * v45
        v47 = tl.where(tile_n_1_mask[None, :], v44, 0.0)
        v48 = tl.dot(v47, v33, acc=v46)
        v49 = c5 * v43
        v50 = tl.where(tile_n_1_mask[None, :], v41, 0.0)
        v51 = tl.sum(v50, axis=1)
        v52 = v49 + v51
        c3 = v48
        c4 = v37
        c5 = v52
    v53 = c5[:, None]
    v54 = c3 / v53
    v55 = tl.broadcast_to(v54, [BLOCK_TILE_M, 32])
    v56 = v55.to(tl.bfloat16)
    out_desc_1x128x32.store([head_begin, tile_m_begin, 0], tl.reshape(v56, [1, 128, 32]))
    v57 = tl.log2(c5)
    v58 = c4 + v57
    v59 = v58 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v59, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (k.shape.2 == q.shape.2)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.1 <= lse.shape.1)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (k.shape.2 <= 32)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (k.shape.2 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (out.shape.2 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M=128
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
    tile_m_begin = ((tl.cdiv(end_1, 128) + -1) - (pid % tl.cdiv(end_1, 128))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 128))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.load(q_ptr + head_begin * q_stride_0 + tile_m_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v4
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        v5 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=(tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=(tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v9 = tl.reduce(v7, 1, _maximum)
        v10 = v9 * scale
        v11 = tl.maximum(c1, v10, propagate_nan=tl.PropagateNan.ALL)
        v12 = v7 * scale
        v13 = v11[:, None]
        v14 = v12 - v13
        v15 = tl.exp2(v14)
        v16 = c1 - v11
        v17 = tl.exp2(v16)
        v18 = v15.to(tl.bfloat16)
        v19 = v17[:, None]
        v20 = c0 * v19
        v21 = tl.dot(v18, v8, acc=v20)
        v22 = c2 * v17
        v23 = tl.sum(v15, axis=1)
        v24 = v22 + v23
        c0 = v21
        c1 = v11
        c2 = v24
    v25 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    c3 = c0
    c4 = c1
    c5 = c2
    for tile_n_1_begin in tl.range(tile_m_begin, v25, BLOCK_BLOCK_N):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < v25
        v26 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_1_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v27 = tl.permute(v26, (1, 0))
        v28 = tl.dot(v0, v27)
        v29 = tile_m_idx[:, None]
        v30 = tile_n_1_idx[None, :]
        v31 = v29 >= v30
        v32 = tl.where(v31, v28, float('-inf'))
        v33 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_1_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v34 = tl.where(tile_n_1_mask[None, :], v32, float('-inf'))
        v35 = tl.reduce(v34, 1, _maximum)
        v36 = v35 * scale
        v37 = tl.maximum(c4, v36, propagate_nan=tl.PropagateNan.ALL)
        v38 = v32 * scale
        v39 = v37[:, None]
        v40 = v38 - v39
        v41 = tl.exp2(v40)
        v42 = c4 - v37
        v43 = tl.exp2(v42)
        v44 = v41.to(tl.bfloat16)
        v45 = v43[:, None]
        v46 = c3 * v45
        v47 = tl.where(tile_n_1_mask[None, :], v44, 0.0)
        v48 = tl.dot(v47, v33, acc=v46)
        v49 = c5 * v43
        v50 = tl.where(tile_n_1_mask[None, :], v41, 0.0)
        v51 = tl.sum(v50, axis=1)
        v52 = v49 + v51
        c3 = v48
        c4 = v37
        c5 = v52
    v53 = c5[:, None]
    v54 = c3 / v53
    v55 = tl.broadcast_to(v54, [BLOCK_TILE_M, 32])
    v56 = v55.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], v56, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :])
    v57 = tl.log2(c5)
    v58 = c4 + v57
    v59 = v58 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v59, mask=tile_m_mask)
