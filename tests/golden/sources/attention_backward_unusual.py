# config: block:block_m=16, block:block_n=32, block:tile_m=32, block:tile_m@2=16, block:tile_n@1=32, group=4, group@1=4, group@2=4, load:delta#0@1.eviction=evict_last, load:delta#0@2.eviction=evict_last, load:grad_out#0.access=pointer, load:grad_out#0.eviction=evict_last, load:grad_out#0@1.access=pointer, load:grad_out#0@1.eviction=evict_last, load:grad_out#0@2.access=pointer, load:grad_out#0@2.eviction=evict_last, load:k#0@1.access=pointer, load:k#0@1.eviction=evict_last, load:k#0@2.access=pointer, load:k#0@2.eviction=evict_last, load:lse#0@1.eviction=evict_last, load:lse#0@2.eviction=evict_last, load:out#0.access=pointer, load:out#0.eviction=evict_last, load:q#0@1.access=pointer, load:q#0@1.eviction=evict_last, load:q#0@2.access=pointer, load:q#0@2.eviction=evict_last, load:v#0@1.access=pointer, load:v#0@1.eviction=evict_last, load:v#0@2.access=pointer, load:v#0@2.eviction=evict_last, num_stages=2, num_stages@1=2, num_stages@2=2, num_warps=8, num_warps@1=8, num_warps@2=8, order=1,0, order@1=1,0, order@2=1,0, persistent=2, persistent@1=2, persistent@2=2, reduce:sum#0=0, store:grad_k#0@1.access=pointer, store:grad_q#0@2.access=pointer, store:grad_v#0@1.access=pointer
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


@triton.jit
def attention_backward_0(
    delta_ptr,
    grad_out_ptr,
    out_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 500, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(125 - band * 4, 4)
        tile_m_begin = (band * 4 + pid % (4 * 4) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        head_begin = (pid % (4 * 4) // height)
        head_idx = head_begin + tl.arange(0, 1)
        v0 = tl.load(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v1 = v0.to(tl.float32)
        v2 = tl.load(grad_out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v3 = v2.to(tl.float32)
        v4 = v1 * v3
        v5 = tl.sum(v4, axis=1)
        tl.store(delta_ptr + head_begin * 4000 + tile_m_idx, v5)

# region 1, static
# grid: 264, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_k.align)) and (4 == grad_k.shape.0)) and (4000 == grad_k.shape.1)) and (32 == grad_k.shape.2)) and (128000 == grad_k.stride.0)) and (32 == grad_k.stride.1)) and (1 == grad_k.stride.2)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == grad_v.align)) and (4 == grad_v.shape.0)) and (4000 == grad_v.shape.1)) and (32 == grad_v.shape.2)) and (128000 == grad_v.stride.0)) and (32 == grad_v.stride.1)) and (1 == grad_v.stride.2)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == m)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_N_1=32
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
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_N_1: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 500, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(125 - band * 4, 4)
        tile_n_1_begin = (band * 4 + pid % (4 * 4) % height) * BLOCK_TILE_N_1
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_TILE_N_1)
        head_1_begin = (pid % (4 * 4) // height)
        head_1_idx = head_1_begin + tl.arange(0, 1)
        v0 = tl.load(k_ptr + head_1_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v1 = tl.load(v_ptr + head_1_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v2 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
        v3 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
        c0 = v2
        c1 = v3
        for tile_m_1_begin in tl.range(tile_n_1_begin, 4000, BLOCK_BLOCK_M):
            tile_m_1_idx = tile_m_1_begin + tl.arange(0, BLOCK_BLOCK_M)
            v4 = tl.load(q_ptr + head_1_begin * 128000 + tile_m_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
            v5 = tl.load(grad_out_ptr + head_1_begin * 128000 + tile_m_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
            v6 = tl.permute(v4, (1, 0))
            v7 = tl.dot(v0, v6)
            v8 = scale * LOG2_E
            v9 = v7 * v8
            v10 = tl.load(lse_ptr + head_1_begin * 4000 + tile_m_1_idx, eviction_policy='evict_last')
            v11 = v10[None, :]
            v12 = v11 * 1.4426950408889634
            v13 = v9 - v12
            v14 = tl.exp2(v13)
            v15 = tile_m_1_idx[None, :]
            v16 = tile_n_1_idx[:, None]
            v17 = v15 >= v16
            v18 = tl.where(v17, v14, 0.0)
            v19 = v18.to(tl.bfloat16)
            v20 = tl.dot(v19, v5, acc=c1)
            v21 = tl.permute(v5, (1, 0))
            v22 = tl.dot(v1, v21)
            v23 = tl.load(delta_ptr + head_1_begin * 4000 + tile_m_1_idx, eviction_policy='evict_last')
            v24 = v23[None, :]
            v25 = v22 - v24
            v26 = v18 * v25
            v27 = v26.to(tl.bfloat16)
            v28 = tl.dot(v27, v4, acc=c0)
            c0 = v28
            c1 = v20
        v29 = c0 * scale
        v30 = v29.to(tl.bfloat16)
        tl.store(grad_k_ptr + head_1_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v30)
        v31 = c1.to(tl.bfloat16)
        tl.store(grad_v_ptr + head_1_begin * 128000 + tile_n_1_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v31)

# region 2, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == grad_q.align)) and (4 == grad_q.shape.0)) and (4000 == grad_q.shape.1)) and (32 == grad_q.shape.2)) and (128000 == grad_q.stride.0)) and (32 == grad_q.stride.1)) and (1 == grad_q.stride.2)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (4000 == n)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_N=32, BLOCK_TILE_M_2=16
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# grad_q_ptr: *bf16 % 16 = grad_q
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
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
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M_2: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 1000, tl.num_programs(0)):
        band = pid // (4 * 4)
        height = tl.minimum(250 - band * 4, 4)
        tile_m_2_begin = (band * 4 + pid % (4 * 4) % height) * BLOCK_TILE_M_2
        tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
        head_2_begin = (pid % (4 * 4) // height)
        head_2_idx = head_2_begin + tl.arange(0, 1)
        v0 = tl.load(q_ptr + head_2_begin * 128000 + tile_m_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v1 = tl.load(grad_out_ptr + head_2_begin * 128000 + tile_m_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], eviction_policy='evict_last')
        v2 = tl.load(lse_ptr + head_2_begin * 4000 + tile_m_2_idx, eviction_policy='evict_last')
        v3 = v2[:, None]
        v4 = tl.load(delta_ptr + head_2_begin * 4000 + tile_m_2_idx, eviction_policy='evict_last')
        v5 = v4[:, None]
        v6 = tl.full([BLOCK_TILE_M_2, 32], 0.0, tl.float32)
        v7 = tile_m_2_begin + BLOCK_TILE_M_2
        c0 = v6
        for tile_n_2_begin in tl.range(0, v7, BLOCK_BLOCK_N):
            tile_n_2_idx = tile_n_2_begin + tl.arange(0, BLOCK_BLOCK_N)
            tile_n_2_mask = tile_n_2_idx < v7
            v8 = tl.load(k_ptr + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0, eviction_policy='evict_last')
            v9 = tl.load(v_ptr + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0, eviction_policy='evict_last')
            v10 = tl.permute(v8, (1, 0))
            v11 = tl.dot(v0, v10)
            v12 = scale * LOG2_E
            v13 = v11 * v12
            v14 = v3 * 1.4426950408889634
            v15 = v13 - v14
            v16 = tl.exp2(v15)
            v17 = tile_m_2_idx[:, None]
            v18 = tile_n_2_idx[None, :]
            v19 = v17 >= v18
            v20 = tl.where(v19, v16, 0.0)
            v21 = tl.permute(v9, (1, 0))
            v22 = tl.dot(v1, v21)
            v23 = v22 - v5
            v24 = v20 * v23
            v25 = v24.to(tl.bfloat16)
            v26 = tl.where(tile_n_2_mask[None, :], v25, 0.0)
            v27 = tl.dot(v26, v8, acc=c0)
            c0 = v27
        v28 = c0 * scale
        v29 = v28.to(tl.bfloat16)
        tl.store(grad_q_ptr + head_2_begin * 128000 + tile_m_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v29)
