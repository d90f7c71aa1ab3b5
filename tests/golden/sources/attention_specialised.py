# config: block:block_n=128, block:tile_m=128, schedule=warp_specialised
# region 0, static
# grid: 128, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == k.align)) and (2 == k.shape.0)) and (2 == k.shape.1)) and (4000 == k.shape.2)) and (32 == k.shape.3)) and (256000 == k.stride.0)) and (128000 == k.stride.1)) and (32 == k.stride.2)) and (1 == k.stride.3)) and (1 == lse.align)) and (2 == lse.shape.0)) and (2 == lse.shape.1)) and (1 == lse.shape.2)) and (4000 == lse.shape.3)) and (8000 == lse.stride.0)) and (4000 == lse.stride.1)) and (1 == lse.stride.3)) and (4000 == n)) and (1 == out.align)) and (2 == out.shape.0)) and (2 == out.shape.1)) and (1 == out.shape.2)) and (4000 == out.shape.3)) and (32 == out.shape.4)) and (256000 == out.stride.0)) and (128000 == out.stride.1)) and (32 == out.stride.3)) and (1 == out.stride.4)) and (1 == q.align)) and (2 == q.shape.0)) and (2 == q.shape.1)) and (1 == q.shape.2)) and (4000 == q.shape.3)) and (32 == q.shape.4)) and (256000 == q.stride.0)) and (128000 == q.stride.1)) and (32 == q.stride.3)) and (1 == q.stride.4)) and (1 == v.align)) and (2 == v.shape.0)) and (2 == v.shape.1)) and (4000 == v.shape.2)) and (32 == v.shape.3)) and (256000 == v.stride.0)) and (128000 == v.stride.1)) and (32 == v.stride.2)) and (1 == v.stride.3))
# options: maxnreg=168, num_warps=4
# constexprs: 
# lse_ptr: *fp32 % 16 = lse
# q_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = q
# k_desc_1x1x128x32: tensordesc<bf16[1, 1, 128, 32]> = k
# v_desc_1x1x128x32: tensordesc<bf16[1, 1, 128, 32]> = v
# out_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = out
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

BY_32 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16]))

STAGES = gl.constexpr(2)

GROUPS = gl.constexpr(2)

ROWS = gl.constexpr(64)

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

BY_ROW = gl.constexpr(gl.SliceLayout(1, BY_128))

AS_OPERAND = gl.constexpr(gl.DotOperandLayout(0, BY_32, 2))

BLOCK_BLOCK_N = gl.constexpr(128)

BLOCK_TILE_M = gl.constexpr(128)


@gluon.jit
def _keep_branch():
    zero = tl.cast(0, tl.int32)
    return gl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)


@gluon.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@gluon.jit
def weigh(tile_m_begin, who: gl.constexpr, tile_n_begin, v0, scores, c0, c1):
    # From the scores to their weights, and what goes to the next turn.
    tile_m_idx = tile_m_begin + who * ROWS + gl.arange(0, ROWS)
    tile_n_idx = tile_n_begin + gl.arange(0, BLOCK_BLOCK_N)
    # if causal and tile_n.end > tile_m.begin:
    v1 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, v0)
    v2 = v1.to(tl.int64)
    v3 = tile_m_begin.to(tl.int64)
    v4 = v2 > v3
    if v4:
        _keep_branch()
        # scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, float("-inf"))
        v5 = tile_m_idx[:, None]
        v6 = tile_n_idx[None, :]
        v7 = v5 >= v6
        scores_2 = tl.where(v7, scores, float('-inf'))
        scores_1 = scores_2
    else:
        scores_1 = scores
    # new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
    v8 = gl.reduce(scores_1, 1, _maximum)
    v9 = v8 * 0.25503486164919736
    new_peak = tl.maximum(c0, v9, propagate_nan=tl.PropagateNan.ALL)
    # weights = torch.exp2(scores * scale - new_peak[:, None])
    v10 = scores_1 * 0.25503486164919736
    v11 = new_peak[:, None]
    v12 = v10 - v11
    weights_1 = tl.exp2(v12)
    # shrink = torch.exp2(peak - new_peak)
    v13 = c0 - new_peak
    shrink = tl.exp2(v13)
    # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
    v14 = shrink[:, None]
    # return new_peak, total * shrink + weights.sum(dim=1), acc
    v15 = c1 * shrink
    v16 = gl.sum(weights_1, axis=1)
    total_next = v15 + v16
    return weights_1, new_peak, total_next, v14


@gluon.jit
def rescale(v14, sums):
    # The sums of the turns before, as this turn takes them.
    # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
    v17 = gl.convert_layout(v14, BY_32)
    v18 = sums * v17
    return v18


@gluon.jit
def narrow(weights):
    # The weights as the second product takes them from registers.
    # acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
    v19 = weights.to(tl.bfloat16)
    return gl.convert_layout(v19, AS_OPERAND)


@gluon.jit
def finish(
    tile_m_begin,
    who: gl.constexpr,
    c1,
    sums,
    c0,
    lse_ptr,
    row_begin,
    head_begin,
    member_begin,
):
    # What is left to do with the sums of all turns.
    tile_m_idx = tile_m_begin + who * ROWS + gl.arange(0, ROWS)
    tile_m_mask = tile_m_idx < 4000
    # out[*at, tile_m, :] = acc / total[:, None]
    v20 = c1[:, None]
    v21 = gl.convert_layout(v20, BY_32)
    v22 = sums / v21
    # lse[*at, tile_m] = (peak + torch.log2(total)) * math.log(2)
    v23 = tl.log2(c1)
    v24 = c0 + v23
    v25 = v24 * 0.6931471805599453
    tl.store(lse_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v25, mask=tile_m_mask)
    v26 = v22.to(tl.bfloat16)
    return v26


@gluon.jit
def consumer(
    who: gl.constexpr,
    query_full,
    turns,
    order,
    key_full,
    query,
    key,
    key_empty,
    tile_m_begin,
    v0,
    value_full,
    value,
    value_empty,
    lse_ptr,
    row_begin,
    head_begin,
    member_begin,
    out_desc_1x1x1x64x32,
):
    # A group of rows: their products, and what the author computes between them.
    # peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
    peak_start = gl.full([ROWS], float('-inf'), tl.float32, BY_ROW)
    total_start = gl.full([ROWS], 0.0, tl.float32, BY_ROW)
    # acc = tfl.zeros([tile_m, d])
    acc_start = gl.full([ROWS, 32], 0.0, tl.float32, BY_32)
    sums = acc_start
    c0 = peak_start
    c1 = total_start
    no_scores = gl.full([ROWS, BLOCK_BLOCK_N], 0.0, gl.float32, BY_128)
    mbarrier.wait(query_full.index(who), 0)  # a group's queries are there
    if turns > 0:
        tile_n_begin = 0
        mbarrier.wait(order.index(who), (0) ^ (1 if who == 0 else 0))  # it is a group's turn at the matrix units
        mbarrier.wait(key_full.index(0), 0)  # this turn's keys are there
        scores_under_way = warpgroup_mma(query.index(who).reshape([64, 32]), key.index(0).reshape([128, 32]).permute((1, 0)), no_scores, use_acc=False, is_async=True)
        mbarrier.arrive(order.index((who + 1) % GROUPS), count=1)
        scores = warpgroup_mma_wait(0, [scores_under_way])
        mbarrier.arrive(key_empty.index(0), count=1)
        weights, c0, c1, v14 = weigh(tile_m_begin, who, tile_n_begin, v0, scores, c0, c1)
        sums = rescale(v14, sums)
        operand = narrow(weights)
        mbarrier.wait(value_full.index(0), 0)  # this turn's values are there
        for turn in range(1, turns):
            tile_n_begin = turn * BLOCK_BLOCK_N
            mbarrier.wait(order.index(who), (turn & 1) ^ (1 if who == 0 else 0))  # it is a group's turn at the matrix units
            mbarrier.wait(key_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's keys are there
            scores_under_way = warpgroup_mma(query.index(who).reshape([64, 32]), key.index(turn % STAGES).reshape([128, 32]).permute((1, 0)), no_scores, use_acc=False, is_async=True)
            sums_under_way = warpgroup_mma(operand, value.index((turn - 1) % STAGES).reshape([128, 32]), sums, is_async=True)
            mbarrier.arrive(order.index((who + 1) % GROUPS), count=1)
            scores = warpgroup_mma_wait(1, [scores_under_way])
            mbarrier.arrive(key_empty.index(turn % STAGES), count=1)
            weights, c0, c1, v14 = weigh(tile_m_begin, who, tile_n_begin, v0, scores, c0, c1)
            mbarrier.wait(value_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's values are there
            sums, weights = warpgroup_mma_wait(0, [sums_under_way, weights])
            mbarrier.arrive(value_empty.index((turn - 1) % STAGES), count=1)
            sums = rescale(v14, sums)
            operand = narrow(weights)
        sums_under_way = warpgroup_mma(operand, value.index((turns - 1) % STAGES).reshape([128, 32]), sums, is_async=True)
        sums = warpgroup_mma_wait(0, [sums_under_way])
    result = finish(tile_m_begin, who, c1, sums, c0, lse_ptr, row_begin, head_begin, member_begin)
    query.index(who).reshape([64, 32]).store(result)
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc_1x1x1x64x32, [row_begin, head_begin, member_begin, tile_m_begin + who * ROWS, 0], query.index(who))
    tma.store_wait(0)


@gluon.jit
def producer(
    query_full,
    q_desc_1x1x1x64x32,
    row_begin,
    head_begin,
    tile_m_begin,
    query,
    turns,
    key_empty,
    key_full,
    k_desc_1x1x128x32,
    key,
    value_empty,
    value_full,
    v_desc_1x1x128x32,
    value,
):
    # Boxes of memory, copied as far ahead as there are slots.
    mbarrier.expect(query_full.index(0), 4096)
    tma.async_copy_global_to_shared(q_desc_1x1x1x64x32, [row_begin, head_begin, 0, tile_m_begin, 0], query_full.index(0), query.index(0))
    mbarrier.expect(query_full.index(1), 4096)
    tma.async_copy_global_to_shared(q_desc_1x1x1x64x32, [row_begin, head_begin, 0, tile_m_begin + ROWS, 0], query_full.index(1), query.index(1))
    for turn in range(0, turns):
        tile_n_begin = turn * BLOCK_BLOCK_N
        mbarrier.wait(key_empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # all groups have multiplied by these keys
        mbarrier.expect(key_full.index(turn % STAGES), 8192)
        tma.async_copy_global_to_shared(k_desc_1x1x128x32, [row_begin, head_begin, tile_n_begin, 0], key_full.index(turn % STAGES), key.index(turn % STAGES))
        mbarrier.wait(value_empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # all groups have multiplied by these values
        mbarrier.expect(value_full.index(turn % STAGES), 8192)
        tma.async_copy_global_to_shared(v_desc_1x1x128x32, [row_begin, head_begin, tile_n_begin, 0], value_full.index(turn % STAGES), value.index(turn % STAGES))


@gluon.jit
def attention_0(
    lse_ptr,
    q_desc_1x1x1x64x32,
    k_desc_1x1x128x32,
    v_desc_1x1x128x32,
    out_desc_1x1x1x64x32,
):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_m_begin = (pid % tile_m_count) * BLOCK_TILE_M
    member_begin = ((pid // tile_m_count) % 1)
    head_begin = (((pid // tile_m_count) // 1) % 2)
    row_begin = ((((pid // tile_m_count) // 1) // 2))
    # for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
    v0 = tl.minimum(tile_m_begin + BLOCK_TILE_M, 4000)
    turns = (v0 + BLOCK_BLOCK_N - 1) // BLOCK_BLOCK_N
    query = gl.allocate_shared_memory(q_desc_1x1x1x64x32.dtype, [2, 1, 1, 1, 64, 32], q_desc_1x1x1x64x32.layout)
    key = gl.allocate_shared_memory(k_desc_1x1x128x32.dtype, [2, 1, 1, 128, 32], k_desc_1x1x128x32.layout)
    value = gl.allocate_shared_memory(v_desc_1x1x128x32.dtype, [2, 1, 1, 128, 32], v_desc_1x1x128x32.layout)
    # a group's queries are there
    query_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(query_full.index(slot), count=1)
    # this turn's keys are there
    key_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(key_full.index(slot), count=1)
    # all groups have multiplied by these keys
    key_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(key_empty.index(slot), count=2)
    # this turn's values are there
    value_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(value_full.index(slot), count=1)
    # all groups have multiplied by these values
    value_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(value_empty.index(slot), count=2)
    # it is a group's turn at the matrix units
    order = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(order.index(slot), count=1)
    gl.warp_specialize([
        (consumer, (0, query_full, turns, order, key_full, query, key, key_empty, tile_m_begin, v0, value_full, value, value_empty, lse_ptr, row_begin, head_begin, member_begin, out_desc_1x1x1x64x32,)),
        (consumer, (1, query_full, turns, order, key_full, query, key, key_empty, tile_m_begin, v0, value_full, value, value_empty, lse_ptr, row_begin, head_begin, member_begin, out_desc_1x1x1x64x32,)),
        (producer, (query_full, q_desc_1x1x1x64x32, row_begin, head_begin, tile_m_begin, query, turns, key_empty, key_full, k_desc_1x1x128x32, key, value_empty, value_full, v_desc_1x1x128x32, value,)),
    ], [4, 1], [240, 24])
