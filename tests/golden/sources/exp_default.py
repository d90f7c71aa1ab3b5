# config: block:tile=1, block:tile#1=4096
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.exp:exp (exp.py:21), launch 0, static sizes
#   block:tile=1, block:tile#1=4096
@triton.jit
def exp_0(
    out_ptr,
    x_ptr,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    # for tile in tfl.tile(x.shape):
    pid = tl.program_id(0)
    tile_1_count: tl.constexpr = (2992 + BLOCK_TILE_1 - 1) // BLOCK_TILE_1
    tile_1_begin = (pid % tile_1_count) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < 2992
    tile_begin = (pid // tile_1_count) * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tl.static_assert(4000 % BLOCK_TILE == 0, "whole blocks of tile")
    # out[tile] = torch.exp(x[tile])
    v0 = tl.load(x_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.exp2(v1 * 1.4426950408889634)
    v3 = v2.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v3, mask=tile_1_mask[None, :])
