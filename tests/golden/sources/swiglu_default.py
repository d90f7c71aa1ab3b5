# config: block:tile=1, block:tile#1=2048
# region 0, static
# grid: 8000, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == a.align)) and (4000 == a.shape.0)) and (2992 == a.shape.1)) and (2992 == a.stride.0)) and (1 == a.stride.1)) and (1 == b.align)) and (4000 == b.shape.0)) and (2992 == b.shape.1)) and (2992 == b.stride.0)) and (1 == b.stride.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=2048
# a_ptr: *bf16 % 16 = a
# b_ptr: *bf16 % 16 = b
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


# examples.swiglu:swiglu (gated.py:32), launch 0, static sizes
#   block:tile=1, block:tile#1=2048
@triton.jit
def swiglu_0(
    a_ptr,
    b_ptr,
    out_ptr,
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
    # out[tile] = F.silu(a[tile].float()) * b[tile]
    v0 = tl.load(a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = 1.0 / (1.0 + tl.exp2(v1 * -1.4426950408889634))
    v3 = v1 * v2
    v4 = tl.load(b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v5 = v4.to(tl.float32)
    v6 = v3 * v5
    v7 = v6.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v7, mask=tile_1_mask[None, :])
