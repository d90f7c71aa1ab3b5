# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (1 == means.align)) and (4000 == means.shape.0)) and (1 == means.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == scales.align)) and (4000 == scales.shape.0)) and (1 == scales.stride.0)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# means_ptr: *fp32 % 16 = means
# out_ptr: *bf16 % 16 = out
# scales_ptr: *fp32 % 16 = scales
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.layer_norm:layer_norm_train (layer.py:39), launch 0, static sizes
#   block:tile_m=1
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
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # row = x[tile_m, :].float()
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # variance, mean = torch.var_mean(row, dim=1, correction=0)
    v1 = tl.sum(row, axis=1)
    v2 = v1[:, None]
    v3 = v2 / 2992.0
    v4 = row - v3
    v5 = v4 * v4
    v6 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v5, 0.0)
    v7 = tl.sum(v6, axis=1)
    variance = v7 / 2992.0
    mean = v1 / 2992.0
    # scale = torch.rsqrt(variance + eps)
    v8 = variance + eps
    scale = tl.rsqrt(v8)
    # means[tile_m] = mean
    tl.store(means_ptr + tile_m_idx, mean)
    # scales[tile_m] = scale
    tl.store(scales_ptr + tile_m_idx, scale)
    # normed = (row - mean[:, None]) * scale[:, None] * weight[:].float()
    v9 = mean[:, None]
    v10 = row - v9
    v11 = scale[:, None]
    v12 = v10 * v11
    v13 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v14 = v13.to(tl.float32)
    v15 = v14[None, :]
    normed = v12 * v15
    # normed = normed + bias[:].float()
    v16 = tl.load(bias_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v17 = v16.to(tl.float32)
    v18 = v17[None, :]
    normed_1 = normed + v18
    # out[tile_m, :] = normed
    v19 = normed_1.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v19, mask=(tl.arange(0, 4096) < 2992)[None, :])
