# config: block:tile=1, block:tile#1=1024
# region 0, static
# grid: 12000, 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == a.align)) and (4000 == a.shape.0)) and (2992 == a.shape.1)) and (2992 == a.stride.0)) and (1 == a.stride.1)) and (1 == b.align)) and (4000 == b.shape.0)) and (2992 == b.shape.1)) and (2992 == b.stride.0)) and (1 == b.stride.1)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_a.align)) and (4000 == grad_a.shape.0)) and (2992 == grad_a.shape.1)) and (2992 == grad_a.stride.0)) and (1 == grad_a.stride.1)) and (1 == grad_b.align)) and (4000 == grad_b.shape.0)) and (2992 == grad_b.shape.1)) and (2992 == grad_b.stride.0)) and (1 == grad_b.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=1024
# a_ptr: *bf16 % 16 = a
# b_ptr: *bf16 % 16 = b
# grad_ptr: *bf16 % 16 = grad
# grad_a_ptr: *bf16 % 16 = grad_a
# grad_b_ptr: *bf16 % 16 = grad_b
import triton
import triton.language as tl


# examples.swiglu:swiglu_bwd (gated.py:59), launch 0, static sizes
#   block:tile=1, block:tile#1=1024
@triton.jit
def swiglu_bwd_0(
    a_ptr,
    b_ptr,
    grad_ptr,
    grad_a_ptr,
    grad_b_ptr,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    # for tile in tfl.tile(a.shape):
    pid = tl.program_id(0)
    tile_1_count: tl.constexpr = (2992 + BLOCK_TILE_1 - 1) // BLOCK_TILE_1
    tile_1_begin = (pid % tile_1_count) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < 2992
    tile_begin = (pid // tile_1_count) * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tl.static_assert(4000 % BLOCK_TILE == 0, "whole blocks of tile")
    # grad_a[tile], grad_b[tile] = swiglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    v0 = tl.load(grad_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = tl.load(b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    # sigmoid = torch.sigmoid(gate)
    sigmoid = 1.0 / (1.0 + tl.exp2(v3 * -1.4426950408889634))
    # return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid
    v5 = v4.to(tl.float32)
    v6 = v1 * v5
    v7 = v6 * sigmoid
    v8 = 1.0 - sigmoid
    v9 = v3 * v8
    v10 = 1.0 + v9
    v11 = v7 * v10
    v12 = v1 * v3
    v13 = v12 * sigmoid
    # grad_a[tile], grad_b[tile] = swiglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    v14 = v11.to(tl.bfloat16)
    tl.store(grad_a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v14, mask=tile_1_mask[None, :])
    v15 = v13.to(tl.bfloat16)
    tl.store(grad_b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v15, mask=tile_1_mask[None, :])
