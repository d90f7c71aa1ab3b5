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


# examples.cross_entropy:cross_entropy_bwd (cross_entropy.py:73), launch 0, static sizes
#   block:tile_m=1, block:tile_v=1024
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
    # for tile_m, tile_v in tfl.tile(logits.shape):
    pid = tl.program_id(0)
    tile_v_count: tl.constexpr = (2992 + BLOCK_TILE_V - 1) // BLOCK_TILE_V
    tile_v_begin = (pid % tile_v_count) * BLOCK_TILE_V
    tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
    tile_v_mask = tile_v_idx < 2992
    tile_m_begin = (pid // tile_v_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # label = labels[tile_m]
    label = tl.load(labels_ptr + tile_m_idx)
    # probability = torch.exp(logits[tile_m, tile_v].float() - lse[tile_m][:, None])
    v0 = tl.load(logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], mask=tile_v_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(lse_ptr + tile_m_idx)
    v3 = v2[:, None]
    v4 = v1 - v3
    probability = tl.exp2(v4 * 1.4426950408889634)
    # wanted = (tile_v.index[None, :] == label[:, None]).float()
    v5 = tile_v_idx[None, :]
    v6 = label[:, None]
    v7 = v5.to(tl.int64)
    v8 = v7 == v6
    wanted = v8.to(tl.float32)
    # row_scale = torch.where(label != ignore_index, scale[()], 0.0)
    v9 = tl.cast(ignore_index, tl.int64)
    v10 = label != v9
    v11 = tl.load(scale_ptr)
    row_scale = tl.where(v10, v11, 0.0)
    # grad_logits[tile_m, tile_v] = (probability - wanted) * row_scale[:, None]
    v12 = probability - wanted
    v13 = row_scale[:, None]
    v14 = v12 * v13
    v15 = v14.to(tl.bfloat16)
    tl.store(grad_logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], v15, mask=tile_v_mask[None, :])
