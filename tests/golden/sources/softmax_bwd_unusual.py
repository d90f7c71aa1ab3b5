# config: block:tile_m=32, load:grad#0.access=pointer, load:grad#0.eviction=evict_last, load:out#0.access=pointer, load:out#0.eviction=evict_last, num_stages=2, num_warps=8, persistent=2, reduce:sum#0=512, store:grad_x#0.access=pointer
# region 0, static
# grid: 125, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


@triton.jit
def softmax_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    BLOCK_TILE_M: tl.constexpr,
    REDUCE_SUM_0: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 125, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c0 = v0
        for reduce_sum_0_0_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_0_idx = reduce_sum_0_0_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_0_mask = reduce_sum_0_0_idx < 2992
            v1 = tl.load(out_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            v3 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v4 = v3.to(tl.float32)
            v5 = v2 * v4
            v6 = c0 + v5
            c0 = v6
        v7 = tl.sum(c0, axis=1)
        v8 = v7[:, None]
        for reduce_sum_0_1_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_1_idx = reduce_sum_0_1_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_1_mask = reduce_sum_0_1_idx < 2992
            v9 = tl.load(out_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], mask=reduce_sum_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v10 = v9.to(tl.float32)
            v11 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], mask=reduce_sum_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v12 = v11.to(tl.float32)
            v13 = v12 - v8
            v14 = v10 * v13
            v15 = v14.to(tl.bfloat16)
            tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], v15, mask=reduce_sum_0_1_mask[None, :])
