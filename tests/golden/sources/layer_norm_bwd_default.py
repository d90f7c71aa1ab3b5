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
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.full([4096], 0.0, tl.float32)
    v3 = tl.full([4096], 0.0, tl.float32)
    v4 = rows_begin + BLOCK_BLOCK_M
    c0 = v3
    c1 = v2
    for tile_m_begin in tl.range(rows_begin, v4, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v5 = tl.load(scale_ptr + tile_m_idx)
        v6 = v5[:, None]
        v7 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        v8 = v7.to(tl.float32)
        v9 = tl.load(mean_ptr + tile_m_idx)
        v10 = v9[:, None]
        v11 = v8 - v10
        v12 = v11 * v6
        v13 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        v14 = v13.to(tl.float32)
        v15 = v14 * v12
        v16 = tl.sum(v15, axis=0)
        v17 = c1 + v16
        v18 = tl.sum(v14, axis=0)
        v19 = c0 + v18
        v20 = v1[None, :]
        v21 = v14 * v20
        v22 = tl.sum(v21, axis=1)
        v23 = v22[:, None]
        v24 = v23 / 2992.0
        v25 = v21 - v24
        v26 = v21 * v12
        v27 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v26, 0.0)
        v28 = tl.sum(v27, axis=1)
        v29 = v28[:, None]
        v30 = v29 / 2992.0
        v31 = v12 * v30
        v32 = v25 - v31
        v33 = v32 * v6
        v34 = v33.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v34, mask=(tl.arange(0, 4096) < 2992)[None, :])
        c0 = v19
        c1 = v17
    v35 = rows_begin // BLOCK_BLOCK_M
    tl.store(weights_ptr + v35 * 2992 + tl.arange(0, 4096), c1, mask=(tl.arange(0, 4096) < 2992))
    v36 = rows_begin // BLOCK_BLOCK_M
    tl.store(biases_ptr + v36 * 2992 + tl.arange(0, 4096), c0, mask=(tl.arange(0, 4096) < 2992))
