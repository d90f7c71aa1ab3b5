# config: block:tile_m=32, block:tile_n=16, group=4, load:k#0.access=pointer, load:k#0.eviction=evict_last, load:q#0.access=pointer, load:q#0.eviction=evict_last, load:score.cell:bias#0.access=pointer, load:score.cell:bias#0.eviction=evict_last, load:v#0.access=pointer, load:v#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2, store:out#0.access=pointer
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (2992 == k.shape.1)) and (32 == k.shape.2)) and (95744 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (2992 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == score.cell:bias.align)) and (2 == score.cell:bias.shape.0)) and (4000 == score.cell:bias.shape.1)) and (2992 == score.cell:bias.shape.2)) and (11968000 == score.cell:bias.stride.0)) and (2992 == score.cell:bias.stride.1)) and (1 == score.cell:bias.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (2992 == v.shape.1)) and (32 == v.shape.2)) and (95744 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, BLOCK_TILE_N=16
# k_ptr: *bf16 % 16 = k
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# score_bias_ptr: *bf16 % 16 = score.cell:bias
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
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
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 500, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(125 - band * 4, 4)
        tile_m_begin = (band * 4 + pid % (4 * 4) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        head_begin = (pid % (4 * 4) // height)
        head_idx = head_begin + tl.arange(0, 1)
        v0 = tl.load(q_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
        v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
        v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
        c0 = v3
        c1 = v1
        c2 = v2
        for tile_n_begin in tl.range(0, 2992, BLOCK_TILE_N):
            tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
            v4 = tl.load(k_ptr + head_begin * 95744 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
            v5 = tl.permute(v4, (1, 0))
            v6 = tl.dot(v0, v5)
            v7 = v6 * scale
            v8 = head_begin % 2 + tl.where((head_begin % 2 != 0) & ((head_begin < 0) != (2 < 0)), 2, 0)
            v9 = tl.load(score_bias_ptr + v8 * 11968000 + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], eviction_policy='evict_last')
            v10 = v9.to(tl.float32)
            v11 = v7 + v10
            v12 = tl.load(v_ptr + head_begin * 95744 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
            v13 = tl.max(v11, axis=1)
            v14 = v13 * LOG2_E
            v15 = tl.maximum(c1, v14, propagate_nan=tl.PropagateNan.ALL)
            v16 = v11 * LOG2_E
            v17 = v15[:, None]
            v18 = v16 - v17
            v19 = tl.exp2(v18)
            v20 = c1 - v15
            v21 = tl.exp2(v20)
            v22 = v19.to(tl.bfloat16)
            v23 = v21[:, None]
            v24 = c0 * v23
            v25 = tl.dot(v22, v12, acc=v24)
            v26 = c2 * v21
            v27 = tl.sum(v19, axis=1)
            v28 = v26 + v27
            c0 = v25
            c1 = v15
            c2 = v28
        v29 = c2[:, None]
        v30 = c0 / v29
        v31 = v30.to(tl.bfloat16)
        tl.store(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v31)
