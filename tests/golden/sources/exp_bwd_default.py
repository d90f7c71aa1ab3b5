# config: block:tile=1, block:tile#1=2048
# region 0, static
# grid: 8000, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=2048
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


# examples.exp:exp_bwd (exp.py:44), launch 0, static sizes
#   block:tile=1, block:tile#1=2048
@triton.jit
def exp_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    # for tile in tfl.tile(out.shape):
    pid = tl.program_id(0)
    tile_1_count: tl.constexpr = (2992 + BLOCK_TILE_1 - 1) // BLOCK_TILE_1
    tile_1_begin = (pid % tile_1_count) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < 2992
    tile_begin = (pid // tile_1_count) * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tl.static_assert(4000 % BLOCK_TILE == 0, "whole blocks of tile")
    # grad_x[tile] = grad[tile] * out[tile]
    v0 = tl.load(grad_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = tl.load(out_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 * v3
    v5 = v4.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v5, mask=tile_1_mask[None, :])
