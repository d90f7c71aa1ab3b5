# config: block:block_n=256, block:tile_m=128, group=8, load:k#0.eviction=, load:q#0.eviction=, load:v#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0
# region 0, static
# grid: 128, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (0 == lse.shape.1)) and (1 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=256, BLOCK_TILE_M=128
# k_ptr: *bf16 % 16 = k
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def attention_0(
    k_ptr,
    out_ptr,
    q_ptr,
    v_ptr,
    scale,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * 32)
    height = tl.minimum(4 - band * 8, 8)
    head_begin = (band * 8 + pid % (8 * 32) % height)
    head_idx = head_begin + tl.arange(0, 1)
    tile_m_begin = (pid % (8 * 32) // height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    v0 = tl.load(q_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    c0 = v3
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, 4000, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 4000
        v4 = tl.load(k_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
        v5 = tl.permute(v4, (1, 0))
        v6 = tl.dot(v0, v5)
        v7 = tl.load(v_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
        v8 = tl.where(tile_n_mask[None, :], v6, float('-inf'))
        v9 = tl.max(v8, axis=1)
        v10 = v9 * scale
        v11 = tl.maximum(c1, v10, propagate_nan=tl.PropagateNan.ALL)
        v12 = v6 * scale
        v13 = v11[:, None]
        v14 = v12 - v13
        v15 = tl.exp2(v14)
        v16 = c1 - v11
        v17 = tl.exp2(v16)
        v18 = v15.to(tl.bfloat16)
        v19 = v17[:, None]
        v20 = c0 * v19
        v21 = tl.where(tile_n_mask[None, :], v18, 0.0)
        v22 = tl.dot(v21, v7, acc=v20)
        v23 = c2 * v17
        v24 = tl.where(tile_n_mask[None, :], v15, 0.0)
        v25 = tl.sum(v24, axis=1)
        v26 = v23 + v25
        c0 = v22
        c1 = v11
        c2 = v26
    v27 = c2[:, None]
    v28 = c0 / v27
    v29 = v28.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v29, mask=tile_m_mask[:, None])
