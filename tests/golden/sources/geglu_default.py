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


# examples.geglu:geglu (gated.py:89), launch 0, static sizes
#   block:tile=1, block:tile#1=2048
@triton.jit
def geglu_0(
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
    # out[tile] = F.gelu(a[tile].float(), approximate="tanh") * b[tile]
    v0 = tl.load(a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = 0.044715 * v1
    v3 = v2 * v1
    v4 = v3 * v1
    v5 = v1 + v4
    v6 = 0.7978845608028654 * v5
    v7 = 0.5 * v1
    v8 = tl.where(tl.abs(v6) < 0.05, v6 * (1.0 - v6 * v6 * (1.0 / 3 - v6 * v6 * (2.0 / 15))), 1.0 - 2.0 / (tl.exp(2.0 * v6) + 1.0))
    v9 = 1.0 + v8
    v10 = v7 * v9
    v11 = tl.load(b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v12 = v11.to(tl.float32)
    v13 = v10 * v12
    v14 = v13.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v14, mask=tile_1_mask[None, :])
