# config: block:tile_m=1, load:log_p#0.access=pointer, load:log_p#0.eviction=, load:log_q#0.access=pointer, load:log_q#0.eviction=, num_stages=2, num_warps=8, persistent=0, store:grad#0.access=pointer
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == log_p.align)) and (1 == log_p.stride.1)) and (1 == log_q.align)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (1 == losses.stride.0)) and (end.0 <= log_q.shape.0)) and (end.0 <= log_p.shape.0)) and (log_p.shape.1 == log_q.shape.1)) and (end.0 <= losses.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == log_q.shape.1)) and (((-1 * log_q.stride.0) + (log_q.shape.0 * log_q.stride.0) + log_q.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 4096)) and (((-1 * log_p.stride.0) + (log_p.shape.0 * log_p.stride.0) + log_p.shape.1 + -1) <= 2147483647)) and ((losses.shape.0 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (grad.shape.1 % 16))) and (grad.shape.1 <= 2147483647)) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (log_p.stride.0 % 16))) and (log_p.stride.0 <= 2147483647)) and (0 == (log_q.stride.0 % 16))) and (log_q.stride.0 <= 2147483647)) and (0 == (m % 16))) and (m <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# log_p_ptr: *bf16 % 16 = log_p
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# beta: fp32 = beta
# end_0: i32 % 16 = end.0
# grad_shape_1: i32 % 16 = grad.shape.1
# grad_stride_0: i32 % 16 = grad.stride.0
# log_p_stride_0: i32 % 16 = log_p.stride.0
# log_q_stride_0: i32 % 16 = log_q.stride.0
# m: i32 % 16 = m
import triton
import triton.language as tl


@triton.jit
def jsd_0(
    grad_ptr,
    log_p_ptr,
    log_q_ptr,
    losses_ptr,
    beta,
    end_0,
    grad_shape_1,
    grad_stride_0,
    log_p_stride_0,
    log_q_stride_0,
    m,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(log_q_ptr + tile_m_idx[:, None] * log_q_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_p_ptr + tile_m_idx[:, None] * log_p_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = tl.exp(v1)
    v5 = tl.exp(v3)
    v6 = beta == 0.0
    if v6:
        v7 = v3 - v1
        v8 = v5 * v7
        v9 = -v5
        v10 = tl.broadcast_to(v9, [BLOCK_TILE_M, 4096])
        b0 = v10
        b1 = v8
    else:
        v11 = beta == 1.0
        if v11:
            v12 = v1 - v3
            v13 = v4 * v12
            v14 = v13 + v4
            v15 = tl.broadcast_to(v13, [BLOCK_TILE_M, 4096])
            b2 = v14
            b3 = v15
        else:
            v16 = beta * v5
            v17 = 1.0 - beta
            v18 = v17 * v4
            v19 = v16 + v18
            v20 = tl.log(v19)
            v21 = 1.0 - beta
            v22 = v21 * v4
            v23 = v1 - v20
            v24 = v22 * v23
            v25 = beta * v5
            v26 = v3 - v20
            v27 = v25 * v26
            v28 = v27 + v24
            b2 = v24
            b3 = v28
        b0 = b2
        b1 = b3
    v29 = tl.where((tl.arange(0, 4096) < grad_shape_1)[None, :], b1, 0.0)
    v30 = tl.sum(v29, axis=1)
    tl.store(losses_ptr + tile_m_idx, v30, mask=tile_m_mask)
    v31 = m.to(tl.float32)
    v32 = b0 / v31
    v33 = tl.broadcast_to(v32, [BLOCK_TILE_M, 4096])
    v34 = v33.to(tl.bfloat16)
    tl.store(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], v34, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == log_p.align)) and (1 == log_p.stride.1)) and (1 == log_q.align)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (1 == losses.stride.0)) and (end.0 <= log_q.shape.0)) and (end.0 <= log_p.shape.0)) and (log_p.shape.1 == log_q.shape.1)) and (end.0 <= losses.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == log_q.shape.1)) and (((-1 * log_q.stride.0) + (log_q.shape.0 * log_q.stride.0) + log_q.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 4096)) and (((-1 * log_p.stride.0) + (log_p.shape.0 * log_p.stride.0) + log_p.shape.1 + -1) <= 2147483647)) and ((losses.shape.0 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 2147483647)) and (grad.stride.0 <= 2147483647)) and (log_p.stride.0 <= 2147483647)) and (log_q.stride.0 <= 2147483647)) and (m <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# log_p_ptr: *bf16 % 16 = log_p
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# beta: fp32 = beta
# end_0: i32 = end.0
# grad_shape_1: i32 = grad.shape.1
# grad_stride_0: i32 = grad.stride.0
# log_p_stride_0: i32 = log_p.stride.0
# log_q_stride_0: i32 = log_q.stride.0
# m: i32 = m
import triton
import triton.language as tl


@triton.jit
def jsd_0(
    grad_ptr,
    log_p_ptr,
    log_q_ptr,
    losses_ptr,
    beta,
    end_0,
    grad_shape_1,
    grad_stride_0,
    log_p_stride_0,
    log_q_stride_0,
    m,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(log_q_ptr + tile_m_idx[:, None] * log_q_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_p_ptr + tile_m_idx[:, None] * log_p_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = tl.exp(v1)
    v5 = tl.exp(v3)
    v6 = beta == 0.0
    if v6:
        v7 = v3 - v1
        v8 = v5 * v7
        v9 = -v5
        v10 = tl.broadcast_to(v9, [BLOCK_TILE_M, 4096])
        b0 = v10
        b1 = v8
    else:
        v11 = beta == 1.0
        if v11:
            v12 = v1 - v3
            v13 = v4 * v12
            v14 = v13 + v4
            v15 = tl.broadcast_to(v13, [BLOCK_TILE_M, 4096])
            b2 = v14
            b3 = v15
        else:
            v16 = beta * v5
            v17 = 1.0 - beta
            v18 = v17 * v4
            v19 = v16 + v18
            v20 = tl.log(v19)
            v21 = 1.0 - beta
            v22 = v21 * v4
            v23 = v1 - v20
            v24 = v22 * v23
            v25 = beta * v5
            v26 = v3 - v20
            v27 = v25 * v26
            v28 = v27 + v24
            b2 = v24
            b3 = v28
        b0 = b2
        b1 = b3
    v29 = tl.where((tl.arange(0, 4096) < grad_shape_1)[None, :], b1, 0.0)
    v30 = tl.sum(v29, axis=1)
    tl.store(losses_ptr + tile_m_idx, v30, mask=tile_m_mask)
    v31 = m.to(tl.float32)
    v32 = b0 / v31
    v33 = tl.broadcast_to(v32, [BLOCK_TILE_M, 4096])
    v34 = v33.to(tl.bfloat16)
    tl.store(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], v34, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :])
