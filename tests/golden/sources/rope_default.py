# config: block:tile_h=1, block:tile_h#1=1, num_stages=3
# region 0, static
# grid: 250, 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (2 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (1 == cos.align)) and (4000 == cos.shape.0)) and (64 == cos.shape.1)) and (64 == cos.stride.0)) and (1 == cos.stride.1)) and (1 == k.align)) and (2 == k.shape.0)) and (2 == k.shape.1)) and (4000 == k.shape.2)) and (128 == k.shape.3)) and (1024000 == k.stride.0)) and (512000 == k.stride.1)) and (128 == k.stride.2)) and (1 == k.stride.3)) and (1 == out_k.align)) and (2 == out_k.shape.0)) and (2 == out_k.shape.1)) and (4000 == out_k.shape.2)) and (128 == out_k.shape.3)) and (1024000 == out_k.stride.0)) and (512000 == out_k.stride.1)) and (128 == out_k.stride.2)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (2 == out_q.shape.0)) and (4 == out_q.shape.1)) and (4000 == out_q.shape.2)) and (128 == out_q.shape.3)) and (2048000 == out_q.stride.0)) and (512000 == out_q.stride.1)) and (128 == out_q.stride.2)) and (1 == out_q.stride.3)) and (1 == q.align)) and (2 == q.shape.0)) and (4 == q.shape.1)) and (4000 == q.shape.2)) and (128 == q.shape.3)) and (2048000 == q.stride.0)) and (512000 == q.stride.1)) and (128 == q.stride.2)) and (1 == q.stride.3)) and (1 == sin.align)) and (4000 == sin.shape.0)) and (64 == sin.shape.1)) and (64 == sin.stride.0)) and (1 == sin.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=32
# cos_ptr: *bf16 % 16 = cos
# k_ptr: *bf16 % 16 = k
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# q_ptr: *bf16 % 16 = q
# sin_ptr: *bf16 % 16 = sin
import triton
import triton.language as tl


@triton.jit
def rope_0(
    cos_ptr,
    k_ptr,
    out_k_ptr,
    out_q_ptr,
    q_ptr,
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
    for tile_h_begin in tl.range(0, 4, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        v4 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        v5 = v4.to(tl.float32)
        v6 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        v7 = v6.to(tl.float32)
        v8 = v1[None, :, :]
        v9 = v8[None, :, :, :]
        v10 = v5 * v9
        v11 = v3[None, :, :]
        v12 = v11[None, :, :, :]
        v13 = v7 * v12
        v14 = v10 - v13
        v15 = v14.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v15)
        v16 = v1[None, :, :]
        v17 = v16[None, :, :, :]
        v18 = v7 * v17
        v19 = v3[None, :, :]
        v20 = v19[None, :, :, :]
        v21 = v5 * v20
        v22 = v18 + v21
        v23 = v22.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v23)
    for tile_h_1_begin in tl.range(0, 2, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        v24 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        v25 = v24.to(tl.float32)
        v26 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        v27 = v26.to(tl.float32)
        v28 = v1[None, :, :]
        v29 = v28[None, :, :, :]
        v30 = v25 * v29
        v31 = v3[None, :, :]
        v32 = v31[None, :, :, :]
        v33 = v27 * v32
        v34 = v30 - v33
        v35 = v34.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v35)
        v36 = v1[None, :, :]
        v37 = v36[None, :, :, :]
        v38 = v27 * v37
        v39 = v3[None, :, :]
        v40 = v39[None, :, :, :]
        v41 = v25 * v40
        v42 = v38 + v41
        v43 = v42.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v43)
