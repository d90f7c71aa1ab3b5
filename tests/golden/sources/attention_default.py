# config: block:block_n=64, block:tile_m=64, descending=True, load:k#0.access=descriptor, load:q#0.access=descriptor, load:v#0.access=descriptor, num_stages=3, order=0,3,1,2, store:out#0.access=descriptor
# region 0, static
# grid: 252, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == k.align)) and (2 == k.shape.0)) and (2 == k.shape.1)) and (4000 == k.shape.2)) and (32 == k.shape.3)) and (256000 == k.stride.0)) and (128000 == k.stride.1)) and (32 == k.stride.2)) and (1 == k.stride.3)) and (1 == lse.align)) and (2 == lse.shape.0)) and (2 == lse.shape.1)) and (1 == lse.shape.2)) and (4000 == lse.shape.3)) and (8000 == lse.stride.0)) and (4000 == lse.stride.1)) and (1 == lse.stride.3)) and (4000 == n)) and (1 == out.align)) and (2 == out.shape.0)) and (2 == out.shape.1)) and (1 == out.shape.2)) and (4000 == out.shape.3)) and (32 == out.shape.4)) and (256000 == out.stride.0)) and (128000 == out.stride.1)) and (32 == out.stride.3)) and (1 == out.stride.4)) and (1 == q.align)) and (2 == q.shape.0)) and (2 == q.shape.1)) and (1 == q.shape.2)) and (4000 == q.shape.3)) and (32 == q.shape.4)) and (256000 == q.stride.0)) and (128000 == q.stride.1)) and (32 == q.stride.3)) and (1 == q.stride.4)) and (1 == v.align)) and (2 == v.shape.0)) and (2 == v.shape.1)) and (4000 == v.shape.2)) and (32 == v.shape.3)) and (256000 == v.stride.0)) and (128000 == v.stride.1)) and (32 == v.stride.2)) and (1 == v.stride.3))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=64, BLOCK_TILE_M=64
# k_ptr: *bf16 % 16 = k
# lse_ptr: *fp32 % 16 = lse
# v_ptr: *bf16 % 16 = v
# q_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = q
# out_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = out
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.attention:attention (flash.py:80), launch 0, static sizes
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
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([batch, key_heads, group, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    member_begin = (pid % 1)
    member_idx = member_begin + tl.arange(0, 1)
    head_begin = ((pid // 1) % 2)
    head_idx = head_begin + tl.arange(0, 1)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_m_begin = ((tile_m_count - 1) - (((pid // 1) // 2) % tile_m_count)) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    row_begin = ((((pid // 1) // 2) // tile_m_count))
    row_idx = row_begin + tl.arange(0, 1)
    # query = q[*at, tile_m, :]
    query = tl.reshape(q_desc_1x1x1x64x32.load([row_begin, head_begin, 0, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    # peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
    peak_start = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    total_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # acc = tfl.zeros([tile_m, d])
    acc_start = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    # for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
    v0 = tl.minimum(tile_m_begin + BLOCK_TILE_M, 4000)
    acc = acc_start
    peak = peak_start
    total = total_start
    for tile_n_begin in tl.range(0, v0, BLOCK_BLOCK_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < v0
        # scores = tfl.dot(query, k[*keys, tile_n, :].T)
        v1 = tl.load(k_ptr + row_begin * 256000 + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
        v2 = tl.permute(v1, (1, 0))
        scores = tl.dot(query, v2)
        # if causal and tile_n.end > tile_m.begin:
        v3 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v0)
        v4 = v3.to(tl.int64)
        v5 = tile_m_begin.to(tl.int64)
        v6 = v4 > v5
        if v6:
            # scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, float("-inf"))
            v7 = tile_m_idx[:, None]
            v8 = tile_n_idx[None, :]
            v9 = v7 >= v8
            scores_2 = tl.where(v9, scores, float('-inf'))
            scores_1 = scores_2
        else:
            scores_1 = scores
        # peak, total, acc = absorb(peak, total, acc, scores, v[*keys, tile_n, :], scale)
        v10 = tl.load(v_ptr + row_begin * 256000 + head_begin * 128000 + tile_n_idx[:, None] * 32 + tl.arange(0, 32)[None, :], mask=tile_n_mask[:, None], other=0.0)
        # new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
        v11 = tl.reduce(scores_1, 1, _maximum)
        v12 = v11 * 0.25503486164919736
        new_peak = tl.maximum(peak, v12, propagate_nan=tl.PropagateNan.ALL)
        # weights = torch.exp2(scores * scale - new_peak[:, None])
        v13 = scores_1 * 0.25503486164919736
        v14 = new_peak[:, None]
        v15 = v13 - v14
        weights = tl.exp2(v15)
        # shrink = torch.exp2(peak - new_peak)
        v16 = peak - new_peak
        shrink = tl.exp2(v16)
        # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
        v17 = weights.to(tl.bfloat16)
        v18 = shrink[:, None]
        v19 = acc * v18
        acc_next = tl.dot(v17, v10, acc=v19)
        # return new_peak, total * shrink + weights.sum(dim=1), acc
        v20 = total * shrink
        v21 = tl.sum(weights, axis=1)
        total_next = v20 + v21
        acc = acc_next
        peak = new_peak
        total = total_next
    # out[*at, tile_m, :] = acc / total[:, None]
    v22 = total[:, None]
    v23 = acc / v22
    v24 = v23.to(tl.bfloat16)
    out_desc_1x1x1x64x32.store([row_begin, head_begin, member_begin, tile_m_begin, 0], tl.reshape(v24, [1, 1, 1, BLOCK_TILE_M, 32]))
    # lse[*at, tile_m] = (peak + torch.log2(total)) * math.log(2)
    v25 = tl.log2(total)
    v26 = peak + v25
    v27 = v26 * 0.6931471805599453
    tl.store(lse_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v27, mask=tile_m_mask)
