# config: block:tile_h=1, block:tile_h#1=1, num_stages=3
# region 0, static
# grid: 250, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (1 == cos.align)) and (4000 == cos.shape.0)) and (64 == cos.shape.1)) and (64 == cos.stride.0)) and (1 == cos.stride.1)) and (1 == grad_k.align)) and (2 == grad_k.shape.0)) and (2 == grad_k.shape.1)) and (4000 == grad_k.shape.2)) and (128 == grad_k.shape.3)) and (1024000 == grad_k.stride.0)) and (512000 == grad_k.stride.1)) and (128 == grad_k.stride.2)) and (1 == grad_k.stride.3)) and (1 == grad_q.align)) and (2 == grad_q.shape.0)) and (4 == grad_q.shape.1)) and (4000 == grad_q.shape.2)) and (128 == grad_q.shape.3)) and (2048000 == grad_q.stride.0)) and (512000 == grad_q.stride.1)) and (128 == grad_q.stride.2)) and (1 == grad_q.stride.3)) and (1 == out_k.align)) and (2 == out_k.shape.0)) and (2 == out_k.shape.1)) and (4000 == out_k.shape.2)) and (128 == out_k.shape.3)) and (1024000 == out_k.stride.0)) and (512000 == out_k.stride.1)) and (128 == out_k.stride.2)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (2 == out_q.shape.0)) and (4 == out_q.shape.1)) and (4000 == out_q.shape.2)) and (128 == out_q.shape.3)) and (2048000 == out_q.stride.0)) and (512000 == out_q.stride.1)) and (128 == out_q.stride.2)) and (1 == out_q.stride.3)) and (1 == sin.align)) and (4000 == sin.shape.0)) and (64 == sin.shape.1)) and (64 == sin.stride.0)) and (1 == sin.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=32
# cos_ptr: *bf16 % 16 = cos
# grad_k_ptr: *bf16 % 16 = grad_k
# grad_q_ptr: *bf16 % 16 = grad_q
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# sin_ptr: *bf16 % 16 = sin
import triton
import triton.language as tl


@triton.jit
def rope_bwd_0(
    cos_ptr,
    grad_k_ptr,
    grad_q_ptr,
    out_k_ptr,
    out_q_ptr,
    sin_ptr,
    BLOCK_TILE_H: tl.constexpr,
    BLOCK_TILE_H_1: tl.constexpr,
    BLOCK_TILE_S: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_s_begin = (pid % 125) * BLOCK_TILE_S
    tile_s_idx = tile_s_begin + tl.arange(0, BLOCK_TILE_S)
    tile_b_begin = (pid // 125)
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    v0 = tl.load(cos_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    v1 = v0.to(tl.float32)
    v2 = tl.load(sin_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    v3 = v2.to(tl.float32)
    v4 = -v3
    for tile_h_begin in tl.range(0, 4, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        v5 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        v6 = v5.to(tl.float32)
        v7 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        v8 = v7.to(tl.float32)
        v9 = v1[None, :, :]
        v10 = v9[None, :, :, :]
        v11 = v6 * v10
        v12 = v4[None, :, :]
        v13 = v12[None, :, :, :]
        v14 = v8 * v13
        v15 = v11 - v14
        v16 = v15.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v16)
        v17 = v1[None, :, :]
        v18 = v17[None, :, :, :]
        v19 = v8 * v18
        v20 = v4[None, :, :]
        v21 = v20[None, :, :, :]
        v22 = v6 * v21
        v23 = v19 + v22
        v24 = v23.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v24)
    for tile_h_1_begin in tl.range(0, 2, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        v25 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        v26 = v25.to(tl.float32)
        v27 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        v28 = v27.to(tl.float32)
        v29 = v1[None, :, :]
        v30 = v29[None, :, :, :]
        v31 = v26 * v30
        v32 = v4[None, :, :]
        v33 = v32[None, :, :, :]
        v34 = v28 * v33
        v35 = v31 - v34
        v36 = v35.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v36)
        v37 = v1[None, :, :]
        v38 = v37[None, :, :, :]
        v39 = v28 * v38
        v40 = v4[None, :, :]
        v41 = v40[None, :, :, :]
        v42 = v26 * v41
        v43 = v39 + v42
        v44 = v43.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v44)
