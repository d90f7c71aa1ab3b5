# config: load:x#0.eviction=evict_last, num_warps=8, persistent=2, reduce:max#0=512
# region 0, static
# grid: 125, 1, 1
# guards: ((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_MAX_0=512
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax_0(
    out_ptr,
    x_ptr,
    BLOCK_TILE_M: tl.constexpr,
    REDUCE_MAX_0: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 125, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.full([BLOCK_TILE_M, REDUCE_MAX_0], float('-inf'), tl.float32)
        c0 = v0
        for reduce_max_0_0_begin in tl.range(0, 2992, REDUCE_MAX_0, num_stages=2):
            reduce_max_0_0_idx = reduce_max_0_0_begin + tl.arange(0, REDUCE_MAX_0)
            reduce_max_0_0_mask = reduce_max_0_0_idx < 2992
            v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_0_idx[None, :], mask=reduce_max_0_0_mask[None, :], other=float('-inf'), eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            v3 = tl.maximum(c0, v2, propagate_nan=tl.PropagateNan.ALL)
            c0 = v3
        v4 = tl.reduce(c0, 1, _maximum)
        v5 = v4[:, None]
        v6 = tl.full([BLOCK_TILE_M, REDUCE_MAX_0], 0.0, tl.float32)
        c1 = v6
        for reduce_max_0_1_begin in tl.range(0, 2992, REDUCE_MAX_0, num_stages=2):
            reduce_max_0_1_idx = reduce_max_0_1_begin + tl.arange(0, REDUCE_MAX_0)
            reduce_max_0_1_mask = reduce_max_0_1_idx < 2992
            v7 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_1_idx[None, :], mask=reduce_max_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v8 = v7.to(tl.float32)
            v9 = v8 - v5
            v10 = tl.exp(v9)
            v11 = tl.where(reduce_max_0_1_mask[None, :], v10, 0.0)
            v12 = c1 + v11
            c1 = v12
        v13 = tl.sum(c1, axis=1)
        v14 = v13[:, None]
        for reduce_max_0_2_begin in tl.range(0, 2992, REDUCE_MAX_0, num_stages=2):
            reduce_max_0_2_idx = reduce_max_0_2_begin + tl.arange(0, REDUCE_MAX_0)
            reduce_max_0_2_mask = reduce_max_0_2_idx < 2992
            v15 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_2_idx[None, :], mask=reduce_max_0_2_mask[None, :], other=0.0, eviction_policy='evict_last')
            v16 = v15.to(tl.float32)
            v17 = v16 - v5
            v18 = tl.exp(v17)
            v19 = v18 / v14
            v20 = v19.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_2_idx[None, :], v20, mask=reduce_max_0_2_mask[None, :])
