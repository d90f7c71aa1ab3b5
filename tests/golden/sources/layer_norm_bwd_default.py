# config: block:block_m=16, block:tile_m=1, num_stages=3
# region 0, static
# grid: 250, 1, 1
# guards: (((((((((((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == biases.align)) and (250 == biases.shape.0)) and (2992 == biases.shape.1)) and (2992 == biases.stride.0)) and (1 == biases.stride.1)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == mean.align)) and (4000 == mean.shape.0)) and (1 == mean.stride.0)) and (2992 == n)) and (1 == scale.align)) and (4000 == scale.shape.0)) and (1 == scale.stride.0)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == weights.align)) and (250 == weights.shape.0)) and (2992 == weights.shape.1)) and (2992 == weights.stride.0)) and (1 == weights.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# biases_ptr: *fp32 % 16 = biases
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# mean_ptr: *fp32 % 16 = mean
# scale_ptr: *fp32 % 16 = scale
# weight_ptr: *bf16 % 16 = weight
# weights_ptr: *fp32 % 16 = weights
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.layer_norm:layer_norm_bwd (layer_norm.py:80), launch 0, static sizes
#   block:block_m=16, block:tile_m=1, num_stages=3
@triton.jit
def layer_norm_bwd_0(
    biases_ptr,
    grad_ptr,
    grad_x_ptr,
    mean_ptr,
    scale_ptr,
    weight_ptr,
    weights_ptr,
    x_ptr,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for rows in tfl.tile(m, block_size=block_m):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    tl.static_assert(4000 % BLOCK_BLOCK_M == 0, "whole blocks of rows")
    # factor = weight[:].float()
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    factor = v0.to(tl.float32)
    # to_weight, to_bias = tfl.zeros([n]), tfl.zeros([n])
    to_weight_start = tl.full([4096], 0.0, tl.float32)
    to_bias_start = tl.full([4096], 0.0, tl.float32)
    # for tile_m in tfl.tile(rows.begin, rows.end):
    v1 = rows_begin + BLOCK_BLOCK_M
    to_bias = to_bias_start
    to_weight = to_weight_start
    for tile_m_begin in tl.range(rows_begin, v1, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        # row_scale = scale[tile_m][:, None]
        v2 = tl.load(scale_ptr + tile_m_idx)
        row_scale = v2[:, None]
        # normed = (x[tile_m, :].float() - mean[tile_m][:, None]) * row_scale
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        v5 = tl.load(mean_ptr + tile_m_idx)
        v6 = v5[:, None]
        v7 = v4 - v6
        normed = v7 * row_scale
        # g = grad[tile_m, :].float()
        v8 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        g = v8.to(tl.float32)
        # to_weight += (g * normed).sum(dim=0)
        v9 = g * normed
        v10 = tl.sum(v9, axis=0)
        to_weight_next = to_weight + v10
        # to_bias += g.sum(dim=0)
        v11 = tl.sum(g, axis=0)
        to_bias_next = to_bias + v11
        # grad_x[tile_m, :] = through_row(g * factor, normed) * row_scale
        v12 = factor[None, :]
        v13 = g * v12
        # return g - torch.mean(g, dim=1, keepdim=True) - normed * torch.mean(g * normed, dim=1, keepdim=True)
        v14 = tl.sum(v13, axis=1)
        v15 = v14[:, None]
        v16 = v15 / 2992.0
        v17 = v13 - v16
        v18 = v13 * normed
        v19 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v18, 0.0)
        v20 = tl.sum(v19, axis=1)
        v21 = v20[:, None]
        v22 = v21 / 2992.0
        v23 = normed * v22
        v24 = v17 - v23
        # grad_x[tile_m, :] = through_row(g * factor, normed) * row_scale
        v25 = v24 * row_scale
        v26 = v25.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v26, mask=(tl.arange(0, 4096) < 2992)[None, :])
        to_bias = to_bias_next
        to_weight = to_weight_next
    # weights[rows.id, :] = to_weight
    v27 = rows_begin // BLOCK_BLOCK_M
    tl.store(weights_ptr + v27 * 2992 + tl.arange(0, 4096), to_weight, mask=(tl.arange(0, 4096) < 2992))
    # biases[rows.id, :] = to_bias
    v28 = rows_begin // BLOCK_BLOCK_M
    tl.store(biases_ptr + v28 * 2992 + tl.arange(0, 4096), to_bias, mask=(tl.arange(0, 4096) < 2992))
