# config: block:tile_m=1, block:tile_v=1024
# region 0, static
# grid: 12000, 1, 1
# guards: ((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == grad_logits.align)) and (4000 == grad_logits.shape.0)) and (2992 == grad_logits.shape.1)) and (2992 == grad_logits.stride.0)) and (1 == grad_logits.stride.1)) and (1 == labels.align)) and (4000 == labels.shape.0)) and (1 == labels.stride.0)) and (1 == logits.align)) and (4000 == logits.shape.0)) and (2992 == logits.shape.1)) and (2992 == logits.stride.0)) and (1 == logits.stride.1)) and (1 == lse.align)) and (4000 == lse.shape.0)) and (1 == lse.stride.0)) and (1 == scale.align)) and (ignore_index <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_V=1024
# grad_logits_ptr: *bf16 % 16 = grad_logits
# labels_ptr: *i64 % 16 = labels
# logits_ptr: *bf16 % 16 = logits
# lse_ptr: *fp32 % 16 = lse
# scale_ptr: *fp32 % 16 = scale
# ignore_index: i32 = ignore_index
import triton
import triton.language as tl


@triton.jit
def cross_entropy_bwd_0(
    grad_logits_ptr,
    labels_ptr,
    logits_ptr,
    lse_ptr,
    scale_ptr,
    ignore_index,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_V: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_v_begin = (pid % 3) * BLOCK_TILE_V
    tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
    tile_v_mask = tile_v_idx < 2992
    tile_m_begin = (pid // 3)
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.load(labels_ptr + tile_m_idx)
    v1 = tl.load(logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], mask=tile_v_mask[None, :], other=0.0)
    v2 = v1.to(tl.float32)
    v3 = tl.load(lse_ptr + tile_m_idx)
    v4 = v3[:, None]
    v5 = v2 - v4
    v6 = tl.exp2(v5 * 1.4426950408889634)
    v7 = tile_v_idx[None, :]
    v8 = v0[:, None]
    v9 = v7.to(tl.int64)
    v10 = v9 == v8
    v11 = v10.to(tl.float32)
    v12 = ignore_index.to(tl.int64)
    v13 = v0 != v12
    v14 = tl.load(scale_ptr)
    v15 = tl.where(v13, v14, 0.0)
    v16 = v6 - v11
    v17 = v15[:, None]
    v18 = v16 * v17
    v19 = v18.to(tl.bfloat16)
    tl.store(grad_logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], v19, mask=tile_v_mask[None, :])
