# config: block:tile_m=32, block:tile_v=16, load:labels#0.eviction=evict_last, load:logits#0.access=pointer, load:logits#0.eviction=evict_last, load:logits#1.eviction=evict_last, num_stages=2, num_warps=8, persistent=2
# region 0, static
# grid: 125, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == labels.align)) and (4000 == labels.shape.0)) and (1 == labels.stride.0)) and (1 == logits.align)) and (4000 == logits.shape.0)) and (2992 == logits.shape.1)) and (2992 == logits.stride.0)) and (1 == logits.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (1 == lse.align)) and (4000 == lse.shape.0)) and (1 == lse.stride.0)) and (2992 == v)) and (ignore_index <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, BLOCK_TILE_V=16
# labels_ptr: *i64 % 16 = labels
# logits_ptr: *bf16 % 16 = logits
# losses_ptr: *fp32 % 16 = losses
# lse_ptr: *fp32 % 16 = lse
# ignore_index: i32 = ignore_index
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def cross_entropy_0(
    labels_ptr,
    logits_ptr,
    losses_ptr,
    lse_ptr,
    ignore_index,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_V: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 125, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
        v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
        c0 = v0
        c1 = v1
        for tile_v_begin in tl.range(0, 2992, BLOCK_TILE_V, num_stages=2):
            tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
            v2 = tl.load(logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], eviction_policy='evict_last')
            v3 = v2.to(tl.float32)
            v4 = tl.reduce(v3, 1, _maximum)
            v5 = tl.maximum(c0, v4, propagate_nan=tl.PropagateNan.ALL)
            v6 = c0 - v5
            v7 = tl.exp(v6)
            v8 = c1 * v7
            v9 = v5[:, None]
            v10 = v3 - v9
            v11 = tl.exp(v10)
            v12 = tl.sum(v11, axis=1)
            v13 = v8 + v12
            c0 = v5
            c1 = v13
        v14 = tl.load(labels_ptr + tile_m_idx, eviction_policy='evict_last')
        v15 = ignore_index.to(tl.int64)
        v16 = v14 != v15
        v17 = tile_m_idx[:, None]
        v18 = tl.where(v16, v14, 0)
        v19 = v18[:, None]
        v20 = tl.load(logits_ptr + v17 * 2992 + v19, eviction_policy='evict_last')
        v21 = tl.reshape(v20, [BLOCK_TILE_M])
        v22 = v21.to(tl.float32)
        v23 = tl.log(c1)
        v24 = c0 + v23
        tl.store(lse_ptr + tile_m_idx, v24)
        v25 = v24 - v22
        v26 = tl.where(v16, v25, 0.0)
        tl.store(losses_ptr + tile_m_idx, v26)
