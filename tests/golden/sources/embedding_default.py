# config: block:tile_m=1, block:tile_n=1024
# region 0, static
# grid: 12000, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == indices.align)) and (4000 == indices.shape.0)) and (1 == indices.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == table.align)) and (1008 == table.shape.0)) and (2992 == table.shape.1)) and (2992 == table.stride.0)) and (1 == table.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=1024
# indices_ptr: *i64 % 16 = indices
# out_ptr: *bf16 % 16 = out
# table_ptr: *bf16 % 16 = table
import triton
import triton.language as tl


# examples.embedding:embedding (embedding.py:24), launch 0, static sizes
#   block:tile_m=1, block:tile_n=1024
@triton.jit
def embedding_0(
    indices_ptr,
    out_ptr,
    table_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    pid = tl.program_id(0)
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile_n_begin = (pid % tile_n_count) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    tile_m_begin = (pid // tile_n_count) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # out[tile_m, tile_n] = table[indices[tile_m], tile_n]
    v0 = tl.load(indices_ptr + tile_m_idx)
    v1 = tl.load(table_ptr + v0[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & (v0[:, None] >= 0) & (v0[:, None] < 1008), other=0.0)
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v1, mask=tile_n_mask[None, :])
