# config: block:block_m=128, block:block_n=128, block:tile_m=128, block:tile_m@2=64, block:tile_n@1=64, descending@2=True, load:grad_out#0@1.access=descriptor, load:grad_out#0@2.access=descriptor, load:k#0@1.access=descriptor, load:k#0@2.access=descriptor, load:q#0@1.access=descriptor, load:q#0@2.access=descriptor, load:v#0@1.access=descriptor, load:v#0@2.access=descriptor, loop:tile_m@1@1.full_blocks=True, loop:tile_n@2@2.full_blocks=True, order@1=0,3,1,2, order@2=0,3,1,2, store:grad_k#0@1.access=descriptor, store:grad_q#0@2.access=descriptor, store:grad_v#0@1.access=descriptor
# region 0, static
# grid: 128, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (1 == delta.align)) and (2 == delta.shape.0)) and (2 == delta.shape.1)) and (1 == delta.shape.2)) and (4000 == delta.shape.3)) and (8000 == delta.stride.0)) and (4000 == delta.stride.1)) and (1 == delta.stride.3)) and (1 == grad_out.align)) and (2 == grad_out.shape.0)) and (2 == grad_out.shape.1)) and (1 == grad_out.shape.2)) and (4000 == grad_out.shape.3)) and (32 == grad_out.shape.4)) and (256000 == grad_out.stride.0)) and (128000 == grad_out.stride.1)) and (32 == grad_out.stride.3)) and (1 == grad_out.stride.4)) and (1 == lse.align)) and (2 == lse.shape.0)) and (2 == lse.shape.1)) and (1 == lse.shape.2)) and (4000 == lse.shape.3)) and (8000 == lse.stride.0)) and (4000 == lse.stride.1)) and (1 == lse.stride.3)) and (1 == lse2.align)) and (2 == lse2.shape.0)) and (2 == lse2.shape.1)) and (1 == lse2.shape.2)) and (4000 == lse2.shape.3)) and (8000 == lse2.stride.0)) and (4000 == lse2.stride.1)) and (1 == lse2.stride.3)) and (1 == out.align)) and (2 == out.shape.0)) and (2 == out.shape.1)) and (1 == out.shape.2)) and (4000 == out.shape.3)) and (32 == out.shape.4)) and (256000 == out.stride.0)) and (128000 == out.stride.1)) and (32 == out.stride.3)) and (1 == out.stride.4))
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


# examples.attention:attention_backward (flash.py:151), launch 0, static sizes
#   block:tile_m=128
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
    # for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_m_begin = (pid % tile_m_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    member_begin = ((pid // tile_m_count) % 1)
    member_idx = member_begin + tl.arange(0, 1)
    head_begin = (((pid // tile_m_count) // 1) % 2)
    head_idx = head_begin + tl.arange(0, 1)
    row_begin = ((((pid // tile_m_count) // 1) // 2))
    row_idx = row_begin + tl.arange(0, 1)
    # delta[*at, tile_m] = (out[*at, tile_m, :].float() * grad_out[*at, tile_m, :]).sum(dim=1)
    v0 = tl.load(out_ptr + row_begin * 256000 + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_out_ptr + row_begin * 256000 + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    tl.store(delta_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v5, mask=tile_m_mask)
    # lse2[*at, tile_m] = lse[*at, tile_m] * LOG2_E
    v6 = tl.load(lse_ptr + row_begin * 8000 + head_begin * 4000 + tile_m_idx, mask=tile_m_mask, other=0.0)
    v7 = v6 * LOG2_E
    tl.store(lse2_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v7, mask=tile_m_mask)

# region 1, static
# grid: 252, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == delta.align)) and (2 == delta.shape.0)) and (2 == delta.shape.1)) and (1 == delta.shape.2)) and (4000 == delta.shape.3)) and (8000 == delta.stride.0)) and (4000 == delta.stride.1)) and (1 == delta.stride.3)) and (1 == grad_k.align)) and (2 == grad_k.shape.0)) and (2 == grad_k.shape.1)) and (1 == grad_k.shape.2)) and (4000 == grad_k.shape.3)) and (32 == grad_k.shape.4)) and (256000 == grad_k.stride.0)) and (128000 == grad_k.stride.1)) and (32 == grad_k.stride.3)) and (1 == grad_k.stride.4)) and (1 == grad_out.align)) and (2 == grad_out.shape.0)) and (2 == grad_out.shape.1)) and (1 == grad_out.shape.2)) and (4000 == grad_out.shape.3)) and (32 == grad_out.shape.4)) and (256000 == grad_out.stride.0)) and (128000 == grad_out.stride.1)) and (32 == grad_out.stride.3)) and (1 == grad_out.stride.4)) and (1 == grad_v.align)) and (2 == grad_v.shape.0)) and (2 == grad_v.shape.1)) and (1 == grad_v.shape.2)) and (4000 == grad_v.shape.3)) and (32 == grad_v.shape.4)) and (((((((((((((((((((((((((((((((((((((((((((256000 == grad_v.stride.0) and (128000 == grad_v.stride.1)) and (32 == grad_v.stride.3)) and (1 == grad_v.stride.4)) and (1 == k.align)) and (2 == k.shape.0)) and (2 == k.shape.1)) and (1 == k.shape.2)) and (4000 == k.shape.3)) and (32 == k.shape.4)) and (256000 == k.stride.0)) and (128000 == k.stride.1)) and (32 == k.stride.3)) and (1 == k.stride.4)) and (1 == lse2.align)) and (2 == lse2.shape.0)) and (2 == lse2.shape.1)) and (1 == lse2.shape.2)) and (4000 == lse2.shape.3)) and (8000 == lse2.stride.0)) and (4000 == lse2.stride.1)) and (1 == lse2.stride.3)) and (4000 == m)) and (1 == q.align)) and (2 == q.shape.0)) and (2 == q.shape.1)) and (1 == q.shape.2)) and (4000 == q.shape.3)) and (32 == q.shape.4)) and (256000 == q.stride.0)) and (128000 == q.stride.1)) and (32 == q.stride.3)) and (1 == q.stride.4)) and (1 == v.align)) and (2 == v.shape.0)) and (2 == v.shape.1)) and (1 == v.shape.2)) and (4000 == v.shape.3)) and (32 == v.shape.4)) and (256000 == v.stride.0)) and (128000 == v.stride.1)) and (32 == v.stride.3)) and (1 == v.stride.4)))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_M=128, BLOCK_TILE_N_1=64
# delta_ptr: *fp32 % 16 = delta
# lse2_ptr: *fp32 % 16 = lse2
# k_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = k
# v_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = v
# q_desc_1x1x1x128x32: tensordesc<bf16[1, 1, 1, 128, 32]> = q
# grad_out_desc_1x1x1x128x32: tensordesc<bf16[1, 1, 1, 128, 32]> = grad_out
# grad_k_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_k
# grad_v_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_v
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _keep_branch():
    zero = tl.full([], 0, tl.int32)
    if not INTERPRETED:
        zero = tl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)
    return zero


# examples.attention:attention_backward (flash.py:151), launch 1, static sizes
#   block:block_m=128, block:tile_n@1=64, load:grad_out#0@1.access=descriptor,
#   load:k#0@1.access=descriptor, load:q#0@1.access=descriptor, load:v#0@1.access=descriptor,
#   loop:tile_m@1@1.full_blocks=True, order@1=0,3,1,2, store:grad_k#0@1.access=descriptor,
#   store:grad_v#0@1.access=descriptor
@triton.jit
def attention_backward_1(
    delta_ptr,
    lse2_ptr,
    k_desc_1x1x1x64x32,
    v_desc_1x1x1x64x32,
    q_desc_1x1x1x128x32,
    grad_out_desc_1x1x1x128x32,
    grad_k_desc_1x1x1x64x32,
    grad_v_desc_1x1x1x64x32,
    LOG2_E,
    scale,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_N_1: tl.constexpr,
):
    # for row, head, member, tile_n in tfl.tile([*sizes, n], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    member_1_begin = (pid % 1)
    member_1_idx = member_1_begin + tl.arange(0, 1)
    head_1_begin = ((pid // 1) % 2)
    head_1_idx = head_1_begin + tl.arange(0, 1)
    tile_n_1_count: tl.constexpr = (4000 + BLOCK_TILE_N_1 - 1) // BLOCK_TILE_N_1
    tile_n_1_begin = (((pid // 1) // 2) % tile_n_1_count) * BLOCK_TILE_N_1
    tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_TILE_N_1)
    tile_n_1_mask = tile_n_1_idx < 4000
    row_1_begin = ((((pid // 1) // 2) // tile_n_1_count))
    row_1_idx = row_1_begin + tl.arange(0, 1)
    # key, value = k[*keys, tile_n, :], v[*keys, tile_n, :]
    key = tl.reshape(k_desc_1x1x1x64x32.load([row_1_begin, head_1_begin, 0, tile_n_1_begin, 0]), [BLOCK_TILE_N_1, 32])
    value = tl.reshape(v_desc_1x1x1x64x32.load([row_1_begin, head_1_begin, 0, tile_n_1_begin, 0]), [BLOCK_TILE_N_1, 32])
    # sum_k, sum_v = tfl.zeros([tile_n, d]), tfl.zeros([tile_n, d])
    sum_k_start = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    sum_v_start = tl.full([BLOCK_TILE_N_1, 32], 0.0, tl.float32)
    # for tile_m in tfl.tile(tile_n.begin if causal else 0, m, block_size=block_m):
    sum_k = sum_k_start
    sum_v = sum_v_start
    for tile_m_1_begin in tl.range(tile_n_1_begin, 4000, BLOCK_BLOCK_M):
        tile_m_1_idx = tile_m_1_begin + tl.arange(0, BLOCK_BLOCK_M)
        tile_m_1_mask = tile_m_1_idx < 4000
        # query, grad = q[*at, tile_m, :], grad_out[*at, tile_m, :]
        query = tl.reshape(q_desc_1x1x1x128x32.load([row_1_begin, head_1_begin, 0, tile_m_1_begin, 0]), [BLOCK_BLOCK_M, 32])
        grad = tl.reshape(grad_out_desc_1x1x1x128x32.load([row_1_begin, head_1_begin, 0, tile_m_1_begin, 0]), [BLOCK_BLOCK_M, 32])
        # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
        v0 = tl.permute(query, (1, 0))
        v1 = tl.dot(key, v0)
        v2 = scale * LOG2_E
        scores = v1 * v2
        # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
        v3 = tl.load(lse2_ptr + row_1_begin * 8000 + head_1_begin * 4000 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v4 = v3[None, :]
        v5 = scores - v4
        weights = tl.exp2(v5)
        # if causal and tile_m.begin < tile_n.end:
        v6 = tl.cast(tile_m_1_begin, tl.int32)
        v7 = tl.minimum(tile_n_1_begin + BLOCK_TILE_N_1, 4000)
        v8 = v6.to(tl.int64)
        v9 = v7.to(tl.int64)
        v10 = v8 < v9
        if v10:
            _keep_branch()
            # weights = torch.where(tile_m.index[None, :] >= tile_n.index[:, None], weights, 0.0)
            v11 = tile_m_1_idx[None, :]
            v12 = tile_n_1_idx[:, None]
            v13 = v11 >= v12
            weights_2 = tl.where(v13, weights, 0.0)
            weights_1 = weights_2
        else:
            weights_1 = weights
        # inner = weights * (tfl.dot(value, grad.T) - delta[*at, tile_m][None, :])
        v14 = tl.permute(grad, (1, 0))
        v15 = tl.dot(value, v14)
        v16 = tl.load(delta_ptr + row_1_begin * 8000 + head_1_begin * 4000 + tile_m_1_idx, mask=tile_m_1_mask, other=0.0)
        v17 = v16[None, :]
        v18 = v15 - v17
        inner = weights_1 * v18
        # sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
        v19 = weights_1.to(tl.bfloat16)
        if tile_m_1_begin + BLOCK_BLOCK_M > 4000:
            v20 = tl.where((tile_m_1_begin + _keep_branch() + tl.arange(0, BLOCK_BLOCK_M) < 4000)[None, :], v19, 0.0)
        else:
            v20 = v19
        sum_v_next = tl.dot(v20, grad, acc=sum_v)
        # sum_k = tfl.dot(inner.to(query.dtype), query, acc=sum_k)
        v21 = inner.to(tl.bfloat16)
        if tile_m_1_begin + BLOCK_BLOCK_M > 4000:
            v22 = tl.where((tile_m_1_begin + _keep_branch() + tl.arange(0, BLOCK_BLOCK_M) < 4000)[None, :], v21, 0.0)
        else:
            v22 = v21
        sum_k_next = tl.dot(v22, query, acc=sum_k)
        sum_k = sum_k_next
        sum_v = sum_v_next
    # grad_k[*at, tile_n, :] = sum_k * scale
    v23 = sum_k * scale
    v24 = v23.to(tl.bfloat16)
    grad_k_desc_1x1x1x64x32.store([row_1_begin, head_1_begin, member_1_begin, tile_n_1_begin, 0], tl.reshape(v24, [1, 1, 1, BLOCK_TILE_N_1, 32]))
    # grad_v[*at, tile_n, :] = sum_v
    v25 = sum_v.to(tl.bfloat16)
    grad_v_desc_1x1x1x64x32.store([row_1_begin, head_1_begin, member_1_begin, tile_n_1_begin, 0], tl.reshape(v25, [1, 1, 1, BLOCK_TILE_N_1, 32]))

# region 2, static
# grid: 252, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == delta.align)) and (2 == delta.shape.0)) and (2 == delta.shape.1)) and (1 == delta.shape.2)) and (4000 == delta.shape.3)) and (8000 == delta.stride.0)) and (4000 == delta.stride.1)) and (1 == delta.stride.3)) and (1 == grad_out.align)) and (2 == grad_out.shape.0)) and (2 == grad_out.shape.1)) and (1 == grad_out.shape.2)) and (4000 == grad_out.shape.3)) and (32 == grad_out.shape.4)) and (256000 == grad_out.stride.0)) and (128000 == grad_out.stride.1)) and (32 == grad_out.stride.3)) and (1 == grad_out.stride.4)) and (1 == grad_q.align)) and (2 == grad_q.shape.0)) and (2 == grad_q.shape.1)) and (1 == grad_q.shape.2)) and (4000 == grad_q.shape.3)) and (32 == grad_q.shape.4)) and (256000 == grad_q.stride.0)) and (128000 == grad_q.stride.1)) and (32 == grad_q.stride.3)) and (1 == grad_q.stride.4)) and (1 == k.align)) and ((((((((((((((((((((((((((((((((((((((2 == k.shape.0) and (2 == k.shape.1)) and (1 == k.shape.2)) and (4000 == k.shape.3)) and (32 == k.shape.4)) and (256000 == k.stride.0)) and (128000 == k.stride.1)) and (32 == k.stride.3)) and (1 == k.stride.4)) and (1 == lse2.align)) and (2 == lse2.shape.0)) and (2 == lse2.shape.1)) and (1 == lse2.shape.2)) and (4000 == lse2.shape.3)) and (8000 == lse2.stride.0)) and (4000 == lse2.stride.1)) and (1 == lse2.stride.3)) and (4000 == n)) and (1 == q.align)) and (2 == q.shape.0)) and (2 == q.shape.1)) and (1 == q.shape.2)) and (4000 == q.shape.3)) and (32 == q.shape.4)) and (256000 == q.stride.0)) and (128000 == q.stride.1)) and (32 == q.stride.3)) and (1 == q.stride.4)) and (1 == v.align)) and (2 == v.shape.0)) and (2 == v.shape.1)) and (1 == v.shape.2)) and (4000 == v.shape.3)) and (32 == v.shape.4)) and (256000 == v.stride.0)) and (128000 == v.stride.1)) and (32 == v.stride.3)) and (1 == v.stride.4)))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_BLOCK_N=128, BLOCK_TILE_M_2=64
# delta_ptr: *fp32 % 16 = delta
# k_ptr: *bf16 % 16 = k
# lse2_ptr: *fp32 % 16 = lse2
# v_ptr: *bf16 % 16 = v
# q_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = q
# grad_out_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_out
# grad_q_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_q
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _keep_branch():
    zero = tl.full([], 0, tl.int32)
    if not INTERPRETED:
        zero = tl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)
    return zero


# examples.attention:attention_backward (flash.py:151), launch 2, static sizes
#   block:block_n=128, block:tile_m@2=64, descending@2=True, load:grad_out#0@2.access=descriptor,
#   load:k#0@2.access=descriptor, load:q#0@2.access=descriptor, load:v#0@2.access=descriptor,
#   loop:tile_n@2@2.full_blocks=True, order@2=0,3,1,2, store:grad_q#0@2.access=descriptor
@triton.jit
def attention_backward_2(
    delta_ptr,
    k_ptr,
    lse2_ptr,
    v_ptr,
    q_desc_1x1x1x64x32,
    grad_out_desc_1x1x1x64x32,
    grad_q_desc_1x1x1x64x32,
    LOG2_E,
    scale,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M_2: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    member_2_begin = (pid % 1)
    member_2_idx = member_2_begin + tl.arange(0, 1)
    head_2_begin = ((pid // 1) % 2)
    head_2_idx = head_2_begin + tl.arange(0, 1)
    tile_m_2_count: tl.constexpr = (4000 + BLOCK_TILE_M_2 - 1) // BLOCK_TILE_M_2
    tile_m_2_begin = ((tile_m_2_count - 1) - (((pid // 1) // 2) % tile_m_2_count)) * BLOCK_TILE_M_2
    tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
    tile_m_2_mask = tile_m_2_idx < 4000
    row_2_begin = ((((pid // 1) // 2) // tile_m_2_count))
    row_2_idx = row_2_begin + tl.arange(0, 1)
    # query, grad = q[*at, tile_m, :], grad_out[*at, tile_m, :]
    query = tl.reshape(q_desc_1x1x1x64x32.load([row_2_begin, head_2_begin, 0, tile_m_2_begin, 0]), [BLOCK_TILE_M_2, 32])
    grad = tl.reshape(grad_out_desc_1x1x1x64x32.load([row_2_begin, head_2_begin, 0, tile_m_2_begin, 0]), [BLOCK_TILE_M_2, 32])
    # row_lse, row_delta = lse2[*at, tile_m][:, None], delta[*at, tile_m][:, None]
    v0 = tl.load(lse2_ptr + row_2_begin * 8000 + head_2_begin * 4000 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    row_lse = v0[:, None]
    v1 = tl.load(delta_ptr + row_2_begin * 8000 + head_2_begin * 4000 + tile_m_2_idx, mask=tile_m_2_mask, other=0.0)
    row_delta = v1[:, None]
    # sum_q = tfl.zeros([tile_m, d])
    sum_q_start = tl.full([BLOCK_TILE_M_2, 32], 0.0, tl.float32)
    # for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
    v2 = tl.minimum(tile_m_2_begin + BLOCK_TILE_M_2, 4000)
    sum_q = sum_q_start
    for tile_n_2_begin in tl.range(0, v2, BLOCK_BLOCK_N):
        tile_n_2_idx = tile_n_2_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_2_mask = tile_n_2_idx < v2
        # key, value = k[*keys, tile_n, :], v[*keys, tile_n, :]
        key = tl.load(k_ptr + row_2_begin * 256000 + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0)
        value = tl.load(v_ptr + row_2_begin * 256000 + head_2_begin * 128000 + tile_n_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_2_mask[:, None], other=0.0)
        # weights = torch.exp2(tfl.dot(query, key.T) * (scale * LOG2_E) - row_lse)
        v3 = tl.permute(key, (1, 0))
        v4 = tl.dot(query, v3)
        v5 = scale * LOG2_E
        v6 = v4 * v5
        v7 = v6 - row_lse
        weights = tl.exp2(v7)
        # if causal and tile_n.end > tile_m.begin:
        v8 = tl.minimum(tl.cast(tile_n_2_begin, tl.int32) + BLOCK_BLOCK_N, v2)
        v9 = v8.to(tl.int64)
        v10 = tile_m_2_begin.to(tl.int64)
        v11 = v9 > v10
        if v11:
            _keep_branch()
            # weights = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], weights, 0.0)
            v12 = tile_m_2_idx[:, None]
            v13 = tile_n_2_idx[None, :]
            v14 = v12 >= v13
            weights_2 = tl.where(v14, weights, 0.0)
            weights_1 = weights_2
        else:
            weights_1 = weights
        # inner = weights * (tfl.dot(grad, value.T) - row_delta)
        v15 = tl.permute(value, (1, 0))
        v16 = tl.dot(grad, v15)
        v17 = v16 - row_delta
        inner = weights_1 * v17
        # sum_q = tfl.dot(inner.to(key.dtype), key, acc=sum_q)
        v18 = inner.to(tl.bfloat16)
        if tile_n_2_begin + BLOCK_BLOCK_N > v2:
            v19 = tl.where((tile_n_2_begin + _keep_branch() + tl.arange(0, BLOCK_BLOCK_N) < v2)[None, :], v18, 0.0)
        else:
            v19 = v18
        sum_q_next = tl.dot(v19, key, acc=sum_q)
        sum_q = sum_q_next
    # grad_q[*at, tile_m, :] = sum_q * scale
    v20 = sum_q * scale
    v21 = v20.to(tl.bfloat16)
    grad_q_desc_1x1x1x64x32.store([row_2_begin, head_2_begin, member_2_begin, tile_m_2_begin, 0], tl.reshape(v21, [1, 1, 1, BLOCK_TILE_M_2, 32]))
