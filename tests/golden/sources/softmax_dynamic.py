# config: block:tile_m=1
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.0 <= out.shape.0)) and (out.shape.1 == x.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (out.shape.1 % 16))) and (out.shape.1 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# out_shape_1: i32 % 16 = out.shape.1
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.softmax:softmax (softmax.py:25), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def softmax_0(
    out_ptr,
    x_ptr,
    end_0,
    out_shape_1,
    out_stride_0,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(x.size(0)):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=float('-inf'))
    v1 = v0.to(tl.float32)
    v2 = tl.reduce(v1, 1, _maximum)
    v3 = v2[:, None]
    v4 = v1 - v3
    v5 = tl.exp2(v4 * 1.4426950408889634)
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    v8 = v5 / v7
    v9 = tl.broadcast_to(v8, [BLOCK_TILE_M, 4096])
    v10 = v9.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v10, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.0 <= out.shape.0)) and (out.shape.1 == x.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (out.shape.1 % 16))) and (out.shape.1 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# out_shape_1: i32 % 16 = out.shape.1
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.softmax:softmax (softmax.py:25), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def softmax_0(
    out_ptr,
    x_ptr,
    end_0,
    out_shape_1,
    out_stride_0,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(x.size(0)):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=float('-inf'))
    v1 = v0.to(tl.float32)
    v2 = tl.reduce(v1, 1, _maximum)
    v3 = v2[:, None]
    v4 = v1 - v3
    v5 = tl.exp2(v4 * 1.4426950408889634)
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    v8 = v5 / v7
    v9 = tl.broadcast_to(v8, [BLOCK_TILE_M, 4096])
    v10 = v9.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v10, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.0 <= out.shape.0)) and (out.shape.1 == x.shape.1)) and (end.0 <= 2147483646)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 4096)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.shape.1 <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# out_shape_1: i32 = out.shape.1
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.softmax:softmax (softmax.py:25), launch 0, run-time sizes
#   block:tile_m=1
@triton.jit
def softmax_0(
    out_ptr,
    x_ptr,
    end_0,
    out_shape_1,
    out_stride_0,
    x_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(x.size(0)):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    # out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :], other=float('-inf'))
    v1 = v0.to(tl.float32)
    v2 = tl.reduce(v1, 1, _maximum)
    v3 = v2[:, None]
    v4 = v1 - v3
    v5 = tl.exp2(v4 * 1.4426950408889634)
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    v8 = v5 / v7
    v9 = tl.broadcast_to(v8, [BLOCK_TILE_M, 4096])
    v10 = v9.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], v10, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < out_shape_1)[None, :])
