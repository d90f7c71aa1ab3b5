# config: block:tile_m=32, load:x#0.access=pointer, load:x#0.eviction=evict_last, num_stages=2, num_warps=8, persistent=2, reduce:sum#0=512
# region 0, static
# grid: 125, 1, 1
# guards: ((((((((((0 == begin.0) and (4000 == end.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (1 == out.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def long_sum_0(
    out_ptr,
    x_ptr,
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
            v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            v3 = c0 + v2
            c0 = v3
        v4 = tl.sum(c0, axis=1)
        v5 = v4.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx, v5)
