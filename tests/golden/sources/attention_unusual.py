# config: block:block_n=32, block:tile_m=16, descending=True, group=4, load:k#0.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, num_warps=8, order=1,0, persistent=2, store:out#0.access=descriptor
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
        v4 = tile_m_begin + BLOCK_TILE_M
        c0 = v3
        c1 = v1
        c2 = v2
        for tile_n_begin in tl.range(0, v4, BLOCK_BLOCK_N):
            tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
            tile_n_mask = tile_n_idx < v4
            v5 = tl.load(k_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
            v6 = tl.permute(v5, (1, 0))
            v7 = tl.dot(v0, v6)
            v8 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v4)
            v9 = v8.to(tl.int64)
            v10 = tile_m_begin.to(tl.int64)
            v11 = v9 > v10
            if v11:
                v12 = tile_m_idx[:, None]
                v13 = tile_n_idx[None, :]
                v14 = v12 >= v13
                v15 = tl.where(v14, v7, float('-inf'))
                b0 = v15
            else:
                b0 = v7
            v16 = tl.load(v_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
            v17 = tl.where(tile_n_mask[None, :], b0, float('-inf'))
            v18 = tl.reduce(v17, 1, _maximum)
            v19 = v18 * scale
            v20 = tl.maximum(c1, v19, propagate_nan=tl.PropagateNan.ALL)
            v21 = b0 * scale
            v22 = v20[:, None]
            v23 = v21 - v22
            v24 = tl.exp2(v23)
            v25 = c1 - v20
            v26 = tl.exp2(v25)
            v27 = v24.to(tl.bfloat16)
            v28 = v26[:, None]
            v29 = c0 * v28
            v30 = tl.where(tile_n_mask[None, :], v27, 0.0)
            v31 = tl.dot(v30, v16, acc=v29)
            v32 = c2 * v26
            v33 = tl.where(tile_n_mask[None, :], v24, 0.0)
            v34 = tl.sum(v33, axis=1)
            v35 = v32 + v34
            c0 = v31
            c1 = v20
            c2 = v35
        v36 = c2[:, None]
        v37 = c0 / v36
        v38 = v37.to(tl.bfloat16)
        out_desc_1x16x32.store([head_begin, tile_m_begin, 0], tl.reshape(v38, [1, 16, 32]))
        v39 = tl.log2(c2)
        v40 = c1 + v39
        v41 = v40 * 0.6931471805599453
        tl.store(lse_ptr + head_begin * 4000 + tile_m_idx, v41)
