# config: block:tile_m=1, block:tile_n=2048
# region 0, static
# grid: 8000, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (4000 == out.shape.1)) and (4000 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (4000 == y.shape.0)) and (1008 == y.shape.1)) and (1008 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=2048
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
import triton
import triton.language as tl


# examples.concat:concat (concat.py:23), launch 0, static sizes
#   block:tile_m=1, block:tile_n=2048
@triton.jit
def concat_0(
    out_ptr,
    x_ptr,
    y_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile(out.shape):
    pid = tl.program_id(0)
    tile_n_count: tl.constexpr = (4000 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile_n_begin = (pid % tile_n_count) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 4000
    tile_m_begin = (pid // tile_n_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # left = column < n
    left = tile_n_idx < 2992
    # from_x = tfl.load(x, [tile_m, column], extra_mask=left[None, :])
    v0 = left[None, :]
    v1 = tl.broadcast_to(v0, [BLOCK_TILE_M, BLOCK_TILE_N])
    from_x = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & v1, other=0.0)
    # from_y = tfl.load(y, [tile_m, column - n], extra_mask=~left[None, :])
    v2 = tile_n_idx - 2992
    v3 = left[None, :]
    v4 = v3 == 0
    v5 = tl.broadcast_to(v4, [BLOCK_TILE_M, BLOCK_TILE_N])
    from_y = tl.load(y_ptr + tile_m_idx[:, None] * 1008 + v2[None, :], mask=tile_n_mask[None, :] & v5, other=0.0)
    # out[tile_m, tile_n] = torch.where(left[None, :], from_x, from_y)
    v6 = left[None, :]
    v7 = from_x.to(tl.float32)
    v8 = from_y.to(tl.float32)
    v9 = tl.where(v6, v7, v8)
    v10 = v9.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 4000 + tile_n_idx[None, :], v10, mask=tile_n_mask[None, :])
