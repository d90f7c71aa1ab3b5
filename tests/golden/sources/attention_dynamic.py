# config: block:block_n=64, block:tile_m=64, descending=True, load:k#0.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, num_stages=3, order=0,3,1,2, store:out#0.access=descriptor
# region 0, dynamic
# grid: ((-(-end.3 // 64)) * end.0 * end.1 * end.2), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (0 == begin.2)) and (end.2 <= 2147483647)) and (0 == begin.3)) and (end.3 <= 2147483647)) and (1 == causal)) and (1 == k.align)) and (1 == k.stride.3)) and (1 == lse.align)) and (1 == lse.shape.2)) and (1 == lse.stride.3)) and (1 == out.align)) and (1 == out.shape.2)) and (1 == out.stride.4)) and (1 == q.align)) and (1 == q.shape.2)) and (1 == q.stride.4)) and (1 == v.align)) and (1 == v.stride.3)) and (1 == with_lse)) and ((end.0 + -1) <= 2147483647)) and (-2147483647 <= (end.0 + -1))) and (end.0 <= q.shape.0)) and ((end.1 + -1) <= 2147483647)) and (-2147483647 <= (end.1 + -1))) and (end.1 <= q.shape.1)) and ((end.2 + -1) <= 2147483647)) and (-2147483647 <= (end.2 + -1))) and (end.3 <= q.shape.3)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.1)) and (end.3 <= k.shape.2)) and (k.shape.3 == q.shape.4)) and (end.0 <= v.shape.0)) and (end.1 <= v.shape.1)) and (end.3 <= v.shape.2)) and (d == v.shape.3)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (end.2 <= 1)) and (end.3 <= out.shape.3)) and (out.shape.4 == v.shape.3)) and (end.0 <= lse.shape.0)) and (end.1 <= lse.shape.1)) and ((((((((((((((((((((((((((((((((((((((((((((((((end.3 <= lse.shape.3) and (end.2 <= 2147483646)) and (end.1 <= 2147483646)) and (((-(-end.3 // 64)) + -1) <= 2147483647)) and (end.3 <= 2147483583)) and (end.0 <= 2147483646)) and (k.shape.3 <= 32)) and (1 <= q.shape.0)) and (1 <= q.shape.1)) and (1 <= q.shape.3)) and (1 <= q.shape.4)) and (0 == ((2 * q.stride.0) % 16))) and (0 == ((2 * q.stride.1) % 16))) and (0 == ((2 * q.stride.3) % 16))) and (end.3 == q.shape.3)) and (out.shape.4 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (-1 * k.stride.2) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + (k.shape.2 * k.stride.2) + k.shape.3 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (-1 * v.stride.2) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + (v.shape.2 * v.stride.2) + v.shape.3 + -1) <= 2147483647)) and (1 <= out.shape.0)) and (1 <= out.shape.1)) and (1 <= out.shape.3)) and (1 <= out.shape.4)) and (0 == ((2 * out.stride.0) % 16))) and (0 == ((2 * out.stride.1) % 16))) and (0 == ((2 * out.stride.3) % 16))) and (end.3 == out.shape.3)) and (((-1 * lse.stride.0) + (-1 * lse.stride.1) + (lse.shape.0 * lse.stride.0) + (lse.shape.1 * lse.stride.1) + lse.shape.3 + -1) <= 2147483647)) and (0 == (end.3 % 16))) and (0 == (k.shape.3 % 16))) and (k.shape.3 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (k.stride.2 % 16))) and (k.stride.2 <= 2147483647)) and (0 == (lse.stride.0 % 16))) and (lse.stride.0 <= 2147483647)) and (0 == (lse.stride.1 % 16))) and (lse.stride.1 <= 2147483647)) and (0 == (out.shape.4 % 16))) and (out.shape.4 <= 2147483647)) and (0 == (v.stride.0 % 16))) and (v.stride.0 <= 2147483647)) and (0 == (v.stride.1 % 16))) and (v.stride.1 <= 2147483647)) and (0 == (v.stride.2 % 16))) and (v.stride.2 <= 2147483647)))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=64, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# v_ptr: *bf16 % 16 = v
# q_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = q
# out_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = out
# end_0: i32 = end.0
# end_1: i32 = end.1
# end_2: i32 = end.2
# end_3: i32 % 16 = end.3
# k_shape_3: i32 % 16 = k.shape.3
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# k_stride_2: i32 % 16 = k.stride.2
# lse_stride_0: i32 % 16 = lse.stride.0
# lse_stride_1: i32 % 16 = lse.stride.1
# out_shape_4: i32 % 16 = out.shape.4
# v_stride_0: i32 % 16 = v.stride.0
# v_stride_1: i32 % 16 = v.stride.1
# v_stride_2: i32 % 16 = v.stride.2
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.attention:attention (flash.py:80), launch 0, run-time sizes
#   block:block_n=64, block:tile_m=64, descending=True, load:k#0.access=descriptor,
#   load:q#0.access=descriptor, load:v#0.access=descriptor, num_stages=3, order=0,3,1,2,
#   store:out#0.access=descriptor
@triton.jit
def attention_0(
    k_ptr,
    lse_ptr,
    v_ptr,
    q_desc_1x1x1x64x32,
    out_desc_1x1x1x64x32,
    end_0,
    end_1,
    end_2,
    end_3,
    k_shape_3,
    k_stride_0,
    k_stride_1,
    k_stride_2,
    lse_stride_0,
    lse_stride_1,
    out_shape_4,
    v_stride_0,
    v_stride_1,
    v_stride_2,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([batch, key_heads, group, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    member_begin = (pid % end_2)
    member_idx = member_begin + tl.arange(0, 1)
    member_mask = member_idx < end_2
    head_begin = ((pid // end_2) % end_1)
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_1
    tile_m_begin = ((tl.cdiv(end_3, BLOCK_TILE_M) + -1) - (((pid // end_2) // end_1) % tl.cdiv(end_3, BLOCK_TILE_M))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_3
    row_begin = ((((pid // end_2) // end_1) // tl.cdiv(end_3, BLOCK_TILE_M)))
    row_idx = row_begin + tl.arange(0, 1)
    row_mask = row_idx < end_0
    # scale = 1 / (math.log(2) * math.sqrt(k.size(3)))  # here a constant, where sizes are
    v0 = tl.cast(k_shape_3, tl.float32)
    v1 = tl.sqrt_rn(v0)
    v2 = 0.6931471805599453 * v1
    scale = 1.0 / v2
    # query = q[*at, tile_m, :]
    query = tl.reshape(q_desc_1x1x1x64x32.load([row_begin, head_begin, 0, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    # peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
    peak_start = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    total_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # acc = tfl.zeros([tile_m, d])
    acc = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    # for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
    v3 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_3)
    v4 = tl.broadcast_to(acc, [BLOCK_TILE_M, 32])
    acc_1 = v4
    peak = peak_start
    total = total_start
    for tile_n_begin in tl.range(0, v3, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < v3
        # scores = tfl.dot(query, k[*keys, tile_n, :].T)
        v5 = tl.load(k_ptr + row_begin * k_stride_0 + head_begin * k_stride_1 + tile_n_idx[:, None] * k_stride_2 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_3)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        scores = tl.dot(query, v6)
        # if causal and tile_n.end > tile_m.begin:
        v7 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v3)
        v8 = v7.to(tl.int64)
        v9 = tile_m_begin.to(tl.int64)
        v10 = v8 > v9
        if v10:
            # scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, float("-inf"))
            v11 = tile_m_idx[:, None]
            v12 = tile_n_idx[None, :]
            v13 = v11 >= v12
            scores_2 = tl.where(v13, scores, float('-inf'))
            scores_1 = scores_2
        else:
            scores_1 = scores
        # peak, total, acc = absorb(peak, total, acc, scores, v[*keys, tile_n, :], scale)
        v14 = tl.load(v_ptr + row_begin * v_stride_0 + head_begin * v_stride_1 + tile_n_idx[:, None] * v_stride_2 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_4)[None, :], other=0.0)
        # new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
        v15 = tl.reduce(scores_1, 1, _maximum)
        v16 = v15 * scale
        new_peak = tl.maximum(peak, v16, propagate_nan=tl.PropagateNan.ALL)
        # weights = torch.exp2(scores * scale - new_peak[:, None])
        v17 = scores_1 * scale
        v18 = new_peak[:, None]
        v19 = v17 - v18
        weights = tl.exp2(v19)
        # shrink = torch.exp2(peak - new_peak)
        v20 = peak - new_peak
        shrink = tl.exp2(v20)
        # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
        v21 = weights.to(tl.bfloat16)
        v22 = shrink[:, None]
        v23 = acc_1 * v22
        acc_next = tl.dot(v21, v14, acc=v23)
        # return new_peak, total * shrink + weights.sum(dim=1), acc
        v24 = total * shrink
        v25 = tl.sum(weights, axis=1)
        total_next = v24 + v25
        acc_1 = acc_next
        peak = new_peak
        total = total_next
    # out[*at, tile_m, :] = acc / total[:, None]
    v26 = total[:, None]
    v27 = acc_1 / v26
    v28 = tl.broadcast_to(v27, [BLOCK_TILE_M, 32])
    v29 = v28.to(tl.bfloat16)
    out_desc_1x1x1x64x32.store([row_begin, head_begin, member_begin, tile_m_begin, 0], tl.reshape(v29, [1, 1, 1, BLOCK_TILE_M, 32]))
    # lse[*at, tile_m] = (peak + torch.log2(total)) * math.log(2)
    v30 = tl.log2(total)
    v31 = peak + v30
    v32 = v31 * 0.6931471805599453
    tl.store(lse_ptr + row_begin * lse_stride_0 + head_begin * lse_stride_1 + member_begin * 4000 + tile_m_idx, v32, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.3 // 64)) * end.0 * end.1 * end.2), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (0 == begin.2)) and (end.2 <= 2147483647)) and (0 == begin.3)) and (end.3 <= 2147483647)) and (1 == causal)) and (1 == k.align)) and (1 == k.stride.3)) and (1 == lse.align)) and (1 == lse.shape.2)) and (1 == lse.stride.3)) and (1 == out.align)) and (1 == out.shape.2)) and (1 == out.stride.4)) and (1 == q.align)) and (1 == q.shape.2)) and (1 == q.stride.4)) and (1 == v.align)) and (1 == v.stride.3)) and (1 == with_lse)) and ((end.0 + -1) <= 2147483647)) and (-2147483647 <= (end.0 + -1))) and (end.0 <= q.shape.0)) and ((end.1 + -1) <= 2147483647)) and (-2147483647 <= (end.1 + -1))) and (end.1 <= q.shape.1)) and ((end.2 + -1) <= 2147483647)) and (-2147483647 <= (end.2 + -1))) and (end.3 <= q.shape.3)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.1)) and (end.3 <= k.shape.2)) and (k.shape.3 == q.shape.4)) and (end.0 <= v.shape.0)) and (end.1 <= v.shape.1)) and ((((((((((((((((((((((((((((((((((((((end.3 <= v.shape.2) and (d == v.shape.3)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (end.2 <= 1)) and (end.3 <= out.shape.3)) and (out.shape.4 == v.shape.3)) and (end.0 <= lse.shape.0)) and (end.1 <= lse.shape.1)) and (end.3 <= lse.shape.3)) and (end.2 <= 2147483646)) and (end.1 <= 2147483646)) and (((-(-end.3 // 64)) + -1) <= 2147483647)) and (end.3 <= 2147483583)) and (end.0 <= 2147483646)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (-1 * q.stride.3) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + (q.shape.3 * q.stride.3) + q.shape.4 + -1) <= 2147483647)) and (k.shape.3 <= 32)) and (out.shape.4 <= 32)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (-1 * k.stride.2) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + (k.shape.2 * k.stride.2) + k.shape.3 + -1) <= 2147483647)) and (((-1 * v.stride.0) + (-1 * v.stride.1) + (-1 * v.stride.2) + (v.shape.0 * v.stride.0) + (v.shape.1 * v.stride.1) + (v.shape.2 * v.stride.2) + v.shape.3 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (-1 * out.stride.1) + (-1 * out.stride.3) + (out.shape.0 * out.stride.0) + (out.shape.1 * out.stride.1) + (out.shape.3 * out.stride.3) + out.shape.4 + -1) <= 2147483647)) and (((-1 * lse.stride.0) + (-1 * lse.stride.1) + (lse.shape.0 * lse.stride.0) + (lse.shape.1 * lse.stride.1) + lse.shape.3 + -1) <= 2147483647)) and (k.shape.3 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (k.stride.2 <= 2147483647)) and (lse.stride.0 <= 2147483647)) and (lse.stride.1 <= 2147483647)) and (out.shape.4 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (out.stride.1 <= 2147483647)) and (out.stride.3 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (q.stride.3 <= 2147483647)) and (v.stride.0 <= 2147483647)) and (v.stride.1 <= 2147483647)) and (v.stride.2 <= 2147483647)))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=64, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# out_ptr: *bf16 % 16 = out
# q_ptr: *bf16 % 16 = q
# v_ptr: *bf16 % 16 = v
# end_0: i32 = end.0
# end_1: i32 = end.1
# end_2: i32 = end.2
# end_3: i32 = end.3
# k_shape_3: i32 = k.shape.3
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# k_stride_2: i32 = k.stride.2
# lse_stride_0: i32 = lse.stride.0
# lse_stride_1: i32 = lse.stride.1
# out_shape_4: i32 = out.shape.4
# out_stride_0: i32 = out.stride.0
# out_stride_1: i32 = out.stride.1
# out_stride_3: i32 = out.stride.3
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# q_stride_3: i32 = q.stride.3
# v_stride_0: i32 = v.stride.0
# v_stride_1: i32 = v.stride.1
# v_stride_2: i32 = v.stride.2
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.attention:attention (flash.py:80), launch 0, run-time sizes
#   block:block_n=64, block:tile_m=64, descending=True, load:k#0.access=descriptor,
#   load:q#0.access=descriptor, load:v#0.access=descriptor, num_stages=3, order=0,3,1,2,
#   store:out#0.access=descriptor
@triton.jit
def attention_0(
    k_ptr,
    lse_ptr,
    out_ptr,
    q_ptr,
    v_ptr,
    end_0,
    end_1,
    end_2,
    end_3,
    k_shape_3,
    k_stride_0,
    k_stride_1,
    k_stride_2,
    lse_stride_0,
    lse_stride_1,
    out_shape_4,
    out_stride_0,
    out_stride_1,
    out_stride_3,
    q_stride_0,
    q_stride_1,
    q_stride_3,
    v_stride_0,
    v_stride_1,
    v_stride_2,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([batch, key_heads, group, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    member_begin = (pid % end_2)
    member_idx = member_begin + tl.arange(0, 1)
    member_mask = member_idx < end_2
    head_begin = ((pid // end_2) % end_1)
    head_idx = head_begin + tl.arange(0, 1)
    head_mask = head_idx < end_1
    tile_m_begin = ((tl.cdiv(end_3, BLOCK_TILE_M) + -1) - (((pid // end_2) // end_1) % tl.cdiv(end_3, BLOCK_TILE_M))) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_3
    row_begin = ((((pid // end_2) // end_1) // tl.cdiv(end_3, BLOCK_TILE_M)))
    row_idx = row_begin + tl.arange(0, 1)
    row_mask = row_idx < end_0
    # scale = 1 / (math.log(2) * math.sqrt(k.size(3)))  # here a constant, where sizes are
    v0 = tl.cast(k_shape_3, tl.float32)
    v1 = tl.sqrt_rn(v0)
    v2 = 0.6931471805599453 * v1
    scale = 1.0 / v2
    # query = q[*at, tile_m, :]
    query = tl.load(q_ptr + row_begin * q_stride_0 + head_begin * q_stride_1 + tile_m_idx[:, None] * q_stride_3 + tl.arange(0, 32)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 32) < k_shape_3)[None, :], other=0.0)
    # peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
    peak_start = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    total_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # acc = tfl.zeros([tile_m, d])
    acc = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    # for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
    v3 = tl.minimum(tile_m_begin + BLOCK_TILE_M, end_3)
    v4 = tl.broadcast_to(acc, [BLOCK_TILE_M, 32])
    acc_1 = v4
    peak = peak_start
    total = total_start
    for tile_n_begin in tl.range(0, v3, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < v3
        # scores = tfl.dot(query, k[*keys, tile_n, :].T)
        v5 = tl.load(k_ptr + row_begin * k_stride_0 + head_begin * k_stride_1 + tile_n_idx[:, None] * k_stride_2 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < k_shape_3)[None, :], other=0.0)
        v6 = tl.permute(v5, (1, 0))
        scores = tl.dot(query, v6)
        # if causal and tile_n.end > tile_m.begin:
        v7 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v3)
        v8 = v7.to(tl.int64)
        v9 = tile_m_begin.to(tl.int64)
        v10 = v8 > v9
        if v10:
            # scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, float("-inf"))
            v11 = tile_m_idx[:, None]
            v12 = tile_n_idx[None, :]
            v13 = v11 >= v12
            scores_2 = tl.where(v13, scores, float('-inf'))
            scores_1 = scores_2
        else:
            scores_1 = scores
        # peak, total, acc = absorb(peak, total, acc, scores, v[*keys, tile_n, :], scale)
        v14 = tl.load(v_ptr + row_begin * v_stride_0 + head_begin * v_stride_1 + tile_n_idx[:, None] * v_stride_2 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None] & (tl.arange(0, 32) < out_shape_4)[None, :], other=0.0)
        # new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
        v15 = tl.reduce(scores_1, 1, _maximum)
        v16 = v15 * scale
        new_peak = tl.maximum(peak, v16, propagate_nan=tl.PropagateNan.ALL)
        # weights = torch.exp2(scores * scale - new_peak[:, None])
        v17 = scores_1 * scale
        v18 = new_peak[:, None]
        v19 = v17 - v18
        weights = tl.exp2(v19)
        # shrink = torch.exp2(peak - new_peak)
        v20 = peak - new_peak
        shrink = tl.exp2(v20)
        # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
        v21 = weights.to(tl.bfloat16)
        v22 = shrink[:, None]
        v23 = acc_1 * v22
        acc_next = tl.dot(v21, v14, acc=v23)
        # return new_peak, total * shrink + weights.sum(dim=1), acc
        v24 = total * shrink
        v25 = tl.sum(weights, axis=1)
        total_next = v24 + v25
        acc_1 = acc_next
        peak = new_peak
        total = total_next
    # out[*at, tile_m, :] = acc / total[:, None]
    v26 = total[:, None]
    v27 = acc_1 / v26
    v28 = tl.broadcast_to(v27, [BLOCK_TILE_M, 32])
    v29 = v28.to(tl.bfloat16)
    tl.store(out_ptr + row_begin * out_stride_0 + head_begin * out_stride_1 + member_begin * 128000 + tile_m_idx[:, None] * out_stride_3 + tl.arange(0, 32)[None, :], v29, mask=tile_m_mask[:, None] & (tl.arange(0, 32) < out_shape_4)[None, :])
    # lse[*at, tile_m] = (peak + torch.log2(total)) * math.log(2)
    v30 = tl.log2(total)
    v31 = peak + v30
    v32 = v31 * 0.6931471805599453
    tl.store(lse_ptr + row_begin * lse_stride_0 + head_begin * lse_stride_1 + member_begin * 4000 + tile_m_idx, v32, mask=tile_m_mask)
