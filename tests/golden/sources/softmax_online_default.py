# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((0 == begin.0) and (4000 == end.0)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax_online_0(
    out_ptr,
    x_ptr,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    c0 = v0
    c1 = v1
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        v2 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=float('-inf'))
        v3 = v2.to(tl.float32)
        v4 = tl.reduce(v3, 1, _maximum)
        v5 = tl.maximum(c0, v4, propagate_nan=tl.PropagateNan.ALL)
        v6 = c0 - v5
        v7 = tl.exp2(v6 * 1.4426950408889634)
        v8 = c1 * v7
        v9 = v5[:, None]
        v10 = v3 - v9
        v11 = tl.exp2(v10 * 1.4426950408889634)
        v12 = tl.where(tile_n_mask[None, :], v11, 0.0)
        v13 = tl.sum(v12, axis=1)
        v14 = v8 + v13
        c0 = v5
        c1 = v14
    for tile_n_1_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < 2992
        v15 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], mask=tile_n_1_mask[None, :], other=0.0)
        v16 = v15.to(tl.float32)
        v17 = c0[:, None]
        v18 = v16 - v17
        v19 = tl.exp2(v18 * 1.4426950408889634)
        v20 = c1[:, None]
        v21 = v19 / v20
        v22 = v21.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], v22, mask=tile_n_1_mask[None, :])
