# config: block:tile_n=128, num_stages=3
# region 0, static
# grid: 120, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (5 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == offsets.align)) and (6 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (5 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_M=32, BLOCK_TILE_N=128
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def jagged_mean_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % 24) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    tile_b_begin = (pid // 24)
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    v0 = tl.load(offsets_ptr + tile_b_begin)
    v1 = tile_b_begin + 1
    v2 = tl.load(offsets_ptr + v1)
    v3 = tl.full([BLOCK_TILE_N], 0.0, tl.float32)
    c0 = v3
    for tile_m_begin in tl.range(v0, v2, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < v2
        v4 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :], other=0.0)
        v5 = v4.to(tl.float32)
        v6 = tl.sum(v5, axis=0)
        v7 = c0 + v6
        c0 = v7
    v8 = v2 - v0
    v9 = tl.maximum(v8, 1)
    v10 = v9.to(tl.float32)
    v11 = c0 / v10
    v12 = v11.to(tl.bfloat16)
    tl.store(out_ptr + tile_b_begin * 2992 + tile_n_idx, v12, mask=tile_n_mask)
