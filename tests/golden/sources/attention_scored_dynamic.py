# config: block:tile_m=128, block:tile_n=256, group=8, load:k#0.access=pointer, load:k#0.eviction=, load:q#0.access=pointer, load:q#0.eviction=, load:score.cell:bias#0.access=pointer, load:score.cell:bias#0.eviction=, load:v#0.access=pointer, load:v#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == score.cell:bias.align)) and (1 == score.cell:bias.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (n <= k.shape.1)) and (k.shape.2 == q.shape.2)) and (end.1 <= score.cell:bias.shape.1)) and (n <= score.cell:bias.shape.2)) and (n <= v.shape.1)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (k.shape.2 <= 32)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * score.cell:bias.stride.0) + (-1 * score.cell:bias.stride.1) + (score.cell:bias.shape.0 * score.cell:bias.stride.0) + (score.cell:bias.shape.1 * score.cell:bias.stride.1) + score.cell:bias.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (end.0 <= 2147483647)) and (0 == (end.1 % 16))) and (end.1 <= 2147483647)) and (0 == (k.shape.2 % 16))) and (k.shape.2 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (n % 16))) and (n <= 2147483647)) and (0 == (out.shape.2 % 16))) and (out.shape.2 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (out.stride.1 % 16))) and (out.stride.1 <= 2147483647)) and (0 == (q.stride.0 % 16))) and (q.stride.0 <= 2147483647)) and (0 == (q.stride.1 % 16))) and (q.stride.1 <= 2147483647)) and (score.cell:bias.shape.0 <= 2147483647)) and (0 == (score.cell:bias.stride.0 % 16))) and (score.cell:bias.stride.0 <= 2147483647)) and (0 == (score.cell:bias.stride.1 % 16))) and (score.cell:bias.stride.1 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=128, BLOCK_TILE_N=256
# k_ptr: *bf16 % 16 = k
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# score_bias_ptr: *bf16 % 16 = score.cell:bias
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# k_shape_2: i32 % 16 = k.shape.2
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# n: i32 % 16 = n
# out_shape_2: i32 % 16 = out.shape.2
# out_stride_0: i32 % 16 = out.stride.0
# out_stride_1: i32 % 16 = out.stride.1
# q_stride_0: i32 % 16 = q.stride.0
# q_stride_1: i32 % 16 = q.stride.1
# score_bias_shape_0: i32 = score.cell:bias.shape.0
# score_bias_stride_0: i32 % 16 = score.cell:bias.stride.0
# score_bias_stride_1: i32 % 16 = score.cell:bias.stride.1
# v_stride_0: i32 % 16 = v.stride.0
# v_stride_1: i32 % 16 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_scored_0(
    k_ptr,
    out_ptr,
    q_ptr,
    score_bias_ptr,
    v_ptr,
    LOG2_E,
    scale,
    end_0,
    end_1,
    k_shape_2,
    k_stride_0,
    k_stride_1,
    n,
    out_shape_2,
    out_stride_0,
    out_stride_1,
    q_stride_0,
    q_stride_1,
    score_bias_shape_0,
    score_bias_stride_0,
    score_bias_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 128))
    height = tl.minimum(end_0 - band * 8, 8)
    head_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 128)) % height)
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    tile_m_begin = (pid % (8 * tl.cdiv(end_1, 128)) // height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    v0 = tl.load(q_ptr + head_begin * q_stride_0 + tile_m_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v4
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, n, BLOCK_TILE_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < n
        v5 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = v7 * scale
        v9 = head_begin % score_bias_shape_0 + tl.where((head_begin % score_bias_shape_0 != 0) & ((head_begin < 0) != (score_bias_shape_0 < 0)), score_bias_shape_0, 0)
        v10 = tl.load(score_bias_ptr + v9 * score_bias_stride_0 + tile_m_idx[:, None] * score_bias_stride_1 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v11 = v10.to(tl.float32)
        v12 = v8 + v11
        v13 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v14 = tl.where(tile_n_mask[None, :], v12, float('-inf'))
        v15 = tl.max(v14, axis=1)
        v16 = v15 * LOG2_E
        v17 = tl.maximum(c1, v16, propagate_nan=tl.PropagateNan.ALL)
        v18 = v12 * LOG2_E
        v19 = v17[:, None]
        v20 = v18 - v19
        v21 = tl.exp2(v20)
        v22 = c1 - v17
        v23 = tl.exp2(v22)
        v24 = v21.to(tl.bfloat16)
        v25 = v23[:, None]
        v26 = c0 * v25
        v27 = tl.where(tile_n_mask[None, :], v24, 0.0)
        v28 = tl.dot(v27, v13, acc=v26)
        v29 = c2 * v23
        v30 = tl.where(tile_n_mask[None, :], v21, 0.0)
        v31 = tl.sum(v30, axis=1)
        v32 = v29 + v31
        c0 = v28
        c1 = v17
        c2 = v32
    v33 = c2[:, None]
    v34 = c0 / v33
    v35 = tl.broadcast_to(v34, [BLOCK_TILE_M, 32])
    v36 = v35.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], v36, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == out.align)) and (1 == out.stride.2)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == score.cell:bias.align)) and (1 == score.cell:bias.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (n <= k.shape.1)) and (k.shape.2 == q.shape.2)) and (end.1 <= score.cell:bias.shape.1)) and (n <= score.cell:bias.shape.2)) and (n <= v.shape.1)) and (d == v.shape.2)) and (end.1 <= out.shape.1)) and (out.shape.2 == v.shape.2)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (k.shape.2 <= 32)) and (out.shape.2 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * score.cell:bias.stride.0) + (-1 * score.cell:bias.stride.1) + (score.cell:bias.shape.0 * score.cell:bias.stride.0) + (score.cell:bias.shape.1 * score.cell:bias.stride.1) + score.cell:bias.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (end.0 <= 2147483647)) and (end.1 <= 2147483647)) and (k.shape.2 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (n <= 2147483647)) and (out.shape.2 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (score.cell:bias.shape.0 <= 2147483647)) and (score.cell:bias.stride.0 <= 2147483647)) and (score.cell:bias.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=128, BLOCK_TILE_N=256
# k_ptr: *bf16 % 16 = k
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# score_bias_ptr: *bf16 % 16 = score.cell:bias
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# end_0: i32 = end.0
# end_1: i32 = end.1
# k_shape_2: i32 = k.shape.2
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# n: i32 = n
# out_shape_2: i32 = out.shape.2
# out_stride_0: i32 = out.stride.0
# out_stride_1: i32 = out.stride.1
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# score_bias_shape_0: i32 = score.cell:bias.shape.0
# score_bias_stride_0: i32 = score.cell:bias.stride.0
# score_bias_stride_1: i32 = score.cell:bias.stride.1
# v_stride_0: i32 = v.stride.0
# v_stride_1: i32 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_scored_0(
    k_ptr,
    out_ptr,
    q_ptr,
    score_bias_ptr,
    v_ptr,
    LOG2_E,
    scale,
    end_0,
    end_1,
    k_shape_2,
    k_stride_0,
    k_stride_1,
    n,
    out_shape_2,
    out_stride_0,
    out_stride_1,
    q_stride_0,
    q_stride_1,
    score_bias_shape_0,
    score_bias_stride_0,
    score_bias_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 128))
    height = tl.minimum(end_0 - band * 8, 8)
    head_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 128)) % height)
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    tile_m_begin = (pid % (8 * tl.cdiv(end_1, 128)) // height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    v0 = tl.load(q_ptr + head_begin * q_stride_0 + tile_m_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v3, [BLOCK_TILE_M, 32])
    c0 = v4
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, n, BLOCK_TILE_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < n
        v5 = tl.load(k_ptr + head_begin * k_stride_0 + tile_n_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_2)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = v7 * scale
        v9 = head_begin % score_bias_shape_0 + tl.where((head_begin % score_bias_shape_0 != 0) & ((head_begin < 0) != (score_bias_shape_0 < 0)), score_bias_shape_0, 0)
        v10 = tl.load(score_bias_ptr + v9 * score_bias_stride_0 + tile_m_idx[:, None] * score_bias_stride_1 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v11 = v10.to(tl.float32)
        v12 = v8 + v11
        v13 = tl.load(v_ptr + head_begin * v_stride_0 + tile_n_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :], other=0.0)
        v14 = tl.where(tile_n_mask[None, :], v12, float('-inf'))
        v15 = tl.max(v14, axis=1)
        v16 = v15 * LOG2_E
        v17 = tl.maximum(c1, v16, propagate_nan=tl.PropagateNan.ALL)
        v18 = v12 * LOG2_E
        v19 = v17[:, None]
        v20 = v18 - v19
        v21 = tl.exp2(v20)
        v22 = c1 - v17
        v23 = tl.exp2(v22)
        v24 = v21.to(tl.bfloat16)
        v25 = v23[:, None]
        v26 = c0 * v25
        v27 = tl.where(tile_n_mask[None, :], v24, 0.0)
        v28 = tl.dot(v27, v13, acc=v26)
        v29 = c2 * v23
        v30 = tl.where(tile_n_mask[None, :], v21, 0.0)
        v31 = tl.sum(v30, axis=1)
        v32 = v29 + v31
        c0 = v28
        c1 = v17
        c2 = v32
    v33 = c2[:, None]
    v34 = c0 / v33
    v35 = tl.broadcast_to(v34, [BLOCK_TILE_M, 32])
    v36 = v35.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], v36, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_2)[None, :])
