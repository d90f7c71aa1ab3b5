# config: block:part=32, block:tile_m=16, group=4, load:x#0.access=pointer, load:x#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2
# region 0, static
# grid: 264, 1, 1
# guards: ((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == partial.align)) and (4000 == partial.shape.0)) and (94 == partial.shape.1)) and (94 == partial.stride.0)) and (1 == partial.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_PART=32, BLOCK_TILE_M=16
# partial_ptr: *fp32 % 16 = partial
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def long_sum_split_0(
    partial_ptr,
    x_ptr,
    BLOCK_PART: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 23500, tl.num_programs(0)):
        band = pid // (4 * 250)
        height = tl.minimum(94 - band * 4, 4)
        tile_n_begin = (band * 4 + pid % (4 * 250) % height) * BLOCK_PART
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_PART)
        tile_n_mask = tile_n_idx < 2992
        tile_m_begin = (pid % (4 * 250) // height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0, eviction_policy='evict_last')
        v1 = v0.to(tl.float32)
        v2 = tl.sum(v1, axis=1)
        v3 = tile_n_begin // BLOCK_PART
        tl.store(partial_ptr + tile_m_idx * 94 + v3, v2)
