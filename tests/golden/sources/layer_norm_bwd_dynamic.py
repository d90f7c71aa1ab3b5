# config: block:block_m=16, block:tile_m=1, load:grad#0.access=pointer, load:grad#0.eviction=, load:mean#0.eviction=, load:scale#0.eviction=, load:weight#0.eviction=, load:x#0.access=pointer, load:x#0.eviction=, num_stages=3, num_warps=8, persistent=0
# region 0, dynamic
# grid: (-(-end.0 // 16)), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == biases.align)) and (1 == biases.stride.1)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == mean.align)) and (1 == mean.stride.0)) and (1 == scale.align)) and (1 == scale.stride.0)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == weights.align)) and (1 == weights.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (grad.shape.1 == x.shape.1)) and (n == x.shape.1)) and (grad.shape.1 == n)) and (grad.shape.1 == weight.shape.0)) and (weight.shape.0 == x.shape.1)) and (grad_x.shape.1 == x.shape.1)) and (n == weights.shape.1)) and (biases.shape.1 == n)) and ((weight.shape.0 + -1) <= 2147483647)) and (biases.shape.1 <= 4096)) and ((scale.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((mean.shape.0 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (((-1 * weights.stride.0) + (weights.shape.0 * weights.stride.0) + weights.shape.1 + -1) <= 2147483647)) and (((-1 * biases.stride.0) + (biases.shape.0 * biases.stride.0) + biases.shape.1 + -1) <= 2147483647)) and (0 == (biases.shape.1 % 16))) and (biases.shape.1 <= 2147483647)) and (0 == (biases.stride.0 % 16))) and (biases.stride.0 <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (grad_x.stride.0 % 16))) and (grad_x.stride.0 <= 2147483647)) and (0 == (weight.shape.0 % 16))) and (weight.shape.0 <= 2147483647)) and (0 == (weights.stride.0 % 16))) and (weights.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# biases_ptr: *fp32 % 16 = biases
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# mean_ptr: *fp32 % 16 = mean
# scale_ptr: *fp32 % 16 = scale
# weight_ptr: *bf16 % 16 = weight
# weights_ptr: *fp32 % 16 = weights
# x_ptr: *bf16 % 16 = x
# biases_shape_1: i32 % 16 = biases.shape.1
# biases_stride_0: i32 % 16 = biases.stride.0
# end_0: i32 % 16 = end.0
# grad_stride_0: i32 % 16 = grad.stride.0
# grad_x_stride_0: i32 % 16 = grad_x.stride.0
# weight_shape_0: i32 % 16 = weight.shape.0
# weights_stride_0: i32 % 16 = weights.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
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
    biases_shape_1,
    biases_stride_0,
    end_0,
    grad_stride_0,
    grad_x_stride_0,
    weight_shape_0,
    weights_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    rows_mask = rows_idx < end_0
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < biases_shape_1), other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.full([4096], 0.0, tl.float32)
    v3 = tl.full([4096], 0.0, tl.float32)
    v4 = tl.minimum(rows_begin + BLOCK_BLOCK_M, end_0)
    c0 = v3
    c1 = v2
    for tile_m_begin in tl.range(rows_begin, v4, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v5 = tl.load(scale_ptr + tile_m_idx)
        v6 = v5[:, None]
        v7 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < biases_shape_1)[None, :], other=0.0)
        v8 = v7.to(tl.float32)
        v9 = tl.load(mean_ptr + tile_m_idx)
        v10 = v9[:, None]
        v11 = v8 - v10
        v12 = v11 * v6
        v13 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < biases_shape_1)[None, :], other=0.0)
        v14 = v13.to(tl.float32)
        v15 = v14 * v12
        v16 = tl.sum(v15, axis=0)
        v17 = c1 + v16
        v18 = tl.broadcast_to(v17, [4096])
        v19 = tl.sum(v14, axis=0)
        v20 = c0 + v19
        v21 = tl.broadcast_to(v20, [4096])
        v22 = v1[None, :]
        v23 = v14 * v22
        v24 = tl.sum(v23, axis=1)
        v25 = v24[:, None]
        v26 = weight_shape_0.to(tl.float32)
        v27 = v25 / v26
        v28 = v23 * v12
        v29 = tl.where((tl.arange(0, 4096) < biases_shape_1)[None, :], v28, 0.0)
        v30 = tl.sum(v29, axis=1)
        v31 = v30[:, None]
        v32 = x_shape_1.to(tl.float32)
        v33 = v31 / v32
        v34 = v23 - v27
        v35 = v12 * v33
        v36 = v34 - v35
        v37 = v36 * v6
        v38 = tl.broadcast_to(v37, [BLOCK_TILE_M, 4096])
        v39 = v38.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v39, mask=(tl.arange(0, 4096) < biases_shape_1)[None, :])
        c0 = v21
        c1 = v18
    v40 = rows_begin // BLOCK_BLOCK_M
    v41 = tl.broadcast_to(c1, [4096])
    tl.store(weights_ptr + v40 * weights_stride_0 + tl.arange(0, 4096), v41, mask=(tl.arange(0, 4096) < biases_shape_1))
    v42 = rows_begin // BLOCK_BLOCK_M
    v43 = tl.broadcast_to(c0, [4096])
    tl.store(biases_ptr + v42 * biases_stride_0 + tl.arange(0, 4096), v43, mask=(tl.arange(0, 4096) < biases_shape_1))

# region 0, dynamic
# grid: (-(-end.0 // 16)), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == biases.align)) and (1 == biases.stride.1)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == mean.align)) and (1 == mean.stride.0)) and (1 == scale.align)) and (1 == scale.stride.0)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == weights.align)) and (1 == weights.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (grad.shape.1 == x.shape.1)) and (n == x.shape.1)) and (grad.shape.1 == n)) and (grad.shape.1 == weight.shape.0)) and (weight.shape.0 == x.shape.1)) and (grad_x.shape.1 == x.shape.1)) and (n == weights.shape.1)) and (biases.shape.1 == n)) and ((weight.shape.0 + -1) <= 2147483647)) and (biases.shape.1 <= 4096)) and ((scale.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((mean.shape.0 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (((-1 * weights.stride.0) + (weights.shape.0 * weights.stride.0) + weights.shape.1 + -1) <= 2147483647)) and (((-1 * biases.stride.0) + (biases.shape.0 * biases.stride.0) + biases.shape.1 + -1) <= 2147483647)) and (biases.shape.1 <= 2147483647)) and (biases.stride.0 <= 2147483647)) and (grad.stride.0 <= 2147483647)) and (grad_x.stride.0 <= 2147483647)) and (weight.shape.0 <= 2147483647)) and (weights.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# biases_ptr: *fp32 % 16 = biases
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# mean_ptr: *fp32 % 16 = mean
# scale_ptr: *fp32 % 16 = scale
# weight_ptr: *bf16 % 16 = weight
# weights_ptr: *fp32 % 16 = weights
# x_ptr: *bf16 % 16 = x
# biases_shape_1: i32 = biases.shape.1
# biases_stride_0: i32 = biases.stride.0
# end_0: i32 = end.0
# grad_stride_0: i32 = grad.stride.0
# grad_x_stride_0: i32 = grad_x.stride.0
# weight_shape_0: i32 = weight.shape.0
# weights_stride_0: i32 = weights.stride.0
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
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
    biases_shape_1,
    biases_stride_0,
    end_0,
    grad_stride_0,
    grad_x_stride_0,
    weight_shape_0,
    weights_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    rows_mask = rows_idx < end_0
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < biases_shape_1), other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.full([4096], 0.0, tl.float32)
    v3 = tl.full([4096], 0.0, tl.float32)
    v4 = tl.minimum(rows_begin + BLOCK_BLOCK_M, end_0)
    c0 = v3
    c1 = v2
    for tile_m_begin in tl.range(rows_begin, v4, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v5 = tl.load(scale_ptr + tile_m_idx)
        v6 = v5[:, None]
        v7 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < biases_shape_1)[None, :], other=0.0)
        v8 = v7.to(tl.float32)
        v9 = tl.load(mean_ptr + tile_m_idx)
        v10 = v9[:, None]
        v11 = v8 - v10
        v12 = v11 * v6
        v13 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < biases_shape_1)[None, :], other=0.0)
        v14 = v13.to(tl.float32)
        v15 = v14 * v12
        v16 = tl.sum(v15, axis=0)
        v17 = c1 + v16
        v18 = tl.broadcast_to(v17, [4096])
        v19 = tl.sum(v14, axis=0)
        v20 = c0 + v19
        v21 = tl.broadcast_to(v20, [4096])
        v22 = v1[None, :]
        v23 = v14 * v22
        v24 = tl.sum(v23, axis=1)
        v25 = v24[:, None]
        v26 = weight_shape_0.to(tl.float32)
        v27 = v25 / v26
        v28 = v23 * v12
        v29 = tl.where((tl.arange(0, 4096) < biases_shape_1)[None, :], v28, 0.0)
        v30 = tl.sum(v29, axis=1)
        v31 = v30[:, None]
        v32 = x_shape_1.to(tl.float32)
        v33 = v31 / v32
        v34 = v23 - v27
        v35 = v12 * v33
        v36 = v34 - v35
        v37 = v36 * v6
        v38 = tl.broadcast_to(v37, [BLOCK_TILE_M, 4096])
        v39 = v38.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v39, mask=(tl.arange(0, 4096) < biases_shape_1)[None, :])
        c0 = v21
        c1 = v18
    v40 = rows_begin // BLOCK_BLOCK_M
    v41 = tl.broadcast_to(c1, [4096])
    tl.store(weights_ptr + v40 * weights_stride_0 + tl.arange(0, 4096), v41, mask=(tl.arange(0, 4096) < biases_shape_1))
    v42 = rows_begin // BLOCK_BLOCK_M
    v43 = tl.broadcast_to(c0, [4096])
    tl.store(biases_ptr + v42 * biases_stride_0 + tl.arange(0, 4096), v43, mask=(tl.arange(0, 4096) < biases_shape_1))
