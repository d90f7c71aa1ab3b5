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


# examples.softmax:softmax (softmax.py:25), launch 0, static sizes
#   block:tile_m=32, load:x#0.eviction=evict_last, num_warps=8, persistent=2, reduce:max#0=512
@triton.jit
def softmax_0(
    out_ptr,
    x_ptr,
    BLOCK_TILE_M: tl.constexpr,
    REDUCE_MAX_0: tl.constexpr,
):
    # for tile_m in tfl.tile(x.size(0)):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    for pid in tl.range(tl.program_id(0), tile_m_count, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
        # out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
        v0 = tl.full([BLOCK_TILE_M, (REDUCE_MAX_0 // 8)], float('-inf'), tl.float32)
        v1 = tl.full([BLOCK_TILE_M, (REDUCE_MAX_0 // 8)], 0.0, tl.float32)
        c0 = v0
        c1 = v1
        for reduce_max_0_0_begin in tl.range(0, 2992, REDUCE_MAX_0, num_stages=2):
            reduce_max_0_0_idx = reduce_max_0_0_begin + tl.arange(0, REDUCE_MAX_0)
            reduce_max_0_0_mask = reduce_max_0_0_idx < 2992
            v2 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_0_idx[None, :], mask=reduce_max_0_0_mask[None, :], other=float('-inf'), eviction_policy='evict_last')
            v3 = tl.reshape(v2, [BLOCK_TILE_M, (REDUCE_MAX_0 // 8), 8])
            v4 = v3.to(tl.float32)
            v5 = tl.reduce(v4, 2, _maximum)
            v6 = tl.maximum(c0, v5, propagate_nan=tl.PropagateNan.ALL)
            v7 = tl.abs(v6) == float('inf')
            v8 = tl.where(v7, 0.0, v6)
            v9 = v8[:, :, None]
            v10 = v4 - v9
            v11 = tl.exp2(v10 * 1.4426950408889634)
            v12 = c0 - v8
            v13 = tl.exp2(v12 * 1.4426950408889634)
            v14 = c1 * v13
            v15 = tl.sum(v11, axis=2)
            v16 = v14 + v15
            c0 = v6
            c1 = v16
        v17 = tl.reduce(c0, 1, _maximum)
        v18 = v17[:, None]
        v19 = c0 - v18
        v20 = tl.exp2(v19 * 1.4426950408889634)
        v21 = c1 * v20
        v22 = tl.sum(v21, axis=1)
        v23 = v22[:, None]
        for reduce_max_0_1_begin in tl.range(0, 2992, REDUCE_MAX_0, num_stages=2):
            reduce_max_0_1_idx = reduce_max_0_1_begin + tl.arange(0, REDUCE_MAX_0)
            reduce_max_0_1_mask = reduce_max_0_1_idx < 2992
            v24 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_1_idx[None, :], mask=reduce_max_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v25 = v24.to(tl.float32)
            v26 = v25 - v18
            v27 = tl.exp2(v26 * 1.4426950408889634)
            v28 = v27 / v23
            v29 = v28.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + reduce_max_0_1_idx[None, :], v29, mask=reduce_max_0_1_mask[None, :])
