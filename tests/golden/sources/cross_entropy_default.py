# config: block:tile_m=1, block:tile_v=4096, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == labels.align)) and (4000 == labels.shape.0)) and (1 == labels.stride.0)) and (1 == logits.align)) and (4000 == logits.shape.0)) and (2992 == logits.shape.1)) and (2992 == logits.stride.0)) and (1 == logits.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (1 == lse.align)) and (4000 == lse.shape.0)) and (1 == lse.stride.0)) and (2992 == v)) and (ignore_index <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_V=4096
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
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    c1 = v1
    for tile_v_begin in tl.range(0, 2992, BLOCK_TILE_V, num_stages=3):
        tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
        tile_v_mask = tile_v_idx < 2992
        v2 = tl.load(logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], mask=tile_v_mask[None, :], other=float('-inf'))
        v3 = v2.to(tl.float32)
        v4 = tl.reduce(v3, 1, _maximum)
        v5 = tl.maximum(c0, v4, propagate_nan=tl.PropagateNan.ALL)
        v6 = c0 - v5
        v7 = tl.exp2(v6 * 1.4426950408889634)
        v8 = c1 * v7
        v9 = v5[:, None]
        v10 = v3 - v9
        v11 = tl.exp2(v10 * 1.4426950408889634)
        v12 = tl.where(tile_v_mask[None, :], v11, 0.0)
        v13 = tl.sum(v12, axis=1)
        v14 = v8 + v13
        c0 = v5
        c1 = v14
    v15 = tl.load(labels_ptr + tile_m_idx)
    v16 = ignore_index.to(tl.int64)
    v17 = v15 != v16
    v18 = tl.where(v17, v15, 0)
    v19 = tl.load(logits_ptr + tile_m_idx * 2992 + v18, mask=(v18 >= 0) & (v18 < 2992), other=0.0)
    v20 = v19.to(tl.float32)
    v21 = tl.log(c1)
    v22 = c0 + v21
    tl.store(lse_ptr + tile_m_idx, v22)
    v23 = v22 - v20
    v24 = tl.where(v17, v23, 0.0)
    tl.store(losses_ptr + tile_m_idx, v24)
