# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


@triton.jit
def welford_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v2 = tl.full([], 0.0, tl.float32)
    c0 = v2
    c1 = v0
    c2 = v1
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        v5 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, 2992)
        v6 = tl.cast(tile_n_begin, tl.int32)
        v7 = v5 - v6
        v8 = tl.sum(v4, axis=1)
        v9 = v7.to(tl.float32)
        v10 = v8 / v9
        v11 = v10[:, None]
        v12 = v4 - v11
        v13 = v10 - c1
        v14 = c0 + v9
        v15 = v9 / v14
        v16 = v13 * v15
        v17 = c1 + v16
        v18 = v12 * v12
        v19 = tl.where(tile_n_mask[None, :], v18, 0.0)
        v20 = tl.sum(v19, axis=1)
        v21 = v13 * v13
        v22 = c0 * v9
        v23 = v22 / v14
        v24 = v21 * v23
        v25 = v20 + v24
        v26 = c2 + v25
        c0 = v14
        c1 = v17
        c2 = v26
    v27 = c2 / 2992.0
    v28 = v27 + eps
    v29 = tl.rsqrt(v28)
    for tile_n_1_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < 2992
        v30 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], mask=tile_n_1_mask[None, :], other=0.0)
        v31 = v30.to(tl.float32)
        v32 = c1[:, None]
        v33 = v31 - v32
        v34 = v29[:, None]
        v35 = v33 * v34
        v36 = tl.load(weight_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v37 = v36.to(tl.float32)
        v38 = v37[None, :]
        v39 = v35 * v38
        v40 = tl.load(bias_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v41 = v40.to(tl.float32)
        v42 = v41[None, :]
        v43 = v39 + v42
        v44 = v43.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], v44, mask=tile_n_1_mask[None, :])
