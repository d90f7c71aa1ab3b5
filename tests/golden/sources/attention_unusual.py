# config: block:block_n=32, block:tile_m=16, group=4, load:k#0.eviction=evict_last, load:q#0.eviction=evict_last, load:v#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (0 == lse.shape.1)) and (1 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=32, BLOCK_TILE_M=16
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
    for pid in tl.range(tl.program_id(0), 1000, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(250 - band * 4, 4)
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
        for tile_n_begin in tl.range(0, 4000, BLOCK_BLOCK_N):
            tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
            v4 = tl.load(k_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
            v5 = tl.permute(v4, (1, 0))
            v6 = tl.dot(v0, v5)
            v7 = tl.load(v_ptr + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
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
        v24 = c2[:, None]
        v25 = c0 / v24
        v26 = v25.to(tl.bfloat16)
        tl.store(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v26)
