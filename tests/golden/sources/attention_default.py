# config: block:block_n=16, block:tile_m=64, group=8, load:k#0.access=pointer, load:k#0.eviction=, load:k#1.access=pointer, load:k#1.eviction=, load:q#0.access=pointer, load:q#0.eviction=, load:v#0.access=pointer, load:v#0.eviction=, load:v#1.access=pointer, load:v#1.eviction=, num_stages=4, num_warps=4, order=0,1, persistent=0, store:out#0.access=pointer
# region 0, static
# grid: 252, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_BLOCK_N=16, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def attention_0(
    k_ptr,
    lse_ptr,
    out_ptr,
    q_ptr,
    v_ptr,
    scale,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * 63)
    height = tl.minimum(4 - band * 8, 8)
    head_begin = (band * 8 + pid % (8 * 63) % height)
    head_idx = head_begin + tl.arange(0, 1)
    tile_m_begin = (pid % (8 * 63) // height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    v0 = tl.load(q_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    c0 = v3
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        v4 = tl.load(k_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
        v5 = tl.permute(v4, (1, 0))
        v6 = tl.dot(v0, v5)
        v7 = tl.load(v_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
        v8 = tl.max(v6, axis=1)
        v9 = v8 * scale
        v10 = tl.maximum(c1, v9, propagate_nan=tl.PropagateNan.ALL)
        v11 = v6 * scale
        v12 = v10[:, None]
        v13 = v11 - v12
        v14 = tl.exp2(v13)
        v15 = c1 - v10
        v16 = tl.exp2(v15)
        v17 = v14.to(tl.bfloat16)
        v18 = v16[:, None]
        v19 = c0 * v18
        v20 = tl.dot(v17, v7, acc=v19)
        v21 = c2 * v16
        v22 = tl.sum(v14, axis=1)
        v23 = v21 + v22
        c0 = v20
        c1 = v10
        c2 = v23
    v24 = tl.minimum(tile_m_begin + BLOCK_TILE_M, 4000)
    c3 = c0
    c4 = c1
    c5 = c2
    for tile_n_1_begin in tl.range(tile_m_begin, v24, BLOCK_BLOCK_N):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        v25 = tl.load(k_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
        v26 = tl.permute(v25, (1, 0))
        v27 = tl.dot(v0, v26)
        v28 = tile_m_idx[:, None]
        v29 = tile_n_1_idx[None, :]
        v30 = v28 >= v29
        v31 = tl.where(v30, v27, float('-inf'))
        v32 = tl.load(v_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
        v33 = tl.max(v31, axis=1)
        v34 = v33 * scale
        v35 = tl.maximum(c4, v34, propagate_nan=tl.PropagateNan.ALL)
        v36 = v31 * scale
        v37 = v35[:, None]
        v38 = v36 - v37
        v39 = tl.exp2(v38)
        v40 = c4 - v35
        v41 = tl.exp2(v40)
        v42 = v39.to(tl.bfloat16)
        v43 = v41[:, None]
        v44 = c3 * v43
        v45 = tl.dot(v42, v32, acc=v44)
        v46 = c5 * v41
        v47 = tl.sum(v39, axis=1)
        v48 = v46 + v47
        c3 = v45
        c4 = v35
        c5 = v48
    v49 = c5[:, None]
    v50 = c3 / v49
    v51 = v50.to(tl.bfloat16)
    tl.store(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v51, mask=tile_m_mask[:, None])
    v52 = tl.log2(c5)
    v53 = c4 + v52
    v54 = v53 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * 4000 + tile_m_idx, v54, mask=tile_m_mask)
