# config: block:tile_m=32, block:tile_n=16, group=4, load:indices#0.eviction=evict_last, load:table#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2, store:out#0.access=pointer
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == indices.align)) and (4000 == indices.shape.0)) and (1 == indices.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == table.align)) and (1008 == table.shape.0)) and (2992 == table.shape.1)) and (2992 == table.stride.0)) and (1 == table.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=32, BLOCK_TILE_N=16
# indices_ptr: *i64 % 16 = indices
# out_ptr: *bf16 % 16 = out
# table_ptr: *bf16 % 16 = table
import triton
import triton.language as tl


@triton.jit
def embedding_0(
    indices_ptr,
    out_ptr,
    table_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 23375, tl.num_programs(0)):
        band = pid // (4 * 125)
        height = tl.minimum(187 - band * 4, 4)
        tile_n_begin = (band * 4 + pid % (4 * 125) % height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_m_begin = (pid % (4 * 125) // height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.load(indices_ptr + tile_m_idx, eviction_policy='evict_last')
        v1 = tl.load(table_ptr + v0[:, None] * 2992 + tile_n_idx[None, :], eviction_policy='evict_last')
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v1)
