# config: load:weight#0.eviction=evict_last, load:x#0.eviction=evict_last, num_warps=8, persistent=2, reduce:sum#0=512
# region 0, static
# grid: 125, 1, 1
# guards: (((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, REDUCE_SUM_0=512
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.rms_norm:rms_norm (rms_norm.py:30), launch 0, static sizes
#   block:tile_m=32, load:weight#0.eviction=evict_last, load:x#0.eviction=evict_last, num_warps=8,
#   persistent=2, reduce:sum#0=512
@triton.jit
def rms_norm_0(
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
        # scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
        v0 = tl.full([BLOCK_TILE_M, REDUCE_SUM_0], 0.0, tl.float32)
        c0 = v0
        for reduce_sum_0_0_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_0_idx = reduce_sum_0_0_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_0_mask = reduce_sum_0_0_idx < 2992
            # row = x[tile_m, :].float()
            v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_0_idx[None, :], mask=reduce_sum_0_0_mask[None, :], other=0.0, eviction_policy='evict_last')
            v2 = v1.to(tl.float32)
            # scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
            v3 = v2 * v2
            v4 = c0 + v3
            c0 = v4
        v5 = tl.sum(c0, axis=1)
        v6 = v5[:, None]
        v7 = v6 / 2992.0
        v8 = v7 + eps
        scale = tl.rsqrt(v8)
        # out[tile_m, :] = row * scale * weight[:].float()
        for reduce_sum_0_1_begin in tl.range(0, 2992, REDUCE_SUM_0, num_stages=2):
            reduce_sum_0_1_idx = reduce_sum_0_1_begin + tl.arange(0, REDUCE_SUM_0)
            reduce_sum_0_1_mask = reduce_sum_0_1_idx < 2992
            # row = x[tile_m, :].float()
            v9 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], mask=reduce_sum_0_1_mask[None, :], other=0.0, eviction_policy='evict_last')
            v10 = v9.to(tl.float32)
            # out[tile_m, :] = row * scale * weight[:].float()
            v11 = v10 * scale
            v12 = tl.load(weight_ptr + reduce_sum_0_1_idx, mask=reduce_sum_0_1_mask, other=0.0, eviction_policy='evict_last')
            v13 = v12.to(tl.float32)
            v14 = v13[None, :]
            v15 = v11 * v14
            v16 = v15.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + reduce_sum_0_1_idx[None, :], v16, mask=reduce_sum_0_1_mask[None, :])
