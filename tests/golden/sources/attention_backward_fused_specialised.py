# config: block:block_m=128, block:tile_n@1=128, schedule@1=warp_specialised
# region 0, static
# grid: 500, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == delta.align)) and (2 == delta.shape.0)) and (2 == delta.shape.1)) and (1 == delta.shape.2)) and (4000 == delta.shape.3)) and (8000 == delta.stride.0)) and (4000 == delta.stride.1)) and (1 == delta.stride.3)) and (1 == grad_out.align)) and (2 == grad_out.shape.0)) and (2 == grad_out.shape.1)) and (1 == grad_out.shape.2)) and (4000 == grad_out.shape.3)) and (32 == grad_out.shape.4)) and (256000 == grad_out.stride.0)) and (128000 == grad_out.stride.1)) and (32 == grad_out.stride.3)) and (1 == grad_out.stride.4)) and (1 == lse.align)) and (2 == lse.shape.0)) and (2 == lse.shape.1)) and (1 == lse.shape.2)) and (4000 == lse.shape.3)) and (8000 == lse.stride.0)) and (4000 == lse.stride.1)) and (1 == lse.stride.3)) and (1 == lse2.align)) and (2 == lse2.shape.0)) and (2 == lse2.shape.1)) and (1 == lse2.shape.2)) and (4000 == lse2.shape.3)) and (8000 == lse2.stride.0)) and (4000 == lse2.stride.1)) and (1 == lse2.stride.3)) and (1 == out.align)) and (2 == out.shape.0)) and (2 == out.shape.1)) and (1 == out.shape.2)) and (4000 == out.shape.3)) and (32 == out.shape.4)) and (256000 == out.stride.0)) and (128000 == out.stride.1)) and (32 == out.stride.3)) and (1 == out.stride.4)) and (1 == sum_q.align)) and (2 == sum_q.shape.0)) and (2 == sum_q.shape.1)) and (1 == sum_q.shape.2)) and (4000 == sum_q.shape.3)) and (32 == sum_q.shape.4)) and (256000 == sum_q.stride.0)) and (128000 == sum_q.stride.1)) and (32 == sum_q.stride.3)) and (1 == sum_q.stride.4))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=32
# delta_ptr: *fp32 % 16 = delta
# grad_out_ptr: *bf16 % 16 = grad_out
# lse_ptr: *fp32 % 16 = lse
# lse2_ptr: *fp32 % 16 = lse2
# out_ptr: *bf16 % 16 = out
# sum_q_ptr: *fp32 % 16 = sum_q
# LOG2_E: fp32 = LOG2_E
import triton
import triton.language as tl


# examples.attention:attention_backward_fused (flash.py:212), launch 0, static sizes
#   block:tile_m=32
@triton.jit
def attention_backward_fused_0(
    delta_ptr,
    grad_out_ptr,
    lse_ptr,
    lse2_ptr,
    out_ptr,
    sum_q_ptr,
    LOG2_E,
    BLOCK_TILE_M: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_m_begin = (pid % tile_m_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    member_begin = ((pid // tile_m_count) % 1)
    member_idx = member_begin + tl.arange(0, 1)
    head_begin = (((pid // tile_m_count) // 1) % 2)
    head_idx = head_begin + tl.arange(0, 1)
    row_begin = ((((pid // tile_m_count) // 1) // 2))
    row_idx = row_begin + tl.arange(0, 1)
    # delta[*at, tile_m] = (out[*at, tile_m, :].float() * grad_out[*at, tile_m, :]).sum(dim=1)
    v0 = tl.load(out_ptr + row_begin * 256000 + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_out_ptr + row_begin * 256000 + head_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    tl.store(delta_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v5)
    # lse2[*at, tile_m] = lse[*at, tile_m] * LOG2_E
    v6 = tl.load(lse_ptr + row_begin * 8000 + head_begin * 4000 + tile_m_idx)
    v7 = v6 * LOG2_E
    tl.store(lse2_ptr + row_begin * 8000 + head_begin * 4000 + member_begin * 4000 + tile_m_idx, v7)
    # sum_q[*at, tile_m, :] = tfl.zeros([tile_m, d])
    v8 = tl.full([BLOCK_TILE_M, 32], 0.0, tl.float32)
    tl.store(sum_q_ptr + row_begin * 256000 + head_begin * 128000 + member_begin * 128000 + tile_m_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v8)

# region 1, static
# grid: 128, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (32 == d)) and (1 == delta.align)) and (2 == delta.shape.0)) and (2 == delta.shape.1)) and (1 == delta.shape.2)) and (4000 == delta.shape.3)) and (8000 == delta.stride.0)) and (4000 == delta.stride.1)) and (1 == delta.stride.3)) and (1 == grad_k.align)) and (2 == grad_k.shape.0)) and (2 == grad_k.shape.1)) and (1 == grad_k.shape.2)) and (4000 == grad_k.shape.3)) and (32 == grad_k.shape.4)) and (256000 == grad_k.stride.0)) and (128000 == grad_k.stride.1)) and (32 == grad_k.stride.3)) and (1 == grad_k.stride.4)) and (1 == grad_out.align)) and (2 == grad_out.shape.0)) and (2 == grad_out.shape.1)) and (1 == grad_out.shape.2)) and (4000 == grad_out.shape.3)) and (32 == grad_out.shape.4)) and (256000 == grad_out.stride.0)) and (128000 == grad_out.stride.1)) and (32 == grad_out.stride.3)) and (1 == grad_out.stride.4)) and (1 == grad_v.align)) and (2 == grad_v.shape.0)) and (2 == grad_v.shape.1)) and (1 == grad_v.shape.2)) and (4000 == grad_v.shape.3)) and (32 == grad_v.shape.4)) and (256000 == grad_v.stride.0)) and (128000 == grad_v.stride.1)) and (32 == grad_v.stride.3)) and (1 == grad_v.stride.4)) and (1 == k.align)) and ((((((((((((((((((((((((((((((((((((((((((((((((2 == k.shape.0) and (2 == k.shape.1)) and (1 == k.shape.2)) and (4000 == k.shape.3)) and (32 == k.shape.4)) and (256000 == k.stride.0)) and (128000 == k.stride.1)) and (32 == k.stride.3)) and (1 == k.stride.4)) and (1 == lse2.align)) and (2 == lse2.shape.0)) and (2 == lse2.shape.1)) and (1 == lse2.shape.2)) and (4000 == lse2.shape.3)) and (8000 == lse2.stride.0)) and (4000 == lse2.stride.1)) and (1 == lse2.stride.3)) and (4000 == m)) and (1 == q.align)) and (2 == q.shape.0)) and (2 == q.shape.1)) and (1 == q.shape.2)) and (4000 == q.shape.3)) and (32 == q.shape.4)) and (256000 == q.stride.0)) and (128000 == q.stride.1)) and (32 == q.stride.3)) and (1 == q.stride.4)) and (1 == sum_q.align)) and (2 == sum_q.shape.0)) and (2 == sum_q.shape.1)) and (1 == sum_q.shape.2)) and (4000 == sum_q.shape.3)) and (32 == sum_q.shape.4)) and (256000 == sum_q.stride.0)) and (128000 == sum_q.stride.1)) and (32 == sum_q.stride.3)) and (1 == sum_q.stride.4)) and (1 == v.align)) and (2 == v.shape.0)) and (2 == v.shape.1)) and (1 == v.shape.2)) and (4000 == v.shape.3)) and (32 == v.shape.4)) and (256000 == v.stride.0)) and (128000 == v.stride.1)) and (32 == v.stride.3)) and (1 == v.stride.4)))
# options: maxnreg=168, num_warps=4
# constexprs: 
# k_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = k
# v_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = v
# q_desc_1x1x1x128x32: tensordesc<bf16[1, 1, 1, 128, 32]> = q
# grad_out_desc_1x1x1x128x32: tensordesc<bf16[1, 1, 1, 128, 32]> = grad_out
# grad_k_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_k
# grad_v_desc_1x1x1x64x32: tensordesc<bf16[1, 1, 1, 64, 32]> = grad_v
# lse2_desc_1x1x1x128: tensordesc<fp32[1, 1, 1, 128]> = lse2
# delta_desc_1x1x1x128: tensordesc<fp32[1, 1, 1, 128]> = delta
# sum_q_desc_1x1x1x64x32: tensordesc<fp32[1, 1, 1, 64, 32]> = sum_q
# LOG2_E: fp32 = LOG2_E
# scale: fp32 = scale
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
from triton._C.libtriton import ir
from triton.experimental.gluon.language._core import builtin


@builtin
def add_to_global(box, place, shared, _semantic=None):
    # The copy engine adds a box of shared memory to the tensor, past whose ends it adds nothing.
    place = _semantic._convert_to_ir_values(place, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, box.handle, place, shared.handle)

BY_32 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16]))

STAGES = gl.constexpr(2)

GROUPS = gl.constexpr(2)

ROWS = gl.constexpr(64)

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

AS_OPERAND_0 = gl.constexpr(gl.DotOperandLayout(0, BY_32, 2))

AS_OPERAND_1 = gl.constexpr(gl.DotOperandLayout(0, BY_32, 2))

BLOCK_BLOCK_M = gl.constexpr(128)

BLOCK_TILE_N_1 = gl.constexpr(128)


@gluon.jit
def _keep_branch():
    zero = tl.cast(0, tl.int32)
    return gl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)


@gluon.jit
def part_0_full(box, tile_n_1_begin, who: gl.constexpr, tile_m_1_begin, scores_0, v1):
    # What follows from the scores of a full block up to 0: operands of sums, and what later parts read.
    tile_n_1_idx = tile_n_1_begin + who * ROWS + gl.arange(0, ROWS)
    tile_m_1_idx = tile_m_1_begin + gl.arange(0, BLOCK_BLOCK_M)
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v7 = box.load(gl.SliceLayout(0, BY_128))
    # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
    scores = scores_0 * v1
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v8 = v7[None, :]
    v9 = scores - v8
    weights = tl.exp2(v9)
    # weights = torch.where(tile_m.index[None, :] >= tile_n.index[:, None], weights, 0.0)
    v10 = tile_m_1_idx[None, :]
    v11 = tile_n_1_idx[:, None]
    v12 = v10 >= v11
    weights_1 = tl.where(v12, weights, 0.0)
    # sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
    v13 = weights_1.to(tl.bfloat16)
    return weights_1, gl.convert_layout(v13, AS_OPERAND_0)


@gluon.jit
def part_0(box, tile_n_1_begin, who: gl.constexpr, tile_m_1_begin, scores_0, v1):
    # What follows from the scores up to 0: operands of sums, and what later parts read.
    tile_n_1_idx = tile_n_1_begin + who * ROWS + gl.arange(0, ROWS)
    tile_m_1_idx = tile_m_1_begin + gl.arange(0, BLOCK_BLOCK_M)
    tile_m_1_mask = tile_m_1_idx < 4000
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v14 = box.load(gl.SliceLayout(0, BY_128))
    # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
    scores_4 = scores_0 * v1
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v15 = v14[None, :]
    v16 = scores_4 - v15
    weights_2 = tl.exp2(v16)
    # weights = torch.where(tile_m.index[None, :] >= tile_n.index[:, None], weights, 0.0)
    v17 = tile_m_1_idx[None, :]
    v18 = tile_n_1_idx[:, None]
    v19 = v17 >= v18
    weights_3 = tl.where(v19, weights_2, 0.0)
    # sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
    v20 = weights_3.to(tl.bfloat16)
    v21 = tl.where(tile_m_1_mask[None, :], v20, 0.0)
    return weights_3, gl.convert_layout(v21, AS_OPERAND_0)


@gluon.jit
def part_1_full(box, tile_n_1_begin, who: gl.constexpr, scores_1, weights_1):
    # What follows from the scores of a full block up to 1: operands of sums, and what later parts read.
    tile_n_1_idx = tile_n_1_begin + who * ROWS + gl.arange(0, ROWS)
    tile_n_1_mask = tile_n_1_idx < 4000
    # inner = weights * (tfl.dot(value, grad.T) - delta[*at, tile_m][None, :])
    v22 = box.load(gl.SliceLayout(0, BY_128))
    v23 = v22[None, :]
    v24 = scores_1 - v23
    inner = weights_1 * v24
    # inner = inner.to(query.dtype)
    inner_1 = inner.to(tl.bfloat16)
    # tfl.atomic_add(sum_q, [*at, tile_m, slice(None)], tfl.dot(inner.T, key))
    v25 = tl.where(tile_n_1_mask[:, None], inner_1, 0.0)
    return gl.convert_layout(inner_1, AS_OPERAND_1), v25


@gluon.jit
def part_1(box, tile_n_1_begin, who: gl.constexpr, tile_m_1_begin, scores_1, weights_1):
    # What follows from the scores up to 1: operands of sums, and what later parts read.
    tile_n_1_idx = tile_n_1_begin + who * ROWS + gl.arange(0, ROWS)
    tile_n_1_mask = tile_n_1_idx < 4000
    tile_m_1_idx = tile_m_1_begin + gl.arange(0, BLOCK_BLOCK_M)
    tile_m_1_mask = tile_m_1_idx < 4000
    # inner = weights * (tfl.dot(value, grad.T) - delta[*at, tile_m][None, :])
    v26 = box.load(gl.SliceLayout(0, BY_128))
    v27 = v26[None, :]
    v28 = scores_1 - v27
    inner_2 = weights_1 * v28
    # inner = inner.to(query.dtype)
    inner_3 = inner_2.to(tl.bfloat16)
    # sum_k = tfl.dot(inner, query, acc=sum_k)
    v29 = tl.where(tile_m_1_mask[None, :], inner_3, 0.0)
    # tfl.atomic_add(sum_q, [*at, tile_m, slice(None)], tfl.dot(inner.T, key))
    v30 = tl.where(tile_n_1_mask[:, None], inner_3, 0.0)
    return gl.convert_layout(v29, AS_OPERAND_1), v30


@gluon.jit
def part_0_later_full(box, scores_0, v31):
    # What follows from the scores of a full block up to 0: operands of sums, and what later parts read.
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v37 = box.load(gl.SliceLayout(0, BY_128))
    # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
    scores_5 = scores_0 * v31
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v38 = v37[None, :]
    v39 = scores_5 - v38
    weights_4 = tl.exp2(v39)
    # sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
    v40 = weights_4.to(tl.bfloat16)
    return weights_4, gl.convert_layout(v40, AS_OPERAND_0)


@gluon.jit
def part_0_later(box, tile_m_1_begin, scores_0, v31):
    # What follows from the scores up to 0: operands of sums, and what later parts read.
    tile_m_1_idx = tile_m_1_begin + gl.arange(0, BLOCK_BLOCK_M)
    tile_m_1_mask = tile_m_1_idx < 4000
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v41 = box.load(gl.SliceLayout(0, BY_128))
    # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
    scores_6 = scores_0 * v31
    # weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
    v42 = v41[None, :]
    v43 = scores_6 - v42
    weights_5 = tl.exp2(v43)
    # sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
    v44 = weights_5.to(tl.bfloat16)
    v45 = tl.where(tile_m_1_mask[None, :], v44, 0.0)
    return weights_5, gl.convert_layout(v45, AS_OPERAND_0)


@gluon.jit
def finish(sums_1, scale, sums_0):
    # What is left to do with the sums of all turns.
    # grad_k[*at, tile_n, :] = sum_k * scale
    v46 = sums_1 * scale
    v47 = v46.to(tl.bfloat16)
    v48 = sums_0.to(tl.bfloat16)
    return v47, v48


@gluon.jit
def consumer(
    who: gl.constexpr,
    held_0_full,
    held_1_full,
    turns,
    tile_n_1_begin,
    scale,
    LOG2_E,
    block_0_full,
    held_0,
    block_0,
    block_1_full,
    held_1,
    block_1,
    vector_0,
    vector_1,
    shared,
    shared_full,
    leaving,
    sum_q_desc_1x1x1x64x32,
    row_1_begin,
    head_1_begin,
    member_1_begin,
    blocks_empty,
    grad_k_desc_1x1x1x64x32,
    grad_v_desc_1x1x1x64x32,
):
    # A group of rows: their products, and what the author computes between them.
    # sum_k, sum_v = tfl.zeros([tile_n, d]), tfl.zeros([tile_n, d])
    sum_k_start = gl.full([ROWS, 32], 0.0, tl.float32, BY_32)
    sum_v_start = gl.full([ROWS, 32], 0.0, tl.float32, BY_32)
    sums_0 = sum_v_start
    sums_1 = sum_k_start
    no_scores_0 = gl.full([ROWS, BLOCK_BLOCK_M], 0.0, gl.float32, BY_128)
    no_scores_1 = gl.full([ROWS, BLOCK_BLOCK_M], 0.0, gl.float32, BY_128)
    no_added = gl.full([64, 32], 0.0, gl.float32, BY_32)
    mbarrier.wait(held_0_full.index(0), 0)  # a group's rows of k are there
    mbarrier.wait(held_0_full.index(1), 0)  # a group's rows of k are there
    mbarrier.wait(held_1_full.index(who), 0)  # a group's rows of v are there
    if turns > 0:
        # if causal and tile_m.begin < tile_n.end:
        v0 = tl.minimum(tile_n_1_begin + BLOCK_TILE_N_1, 4000)
        branching = gl.minimum(gl.maximum((v0 - tile_n_1_begin + BLOCK_BLOCK_M - 1) // BLOCK_BLOCK_M, 0), turns)
        for turn in range(0, branching):
            tile_m_1_begin = tile_n_1_begin + turn * BLOCK_BLOCK_M
            # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
            v1 = scale * LOG2_E
            # if causal and tile_m.begin < tile_n.end:
            v2 = tl.cast(tile_m_1_begin, tl.int32)
            v3 = tl.minimum(tile_n_1_begin + BLOCK_TILE_N_1, 4000)
            v4 = v2.to(tl.int64)
            v5 = v3.to(tl.int64)
            v6 = v4 < v5
            mbarrier.wait(block_0_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's q is there
            scores_0_under_way = warpgroup_mma(held_0.index(who).reshape([64, 32]), block_0.index(turn % STAGES).reshape([128, 32]).permute((1, 0)), no_scores_0, use_acc=False, is_async=True)
            mbarrier.wait(block_1_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's grad_out is there
            scores_1_under_way = warpgroup_mma(held_1.index(who).reshape([64, 32]), block_1.index(turn % STAGES).reshape([128, 32]).permute((1, 0)), no_scores_1, use_acc=False, is_async=True)
            scores_0 = warpgroup_mma_wait(1, [scores_0_under_way])
            if tile_m_1_begin + BLOCK_BLOCK_M <= 4000:
                weights_1, operand_0 = part_0_full(vector_0.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, tile_m_1_begin, scores_0, v1)
            else:
                weights_1, operand_0 = part_0(vector_0.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, tile_m_1_begin + _keep_branch() * BLOCK_BLOCK_M, scores_0, v1)
            sums_0_under_way = warpgroup_mma(operand_0, block_1.index(turn % STAGES).reshape([128, 32]), sums_0, is_async=True)
            scores_1 = warpgroup_mma_wait(1, [scores_1_under_way])
            if tile_m_1_begin + BLOCK_BLOCK_M <= 4000:
                operand_1, shared_operand = part_1_full(vector_1.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, scores_1, weights_1)
            else:
                operand_1, shared_operand = part_1(vector_1.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, tile_m_1_begin + _keep_branch() * BLOCK_BLOCK_M, scores_1, weights_1)
            shared.index((turn % STAGES) * GROUPS + who).store(shared_operand)
            fence_async_shared()
            mbarrier.arrive(shared_full.index(turn % STAGES), count=1)
            mbarrier.wait(shared_full.index(turn % STAGES), (turn // STAGES) & 1)  # all groups have shared this turn's operand
            added_under_way = warpgroup_mma(shared.index((turn % STAGES) * GROUPS + 0).slice(who * 64, 64, 1).permute((1, 0)), held_0.index(0).reshape([64, 32]), no_added, use_acc=False, is_async=True)
            added_under_way = warpgroup_mma(shared.index((turn % STAGES) * GROUPS + 1).slice(who * 64, 64, 1).permute((1, 0)), held_0.index(1).reshape([64, 32]), added_under_way, is_async=True)
            sums_1_under_way = warpgroup_mma(operand_1, block_0.index(turn % STAGES).reshape([128, 32]), sums_1, is_async=True)
            sums_0, added = warpgroup_mma_wait(1, [sums_0_under_way, added_under_way])
            tma.store_wait(1)
            leaving.index((turn % STAGES) * GROUPS + who).reshape([64, 32]).store(added)
            fence_async_shared()
            add_to_global(sum_q_desc_1x1x1x64x32, [row_1_begin, head_1_begin, member_1_begin, tile_m_1_begin + who * 64, 0], leaving.index((turn % STAGES) * GROUPS + who))
            sums_1 = warpgroup_mma_wait(0, [sums_1_under_way])
            mbarrier.arrive(blocks_empty.index(turn % STAGES), count=1)
        for turn in range(branching, turns):
            tile_m_1_begin = tile_n_1_begin + turn * BLOCK_BLOCK_M
            # scores = tfl.dot(key, query.T) * (scale * LOG2_E)
            v31 = scale * LOG2_E
            # if causal and tile_m.begin < tile_n.end:
            v32 = tl.cast(tile_m_1_begin, tl.int32)
            v33 = tl.minimum(tile_n_1_begin + BLOCK_TILE_N_1, 4000)
            v34 = v32.to(tl.int64)
            v35 = v33.to(tl.int64)
            v36 = v34 < v35
            mbarrier.wait(block_0_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's q is there
            scores_0_under_way = warpgroup_mma(held_0.index(who).reshape([64, 32]), block_0.index(turn % STAGES).reshape([128, 32]).permute((1, 0)), no_scores_0, use_acc=False, is_async=True)
            mbarrier.wait(block_1_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's grad_out is there
            scores_1_under_way = warpgroup_mma(held_1.index(who).reshape([64, 32]), block_1.index(turn % STAGES).reshape([128, 32]).permute((1, 0)), no_scores_1, use_acc=False, is_async=True)
            scores_0 = warpgroup_mma_wait(1, [scores_0_under_way])
            if tile_m_1_begin + BLOCK_BLOCK_M <= 4000:
                weights_1, operand_0 = part_0_later_full(vector_0.index(turn % STAGES).reshape([128]), scores_0, v31)
            else:
                weights_1, operand_0 = part_0_later(vector_0.index(turn % STAGES).reshape([128]), tile_m_1_begin + _keep_branch() * BLOCK_BLOCK_M, scores_0, v31)
            sums_0_under_way = warpgroup_mma(operand_0, block_1.index(turn % STAGES).reshape([128, 32]), sums_0, is_async=True)
            scores_1 = warpgroup_mma_wait(1, [scores_1_under_way])
            if tile_m_1_begin + BLOCK_BLOCK_M <= 4000:
                operand_1, shared_operand = part_1_full(vector_1.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, scores_1, weights_1)
            else:
                operand_1, shared_operand = part_1(vector_1.index(turn % STAGES).reshape([128]), tile_n_1_begin, who, tile_m_1_begin + _keep_branch() * BLOCK_BLOCK_M, scores_1, weights_1)
            shared.index((turn % STAGES) * GROUPS + who).store(shared_operand)
            fence_async_shared()
            mbarrier.arrive(shared_full.index(turn % STAGES), count=1)
            mbarrier.wait(shared_full.index(turn % STAGES), (turn // STAGES) & 1)  # all groups have shared this turn's operand
            added_under_way = warpgroup_mma(shared.index((turn % STAGES) * GROUPS + 0).slice(who * 64, 64, 1).permute((1, 0)), held_0.index(0).reshape([64, 32]), no_added, use_acc=False, is_async=True)
            added_under_way = warpgroup_mma(shared.index((turn % STAGES) * GROUPS + 1).slice(who * 64, 64, 1).permute((1, 0)), held_0.index(1).reshape([64, 32]), added_under_way, is_async=True)
            sums_1_under_way = warpgroup_mma(operand_1, block_0.index(turn % STAGES).reshape([128, 32]), sums_1, is_async=True)
            sums_0, added = warpgroup_mma_wait(1, [sums_0_under_way, added_under_way])
            tma.store_wait(1)
            leaving.index((turn % STAGES) * GROUPS + who).reshape([64, 32]).store(added)
            fence_async_shared()
            add_to_global(sum_q_desc_1x1x1x64x32, [row_1_begin, head_1_begin, member_1_begin, tile_m_1_begin + who * 64, 0], leaving.index((turn % STAGES) * GROUPS + who))
            sums_1 = warpgroup_mma_wait(0, [sums_1_under_way])
            mbarrier.arrive(blocks_empty.index(turn % STAGES), count=1)
    tma.store_wait(0)
    result_0, result_1 = finish(sums_1, scale, sums_0)
    held_1.index(who).reshape([64, 32]).store(result_0)
    fence_async_shared()
    tma.async_copy_shared_to_global(grad_k_desc_1x1x1x64x32, [row_1_begin, head_1_begin, member_1_begin, tile_n_1_begin + who * ROWS, 0], held_1.index(who))
    tma.store_wait(0)
    held_1.index(who).reshape([64, 32]).store(result_1)
    fence_async_shared()
    tma.async_copy_shared_to_global(grad_v_desc_1x1x1x64x32, [row_1_begin, head_1_begin, member_1_begin, tile_n_1_begin + who * ROWS, 0], held_1.index(who))
    tma.store_wait(0)


@gluon.jit
def producer(
    held_0_full,
    k_desc_1x1x1x64x32,
    row_1_begin,
    head_1_begin,
    tile_n_1_begin,
    held_0,
    held_1_full,
    v_desc_1x1x1x64x32,
    held_1,
    turns,
    blocks_empty,
    block_0_full,
    q_desc_1x1x1x128x32,
    block_0,
    lse2_desc_1x1x1x128,
    vector_0,
    block_1_full,
    grad_out_desc_1x1x1x128x32,
    block_1,
    delta_desc_1x1x1x128,
    vector_1,
):
    # Boxes of memory, copied as far ahead as there are slots.
    mbarrier.expect(held_0_full.index(0), 4096)
    tma.async_copy_global_to_shared(k_desc_1x1x1x64x32, [row_1_begin, head_1_begin, 0, tile_n_1_begin, 0], held_0_full.index(0), held_0.index(0))
    mbarrier.expect(held_0_full.index(1), 4096)
    tma.async_copy_global_to_shared(k_desc_1x1x1x64x32, [row_1_begin, head_1_begin, 0, tile_n_1_begin + ROWS, 0], held_0_full.index(1), held_0.index(1))
    mbarrier.expect(held_1_full.index(0), 4096)
    tma.async_copy_global_to_shared(v_desc_1x1x1x64x32, [row_1_begin, head_1_begin, 0, tile_n_1_begin, 0], held_1_full.index(0), held_1.index(0))
    mbarrier.expect(held_1_full.index(1), 4096)
    tma.async_copy_global_to_shared(v_desc_1x1x1x64x32, [row_1_begin, head_1_begin, 0, tile_n_1_begin + ROWS, 0], held_1_full.index(1), held_1.index(1))
    for turn in range(0, turns):
        tile_m_1_begin = tile_n_1_begin + turn * BLOCK_BLOCK_M
        mbarrier.wait(blocks_empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # all groups have multiplied by these blocks
        mbarrier.expect(block_0_full.index(turn % STAGES), 8192)
        tma.async_copy_global_to_shared(q_desc_1x1x1x128x32, [row_1_begin, head_1_begin, 0, tile_m_1_begin, 0], block_0_full.index(turn % STAGES), block_0.index(turn % STAGES))
        mbarrier.expect(block_0_full.index(turn % STAGES), 512)
        tma.async_copy_global_to_shared(lse2_desc_1x1x1x128, [row_1_begin, head_1_begin, 0, tile_m_1_begin], block_0_full.index(turn % STAGES), vector_0.index(turn % STAGES))
        mbarrier.expect(block_1_full.index(turn % STAGES), 8192)
        tma.async_copy_global_to_shared(grad_out_desc_1x1x1x128x32, [row_1_begin, head_1_begin, 0, tile_m_1_begin, 0], block_1_full.index(turn % STAGES), block_1.index(turn % STAGES))
        mbarrier.expect(block_1_full.index(turn % STAGES), 512)
        tma.async_copy_global_to_shared(delta_desc_1x1x1x128, [row_1_begin, head_1_begin, 0, tile_m_1_begin], block_1_full.index(turn % STAGES), vector_1.index(turn % STAGES))


@gluon.jit
def attention_backward_fused_1(
    k_desc_1x1x1x64x32,
    v_desc_1x1x1x64x32,
    q_desc_1x1x1x128x32,
    grad_out_desc_1x1x1x128x32,
    grad_k_desc_1x1x1x64x32,
    grad_v_desc_1x1x1x64x32,
    lse2_desc_1x1x1x128,
    delta_desc_1x1x1x128,
    sum_q_desc_1x1x1x64x32,
    LOG2_E,
    scale,
):
    pid = tl.program_id(0)
    tile_n_1_count: tl.constexpr = (4000 + BLOCK_TILE_N_1 - 1) // BLOCK_TILE_N_1
    tile_n_1_begin = (pid % tile_n_1_count) * BLOCK_TILE_N_1
    member_1_begin = ((pid // tile_n_1_count) % 1)
    head_1_begin = (((pid // tile_n_1_count) // 1) % 2)
    row_1_begin = ((((pid // tile_n_1_count) // 1) // 2))
    turns = (4000 - tile_n_1_begin + BLOCK_BLOCK_M - 1) // BLOCK_BLOCK_M
    held_0 = gl.allocate_shared_memory(k_desc_1x1x1x64x32.dtype, [2, 1, 1, 1, 64, 32], k_desc_1x1x1x64x32.layout)
    held_1 = gl.allocate_shared_memory(v_desc_1x1x1x64x32.dtype, [2, 1, 1, 1, 64, 32], v_desc_1x1x1x64x32.layout)
    block_0 = gl.allocate_shared_memory(q_desc_1x1x1x128x32.dtype, [2, 1, 1, 1, 128, 32], q_desc_1x1x1x128x32.layout)
    block_1 = gl.allocate_shared_memory(grad_out_desc_1x1x1x128x32.dtype, [2, 1, 1, 1, 128, 32], grad_out_desc_1x1x1x128x32.layout)
    vector_0 = gl.allocate_shared_memory(lse2_desc_1x1x1x128.dtype, [2, 1, 1, 1, 128], lse2_desc_1x1x1x128.layout)
    vector_1 = gl.allocate_shared_memory(delta_desc_1x1x1x128.dtype, [2, 1, 1, 1, 128], delta_desc_1x1x1x128.layout)
    shared = gl.allocate_shared_memory(gl.bfloat16, [4, 64, 128], gl.NVMMASharedLayout.get_default_for([64, 128], gl.bfloat16))
    leaving = gl.allocate_shared_memory(sum_q_desc_1x1x1x64x32.dtype, [4, 1, 1, 1, 64, 32], sum_q_desc_1x1x1x64x32.layout)
    # a group's rows of k are there
    held_0_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(held_0_full.index(slot), count=1)
    # a group's rows of v are there
    held_1_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(held_1_full.index(slot), count=1)
    # this turn's q is there
    block_0_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(block_0_full.index(slot), count=2)
    # this turn's grad_out is there
    block_1_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(block_1_full.index(slot), count=2)
    # all groups have multiplied by these blocks
    blocks_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(blocks_empty.index(slot), count=2)
    # all groups have shared this turn's operand
    shared_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(shared_full.index(slot), count=2)
    gl.warp_specialize([
        (consumer, (0, held_0_full, held_1_full, turns, tile_n_1_begin, scale, LOG2_E, block_0_full, held_0, block_0, block_1_full, held_1, block_1, vector_0, vector_1, shared, shared_full, leaving, sum_q_desc_1x1x1x64x32, row_1_begin, head_1_begin, member_1_begin, blocks_empty, grad_k_desc_1x1x1x64x32, grad_v_desc_1x1x1x64x32,)),
        (consumer, (1, held_0_full, held_1_full, turns, tile_n_1_begin, scale, LOG2_E, block_0_full, held_0, block_0, block_1_full, held_1, block_1, vector_0, vector_1, shared, shared_full, leaving, sum_q_desc_1x1x1x64x32, row_1_begin, head_1_begin, member_1_begin, blocks_empty, grad_k_desc_1x1x1x64x32, grad_v_desc_1x1x1x64x32,)),
        (producer, (held_0_full, k_desc_1x1x1x64x32, row_1_begin, head_1_begin, tile_n_1_begin, held_0, held_1_full, v_desc_1x1x1x64x32, held_1, turns, blocks_empty, block_0_full, q_desc_1x1x1x128x32, block_0, lse2_desc_1x1x1x128, vector_0, block_1_full, grad_out_desc_1x1x1x128x32, block_1, delta_desc_1x1x1x128, vector_1,)),
    ], [4, 1], [240, 24])

# region 2, static
# grid: 500, 1, 1
# guards: ((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (2 == end.1)) and (0 == begin.2)) and (1 == end.2)) and (0 == begin.3)) and (4000 == end.3)) and (1 == grad_q.align)) and (2 == grad_q.shape.0)) and (2 == grad_q.shape.1)) and (1 == grad_q.shape.2)) and (4000 == grad_q.shape.3)) and (32 == grad_q.shape.4)) and (256000 == grad_q.stride.0)) and (128000 == grad_q.stride.1)) and (32 == grad_q.stride.3)) and (1 == grad_q.stride.4)) and (1 == sum_q.align)) and (2 == sum_q.shape.0)) and (2 == sum_q.shape.1)) and (1 == sum_q.shape.2)) and (4000 == sum_q.shape.3)) and (32 == sum_q.shape.4)) and (256000 == sum_q.stride.0)) and (128000 == sum_q.stride.1)) and (32 == sum_q.stride.3)) and (1 == sum_q.stride.4))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M_2=32
# grad_q_ptr: *bf16 % 16 = grad_q
# sum_q_ptr: *fp32 % 16 = sum_q
# scale: fp32 = scale
import triton
import triton.language as tl


# examples.attention:attention_backward_fused (flash.py:212), launch 2, static sizes
#   block:tile_m@2=32
@triton.jit
def attention_backward_fused_2(
    grad_q_ptr,
    sum_q_ptr,
    scale,
    BLOCK_TILE_M_2: tl.constexpr,
):
    # for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
    pid = tl.program_id(0)
    tile_m_2_count: tl.constexpr = (4000 + BLOCK_TILE_M_2 - 1) // BLOCK_TILE_M_2
    tile_m_2_begin = (pid % tile_m_2_count) * BLOCK_TILE_M_2
    tile_m_2_idx = tile_m_2_begin + tl.arange(0, BLOCK_TILE_M_2)
    tl.static_assert(4000 % BLOCK_TILE_M_2 == 0, "whole blocks of tile_m_2")
    member_2_begin = ((pid // tile_m_2_count) % 1)
    member_2_idx = member_2_begin + tl.arange(0, 1)
    head_2_begin = (((pid // tile_m_2_count) // 1) % 2)
    head_2_idx = head_2_begin + tl.arange(0, 1)
    row_2_begin = ((((pid // tile_m_2_count) // 1) // 2))
    row_2_idx = row_2_begin + tl.arange(0, 1)
    # grad_q[*at, tile_m, :] = sum_q[*at, tile_m, :] * scale
    v0 = tl.load(sum_q_ptr + row_2_begin * 256000 + head_2_begin * 128000 + tile_m_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :])
    v1 = v0 * scale
    v2 = v1.to(tl.bfloat16)
    tl.store(grad_q_ptr + row_2_begin * 256000 + head_2_begin * 128000 + member_2_begin * 128000 + tile_m_2_idx[:, None] * 32 + tl.arange(0, 32)[None, :], v2)
