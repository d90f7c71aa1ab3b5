# config: block:tile_m=1
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= out.shape.0)) and (out.shape.1 == weight.shape.0)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (out.shape.1 % 16))) and (out.shape.1 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# end_0: i32 % 16 = end.0
# out_shape_1: i32 % 16 = out.shape.1
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm (rms_norm.py:30), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def rms_norm_0(
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    end_0,
    out_shape_1,
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
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
    v1 = row * row
    v2 = tl.sum(v1, axis=1)
    v3 = v2[:, None]
    v4 = tl.cast(x_shape_1, tl.float32)
    v5 = v3 / v4
    v6 = v5 + eps
    scale = tl.rsqrt(v6)
    # out[tile_m, :] = row * scale * weight[:].float()
    v7 = row * scale
    v8 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < out_shape_1), other=0.0)
    v9 = v8.to(tl.float32)
    v10 = v9[None, :]
    v11 = v7 * v10
    v12 = tl.broadcast_to(v11, [BLOCK_TILE_M, 4096])
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v13, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= out.shape.0)) and (out.shape.1 == weight.shape.0)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (out.shape.1 % 16))) and (out.shape.1 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# end_0: i32 = end.0
# out_shape_1: i32 % 16 = out.shape.1
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm (rms_norm.py:30), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def rms_norm_0(
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    end_0,
    out_shape_1,
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
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
    v1 = row * row
    v2 = tl.sum(v1, axis=1)
    v3 = v2[:, None]
    v4 = tl.cast(x_shape_1, tl.float32)
    v5 = v3 / v4
    v6 = v5 + eps
    scale = tl.rsqrt(v6)
    # out[tile_m, :] = row * scale * weight[:].float()
    v7 = row * scale
    v8 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < out_shape_1), other=0.0)
    v9 = v8.to(tl.float32)
    v10 = v9[None, :]
    v11 = v7 * v10
    v12 = tl.broadcast_to(v11, [BLOCK_TILE_M, 4096])
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v13, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= out.shape.0)) and (out.shape.1 == weight.shape.0)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and ((weight.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# end_0: i32 = end.0
# out_shape_1: i32 = out.shape.1
# out_stride_0: i32 = out.stride.0
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm (rms_norm.py:30), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def rms_norm_0(
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    end_0,
    out_shape_1,
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
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
    v1 = row * row
    v2 = tl.sum(v1, axis=1)
    v3 = v2[:, None]
    v4 = tl.cast(x_shape_1, tl.float32)
    v5 = v3 / v4
    v6 = v5 + eps
    scale = tl.rsqrt(v6)
    # out[tile_m, :] = row * scale * weight[:].float()
    v7 = row * scale
    v8 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < out_shape_1), other=0.0)
    v9 = v8.to(tl.float32)
    v10 = v9[None, :]
    v11 = v7 * v10
    v12 = tl.broadcast_to(v11, [BLOCK_TILE_M, 4096])
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v13, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])
