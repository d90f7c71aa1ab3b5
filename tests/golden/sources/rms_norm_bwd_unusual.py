# config: block:tile_m=16, load:grad#0.eviction=evict_last, load:inv_rms#0.eviction=evict_last, load:weight#0.eviction=evict_last, load:x#0.eviction=evict_last, num_stages=1, num_warps=16, persistent=2
# region 0, static
# grid: 125, 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == inv_rms.align)) and (4000 == inv_rms.shape.0)) and (1 == inv_rms.stride.0)) and (2992 == n)) and (1 == partial.align)) and (125 == partial.shape.0)) and (2992 == partial.shape.1)) and (2992 == partial.stride.0)) and (1 == partial.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=1, num_warps=16
# constexprs: BLOCK_BLOCK_M=32, BLOCK_TILE_M=16
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# inv_rms_ptr: *fp32 % 16 = inv_rms
# partial_ptr: *fp32 % 16 = partial
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.rms_norm:rms_norm_bwd (rms_norm.py:78), launch 0, static sizes
#   block:block_m=32, block:tile_m=16, load:grad#0.eviction=evict_last,
#   load:inv_rms#0.eviction=evict_last, load:weight#0.eviction=evict_last, load:x#0.eviction=evict_last,
#   num_stages=1, num_warps=16, persistent=2
@triton.jit
def rms_norm_bwd_0(
    grad_ptr,
    grad_x_ptr,
    inv_rms_ptr,
    partial_ptr,
    weight_ptr,
    x_ptr,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for rows in tfl.tile(m, block_size=block_m):
    rows_count: tl.constexpr = (4000 + BLOCK_BLOCK_M - 1) // BLOCK_BLOCK_M
    for pid in tl.range(tl.program_id(0), rows_count, tl.num_programs(0)):
        rows_begin = pid * BLOCK_BLOCK_M
        rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
        tl.static_assert(4000 % BLOCK_BLOCK_M == 0, "whole blocks of rows")
        # factor = weight[:].float()
        v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0, eviction_policy='evict_last')
        factor = v0.to(tl.float32)
        # to_weight = tfl.zeros([n])
        to_weight_start = tl.full([4096], 0.0, tl.float32)
        # for tile_m in tfl.tile(rows.begin, rows.end):
        v1 = rows_begin + BLOCK_BLOCK_M
        to_weight = to_weight_start
        for tile_m_begin in tl.range(rows_begin, v1, BLOCK_TILE_M, num_stages=1):
            tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
            # scale = inv_rms[tile_m][:, None]
            v2 = tl.load(inv_rms_ptr + tile_m_idx, eviction_policy='evict_last')
            scale = v2[:, None]
            # normed = x[tile_m, :].float() * scale
            v3 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0, eviction_policy='evict_last')
            v4 = v3.to(tl.float32)
            normed = v4 * scale
            # g = grad[tile_m, :].float()
            v5 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0, eviction_policy='evict_last')
            g = v5.to(tl.float32)
            # to_weight += (g * normed).sum(dim=0)
            v6 = g * normed
            v7 = tl.sum(v6, axis=0)
            to_weight_next = to_weight + v7
            # g = g * factor
            v8 = factor[None, :]
            g_1 = g * v8
            # grad_x[tile_m, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * scale
            v9 = g_1 * normed
            v10 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v9, 0.0)
            v11 = tl.sum(v10, axis=1)
            v12 = v11[:, None]
            v13 = v12 / 2992.0
            v14 = normed * v13
            v15 = g_1 - v14
            v16 = v15 * scale
            v17 = v16.to(tl.bfloat16)
            tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v17, mask=(tl.arange(0, 4096) < 2992)[None, :])
            to_weight = to_weight_next
        # partial[rows.id, :] = to_weight
        v18 = rows_begin // BLOCK_BLOCK_M
        tl.store(partial_ptr + v18 * 2992 + tl.arange(0, 4096), to_weight, mask=(tl.arange(0, 4096) < 2992))
