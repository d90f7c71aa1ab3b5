# config: block:block_m=16, block:block_n=16, block:tile_m=128, block:tile_m@2=64, block:tile_n@1=64, group=1, group@1=8, group@2=8, load:delta#0@1.eviction=, load:delta#0@2.eviction=, load:grad_out#0.access=pointer, load:grad_out#0.eviction=, load:grad_out#0@1.access=pointer, load:grad_out#0@1.eviction=, load:grad_out#0@2.access=pointer, load:grad_out#0@2.eviction=, load:k#0@1.access=pointer, load:k#0@1.eviction=, load:k#0@2.access=pointer, load:k#0@2.eviction=, load:lse#0@1.eviction=, load:lse#0@2.eviction=, load:out#0.access=pointer, load:out#0.eviction=, load:q#0@1.access=pointer, load:q#0@1.eviction=, load:q#0@2.access=pointer, load:q#0@2.eviction=, load:v#0@1.access=pointer, load:v#0@1.eviction=, load:v#0@2.access=pointer, load:v#0@2.eviction=, num_stages=2, num_stages@1=4, num_stages@2=4, num_warps=8, num_warps@1=4, num_warps@2=4, order=0,1, order@1=0,1, order@2=0,1, persistent=0, persistent@1=0, persistent@2=0, reduce:sum#0=0
# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == out.align)) and (1 == out.stride.2)) and (end.1 <= out.shape.1)) and (end.1 <= grad_out.shape.1)) and (grad_out.shape.2 == out.shape.2)) and (end.1 <= delta.shape.1)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (grad_out.shape.2 <= 32)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (0 == (delta.stride.0 % 16))) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (0 == (end.1 % 16))) and (end.1 <= 2147483647)) and (0 == (grad_out.shape.2 % 16))) and (grad_out.shape.2 <= 2147483647)) and (0 == (grad_out.stride.0 % 16))) and (grad_out.stride.0 <= 2147483647)) and (0 == (grad_out.stride.1 % 16))) and (grad_out.stride.1 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (out.stride.1 % 16))) and (out.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=128
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# out_ptr: *bf16 % 16 = out
# delta_stride_0: i32 % 16 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# grad_out_shape_2: i32 % 16 = grad_out.shape.2
# grad_out_stride_0: i32 % 16 = grad_out.stride.0
# grad_out_stride_1: i32 % 16 = grad_out.stride.1
# out_stride_0: i32 % 16 = out.stride.0
# out_stride_1: i32 % 16 = out.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_0(
    delta_ptr,
    grad_out_ptr,
    out_ptr,
    delta_stride_0,
    end_0,
    end_1,
    grad_out_shape_2,
    grad_out_stride_0,
    grad_out_stride_1,
    out_stride_0,
    out_stride_1,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (pid % tl.cdiv(end_1, 128)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 128))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.load(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_out_ptr + head_begin * grad_out_stride_0 + tile_m_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    tl.store(delta_ptr + head_begin * delta_stride_0 + tile_m_idx, v5, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 128)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == out.align)) and (1 == out.stride.2)) and (end.1 <= out.shape.1)) and (end.1 <= grad_out.shape.1)) and (grad_out.shape.2 == out.shape.2)) and (end.1 <= delta.shape.1)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + out.shape.2 + -1) <= 2147483647)) and (grad_out.shape.2 <= 32)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (end.1 <= 2147483647)) and (grad_out.shape.2 <= 2147483647)) and (grad_out.stride.0 <= 2147483647)) and (grad_out.stride.1 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=128
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# out_ptr: *bf16 % 16 = out
# delta_stride_0: i32 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_out_shape_2: i32 = grad_out.shape.2
# grad_out_stride_0: i32 = grad_out.stride.0
# grad_out_stride_1: i32 = grad_out.stride.1
# out_stride_0: i32 = out.stride.0
# out_stride_1: i32 = out.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_0(
    delta_ptr,
    grad_out_ptr,
    out_ptr,
    delta_stride_0,
    end_0,
    end_1,
    grad_out_shape_2,
    grad_out_stride_0,
    grad_out_stride_1,
    out_stride_0,
    out_stride_1,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (pid % tl.cdiv(end_1, 128)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_1
    head_begin = (pid // tl.cdiv(end_1, 128))
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_0
    v0 = tl.load(out_ptr + head_begin * out_stride_0 + tile_m_idx[:, None] * out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_out_ptr + head_begin * grad_out_stride_0 + tile_m_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    tl.store(delta_ptr + head_begin * delta_stride_0 + tile_m_idx, v5, mask=tile_m_mask)

# region 1, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_k.align)) and (1 == grad_k.stride.2)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == grad_v.align)) and (1 == grad_v.stride.2)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= k.shape.1)) and (end.1 <= v.shape.1)) and (m <= q.shape.1)) and (m <= grad_out.shape.1)) and (k.shape.2 == q.shape.2)) and (m <= lse.shape.1)) and (d == grad_out.shape.2)) and (grad_out.shape.2 == v.shape.2)) and (m <= delta.shape.1)) and (d == q.shape.2)) and (end.1 <= grad_k.shape.1)) and (grad_k.shape.2 == q.shape.2)) and (end.1 <= grad_v.shape.1)) and (grad_out.shape.2 == grad_v.shape.2)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (grad_k.shape.2 <= 32)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (((-1 * grad_k.stride.0) + (-1 * grad_k.stride.1) + (grad_k.shape.0 * grad_k.stride.0) + (grad_k.shape.1 * grad_k.stride.1) + grad_k.shape.2 + -1) <= 2147483647)) and (((-1 * grad_v.stride.0) + (-1 * grad_v.stride.1) + (grad_v.shape.0 * grad_v.stride.0) + (grad_v.shape.1 * grad_v.stride.1) + grad_v.shape.2 + -1) <= 2147483647)) and (0 == (delta.stride.0 % 16))) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (0 == (end.1 % 16))) and (end.1 <= 2147483647)) and (0 == (grad_k.shape.2 % 16))) and (grad_k.shape.2 <= 2147483647)) and (0 == (grad_k.stride.0 % 16))) and (grad_k.stride.0 <= 2147483647)) and (0 == (grad_k.stride.1 % 16))) and (grad_k.stride.1 <= 2147483647)) and (0 == (grad_out.stride.0 % 16))) and (grad_out.stride.0 <= 2147483647)) and (0 == (grad_out.stride.1 % 16))) and (grad_out.stride.1 <= 2147483647)) and (0 == (grad_v.stride.0 % 16))) and (grad_v.stride.0 <= 2147483647)) and (0 == (grad_v.stride.1 % 16))) and (grad_v.stride.1 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647)) and (0 == (m % 16))) and (m <= 2147483647)) and (0 == (q.stride.0 % 16))) and (q.stride.0 <= 2147483647)) and (0 == (q.stride.1 % 16))) and (q.stride.1 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_N_1=64
# delta_ptr: *fp32 % 16 = delta
# grad_k_ptr: *bf16 % 16 = grad_k
# grad_out_ptr: *bf16 % 16 = grad_out
# grad_v_ptr: *bf16 % 16 = grad_v
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# delta_stride_0: i32 % 16 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# grad_k_shape_2: i32 % 16 = grad_k.shape.2
# grad_k_stride_0: i32 % 16 = grad_k.stride.0
# grad_k_stride_1: i32 % 16 = grad_k.stride.1
# grad_out_stride_0: i32 % 16 = grad_out.stride.0
# grad_out_stride_1: i32 % 16 = grad_out.stride.1
# grad_v_stride_0: i32 % 16 = grad_v.stride.0
# grad_v_stride_1: i32 % 16 = grad_v.stride.1
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# lse_stride_0: i32 % 16 = lse.stride.0
# m: i32 % 16 = m
# q_stride_0: i32 % 16 = q.stride.0
# q_stride_1: i32 % 16 = q.stride.1
# v_stride_0: i32 % 16 = v.stride.0
# v_stride_1: i32 % 16 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_1(
    delta_ptr,
    grad_k_ptr,
    grad_out_ptr,
    grad_v_ptr,
    k_ptr,
    lse_ptr,
    q_ptr,
    v_ptr,
    LOG2_E,
    scale,
    delta_stride_0,
    end_0,
    end_1,
    grad_k_shape_2,
    grad_k_stride_0,
    grad_k_stride_1,
    grad_out_stride_0,
    grad_out_stride_1,
    grad_v_stride_0,
    grad_v_stride_1,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    m,
    q_stride_0,
    q_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_N_1: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 64))
    height = tl.minimum(end_0 - band * 8, 8)
    head_1_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 64)) % height)
    head_1_idx = head_1_begin + tl.arange(0, 1)
    head_1_mask = head_1_idx < end_0
    tile_n_1_begin = (pid % (8 * tl.cdiv(end_1, 64)) // height) * BLOCK_TILE_N_1
    tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_TILE_N_1)
    tile_n_1_mask = tile_n_1_idx < end_1
    v0 = tl.load(k_ptr + head_1_begin * k_stride_0 + tile_n_1_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
    v1 = tl.load(v_ptr + head_1_begin * v_stride_0 + tile_n_1_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
    v2 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v2, [BLOCK_TILE_N_1, 32])
    v5 = tl.broadcast_to(v3, [BLOCK_TILE_N_1, 32])
    c0 = v4
    c1 = v5
    for tile_m_1_begin in tl.range(tile_n_1_begin, m, BLOCK_BLOCK_M):
        tile_m_1_idx = tile_m_1_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_1_mask = tile_m_1_idx < m
        v6 = tl.load(q_ptr + head_1_begin * q_stride_0 + tile_m_1_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
        v7 = tl.load(grad_out_ptr + head_1_begin * grad_out_stride_0 + tile_m_1_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
        v8 = tl.permute(v6, (1, 0))
        v9 = tl.dot(v0, v8)
        v10 = scale * LOG2_E
        v11 = v9 * v10
        v12 = tl.load(lse_ptr + head_1_begin * lse_stride_0 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v13 = v12[None, :]
        v14 = v13 * 1.4426950408889634
        v15 = v11 - v14
        v16 = tl.exp2(v15)
        v17 = tile_m_1_idx[None, :]
        v18 = tile_n_1_idx[:, None]
        v19 = v17 >= v18
        v20 = tl.where(v19, v16, 0.0)
        v21 = v20.to(tl.bfloat16)
        v22 = tl.where(tile_m_1_mask[None, :], v21, 0.0)
        v23 = tl.dot(v22, v7, acc=c1)
        v24 = tl.permute(v7, (1, 0))
        v25 = tl.dot(v1, v24)
        v26 = tl.load(delta_ptr + head_1_begin * delta_stride_0 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v27 = v26[None, :]
        v28 = v25 - v27
        v29 = v20 * v28
        v30 = v29.to(tl.bfloat16)
        v31 = tl.where(tile_m_1_mask[None, :], v30, 0.0)
        v32 = tl.dot(v31, v6, acc=c0)
        c0 = v32
        c1 = v23
    v33 = c0 * scale
    v34 = tl.broadcast_to(v33, [BLOCK_TILE_N_1, 32])
    v35 = v34.to(tl.bfloat16)
    tl.store(grad_k_ptr + head_1_begin * grad_k_stride_0 + tile_n_1_idx[:, None] * grad_k_stride_1 + tl.arange(0, 32)[None, :], v35, mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :])
    v36 = tl.broadcast_to(c1, [BLOCK_TILE_N_1, 32])
    v37 = v36.to(tl.bfloat16)
    tl.store(grad_v_ptr + head_1_begin * grad_v_stride_0 + tile_n_1_idx[:, None] * grad_v_stride_1 + tl.arange(0, 32)[None, :], v37, mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :])

# region 1, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_k.align)) and (1 == grad_k.stride.2)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == grad_v.align)) and (1 == grad_v.stride.2)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= k.shape.1)) and (end.1 <= v.shape.1)) and (m <= q.shape.1)) and (m <= grad_out.shape.1)) and (k.shape.2 == q.shape.2)) and (m <= lse.shape.1)) and (d == grad_out.shape.2)) and (grad_out.shape.2 == v.shape.2)) and (m <= delta.shape.1)) and (d == q.shape.2)) and (end.1 <= grad_k.shape.1)) and (grad_k.shape.2 == q.shape.2)) and (end.1 <= grad_v.shape.1)) and (grad_out.shape.2 == grad_v.shape.2)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (grad_k.shape.2 <= 32)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (((-1 * grad_k.stride.0) + (-1 * grad_k.stride.1) + (grad_k.shape.0 * grad_k.stride.0) + (grad_k.shape.1 * grad_k.stride.1) + grad_k.shape.2 + -1) <= 2147483647)) and (((-1 * grad_v.stride.0) + (-1 * grad_v.stride.1) + (grad_v.shape.0 * grad_v.stride.0) + (grad_v.shape.1 * grad_v.stride.1) + grad_v.shape.2 + -1) <= 2147483647)) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (end.1 <= 2147483647)) and (grad_k.shape.2 <= 2147483647)) and (grad_k.stride.0 <= 2147483647)) and (grad_k.stride.1 <= 2147483647)) and (grad_out.stride.0 <= 2147483647)) and (grad_out.stride.1 <= 2147483647)) and (grad_v.stride.0 <= 2147483647)) and (grad_v.stride.1 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (m <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_N_1=64
# delta_ptr: *fp32 % 16 = delta
# grad_k_ptr: *bf16 % 16 = grad_k
# grad_out_ptr: *bf16 % 16 = grad_out
# grad_v_ptr: *bf16 % 16 = grad_v
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# delta_stride_0: i32 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_k_shape_2: i32 = grad_k.shape.2
# grad_k_stride_0: i32 = grad_k.stride.0
# grad_k_stride_1: i32 = grad_k.stride.1
# grad_out_stride_0: i32 = grad_out.stride.0
# grad_out_stride_1: i32 = grad_out.stride.1
# grad_v_stride_0: i32 = grad_v.stride.0
# grad_v_stride_1: i32 = grad_v.stride.1
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# lse_stride_0: i32 = lse.stride.0
# m: i32 = m
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# v_stride_0: i32 = v.stride.0
# v_stride_1: i32 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_1(
    delta_ptr,
    grad_k_ptr,
    grad_out_ptr,
    grad_v_ptr,
    k_ptr,
    lse_ptr,
    q_ptr,
    v_ptr,
    LOG2_E,
    scale,
    delta_stride_0,
    end_0,
    end_1,
    grad_k_shape_2,
    grad_k_stride_0,
    grad_k_stride_1,
    grad_out_stride_0,
    grad_out_stride_1,
    grad_v_stride_0,
    grad_v_stride_1,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    m,
    q_stride_0,
    q_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_N_1: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 64))
    height = tl.minimum(end_0 - band * 8, 8)
    head_1_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 64)) % height)
    head_1_idx = head_1_begin + tl.arange(0, 1)
    head_1_mask = head_1_idx < end_0
    tile_n_1_begin = (pid % (8 * tl.cdiv(end_1, 64)) // height) * BLOCK_TILE_N_1
    tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_TILE_N_1)
    tile_n_1_mask = tile_n_1_idx < end_1
    v0 = tl.load(k_ptr + head_1_begin * k_stride_0 + tile_n_1_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
    v1 = tl.load(v_ptr + head_1_begin * v_stride_0 + tile_n_1_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
    v2 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    v4 = tl.broadcast_to(v2, [BLOCK_TILE_N_1, 32])
    v5 = tl.broadcast_to(v3, [BLOCK_TILE_N_1, 32])
    c0 = v4
    c1 = v5
    for tile_m_1_begin in tl.range(tile_n_1_begin, m, BLOCK_BLOCK_M):
        tile_m_1_idx = tile_m_1_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_1_mask = tile_m_1_idx < m
        v6 = tl.load(q_ptr + head_1_begin * q_stride_0 + tile_m_1_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
        v7 = tl.load(grad_out_ptr + head_1_begin * grad_out_stride_0 + tile_m_1_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :], other=0.0)
        v8 = tl.permute(v6, (1, 0))
        v9 = tl.dot(v0, v8)
        v10 = scale * LOG2_E
        v11 = v9 * v10
        v12 = tl.load(lse_ptr + head_1_begin * lse_stride_0 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v13 = v12[None, :]
        v14 = v13 * 1.4426950408889634
        v15 = v11 - v14
        v16 = tl.exp2(v15)
        v17 = tile_m_1_idx[None, :]
        v18 = tile_n_1_idx[:, None]
        v19 = v17 >= v18
        v20 = tl.where(v19, v16, 0.0)
        v21 = v20.to(tl.bfloat16)
        v22 = tl.where(tile_m_1_mask[None, :], v21, 0.0)
        v23 = tl.dot(v22, v7, acc=c1)
        v24 = tl.permute(v7, (1, 0))
        v25 = tl.dot(v1, v24)
        v26 = tl.load(delta_ptr + head_1_begin * delta_stride_0 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v27 = v26[None, :]
        v28 = v25 - v27
        v29 = v20 * v28
        v30 = v29.to(tl.bfloat16)
        v31 = tl.where(tile_m_1_mask[None, :], v30, 0.0)
        v32 = tl.dot(v31, v6, acc=c0)
        c0 = v32
        c1 = v23
    v33 = c0 * scale
    v34 = tl.broadcast_to(v33, [BLOCK_TILE_N_1, 32])
    v35 = v34.to(tl.bfloat16)
    tl.store(grad_k_ptr + head_1_begin * grad_k_stride_0 + tile_n_1_idx[:, None] * grad_k_stride_1 + tl.arange(0, 32)[None, :], v35, mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :])
    v36 = tl.broadcast_to(c1, [BLOCK_TILE_N_1, 32])
    v37 = v36.to(tl.bfloat16)
    tl.store(grad_v_ptr + head_1_begin * grad_v_stride_0 + tile_n_1_idx[:, None] * grad_v_stride_1 + tl.arange(0, 32)[None, :], v37, mask=tile_n_1_mask[:, None] & (tl.arange(0, 32) < grad_k_shape_2)[None, :])

# region 2, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == grad_q.align)) and (1 == grad_q.stride.2)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (end.1 <= grad_out.shape.1)) and (end.1 <= lse.shape.1)) and (end.1 <= delta.shape.1)) and (k.shape.2 == q.shape.2)) and (grad_out.shape.2 == v.shape.2)) and (d == k.shape.2)) and (end.1 <= grad_q.shape.1)) and (grad_q.shape.2 == k.shape.2)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (grad_q.shape.2 <= 32)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (grad_out.shape.2 <= 32)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * grad_q.stride.0) + (-1 * grad_q.stride.1) + (grad_q.shape.0 * grad_q.stride.0) + (grad_q.shape.1 * grad_q.stride.1) + grad_q.shape.2 + -1) <= 2147483647)) and (0 == (delta.stride.0 % 16))) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (0 == (end.1 % 16))) and (end.1 <= 2147483647)) and (0 == (grad_out.shape.2 % 16))) and (grad_out.shape.2 <= 2147483647)) and (0 == (grad_out.stride.0 % 16))) and (grad_out.stride.0 <= 2147483647)) and (0 == (grad_out.stride.1 % 16))) and (grad_out.stride.1 <= 2147483647)) and (0 == (grad_q.shape.2 % 16))) and (grad_q.shape.2 <= 2147483647)) and (0 == (grad_q.stride.0 % 16))) and (grad_q.stride.0 <= 2147483647)) and (0 == (grad_q.stride.1 % 16))) and (grad_q.stride.1 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647)) and (0 == (q.stride.0 % 16))) and (q.stride.0 <= 2147483647)) and (0 == (q.stride.1 % 16))) and (q.stride.1 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_BLOCK_N=16, BLOCK_TILE_M_2=64
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# grad_q_ptr: *bf16 % 16 = grad_q
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# delta_stride_0: i32 % 16 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# grad_out_shape_2: i32 % 16 = grad_out.shape.2
# grad_out_stride_0: i32 % 16 = grad_out.stride.0
# grad_out_stride_1: i32 % 16 = grad_out.stride.1
# grad_q_shape_2: i32 % 16 = grad_q.shape.2
# grad_q_stride_0: i32 % 16 = grad_q.stride.0
# grad_q_stride_1: i32 % 16 = grad_q.stride.1
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# lse_stride_0: i32 % 16 = lse.stride.0
# q_stride_0: i32 % 16 = q.stride.0
# q_stride_1: i32 % 16 = q.stride.1
# v_stride_0: i32 % 16 = v.stride.0
# v_stride_1: i32 % 16 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_2(
    delta_ptr,
    grad_out_ptr,
    grad_q_ptr,
    k_ptr,
    lse_ptr,
    q_ptr,
    v_ptr,
    LOG2_E,
    scale,
    delta_stride_0,
    end_0,
    end_1,
    grad_out_shape_2,
    grad_out_stride_0,
    grad_out_stride_1,
    grad_q_shape_2,
    grad_q_stride_0,
    grad_q_stride_1,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    q_stride_0,
    q_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M_2: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 64))
    height = tl.minimum(end_0 - band * 8, 8)
    head_2_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 64)) % height)
    head_2_idx = head_2_begin + tl.arange(0, 1)
    head_2_mask = head_2_idx < end_0
    tile_m_2_begin = (pid % (8 * tl.cdiv(end_1, 64)) // height) * BLOCK_TILE_M_2
    tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
    tile_m_2_mask = tile_m_2_idx < end_1
    v0 = tl.load(q_ptr + head_2_begin * q_stride_0 + tile_m_2_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :], other=0.0)
    v1 = tl.load(grad_out_ptr + head_2_begin * grad_out_stride_0 + tile_m_2_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v2 = tl.load(lse_ptr + head_2_begin * lse_stride_0 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v3 = v2[:, None]
    v4 = tl.load(delta_ptr + head_2_begin * delta_stride_0 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v5 = v4[:, None]
    v6 = tl.full([BLOCK_TILE_M_2, 32], 0.0, tl.float32)
    v7 = tl.minimum(tile_m_2_begin + BLOCK_TILE_M_2, end_1)
    v8 = tl.broadcast_to(v6, [BLOCK_TILE_M_2, 32])
    c0 = v8
    for tile_n_2_begin in tl.range(0, v7, BLOCK_BLOCK_N):
        tile_n_2_idx = tile_n_2_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_2_mask = tile_n_2_idx < v7
        v9 = tl.load(k_ptr + head_2_begin * k_stride_0 + tile_n_2_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :], other=0.0)
        v10 = tl.load(v_ptr + head_2_begin * v_stride_0 + tile_n_2_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
        v11 = tl.permute(v9, (1, 0))
        v12 = tl.dot(v0, v11)
        v13 = scale * LOG2_E
        v14 = v12 * v13
        v15 = v3 * 1.4426950408889634
        v16 = v14 - v15
        v17 = tl.exp2(v16)
        v18 = tile_m_2_idx[:, None]
        v19 = tile_n_2_idx[None, :]
        v20 = v18 >= v19
        v21 = tl.where(v20, v17, 0.0)
        v22 = tl.permute(v10, (1, 0))
        v23 = tl.dot(v1, v22)
        v24 = v23 - v5
        v25 = v21 * v24
        v26 = v25.to(tl.bfloat16)
        v27 = tl.where(tile_n_2_mask[None, :], v26, 0.0)
        v28 = tl.dot(v27, v9, acc=c0)
        c0 = v28
    v29 = c0 * scale
    v30 = tl.broadcast_to(v29, [BLOCK_TILE_M_2, 32])
    v31 = v30.to(tl.bfloat16)
    tl.store(grad_q_ptr + head_2_begin * grad_q_stride_0 + tile_m_2_idx[:, None] * grad_q_stride_1 + tl.arange(0, 32)[None, :], v31, mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :])

# region 2, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (1 == delta.align)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (1 == grad_out.stride.2)) and (1 == grad_q.align)) and (1 == grad_q.stride.2)) and (1 == k.align)) and (1 == k.stride.2)) and (1 == lse.align)) and (1 == lse.stride.1)) and (1 == q.align)) and (1 == q.stride.2)) and (1 == v.align)) and (1 == v.stride.2)) and (end.1 <= q.shape.1)) and (end.1 <= grad_out.shape.1)) and (end.1 <= lse.shape.1)) and (end.1 <= delta.shape.1)) and (k.shape.2 == q.shape.2)) and (grad_out.shape.2 == v.shape.2)) and (d == k.shape.2)) and (end.1 <= grad_q.shape.1)) and (grad_q.shape.2 == k.shape.2)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + q.shape.2 + -1) <= 2147483647)) and (grad_q.shape.2 <= 32)) and (((-1 * grad_out.stride.0) + (-1 * grad_out.stride.1) + (grad_out.shape.0 * grad_out.stride.0) + (grad_out.shape.1 * grad_out.stride.1) + grad_out.shape.2 + -1) <= 2147483647)) and (grad_out.shape.2 <= 32)) and (((-1 * lse.stride.0) + (lse.shape.0 * lse.stride.0) + lse.shape.1 + -1) <= 2147483647)) and (((-1 * delta.stride.0) + (delta.shape.0 * delta.stride.0) + delta.shape.1 + -1) <= 2147483647)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + k.shape.2 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + v.shape.2 + -1) <= 2147483647)) and (((-1 * grad_q.stride.0) + (-1 * grad_q.stride.1) + (grad_q.shape.0 * grad_q.stride.0) + (grad_q.shape.1 * grad_q.stride.1) + grad_q.shape.2 + -1) <= 2147483647)) and (delta.stride.0 <= 2147483647)) and (end.0 <= 2147483647)) and (end.1 <= 2147483647)) and (grad_out.shape.2 <= 2147483647)) and (grad_out.stride.0 <= 2147483647)) and (grad_out.stride.1 <= 2147483647)) and (grad_q.shape.2 <= 2147483647)) and (grad_q.stride.0 <= 2147483647)) and (grad_q.stride.1 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_BLOCK_N=16, BLOCK_TILE_M_2=64
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# grad_q_ptr: *bf16 % 16 = grad_q
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
# delta_stride_0: i32 = delta.stride.0
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_out_shape_2: i32 = grad_out.shape.2
# grad_out_stride_0: i32 = grad_out.stride.0
# grad_out_stride_1: i32 = grad_out.stride.1
# grad_q_shape_2: i32 = grad_q.shape.2
# grad_q_stride_0: i32 = grad_q.stride.0
# grad_q_stride_1: i32 = grad_q.stride.1
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# lse_stride_0: i32 = lse.stride.0
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# v_stride_0: i32 = v.stride.0
# v_stride_1: i32 = v.stride.1
import triton
import triton.language as tl


@triton.jit
def attention_backward_2(
    delta_ptr,
    grad_out_ptr,
    grad_q_ptr,
    k_ptr,
    lse_ptr,
    q_ptr,
    v_ptr,
    LOG2_E,
    scale,
    delta_stride_0,
    end_0,
    end_1,
    grad_out_shape_2,
    grad_out_stride_0,
    grad_out_stride_1,
    grad_q_shape_2,
    grad_q_stride_0,
    grad_q_stride_1,
    k_stride_0,
    k_stride_1,
    lse_stride_0,
    q_stride_0,
    q_stride_1,
    v_stride_0,
    v_stride_1,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M_2: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 64))
    height = tl.minimum(end_0 - band * 8, 8)
    head_2_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 64)) % height)
    head_2_idx = head_2_begin + tl.arange(0, 1)
    head_2_mask = head_2_idx < end_0
    tile_m_2_begin = (pid % (8 * tl.cdiv(end_1, 64)) // height) * BLOCK_TILE_M_2
    tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
    tile_m_2_mask = tile_m_2_idx < end_1
    v0 = tl.load(q_ptr + head_2_begin * q_stride_0 + tile_m_2_idx[:, None] * q_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :], other=0.0)
    v1 = tl.load(grad_out_ptr + head_2_begin * grad_out_stride_0 + tile_m_2_idx[:, None] * grad_out_stride_1 + tl.arange(0, 32)[None, :], mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
    v2 = tl.load(lse_ptr + head_2_begin * lse_stride_0 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v3 = v2[:, None]
    v4 = tl.load(delta_ptr + head_2_begin * delta_stride_0 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v5 = v4[:, None]
    v6 = tl.full([BLOCK_TILE_M_2, 32], 0.0, tl.float32)
    v7 = tl.minimum(tile_m_2_begin + BLOCK_TILE_M_2, end_1)
    v8 = tl.broadcast_to(v6, [BLOCK_TILE_M_2, 32])
    c0 = v8
    for tile_n_2_begin in tl.range(0, v7, BLOCK_BLOCK_N):
        tile_n_2_idx = tile_n_2_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_2_mask = tile_n_2_idx < v7
        v9 = tl.load(k_ptr + head_2_begin * k_stride_0 + tile_n_2_idx[:, None] * k_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :], other=0.0)
        v10 = tl.load(v_ptr + head_2_begin * v_stride_0 + tile_n_2_idx[:, None] * v_stride_1 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None] & (tl.arange(0, 32) < grad_out_shape_2)[None, :], other=0.0)
        v11 = tl.permute(v9, (1, 0))
        v12 = tl.dot(v0, v11)
        v13 = scale * LOG2_E
        v14 = v12 * v13
        v15 = v3 * 1.4426950408889634
        v16 = v14 - v15
        v17 = tl.exp2(v16)
        v18 = tile_m_2_idx[:, None]
        v19 = tile_n_2_idx[None, :]
        v20 = v18 >= v19
        v21 = tl.where(v20, v17, 0.0)
        v22 = tl.permute(v10, (1, 0))
        v23 = tl.dot(v1, v22)
        v24 = v23 - v5
        v25 = v21 * v24
        v26 = v25.to(tl.bfloat16)
        v27 = tl.where(tile_n_2_mask[None, :], v26, 0.0)
        v28 = tl.dot(v27, v9, acc=c0)
        c0 = v28
    v29 = c0 * scale
    v30 = tl.broadcast_to(v29, [BLOCK_TILE_M_2, 32])
    v31 = v30.to(tl.bfloat16)
    tl.store(grad_q_ptr + head_2_begin * grad_q_stride_0 + tile_m_2_idx[:, None] * grad_q_stride_1 + tl.arange(0, 32)[None, :], v31, mask=tile_m_2_mask[:, None] & (tl.arange(0, 32) < grad_q_shape_2)[None, :])
