# config: block:block_m=128, block:block_n=128, block:tile_m=128, block:tile_m@2=64, block:tile_n@1=64, descending@2=True, load:grad_out#0@1.access=descriptor, load:grad_out#0@2.access=descriptor, load:k#0@1.access=descriptor, load:k#0@2.access=descriptor, load:q#0@1.access=descriptor, load:q#0@2.access=descriptor, load:v#0@1.access=descriptor, load:v#0@2.access=descriptor, store:grad_k#0@1.access=descriptor, store:grad_q#0@2.access=descriptor, store:grad_v#0@1.access=descriptor
# region 0, static
# grid: 128, 1, 1
# guards: (((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == lse.align)) and (4 == lse.shape.0)) and (4000 == lse.shape.1)) and (4000 == lse.stride.0)) and (1 == lse.stride.1)) and (1 == lse2.align)) and (4 == lse2.shape.0)) and (4000 == lse2.shape.1)) and (4000 == lse2.stride.0)) and (1 == lse2.stride.1)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=128
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# lse_ptr: *fp32 % 16 = lse
# lse2_ptr: *fp32 % 16 = lse2
# out_ptr: *bf16 % 16 = out
# LOG2_E: fp32 = LOG2_E
import triton
import triton.language as tl


@triton.jit
def attention_backward_0(
    delta_ptr,
    grad_out_ptr,
    lse_ptr,
    lse2_ptr,
    out_ptr,
    LOG2_E,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = (pid % 32) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    head_begin = (pid // 32)
    head_idx = head_begin + tl.arange(0, 1)
    v0 = tl.load(out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_out_ptr + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    tl.store(delta_ptr + head_begin * 4000 + tile_m_idx, v5, mask=tile_m_mask)
    v6 = tl.load(lse_ptr + head_begin * 4000 + tile_m_idx, mask=tile_m_mask, other=0.0)
    v7 = v6 * LOG2_E
    tl.store(lse2_ptr + head_begin * 4000 + tile_m_idx, v7, mask=tile_m_mask)

# region 1, static
# grid: 252, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_k.align)) and (4 == grad_k.shape.0)) and (4000 == grad_k.shape.1)) and (32 == grad_k.shape.2)) and (128000 == grad_k.stride.0)) and (32 == grad_k.stride.1)) and (1 == grad_k.stride.2)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == grad_v.align)) and (4 == grad_v.shape.0)) and (4000 == grad_v.shape.1)) and (32 == grad_v.shape.2)) and (128000 == grad_v.stride.0)) and (32 == grad_v.stride.1)) and (1 == grad_v.stride.2)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse2.align)) and (4 == lse2.shape.0)) and (4000 == lse2.shape.1)) and (4000 == lse2.stride.0)) and (1 == lse2.stride.1)) and (4000 == m)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_M=128, BLOCK_TILE_N_1=64
# delta_ptr: *fp32 % 16 = delta
# lse2_ptr: *fp32 % 16 = lse2
# k_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = k
# v_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = v
# q_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = q
# grad_out_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = grad_out
# grad_k_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = grad_k
# grad_v_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = grad_v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def attention_backward_1(
    delta_ptr,
    lse2_ptr,
    k_desc_1x64x32,
    v_desc_1x64x32,
    q_desc_1x128x32,
    grad_out_desc_1x128x32,
    grad_k_desc_1x64x32,
    grad_v_desc_1x64x32,
    LOG2_E,
    scale,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_N_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_1_begin = (pid % 63) * BLOCK_TILE_N_1
    tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_TILE_N_1)
    tile_n_1_mask = tile_n_1_idx < 4000
    head_1_begin = (pid // 63)
    head_1_idx = head_1_begin + tl.arange(0, 1)
    v0 = tl.reshape(k_desc_1x64x32.load([head_1_begin, tile_n_1_begin, 0]), [BLOCK_TILE_N_1, 32])
    v1 = tl.reshape(v_desc_1x64x32.load([head_1_begin, tile_n_1_begin, 0]), [BLOCK_TILE_N_1, 32])
    v2 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    v3 = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    c0 = v2
    c1 = v3
    for tile_m_1_begin in tl.range(tile_n_1_begin, 4000, BLOCK_BLOCK_M):
        tile_m_1_idx = tile_m_1_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_1_mask = tile_m_1_idx < 4000
        v4 = tl.reshape(q_desc_1x128x32.load([head_1_begin, tile_m_1_begin, 0]), [BLOCK_BLOCK_M, 32])
        v5 = tl.reshape(grad_out_desc_1x128x32.load([head_1_begin, tile_m_1_begin, 0]), [BLOCK_BLOCK_M, 32])
        v6 = tl.permute(v4, (1, 0))
        v7 = tl.dot(v0, v6)
        v8 = scale * LOG2_E
        v9 = v7 * v8
        v10 = tl.load(lse2_ptr + head_1_begin * 4000 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v11 = v10[None, :]
        v12 = v9 - v11
        v13 = tl.exp2(v12)
        v14 = tl.cast(tile_m_1_begin, tl.int32)
        v15 = tl.minimum(tile_n_1_begin + BLOCK_TILE_N_1, 4000)
        v16 = v14.to(tl.int64)
        v17 = v15.to(tl.int64)
        v18 = v16 < v17
        if v18:
            v19 = tile_m_1_idx[None, :]
            v20 = tile_n_1_idx[:, None]
            v21 = v19 >= v20
            v22 = tl.where(v21, v13, 0.0)
            b0 = v22
        else:
            b0 = v13
        v23 = tl.permute(v5, (1, 0))
        v24 = tl.dot(v1, v23)
        v25 = tl.load(delta_ptr + head_1_begin * 4000 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v26 = v25[None, :]
        v27 = v24 - v26
        v28 = b0 * v27
        v29 = b0.to(tl.bfloat16)
        v30 = tl.where(tile_m_1_mask[None, :], v29, 0.0)
        v31 = tl.dot(v30, v5, acc=c1)
        v32 = v28.to(tl.bfloat16)
        v33 = tl.where(tile_m_1_mask[None, :], v32, 0.0)
        v34 = tl.dot(v33, v4, acc=c0)
        c0 = v34
        c1 = v31
    v35 = c0 * scale
    v36 = v35.to(tl.bfloat16)
    grad_k_desc_1x64x32.store([head_1_begin, tile_n_1_begin, 0], tl.reshape(v36, [1, 64, 32]))
    v37 = c1.to(tl.bfloat16)
    grad_v_desc_1x64x32.store([head_1_begin, tile_n_1_begin, 0], tl.reshape(v37, [1, 64, 32]))

# region 2, static
# grid: 252, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == delta.align)) and (4 == delta.shape.0)) and (4000 == delta.shape.1)) and (4000 == delta.stride.0)) and (1 == delta.stride.1)) and (1 == grad_out.align)) and (4 == grad_out.shape.0)) and (4000 == grad_out.shape.1)) and (32 == grad_out.shape.2)) and (128000 == grad_out.stride.0)) and (32 == grad_out.stride.1)) and (1 == grad_out.stride.2)) and (1 == grad_q.align)) and (4 == grad_q.shape.0)) and (4000 == grad_q.shape.1)) and (32 == grad_q.shape.2)) and (128000 == grad_q.stride.0)) and (32 == grad_q.stride.1)) and (1 == grad_q.stride.2)) and (1 == k.align)) and (4 == k.shape.0)) and (4000 == k.shape.1)) and (32 == k.shape.2)) and (128000 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (1 == lse2.align)) and (4 == lse2.shape.0)) and (4000 == lse2.shape.1)) and (4000 == lse2.stride.0)) and (1 == lse2.stride.1)) and (4000 == n)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (4000 == v.shape.1)) and (32 == v.shape.2)) and (128000 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M_2=64
# delta_ptr: *fp32 % 16 = delta
# k_ptr: *bf16 % 16 = k
# lse2_ptr: *fp32 % 16 = lse2
# v_ptr: *bf16 % 16 = v
# q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = q
# grad_out_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = grad_out
# grad_q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = grad_q
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def attention_backward_2(
    delta_ptr,
    k_ptr,
    lse2_ptr,
    v_ptr,
    q_desc_1x64x32,
    grad_out_desc_1x64x32,
    grad_q_desc_1x64x32,
    LOG2_E,
    scale,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M_2: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_2_begin = (62 - (pid % 63)) * BLOCK_TILE_M_2
    tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
    tile_m_2_mask = tile_m_2_idx < 4000
    head_2_begin = (pid // 63)
    head_2_idx = head_2_begin + tl.arange(0, 1)
    v0 = tl.reshape(q_desc_1x64x32.load([head_2_begin, tile_m_2_begin, 0]), [BLOCK_TILE_M_2, 32])
    v1 = tl.reshape(grad_out_desc_1x64x32.load([head_2_begin, tile_m_2_begin, 0]), [BLOCK_TILE_M_2, 32])
    v2 = tl.load(lse2_ptr + head_2_begin * 4000 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v3 = v2[:, None]
    v4 = tl.load(delta_ptr + head_2_begin * 4000 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    v5 = v4[:, None]
    v6 = tl.full([BLOCK_TILE_M_2, 32], 0.0, tl.float32)
    v7 = tl.minimum(tile_m_2_begin + BLOCK_TILE_M_2, 4000)
    c0 = v6
    for tile_n_2_begin in tl.range(0, v7, BLOCK_BLOCK_N):
        tile_n_2_idx = tile_n_2_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_2_mask = tile_n_2_idx < v7
        v8 = tl.load(k_ptr + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0)
        v9 = tl.load(v_ptr + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0)
        v10 = tl.permute(v8, (1, 0))
        v11 = tl.dot(v0, v10)
        v12 = scale * LOG2_E
        v13 = v11 * v12
        v14 = v13 - v3
        v15 = tl.exp2(v14)
        v16 = tl.minimum(tl.cast(tile_n_2_begin, tl.int32) + BLOCK_BLOCK_N, v7)
        v17 = v16.to(tl.int64)
        v18 = tile_m_2_begin.to(tl.int64)
        v19 = v17 > v18
        if v19:
            v20 = tile_m_2_idx[:, None]
            v21 = tile_n_2_idx[None, :]
            v22 = v20 >= v21
            v23 = tl.where(v22, v15, 0.0)
            b0 = v23
        else:
            b0 = v15
        v24 = tl.permute(v9, (1, 0))
        v25 = tl.dot(v1, v24)
        v26 = v25 - v5
        v27 = b0 * v26
        v28 = v27.to(tl.bfloat16)
        v29 = tl.where(tile_n_2_mask[None, :], v28, 0.0)
        v30 = tl.dot(v29, v8, acc=c0)
        c0 = v30
    v31 = c0 * scale
    v32 = v31.to(tl.bfloat16)
    grad_q_desc_1x64x32.store([head_2_begin, tile_m_2_begin, 0], tl.reshape(v32, [1, 64, 32]))
