# config: block:block_n=4096, block:tile_m=1, load:bias#0.eviction=, load:weight#0.eviction=, load:x#0.access=pointer, load:x#0.eviction=, load:x#1.access=pointer, load:x#1.eviction=, num_stages=3, num_warps=8, persistent=0, store:out#0.access=pointer
# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (n <= weight.shape.0)) and (n <= bias.shape.0)) and (end.0 <= out.shape.0)) and (n <= out.shape.1)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (n % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# end_0: i32 % 16 = end.0
# n: i32 % 16 = n
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def welford_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    end_0,
    n,
    out_stride_0,
    x_stride_0,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v2 = tl.full([], 0.0, tl.float32)
    c0 = v2
    c1 = v0
    c2 = v1
    for tile_n_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < n
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        v5 = tl.minimum(tl.to_tensor(tile_n_begin) + BLOCK_BLOCK_N, n)
        v6 = tl.to_tensor(tile_n_begin)
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
    v27 = n.to(tl.float32)
    v28 = c2 / v27
    v29 = v28 + eps
    v30 = tl.rsqrt(v29)
    for tile_n_1_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < n
        v31 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_1_idx[None, :], mask=tile_m_mask[:, None] & tile_n_1_mask[None, :], other=0.0)
        v32 = v31.to(tl.float32)
        v33 = c1[:, None]
        v34 = v32 - v33
        v35 = v30[:, None]
        v36 = v34 * v35
        v37 = tl.load(weight_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v38 = v37.to(tl.float32)
        v39 = v38[None, :]
        v40 = v36 * v39
        v41 = tl.load(bias_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v42 = v41.to(tl.float32)
        v43 = v42[None, :]
        v44 = v40 + v43
        v45 = v44.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_1_idx[None, :], v45, mask=tile_m_mask[:, None] & tile_n_1_mask[None, :])

# region 0, dynamic
# grid: end.0, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == bias.align)) and (1 == bias.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (n <= 2147483647)) and (end.0 <= x.shape.0)) and (n <= x.shape.1)) and (n <= weight.shape.0)) and (n <= bias.shape.0)) and (end.0 <= out.shape.0)) and (n <= out.shape.1)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((weight.shape.0 + -1) <= 2147483647)) and ((bias.shape.0 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
# end_0: i32 = end.0
# n: i32 = n
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def welford_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    end_0,
    n,
    out_stride_0,
    x_stride_0,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v1 = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    v2 = tl.full([], 0.0, tl.float32)
    c0 = v2
    c1 = v0
    c2 = v1
    for tile_n_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < n
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        v5 = tl.minimum(tl.to_tensor(tile_n_begin) + BLOCK_BLOCK_N, n)
        v6 = tl.to_tensor(tile_n_begin)
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
    v27 = n.to(tl.float32)
    v28 = c2 / v27
    v29 = v28 + eps
    v30 = tl.rsqrt(v29)
    for tile_n_1_begin in tl.range(0, n, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < n
        v31 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_1_idx[None, :], mask=tile_m_mask[:, None] & tile_n_1_mask[None, :], other=0.0)
        v32 = v31.to(tl.float32)
        v33 = c1[:, None]
        v34 = v32 - v33
        v35 = v30[:, None]
        v36 = v34 * v35
        v37 = tl.load(weight_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v38 = v37.to(tl.float32)
        v39 = v38[None, :]
        v40 = v36 * v39
        v41 = tl.load(bias_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v42 = v41.to(tl.float32)
        v43 = v42[None, :]
        v44 = v40 + v43
        v45 = v44.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_1_idx[None, :], v45, mask=tile_m_mask[:, None] & tile_n_1_mask[None, :])
