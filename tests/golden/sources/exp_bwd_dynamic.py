# config: block:tile=1, block:tile#1=4096, group=1, load:grad#0.access=pointer, load:grad#0.eviction=, load:out#0.access=pointer, load:out#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0, store:grad_x#0.access=pointer
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (1 == out.stride.1)) and (end.0 <= grad.shape.0)) and (end.1 <= grad.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (end.0 <= grad_x.shape.0)) and (end.1 <= grad_x.shape.1)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (grad_x.stride.0 % 16))) and (grad_x.stride.0 <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=4096
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# grad_stride_0: i32 % 16 = grad.stride.0
# grad_x_stride_0: i32 % 16 = grad_x.stride.0
# out_stride_0: i32 % 16 = out.stride.0
import triton
import triton.language as tl


@triton.jit
def exp_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    end_0,
    end_1,
    grad_stride_0,
    grad_x_stride_0,
    out_stride_0,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_1_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < end_1
    tile_begin = (pid // tl.cdiv(end_1, 4096))
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    v0 = tl.load(grad_ptr + tile_idx[:, None] * grad_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v1 = tl.load(out_ptr + tile_idx[:, None] * out_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 * v3
    v5 = v4.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_idx[:, None] * grad_x_stride_0 + tile_1_idx[None, :], v5, mask=tile_mask[:, None] & tile_1_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (1 == out.stride.1)) and (end.0 <= grad.shape.0)) and (end.1 <= grad.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (end.0 <= grad_x.shape.0)) and (end.1 <= grad_x.shape.1)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (grad.stride.0 <= 2147483647)) and (grad_x.stride.0 <= 2147483647)) and (out.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=4096
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_stride_0: i32 = grad.stride.0
# grad_x_stride_0: i32 = grad_x.stride.0
# out_stride_0: i32 = out.stride.0
import triton
import triton.language as tl


@triton.jit
def exp_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    end_0,
    end_1,
    grad_stride_0,
    grad_x_stride_0,
    out_stride_0,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_1_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < end_1
    tile_begin = (pid // tl.cdiv(end_1, 4096))
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    v0 = tl.load(grad_ptr + tile_idx[:, None] * grad_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v1 = tl.load(out_ptr + tile_idx[:, None] * out_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 * v3
    v5 = v4.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_idx[:, None] * grad_x_stride_0 + tile_1_idx[None, :], v5, mask=tile_mask[:, None] & tile_1_mask[None, :])
