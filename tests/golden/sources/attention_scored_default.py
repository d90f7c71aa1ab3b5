# config: block:tile_m=64, block:tile_n=128, load:k#0.access=descriptor, load:q#0.access=descriptor, load:score.cell:bias#0.access=descriptor, load:v#0.access=descriptor, store:out#0.access=descriptor
# region 0, static
# grid: 252, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (2992 == k.shape.1)) and (32 == k.shape.2)) and (95744 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (2992 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == score.cell:bias.align)) and (2 == score.cell:bias.shape.0)) and (4000 == score.cell:bias.shape.1)) and (2992 == score.cell:bias.shape.2)) and (11968000 == score.cell:bias.stride.0)) and (2992 == score.cell:bias.stride.1)) and (1 == score.cell:bias.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (2992 == v.shape.1)) and (32 == v.shape.2)) and (95744 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=64, BLOCK_TILE_N=128
# q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = q
# k_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = k
# score_bias_desc_1x64x128: tensordesc<bf16[1, 64, 128]> = score.cell:bias
# v_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = v
# out_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = out
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_scored_0(
    q_desc_1x64x32,
    k_desc_1x128x32,
    score_bias_desc_1x64x128,
    v_desc_1x128x32,
    out_desc_1x64x32,
    LOG2_E,
    scale,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (pid % 63) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    head_begin = (pid // 63)
    head_idx = head_begin + tl.arange(0, 1)
    v0 = tl.reshape(q_desc_1x64x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    c0 = v3
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, 2992, BLOCK_TILE_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        v4 = tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_TILE_N, 32])
        v5 = tl.permute(v4, (1, 0))
        v6 = tl.dot(v0, v5)
        v7 = v6 * scale
        v8 = head_begin & 1
        v9 = tl.reshape(score_bias_desc_1x64x128.load([v8, tile_m_begin, tile_n_begin]), [BLOCK_TILE_M, BLOCK_TILE_N])
        v10 = v9.to(tl.float32)
        v11 = v7 + v10
        v12 = tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_TILE_N, 32])
        v13 = tl.where(tile_n_mask[None, :], v11, float('-inf'))
        v14 = tl.reduce(v13, 1, _maximum)
        v15 = v14 * LOG2_E
        v16 = tl.maximum(c1, v15, propagate_nan=tl.PropagateNan.ALL)
        v17 = v11 * LOG2_E
        v18 = v16[:, None]
        v19 = v17 - v18
        v20 = tl.exp2(v19)
        v21 = c1 - v16
        v22 = tl.exp2(v21)
        v23 = v20.to(tl.bfloat16)
        v24 = v22[:, None]
        v25 = c0 * v24
        v26 = tl.where(tile_n_mask[None, :], v23, 0.0)
        v27 = tl.dot(v26, v12, acc=v25)
        v28 = c2 * v22
        v29 = tl.where(tile_n_mask[None, :], v20, 0.0)
        v30 = tl.sum(v29, axis=1)
        v31 = v28 + v30
        c0 = v27
        c1 = v16
        c2 = v31
    v32 = c2[:, None]
    v33 = c0 / v32
    v34 = v33.to(tl.bfloat16)
    out_desc_1x64x32.store([head_begin, tile_m_begin, 0], tl.reshape(v34, [1, 64, 32]))
