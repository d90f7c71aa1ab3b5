# config: block:tile_m=32, load:log_q#0.access=pointer, load:log_q#0.eviction=evict_last, load:p#0.access=pointer, load:p#0.eviction=evict_last, num_stages=2, num_warps=8, persistent=2, reduce:sum#0=512
# region 0, static
# grid: 125, 1, 1
# guards: (((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == log_q.align)) and (4000 == log_q.shape.0)) and (2992 == log_q.shape.1)) and (2992 == log_q.stride.0)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (1 == p.align)) and (4000 == p.shape.0)) and (2992 == p.shape.1)) and (2992 == p.stride.0)) and (1 == p.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# p_ptr: *bf16 % 16 = p
import triton
import triton.language as tl


@triton.jit
def kl_div_0(
    log_q_ptr,
    losses_ptr,
    p_ptr,
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
            v1 = tl.load(p_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            v3 = v2 > 0.0
            v4 = tl.log(v2)
            v5 = tl.load(log_q_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v6 = v5.to(tl.float32)
            v7 = v4 - v6
            v8 = v2 * v7
            v9 = tl.where(v3, v8, 0.0)
            v10 = c0 + v9
            c0 = v10
        v11 = tl.sum(c0, axis=1)
        tl.store(losses_ptr + tile_m_idx, v11)
