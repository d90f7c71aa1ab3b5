# config: block:tile_m=1, load:grad#0.access=pointer, load:grad#0.eviction=, load:out#0.access=pointer, load:out#0.eviction=, num_stages=2, num_warps=8, persistent=0, reduce:sum#0=0
# region 0, dynamic
# grid: end.0, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (1 == out.stride.1)) and (end.0 <= out.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == out.shape.1)) and (end.0 <= grad_x.shape.0)) and (grad.shape.1 == grad_x.shape.1)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 4096)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (grad.shape.1 % 16))) and (grad.shape.1 <= 2147483647)) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (grad_x.stride.0 % 16))) and (grad_x.stride.0 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
# end_0: i32 % 16 = end.0
# grad_shape_1: i32 % 16 = grad.shape.1
# grad_stride_0: i32 % 16 = grad.stride.0
# grad_x_stride_0: i32 % 16 = grad_x.stride.0
# out_stride_0: i32 % 16 = out.stride.0
import triton
import triton.language as tl


@triton.jit
def softmax_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    end_0,
    grad_shape_1,
    grad_stride_0,
    grad_x_stride_0,
    out_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    v6 = v5[:, None]
    v7 = v3 - v6
    v8 = v1 * v7
    v9 = tl.broadcast_to(v8, [BLOCK_TILE_M, 4096])
    v10 = v9.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v10, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (1 == out.stride.1)) and (end.0 <= out.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == out.shape.1)) and (end.0 <= grad_x.shape.0)) and (grad.shape.1 == grad_x.shape.1)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 4096)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (grad.shape.1 <= 2147483647)) and (grad.stride.0 <= 2147483647)) and (grad_x.stride.0 <= 2147483647)) and (out.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
# end_0: i32 = end.0
# grad_shape_1: i32 = grad.shape.1
# grad_stride_0: i32 = grad.stride.0
# grad_x_stride_0: i32 = grad_x.stride.0
# out_stride_0: i32 = out.stride.0
import triton
import triton.language as tl


@triton.jit
def softmax_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    end_0,
    grad_shape_1,
    grad_stride_0,
    grad_x_stride_0,
    out_stride_0,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(out_ptr + tile_m_idx[:, None] * out_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    v6 = v5[:, None]
    v7 = v3 - v6
    v8 = v1 * v7
    v9 = tl.broadcast_to(v8, [BLOCK_TILE_M, 4096])
    v10 = v9.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v10, mask=tile_m_mask[:, None] & (tl.arange(0, 4096) < grad_shape_1)[None, :])
