# config: block:tile_m=1, load:log_q#0.access=pointer, load:log_q#0.eviction=, load:p#0.access=pointer, load:p#0.eviction=, num_stages=2, num_warps=8, persistent=0, reduce:sum#0=0
# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == log_q.align)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (1 == losses.stride.0)) and (1 == p.align)) and (1 == p.stride.1)) and (end.0 <= p.shape.0)) and (end.0 <= log_q.shape.0)) and (log_q.shape.1 == p.shape.1)) and (end.0 <= losses.shape.0)) and (((-1 * p.stride.0) + (p.shape.0 * p.stride.0) + p.shape.1 + -1) <= 2147483647)) and (log_q.shape.1 <= 4096)) and (((-1 * log_q.stride.0) + (log_q.shape.0 * log_q.stride.0) + log_q.shape.1 + -1) <= 2147483647)) and ((losses.shape.0 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (log_q.shape.1 % 16))) and (log_q.shape.1 <= 2147483647)) and (0 == (log_q.stride.0 % 16))) and (log_q.stride.0 <= 2147483647)) and (0 == (p.stride.0 % 16))) and (p.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# p_ptr: *bf16 % 16 = p
# end_0: i32 % 16 = end.0
# log_q_shape_1: i32 % 16 = log_q.shape.1
# log_q_stride_0: i32 % 16 = log_q.stride.0
# p_stride_0: i32 % 16 = p.stride.0
import triton
import triton.language as tl


@triton.jit
def kl_div_0(
    log_q_ptr,
    losses_ptr,
    p_ptr,
    end_0,
    log_q_shape_1,
    log_q_stride_0,
    p_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(p_ptr + tile_m_idx[:, None] * p_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < log_q_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_q_ptr + tile_m_idx[:, None] * log_q_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < log_q_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 > 0.0
    v5 = tl.log(v1)
    v6 = v5 - v3
    v7 = v1 * v6
    v8 = tl.where(v4, v7, 0.0)
    v9 = tl.sum(v8, axis=1)
    tl.store(losses_ptr + tile_m_idx, v9, mask=tile_m_mask)

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == log_q.align)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (1 == losses.stride.0)) and (1 == p.align)) and (1 == p.stride.1)) and (end.0 <= p.shape.0)) and (end.0 <= log_q.shape.0)) and (log_q.shape.1 == p.shape.1)) and (end.0 <= losses.shape.0)) and (((-1 * p.stride.0) + (p.shape.0 * p.stride.0) + p.shape.1 + -1) <= 2147483647)) and (log_q.shape.1 <= 4096)) and (((-1 * log_q.stride.0) + (log_q.shape.0 * log_q.stride.0) + log_q.shape.1 + -1) <= 2147483647)) and ((losses.shape.0 + -1) <= 2147483647)) and (log_q.shape.1 <= 2147483647)) and (log_q.stride.0 <= 2147483647)) and (p.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# p_ptr: *bf16 % 16 = p
# end_0: i32 = end.0
# log_q_shape_1: i32 = log_q.shape.1
# log_q_stride_0: i32 = log_q.stride.0
# p_stride_0: i32 = p.stride.0
import triton
import triton.language as tl


@triton.jit
def kl_div_0(
    log_q_ptr,
    losses_ptr,
    p_ptr,
    end_0,
    log_q_shape_1,
    log_q_stride_0,
    p_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(p_ptr + tile_m_idx[:, None] * p_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < log_q_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_q_ptr + tile_m_idx[:, None] * log_q_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < log_q_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 > 0.0
    v5 = tl.log(v1)
    v6 = v5 - v3
    v7 = v1 * v6
    v8 = tl.where(v4, v7, 0.0)
    v9 = tl.sum(v8, axis=1)
    tl.store(losses_ptr + tile_m_idx, v9, mask=tile_m_mask)
