# config: block:block_n=32, block:tile_m=16, descending=True, group=4, load:k#0.access=descriptor, load:k#1.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, load:v#1.access=descriptor, num_warps=8, order=1,0, persistent=2, store:out#0.access=descriptor
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=32, BLOCK_TILE_M=16
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# v_ptr: *bf16 % 16 = v
# q_desc_1x16x32: tensordesc<bf16[1, 16, 32]> = q
# out_desc_1x16x32: tensordesc<bf16[1, 16, 32]> = out
# scale: fp32 = scale
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
    q_desc_1x16x32,
    out_desc_1x16x32,
    scale,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 1000, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(250 - band * 4, 4)
        tile_m_begin = (249 - (band * 4 + pid % (4 * 4) % height)) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        head_begin = (pid % (4 * 4) // height)
        head_idx = head_begin + tl.arange(0, 1)
        v0 = tl.reshape(q_desc_1x16x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
        v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
        v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
        v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
        c0 = v3
        c1 = v1
        c2 = v2
        for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
            tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
            tile_n_mask = tile_n_idx < tile_m_begin
            v4 = tl.load(k_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
            v5 = tl.permute(v4, (1, 0))
            v6 = tl.dot(v0, v5)
            v7 = tl.load(v_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
            v8 = tl.where(tile_n_mask[None, :], v6, float('-inf'))
            v9 = tl.reduce(v8, 1, _maximum)
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
        v27 = tile_m_begin + BLOCK_TILE_M
        c3 = c0
        c4 = c1
        c5 = c2
        for tile_n_1_begin in tl.range(tile_m_begin, v27, BLOCK_BLOCK_N):
            tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
            tile_n_1_mask = tile_n_1_idx < v27
            v28 = tl.load(k_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None], other=0.0)
            v29 = tl.permute(v28, (1, 0))
            v30 = tl.dot(v0, v29)
            v31 = tile_m_idx[:, None]
            v32 = tile_n_1_idx[None, :]
            v33 = v31 >= v32
            v34 = tl.where(v33, v30, float('-inf'))
            v35 = tl.load(v_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None], other=0.0)
            v36 = tl.where(tile_n_1_mask[None, :], v34, float('-inf'))
            v37 = tl.reduce(v36, 1, _maximum)
            v38 = v37 * scale
            v39 = tl.maximum(c4, v38, propagate_nan=tl.PropagateNan.ALL)
            v40 = v34 * scale
            v41 = v39[:, None]
            v42 = v40 - v41
            v43 = tl.exp2(v42)
            v44 = c4 - v39
            v45 = tl.exp2(v44)
            v46 = v43.to(tl.bfloat16)
            v47 = v45[:, None]
            v48 = c3 * v47
            v49 = tl.where(tile_n_1_mask[None, :], v46, 0.0)
            v50 = tl.dot(v49, v35, acc=v48)
            v51 = c5 * v45
            v52 = tl.where(tile_n_1_mask[None, :], v43, 0.0)
            v53 = tl.sum(v52, axis=1)
            v54 = v51 + v53
            c3 = v50
            c4 = v39
            c5 = v54
        v55 = c5[:, None]
        v56 = c3 / v55
        v57 = v56.to(tl.bfloat16)
        out_desc_1x16x32.store([head_begin, tile_m_begin, 0], tl.reshape(v57, [1, 16, 32]))
        v58 = tl.log2(c5)
        v59 = c4 + v58
        v60 = v59 * 0.6931471805599453
        tl.store(lse_ptr + head_begin * 4000 + tile_m_idx, v60)
