# config: block:tile_m=32, load:bias#0.eviction=evict_last, load:weight#0.eviction=evict_last, load:x#0.access=pointer, load:x#0.eviction=evict_last, num_stages=2, num_warps=8, persistent=2, reduce:sum#0=512, store:out#0.access=pointer
# region 0, static
# grid: 125, 1, 1
# guards: ((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (1 == means.align)) and (4000 == means.shape.0)) and (1 == means.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == scales.align)) and (4000 == scales.shape.0)) and (1 == scales.stride.0)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# bias_ptr: *bf16 % 16 = bias
# means_ptr: *fp32 % 16 = means
# out_ptr: *bf16 % 16 = out
# scales_ptr: *fp32 % 16 = scales
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


@triton.jit
def layer_norm_train_0(
    bias_ptr,
    means_ptr,
    out_ptr,
    scales_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_TILE_M: tl.constexpr,
    REDUCE_SUM_0: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 125, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        v1 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c0 = v0
        c1 = v1
        for reduce_sum_0_0_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_0_idx = reduce_sum_0_0_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_0_mask = reduce_sum_0_0_idx < 2992
            v2 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v3 = v2.to(tl.float32)
            v4 = c0 + v3
            v5 = c1 + v3
            c0 = v4
            c1 = v5
        v6 = tl.sum(c0, axis=1)
        v7 = tl.sum(c1, axis=1)
        v8 = v6[:, None]
        v9 = v8 / 2992.0
        v10 = v7 / 2992.0
        tl.store(means_ptr + tile_m_idx, v10)
        v11 = v10[:, None]
        v12 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c2 = v12
        for reduce_sum_0_1_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_1_idx = reduce_sum_0_1_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_1_mask = reduce_sum_0_1_idx < 2992
            v13 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], mask=reduce_sum_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v14 = v13.to(tl.float32)
            v15 = v14 - v9
            v16 = v15 * v15
            v17 = tl.where(reduce_sum_0_1_mask[None, :], v16, 0.0)
            v18 = c2 + v17
            c2 = v18
        v19 = tl.sum(c2, axis=1)
        v20 = v19 / 2992.0
        v21 = v20 + eps
        v22 = tl.rsqrt(v21)
        tl.store(scales_ptr + tile_m_idx, v22)
        v23 = v22[:, None]
        for reduce_sum_0_2_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_2_idx = reduce_sum_0_2_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_2_mask = reduce_sum_0_2_idx < 2992
            v24 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_2_idx[None, :], mask=reduce_sum_0_2_mask[None, :], other=0.0, eviction_policy='evict_last')
            v25 = v24.to(tl.float32)
            v26 = v25 - v11
            v27 = v26 * v23
            v28 = tl.load(weight_ptr + reduce_sum_0_2_idx, mask=reduce_sum_0_2_mask, other=0.0, eviction_policy='evict_last')
            v29 = v28.to(tl.float32)
            v30 = v29[None, :]
            v31 = v27 * v30
            v32 = tl.load(bias_ptr + reduce_sum_0_2_idx, mask=reduce_sum_0_2_mask, other=0.0, eviction_policy='evict_last')
            v33 = v32.to(tl.float32)
            v34 = v33[None, :]
            v35 = v31 + v34
            v36 = v35.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_2_idx[None, :], v36, mask=reduce_sum_0_2_mask[None, :])
