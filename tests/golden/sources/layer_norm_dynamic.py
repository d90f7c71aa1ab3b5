# config: block:tile_m=1
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (bias.shape.0 == weight.shape.0)) and (end.0 <= out.shape.0)) and (bias.shape.0 == out.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (bias.shape.0 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (bias.shape.0 % 16))) and (bias.shape.0 <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# bias_shape_0: i32 % 16 = bias.shape.0
# end_0: i32 % 16 = end.0
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.layer_norm:layer_norm (layer_norm.py:36), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    bias_shape_0,
    end_0,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # row = x[tile_m, :].float()
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
    v1 = tl.sum(row, axis=1)
    v2 = v1[:, None]
    v3 = tl.cast(x_shape_1, tl.float32)
    mean = v2 / v3
    v4 = row - mean
    v5 = v4 * v4
    v6 = tl.where((tl.arange(0, 4096) < bias_shape_0)[None, :], v5, 0.0)
    v7 = tl.sum(v6, axis=1)
    v8 = v7[:, None]
    v9 = tl.cast(x_shape_1, tl.float32)
    variance = v8 / v9
    # out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    v10 = row - mean
    v11 = variance + eps
    v12 = tl.rsqrt(v11)
    v13 = v10 * v12
    v14 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v15 = v14.to(tl.float32)
    v16 = v15[None, :]
    v17 = v13 * v16
    v18 = tl.load(bias_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v19 = v18.to(tl.float32)
    v20 = v19[None, :]
    v21 = v17 + v20
    v22 = tl.broadcast_to(v21, [BLOCK_TILE_M, 4096])
    v23 = v22.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v23, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (bias.shape.0 == weight.shape.0)) and (end.0 <= out.shape.0)) and (bias.shape.0 == out.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (bias.shape.0 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (bias.shape.0 % 16))) and (bias.shape.0 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# bias_shape_0: i32 % 16 = bias.shape.0
# end_0: i32 = end.0
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.layer_norm:layer_norm (layer_norm.py:36), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    bias_shape_0,
    end_0,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # row = x[tile_m, :].float()
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
    v1 = tl.sum(row, axis=1)
    v2 = v1[:, None]
    v3 = tl.cast(x_shape_1, tl.float32)
    mean = v2 / v3
    v4 = row - mean
    v5 = v4 * v4
    v6 = tl.where((tl.arange(0, 4096) < bias_shape_0)[None, :], v5, 0.0)
    v7 = tl.sum(v6, axis=1)
    v8 = v7[:, None]
    v9 = tl.cast(x_shape_1, tl.float32)
    variance = v8 / v9
    # out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    v10 = row - mean
    v11 = variance + eps
    v12 = tl.rsqrt(v11)
    v13 = v10 * v12
    v14 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v15 = v14.to(tl.float32)
    v16 = v15[None, :]
    v17 = v13 * v16
    v18 = tl.load(bias_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v19 = v18.to(tl.float32)
    v20 = v19[None, :]
    v21 = v17 + v20
    v22 = tl.broadcast_to(v21, [BLOCK_TILE_M, 4096])
    v23 = v22.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v23, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (bias.shape.0 == weight.shape.0)) and (end.0 <= out.shape.0)) and (bias.shape.0 == out.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (bias.shape.0 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (bias.shape.0 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# bias_shape_0: i32 = bias.shape.0
# end_0: i32 = end.0
# out_stride_0: i32 = out.stride.0
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


# examples.layer_norm:layer_norm (layer_norm.py:36), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    bias_shape_0,
    end_0,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # row = x[tile_m, :].float()
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
    v1 = tl.sum(row, axis=1)
    v2 = v1[:, None]
    v3 = tl.cast(x_shape_1, tl.float32)
    mean = v2 / v3
    v4 = row - mean
    v5 = v4 * v4
    v6 = tl.where((tl.arange(0, 4096) < bias_shape_0)[None, :], v5, 0.0)
    v7 = tl.sum(v6, axis=1)
    v8 = v7[:, None]
    v9 = tl.cast(x_shape_1, tl.float32)
    variance = v8 / v9
    # out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    v10 = row - mean
    v11 = variance + eps
    v12 = tl.rsqrt(v11)
    v13 = v10 * v12
    v14 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v15 = v14.to(tl.float32)
    v16 = v15[None, :]
    v17 = v13 * v16
    v18 = tl.load(bias_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < bias_shape_0), other=0.0)
    v19 = v18.to(tl.float32)
    v20 = v19[None, :]
    v21 = v17 + v20
    v22 = tl.broadcast_to(v21, [BLOCK_TILE_M, 4096])
    v23 = v22.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v23, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < bias_shape_0)[None, :])
