# config: load:bias#0.eviction=evict_last, load:weight#0.eviction=evict_last, load:x#0.eviction=evict_last, num_warps=8, persistent=2, reduce:sum#0=512
# region 0, static
# grid: 125, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.layer_norm:layer_norm (layer_norm.py:36), launch 0, static sizes
#   block:tile_m=32, load:bias#0.eviction=evict_last, load:weight#0.eviction=evict_last,
#   load:x#0.eviction=evict_last, num_warps=8, persistent=2, reduce:sum#0=512
@triton.jit
def layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_TILE_M: tl.constexpr,
    REDUCE_SUM_0: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    for pid in tl.range(tl.program_id(0), tile_m_count, tl.num_programs(0)):
        tile_m_begin = pid * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
        # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
        v0 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c0 = v0
        for reduce_sum_0_0_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_0_idx = reduce_sum_0_0_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_0_mask = reduce_sum_0_0_idx < 2992
            # row = x[tile_m, :].float()
            v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
            v3 = c0 + v2
            c0 = v3
        v4 = tl.sum(c0, axis=1)
        v5 = v4[:, None]
        mean = v5 / 2992.0
        v6 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c1 = v6
        for reduce_sum_0_1_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_1_idx = reduce_sum_0_1_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_1_mask = reduce_sum_0_1_idx < 2992
            # row = x[tile_m, :].float()
            v7 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], mask=reduce_sum_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v8 = v7.to(tl.float32)
            # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
            v9 = v8 - mean
            v10 = v9 * v9
            v11 = tl.where(reduce_sum_0_1_mask[None, :], v10, 0.0)
            v12 = c1 + v11
            c1 = v12
        v13 = tl.sum(c1, axis=1)
        v14 = v13[:, None]
        variance = v14 / 2992.0
        # out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
        v15 = variance + eps
        v16 = tl.rsqrt(v15)
        for reduce_sum_0_2_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_2_idx = reduce_sum_0_2_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_2_mask = reduce_sum_0_2_idx < 2992
            # row = x[tile_m, :].float()
            v17 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_2_idx[None, :], mask=reduce_sum_0_2_mask[None, :], other=0.0, eviction_policy='evict_last')
            v18 = v17.to(tl.float32)
            # out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
            v19 = v18 - mean
            v20 = v19 * v16
            v21 = tl.load(weight_ptr + reduce_sum_0_2_idx, mask=reduce_sum_0_2_mask, other=0.0, eviction_policy='evict_last')
            v22 = v21.to(tl.float32)
            v23 = v22[None, :]
            v24 = v20 * v23
            v25 = tl.load(bias_ptr + reduce_sum_0_2_idx, mask=reduce_sum_0_2_mask, other=0.0, eviction_policy='evict_last')
            v26 = v25.to(tl.float32)
            v27 = v26[None, :]
            v28 = v24 + v27
            v29 = v28.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_2_idx[None, :], v29, mask=reduce_sum_0_2_mask[None, :])
