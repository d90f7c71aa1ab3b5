# config: block:block_m=16, block:tile_m=1, num_stages=3
# region 0, static
# grid: 250, 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == inv_rms.align)) and (4000 == inv_rms.shape.0)) and (1 == inv_rms.stride.0)) and (2992 == n)) and (1 == partial.align)) and (250 == partial.shape.0)) and (2992 == partial.shape.1)) and (2992 == partial.stride.0)) and (1 == partial.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# inv_rms_ptr: *fp32 % 16 = inv_rms
# partial_ptr: *fp32 % 16 = partial
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def rms_norm_bwd_0(
    grad_ptr,
    grad_x_ptr,
    inv_rms_ptr,
    partial_ptr,
    weight_ptr,
    x_ptr,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.full([4096], 0.0, tl.float32)
    v3 = rows_begin + BLOCK_BLOCK_M
    c0 = v2
    for tile_m_begin in tl.range(rows_begin, v3, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v4 = tl.load(inv_rms_ptr + tile_m_idx)
        v5 = v4[:, None]
        v6 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        v7 = v6.to(tl.float32)
        v8 = v7 * v5
        v9 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
        v10 = v9.to(tl.float32)
        v11 = v10 * v8
        v12 = tl.sum(v11, axis=0)
        v13 = c0 + v12
        v14 = v1[None, :]
        v15 = v10 * v14
        v16 = v15 * v8
        v17 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v16, 0.0)
        v18 = tl.sum(v17, axis=1)
        v19 = v18[:, None]
        v20 = v19 / 2992.0
        v21 = v8 * v20
        v22 = v15 - v21
        v23 = v22 * v5
        v24 = v23.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v24, mask=(tl.arange(0, 4096) < 2992)[None, :])
        c0 = v13
    v25 = rows_begin // BLOCK_BLOCK_M
    tl.store(partial_ptr + v25 * 2992 + tl.arange(0, 4096), c0, mask=(tl.arange(0, 4096) < 2992))
