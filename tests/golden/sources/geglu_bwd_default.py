# config: block:tile=1, block:tile#1=1024
# region 0, static
# grid: 12000, 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == a.align)) and (4000 == a.shape.0)) and (2992 == a.shape.1)) and (2992 == a.stride.0)) and (1 == a.stride.1)) and (1 == b.align)) and (4000 == b.shape.0)) and (2992 == b.shape.1)) and (2992 == b.stride.0)) and (1 == b.stride.1)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_a.align)) and (4000 == grad_a.shape.0)) and (2992 == grad_a.shape.1)) and (2992 == grad_a.stride.0)) and (1 == grad_a.stride.1)) and (1 == grad_b.align)) and (4000 == grad_b.shape.0)) and (2992 == grad_b.shape.1)) and (2992 == grad_b.stride.0)) and (1 == grad_b.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=1024
# a_ptr: *bf16 % 16 = a
# b_ptr: *bf16 % 16 = b
# grad_ptr: *bf16 % 16 = grad
# grad_a_ptr: *bf16 % 16 = grad_a
# grad_b_ptr: *bf16 % 16 = grad_b
# CUBIC: fp32 = CUBIC
# SCALE: fp32 = SCALE
import triton
import triton.language as tl


@triton.jit
def geglu_bwd_0(
    a_ptr,
    b_ptr,
    grad_ptr,
    grad_a_ptr,
    grad_b_ptr,
    CUBIC,
    SCALE,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_1_begin = (pid % 3) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < 2992
    tile_begin = (pid // 3)
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    v0 = tl.load(grad_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = CUBIC * v3
    v5 = v4 * v3
    v6 = v5 * v3
    v7 = v3 + v6
    v8 = SCALE * v7
    v9 = tl.where(tl.abs(v8) < 0.05, v8 * (1.0 - v8 * v8 * (1.0 / 3 - v8 * v8 * (2.0 / 15))), 1.0 - 2.0 / (tl.exp(2.0 * v8) + 1.0))
    v10 = 1.0 + v9
    v11 = 0.5 * v10
    v12 = 0.5 * v3
    v13 = v9 * v9
    v14 = 1.0 - v13
    v15 = v12 * v14
    v16 = v15 * SCALE
    v17 = 3.0 * CUBIC
    v18 = v17 * v3
    v19 = v18 * v3
    v20 = 1.0 + v19
    v21 = v16 * v20
    v22 = v11 + v21
    v23 = tl.load(b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], mask=tile_1_mask[None, :], other=0.0)
    v24 = v23.to(tl.float32)
    v25 = v1 * v24
    v26 = v25 * v22
    v27 = v26.to(tl.bfloat16)
    tl.store(grad_a_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v27, mask=tile_1_mask[None, :])
    v28 = v1 * v3
    v29 = v28 * v11
    v30 = v29.to(tl.bfloat16)
    tl.store(grad_b_ptr + tile_idx[:, None] * 2992 + tile_1_idx[None, :], v30, mask=tile_1_mask[None, :])
