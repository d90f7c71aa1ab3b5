# config: block:tile_m=64, block:tile_n=128, load:k#0.access=descriptor, load:q#0.access=descriptor, load:score.cell:bias#0.access=descriptor, load:v#0.access=descriptor, store:out#0.access=descriptor
# region 0, static
# grid: 252, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (4 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (32 == d)) and (1 == k.align)) and (4 == k.shape.0)) and (2992 == k.shape.1)) and (32 == k.shape.2)) and (95744 == k.stride.0)) and (32 == k.stride.1)) and (1 == k.stride.2)) and (2992 == n)) and (1 == out.align)) and (4 == out.shape.0)) and (4000 == out.shape.1)) and (32 == out.shape.2)) and (128000 == out.stride.0)) and (32 == out.stride.1)) and (1 == out.stride.2)) and (1 == q.align)) and (4 == q.shape.0)) and (4000 == q.shape.1)) and (32 == q.shape.2)) and (128000 == q.stride.0)) and (32 == q.stride.1)) and (1 == q.stride.2)) and (1 == score.cell:bias.align)) and (2 == score.cell:bias.shape.0)) and (4000 == score.cell:bias.shape.1)) and (2992 == score.cell:bias.shape.2)) and (11968000 == score.cell:bias.stride.0)) and (2992 == score.cell:bias.stride.1)) and (1 == score.cell:bias.stride.2)) and (1 == v.align)) and (4 == v.shape.0)) and (2992 == v.shape.1)) and (32 == v.shape.2)) and (95744 == v.stride.0)) and (32 == v.stride.1)) and (1 == v.stride.2))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=64, BLOCK_TILE_N=128
# q_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = q
# k_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = k
# score_bias_desc_1x64x128: tensordesc<bf16[1, 64, 128]> = score.cell:bias
# v_desc_1x128x32: tensordesc<bf16[1, 128, 32]> = v
# out_desc_1x64x32: tensordesc<bf16[1, 64, 32]> = out
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.attention:attention_scored (attention.py:53), launch 0, static sizes
#   block:tile_m=64, block:tile_n=128, load:k#0.access=descriptor, load:q#0.access=descriptor,
#   load:score.cell:bias#0.access=descriptor, load:v#0.access=descriptor, store:out#0.access=descriptor
@triton.jit
def attention_scored_0(
    q_desc_1x64x32,
    k_desc_1x128x32,
    score_bias_desc_1x64x128,
    v_desc_1x128x32,
    out_desc_1x64x32,
    LOG2_E,
    scale,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for head, tile_m in tfl.tile([batch * heads, m], block_size=[1, None]):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_m_begin = (pid % tile_m_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    head_begin = (pid // tile_m_count)
    head_idx = head_begin + tl.arange(0, 1)
    # query = q[head.begin, tile_m, :]
    query = tl.reshape(q_desc_1x64x32.load([head_begin, tile_m_begin, 0]), [BLOCK_TILE_M, 32])
    # peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
    peak_start = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    total_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # acc = tfl.zeros([tile_m, d])
    acc_start = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    # for tile_n in tfl.tile(n):
    acc = acc_start
    peak = peak_start
    total = total_start
    for tile_n_begin in tl.range(0, 2992, BLOCK_TILE_N):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # scores = score(tfl.dot(query, k[head.begin, tile_n, :].T) * scale, head.begin, tile_m, tile_n)
        v0 = tl.reshape(k_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_TILE_N, 32])
        v1 = tl.permute(v0, (1, 0))
        v2 = tl.dot(query, v1)
        v3 = v2 * scale
        # return lambda scores, head, tile_m, tile_n: scores + bias[head % bias.size(0), tile_m, tile_n].float()
        v4 = head_begin & 1
        v5 = tl.reshape(score_bias_desc_1x64x128.load([v4, tile_m_begin, tile_n_begin]), [BLOCK_TILE_M, BLOCK_TILE_N])
        v6 = v5.to(tl.float32)
        scores = v3 + v6
        # peak, total, acc = absorb(peak, total, acc, scores, v[head.begin, tile_n, :], LOG2_E)
        v7 = tl.reshape(v_desc_1x128x32.load([head_begin, tile_n_begin, 0]), [BLOCK_TILE_N, 32])
        # new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
        v8 = tl.where(tile_n_mask[None, :], scores, float('-inf'))
        v9 = tl.reduce(v8, 1, _maximum)
        v10 = v9 * LOG2_E
        new_peak = tl.maximum(peak, v10, propagate_nan=tl.PropagateNan.ALL)
        # weights = torch.exp2(scores * scale - new_peak[:, None])
        v11 = scores * LOG2_E
        v12 = new_peak[:, None]
        v13 = v11 - v12
        weights = tl.exp2(v13)
        # shrink = torch.exp2(peak - new_peak)
        v14 = peak - new_peak
        shrink = tl.exp2(v14)
        # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
        v15 = weights.to(tl.bfloat16)
        v16 = shrink[:, None]
        v17 = acc * v16
        v18 = tl.where(tile_n_mask[None, :], v15, 0.0)
        acc_next = tl.dot(v18, v7, acc=v17)
        # return new_peak, total * shrink + weights.sum(dim=1), acc
        v19 = total * shrink
        v20 = tl.where(tile_n_mask[None, :], weights, 0.0)
        v21 = tl.sum(v20, axis=1)
        total_next = v19 + v21
        acc = acc_next
        peak = new_peak
        total = total_next
    # out[head.begin, tile_m, :] = acc / total[:, None]
    v22 = total[:, None]
    v23 = acc / v22
    v24 = v23.to(tl.bfloat16)
    out_desc_1x64x32.store([head_begin, tile_m_begin, 0], tl.reshape(v24, [1, BLOCK_TILE_M, 32]))
