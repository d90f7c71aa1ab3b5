# config: block:tile=1, block:tile#1=2048
# region 0, static
# grid: 8000, 1, 1
# guards: (((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (seed <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=2048
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# p: fp64 = p
# seed: i32 = seed
import triton
import triton.language as tl


# examples.dropout:dropout_bwd (dropout.py:39), launch 0, static sizes
#   block:tile=1, block:tile#1=2048
@triton.jit
def dropout_bwd_0(
    grad_ptr,
    grad_x_ptr,
    p,
    seed,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    # for tile in tfl.tile(grad.shape):
    pid = tl.program_id(0)
    tile_1_count: tl.constexpr = (2992 + BLOCK_TILE_1 - 1) // BLOCK_TILE_1
    tile_1_begin = (pid % tile_1_count) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < 2992
    tile_begin = (pid // tile_1_count) * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tl.static_assert(4000 % BLOCK_TILE == 0, "whole blocks of tile")
    v0 = tl.full([], p, tl.float64)
    # keep = tfl.rand(tile, seed) >= p
    position0 = tile_idx[:, None] * 748 + (tile_1_begin // 4 + tl.arange(0, BLOCK_TILE_1 // 4))[None, :]
    v1 = tl.cast(seed, tl.int64)
    word0, word1, word2, word3 = tl.philox(v1, position0.to(tl.uint32), 0, 0, 0)
    bits0 = tl.reshape(tl.join(tl.join(word0, word2), tl.join(word1, word3)), [BLOCK_TILE, BLOCK_TILE_1])
    v2 = (bits0 >> 8).to(tl.float32) * 5.960464477539063e-08
    v3 = tl.cast(v0, tl.float32)
    keep = v2 >= v3
    # grad_x[tile] = torch.where(keep, grad[tile] / (1 - p), 0.0)
    v4 = tl.load(grad_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v5 = 1.0 - v0
    v6 = tl.full([], 1.0, tl.float32)
    v7 = v5.to(tl.float32)
    v8 = v6 / v7
    v9 = v4.to(tl.float32)
    v10 = v9 * v8
    v11 = tl.where(keep, v10, 0.0)
    v12 = v11.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v12, mask=tile_1_mask[None, :])
