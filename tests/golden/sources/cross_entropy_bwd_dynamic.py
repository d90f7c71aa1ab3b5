# config: block:tile_m=1, block:tile_v=4096, group=1, load:labels#0.eviction=, load:logits#0.access=pointer, load:logits#0.eviction=, load:lse#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0, store:grad_logits#0.access=pointer
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == grad_logits.align)) and (1 == grad_logits.stride.1)) and (1 == labels.align)) and (1 == labels.stride.0)) and (1 == logits.align)) and (1 == logits.stride.1)) and (1 == lse.align)) and (1 == lse.stride.0)) and (1 == scale.align)) and (end.0 <= labels.shape.0)) and (end.0 <= logits.shape.0)) and (end.1 <= logits.shape.1)) and (end.0 <= lse.shape.0)) and (end.0 <= grad_logits.shape.0)) and (end.1 <= grad_logits.shape.1)) and ((labels.shape.0 + -1) <= 2147483647)) and (((-1 * logits.stride.0) + (logits.shape.0 * logits.stride.0) + logits.shape.1 + -1) <= 2147483647)) and ((lse.shape.0 + -1) <= 2147483647)) and (((-1 * grad_logits.stride.0) + (grad_logits.shape.0 * grad_logits.stride.0) + grad_logits.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (grad_logits.stride.0 % 16))) and (grad_logits.stride.0 <= 2147483647)) and (ignore_index <= 2147483647)) and (0 == (logits.stride.0 % 16))) and (logits.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_V=4096
# grad_logits_ptr: *bf16 % 16 = grad_logits
# labels_ptr: *i64 % 16 = labels
# logits_ptr: *bf16 % 16 = logits
# lse_ptr: *fp32 % 16 = lse
# scale_ptr: *fp32 % 16 = scale
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# grad_logits_stride_0: i32 % 16 = grad_logits.stride.0
# ignore_index: i32 = ignore_index
# logits_stride_0: i32 % 16 = logits.stride.0
import triton
import triton.language as tl


@triton.jit
def cross_entropy_bwd_0(
    grad_logits_ptr,
    labels_ptr,
    logits_ptr,
    lse_ptr,
    scale_ptr,
    end_0,
    end_1,
    grad_logits_stride_0,
    ignore_index,
    logits_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_V: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_v_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_V
    tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
    tile_v_mask = tile_v_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(labels_ptr + tile_m_idx, mask=tile_m_mask, other=0)
    v1 = tl.load(logits_ptr + tile_m_idx[:, None] * logits_stride_0 + tile_v_idx[None, :], mask=tile_m_mask[:, None] & tile_v_mask[None, :], other=0.0)
    v2 = v1.to(tl.float32)
    v3 = tl.load(lse_ptr + tile_m_idx, mask=tile_m_mask, other=0.0)
    v4 = v3[:, None]
    v5 = v2 - v4
    v6 = tl.exp(v5)
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
    tl.store(grad_logits_ptr + tile_m_idx[:, None] * grad_logits_stride_0 + tile_v_idx[None, :], v19, mask=tile_m_mask[:, None] & tile_v_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == grad_logits.align)) and (1 == grad_logits.stride.1)) and (1 == labels.align)) and (1 == labels.stride.0)) and (1 == logits.align)) and (1 == logits.stride.1)) and (1 == lse.align)) and (1 == lse.stride.0)) and (1 == scale.align)) and (end.0 <= labels.shape.0)) and (end.0 <= logits.shape.0)) and (end.1 <= logits.shape.1)) and (end.0 <= lse.shape.0)) and (end.0 <= grad_logits.shape.0)) and (end.1 <= grad_logits.shape.1)) and ((labels.shape.0 + -1) <= 2147483647)) and (((-1 * logits.stride.0) + (logits.shape.0 * logits.stride.0) + logits.shape.1 + -1) <= 2147483647)) and ((lse.shape.0 + -1) <= 2147483647)) and (((-1 * grad_logits.stride.0) + (grad_logits.shape.0 * grad_logits.stride.0) + grad_logits.shape.1 + -1) <= 2147483647)) and (grad_logits.stride.0 <= 2147483647)) and (ignore_index <= 2147483647)) and (logits.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_V=4096
# grad_logits_ptr: *bf16 % 16 = grad_logits
# labels_ptr: *i64 % 16 = labels
# logits_ptr: *bf16 % 16 = logits
# lse_ptr: *fp32 % 16 = lse
# scale_ptr: *fp32 % 16 = scale
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_logits_stride_0: i32 = grad_logits.stride.0
# ignore_index: i32 = ignore_index
# logits_stride_0: i32 = logits.stride.0
import triton
import triton.language as tl


@triton.jit
def cross_entropy_bwd_0(
    grad_logits_ptr,
    labels_ptr,
    logits_ptr,
    lse_ptr,
    scale_ptr,
    end_0,
    end_1,
    grad_logits_stride_0,
    ignore_index,
    logits_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_V: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_v_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_V
    tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
    tile_v_mask = tile_v_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(labels_ptr + tile_m_idx, mask=tile_m_mask, other=0)
    v1 = tl.load(logits_ptr + tile_m_idx[:, None] * logits_stride_0 + tile_v_idx[None, :], mask=tile_m_mask[:, None] & tile_v_mask[None, :], other=0.0)
    v2 = v1.to(tl.float32)
    v3 = tl.load(lse_ptr + tile_m_idx, mask=tile_m_mask, other=0.0)
    v4 = v3[:, None]
    v5 = v2 - v4
    v6 = tl.exp(v5)
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
    tl.store(grad_logits_ptr + tile_m_idx[:, None] * grad_logits_stride_0 + tile_v_idx[None, :], v19, mask=tile_m_mask[:, None] & tile_v_mask[None, :])
