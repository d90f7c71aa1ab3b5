# config: block:block_n=128, block:tile_m=64, group=1, load:k#0.access=descriptor, load:k#0.eviction=, load:k#1.access=descriptor, load:k#1.eviction=, load:q#0.access=descriptor, load:q#0.eviction=, load:v#0.access=descriptor, load:v#0.eviction=, load:v#1.access=descriptor, load:v#1.eviction=, num_stages=2, num_warps=4, order=0,1, persistent=0, store:out#0.access=descriptor
# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (k.shape.2 == q.shape.2)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.1 <= lse.shape.1)) and (k.shape.2 <= 32)) and (1 <= q.shape.0)) and (1 <= q.shape.1)) and (1 <= q.shape.2)) and (0 == ((2 * q.stride.0) % 16))) and (0 == ((2 * q.stride.1) % 16))) and (end.1 == q.shape.1)) and (out.shape.2 <= 32)) and (1 <= k.shape.0)) and (1 <= k.shape.1)) and (1 <= k.shape.2)) and (0 == ((2 * k.stride.0) % 16))) and (0 == ((2 * k.stride.1) % 16))) and (1 <= v.shape.0)) and (1 <= v.shape.1)) and (1 <= v.shape.2)) and (0 == ((2 * v.stride.0) % 16))) and (0 == ((2 * v.stride.1) % 16))) and (1 <= out.shape.0)) and (1 <= out.shape.1)) and (1 <= out.shape.2)) and (0 == ((2 * out.stride.0) % 16))) and (0 == ((2 * out.stride.1) % 16))) and (end.1 == out.shape.1)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M=64
# lse_ptr: *fp32 % 16 = lse
# q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = q
# k_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = k
# v_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = v
# out_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = out
# scale: fp32 = scale
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# lse_stride_0: i32 % 16 = lse.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_0(
    lse_ptr,
    q_desc_1x64x32,
    k_desc_1x128x32,
    v_desc_1x128x32,
    out_desc_1x64x32,
    scale,
    end_0,
    end_1,
    lse_stride_0,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (pid % tl.cdiv(end_1, 64)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 64))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.reshape(q_desc_1x64x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v4
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < tile_m_begin
        v5 = tl.where(tile_n_mask[:, None], tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32]), tl.full([], 0.0, k_desc_1x128x32.dtype))
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = tl.where(tile_n_mask[:, None], tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32]), tl.full([], 0.0, v_desc_1x128x32.dtype))
        v9 = tl.where(tile_n_mask[None, :], v7, float('-inf'))
        v10 = tl.reduce(v9, 1, _maximum)
        v11 = v10 * scale
        v12 = tl.maximum(c1, v11, propagate_nan=tl.PropagateNan.ALL)
        v13 = v7 * scale
        v14 = v12[:, None]
        v15 = v13 - v14
        v16 = tl.exp2(v15)
        v17 = c1 - v12
        v18 = tl.exp2(v17)
        v19 = v16.to(tl.bfloat16)
        v20 = v18[:, None]
        v21 = c0 * v20
        v22 = tl.where(tile_n_mask[None, :], v19, 0.0)
        v23 = tl.dot(v22, v8, acc=v21)
        v24 = c2 * v18
        v25 = tl.where(tile_n_mask[None, :], v16, 0.0)
        v26 = tl.sum(v25, axis=1)
        v27 = v24 + v26
        c0 = v23
        c1 = v12
        c2 = v27
    v28 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    c3 = c0
    c4 = c1
    c5 = c2
    for tile_n_1_begin in tl.range(tile_m_begin, v28, BLOCK_BLOCK_N):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < v28
        v29 = tl.where(tile_n_1_mask[:, None], tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_1_begin, 0]), [BLOCK_BLOCK_N, 32]), tl.full([], 0.0, k_desc_1x128x32.dtype))
        v30 = tl.permute(v29, (1, 0))
        v31 = tl.dot(v0, v30)
        v32 = tile_m_idx[:, None]
        v33 = tile_n_1_idx[None, :]
        v34 = v32 >= v33
        v35 = tl.where(v34, v31, float('-inf'))
        v36 = tl.where(tile_n_1_mask[:, None], tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_1_begin, 0]), [BLOCK_BLOCK_N, 32]), tl.full([], 0.0, v_desc_1x128x32.dtype))
        v37 = tl.where(tile_n_1_mask[None, :], v35, float('-inf'))
        v38 = tl.reduce(v37, 1, _maximum)
        v39 = v38 * scale
        v40 = tl.maximum(c4, v39, propagate_nan=tl.PropagateNan.ALL)
        v41 = v35 * scale
        v42 = v40[:, None]
        v43 = v41 - v42
        v44 = tl.exp2(v43)
        v45 = c4 - v40
        v46 = tl.exp2(v45)
        v47 = v44.to(tl.bfloat16)
        v48 = v46[:, None]
        v49 = c3 * v48
        v50 = tl.where(tile_n_1_mask[None, :], v47, 0.0)
        v51 = tl.dot(v50, v36, acc=v49)
        v52 = c5 * v46
        v53 = tl.where(tile_n_1_mask[None, :], v44, 0.0)
        v54 = tl.sum(v53, axis=1)
        v55 = v52 + v54
        c3 = v51
        c4 = v40
        c5 = v55
    v56 = c5[:, None]
    v57 = c3 / v56
    v58 = tl.broadcast_to(v57, [BLOCK_TILE_M, 32])
    v59 = v58.to(tl.bfloat16)
    out_desc_1x64x32.store([head_begin, tile_m_begin, 0], tl.reshape(v59, [1, 64, 32]))
    v60 = tl.log2(c5)
    v61 = c4 + v60
    v62 = v61 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v62, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (k.shape.2 == q.shape.2)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (end.1 <= lse.shape.1)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (k.shape.2 <= 32)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (k.shape.2 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (out.shape.2 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
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
    tile_m_begin = (pid % tl.cdiv(end_1, 64)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 64))
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
        tile_n_mask = tile_n_idx < tile_m_begin
        v5 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v9 = tl.where(tile_n_mask[None, :], v7, float('-inf'))
        v10 = tl.reduce(v9, 1, _maximum)
        v11 = v10 * scale
        v12 = tl.maximum(c1, v11, propagate_nan=tl.PropagateNan.ALL)
        v13 = v7 * scale
        v14 = v12[:, None]
        v15 = v13 - v14
        v16 = tl.exp2(v15)
        v17 = c1 - v12
        v18 = tl.exp2(v17)
        v19 = v16.to(tl.bfloat16)
        v20 = v18[:, None]
        v21 = c0 * v20
        v22 = tl.where(tile_n_mask[None, :], v19, 0.0)
        v23 = tl.dot(v22, v8, acc=v21)
        v24 = c2 * v18
        v25 = tl.where(tile_n_mask[None, :], v16, 0.0)
        v26 = tl.sum(v25, axis=1)
        v27 = v24 + v26
        c0 = v23
        c1 = v12
        c2 = v27
    v28 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_1)
    c3 = c0
    c4 = c1
    c5 = c2
    for tile_n_1_begin in tl.range(tile_m_begin, v28, BLOCK_BLOCK_N):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < v28
        v29 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_1_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v30 = tl.permute(v29, (1, 0))
        v31 = tl.dot(v0, v30)
        v32 = tile_m_idx[:, None]
        v33 = tile_n_1_idx[None, :]
        v34 = v32 >= v33
        v35 = tl.where(v34, v31, float('-inf'))
        v36 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_1_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v37 = tl.where(tile_n_1_mask[None, :], v35, float('-inf'))
        v38 = tl.reduce(v37, 1, _maximum)
        v39 = v38 * scale
        v40 = tl.maximum(c4, v39, propagate_nan=tl.PropagateNan.ALL)
        v41 = v35 * scale
        v42 = v40[:, None]
        v43 = v41 - v42
        v44 = tl.exp2(v43)
        v45 = c4 - v40
        v46 = tl.exp2(v45)
        v47 = v44.to(tl.bfloat16)
        v48 = v46[:, None]
        v49 = c3 * v48
        v50 = tl.where(tile_n_1_mask[None, :], v47, 0.0)
        v51 = tl.dot(v50, v36, acc=v49)
        v52 = c5 * v46
        v53 = tl.where(tile_n_1_mask[None, :], v44, 0.0)
        v54 = tl.sum(v53, axis=1)
        v55 = v52 + v54
        c3 = v51
        c4 = v40
        c5 = v55
    v56 = c5[:, None]
    v57 = c3 / v56
    v58 = tl.broadcast_to(v57, [BLOCK_TILE_M, 32])
    v59 = v58.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], v59, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :])
    v60 = tl.log2(c5)
    v61 = c4 + v60
    v62 = v61 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * lse_stride_0 + tile_m_idx, v62, mask=tile_m_mask)
