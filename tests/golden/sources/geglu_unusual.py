# config: block:tile=32, block:tile#1=16, group=4, load:a#0.access=pointer, load:a#0.eviction=evict_last, load:b#0.access=pointer, load:b#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2, store:out#0.access=pointer
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == a.align)) and (4000 == a.shape.0)) and (2992 == a.shape.1)) and (2992 == a.stride.0)) and (1 == a.stride.1)) and (1 == b.align)) and (4000 == b.shape.0)) and (2992 == b.shape.1)) and (2992 == b.stride.0)) and (1 == b.stride.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE=32, BLOCK_TILE_1=16
# a_ptr: *bf16 % 16 = a
# b_ptr: *bf16 % 16 = b
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


@triton.jit
def geglu_0(
    a_ptr,
    b_ptr,
    out_ptr,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 23375, tl.num_programs(0)):
        band = pid // (4 * 125)
        height = tl.minimum(187 - band * 4, 4)
        tile_1_begin = (band * 4 + pid % (4 * 125) % height) * BLOCK_TILE_1
        tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
        tile_begin = (pid % (4 * 125) // height) * BLOCK_TILE
        tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
        v0 = tl.load(a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], eviction_policy='evict_last')
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
        v11 = tl.load(b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], eviction_policy='evict_last')
        v12 = v11.to(tl.float32)
        v13 = v10 * v12
        v14 = v13.to(tl.bfloat16)
        tl.store(out_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v14)
