# config: block:block_n=128, block:tile_m=128, descending=True, load:k#0.access=descriptor, load:k#1.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, load:v#1.access=descriptor, num_warps=8, store:out#0.access=descriptor
# region 0, static
# grid: 128, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
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
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (31 - (pid % 32)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    head_begin = (pid // 32)
    head_idx = head_begin + tl.arange(0, 1)
    v0 = tl.reshape(q_desc_1x128x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    v1 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v2 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    c0 = v3
    c1 = v1
    c2 = v2
    for tile_n_begin in tl.range(0, tile_m_begin, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        v4 = tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32])
        v5 = tl.permute(v4, (1, 0))
        v6 = tl.dot(v0, v5)
        v7 = tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_BLOCK_N, 32])
        v8 = tl.reduce(v6, 1, _maximum)
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
        tile_n_1_mask = tile_n_1_idx < v24
        v25 = tl.load(k_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None], other=0.0)
        v26 = tl.permute(v25, (1, 0))
        v27 = tl.dot(v0, v26)
        v28 = tile_m_idx[:, None]
        v29 = tile_n_1_idx[None, :]
        v30 = v28 >= v29
        v31 = tl.where(v30, v27, float('-inf'))
        v32 = tl.load(v_ptr + head_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None], other=0.0)
        v33 = tl.where(tile_n_1_mask[None, :], v31, float('-inf'))
        v34 = tl.reduce(v33, 1, _maximum)
        v35 = v34 * scale
        v36 = tl.maximum(c4, v35, propagate_nan=tl.PropagateNan.ALL)
        v37 = v31 * scale
        v38 = v36[:, None]
        v39 = v37 - v38
        v40 = tl.exp2(v39)
        v41 = c4 - v36
        v42 = tl.exp2(v41)
        v43 = v40.to(tl.bfloat16)
        v44 = v42[:, None]
        v45 = c3 * v44
        v46 = tl.where(tile_n_1_mask[None, :], v43, 0.0)
        v47 = tl.dot(v46, v32, acc=v45)
        v48 = c5 * v42
        v49 = tl.where(tile_n_1_mask[None, :], v40, 0.0)
        v50 = tl.sum(v49, axis=1)
        v51 = v48 + v50
        c3 = v47
        c4 = v36
        c5 = v51
    v52 = c5[:, None]
    v53 = c3 / v52
    v54 = v53.to(tl.bfloat16)
    out_desc_1x128x32.store([head_begin, tile_m_begin, 0], tl.reshape(v54, [1, 128, 32]))
    v55 = tl.log2(c5)
    v56 = c4 + v55
    v57 = v56 * 0.6931471805599453
    tl.store(lse_ptr + head_begin * 4000 + tile_m_idx, v57, mask=tile_m_mask)
