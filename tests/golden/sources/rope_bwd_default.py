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


# examples.rope:rope_bwd (rope.py:72), launch 0, static sizes
#   block:tile_h=1, block:tile_h#1=1, block:tile_s=32, num_stages=3
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
    # for tile_b, tile_s in tfl.tile([b, s], block_size=[1, None]):
    pid = tl.program_id(0)
    tile_s_count: tl.constexpr = (4000 + BLOCK_TILE_S - 1) // BLOCK_TILE_S
    tile_s_begin = (pid % tile_s_count) * BLOCK_TILE_S
    tile_s_idx = tile_s_begin + tl.arange(0, BLOCK_TILE_S)
    tl.static_assert(4000 % BLOCK_TILE_S == 0, "whole blocks of tile_s")
    tile_b_begin = (pid // tile_s_count)
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    # c, s_ = cos[tile_s, :].float(), -sin[tile_s, :].float()
    v0 = tl.load(cos_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    c = v0.to(tl.float32)
    v1 = tl.load(sin_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    v2 = v1.to(tl.float32)
    s_ = v2 * -1.0
    # for tile_h in tfl.tile(x.size(1)):
    for tile_h_begin in tl.range(0, 4, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tl.static_assert(4 % BLOCK_TILE_H == 0, "whole blocks of tile_h")
        # first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
        v3 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        first_1 = v3.to(tl.float32)
        v4 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        second = v4.to(tl.float32)
        # out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
        v5 = c[None, :, :]
        v6 = v5[None, :, :, :]
        v7 = first_1 * v6
        v8 = s_[None, :, :]
        v9 = v8[None, :, :, :]
        v10 = second * v9
        v11 = v7 - v10
        v12 = v11.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v12)
        # out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin
        v13 = c[None, :, :]
        v14 = v13[None, :, :, :]
        v15 = second * v14
        v16 = s_[None, :, :]
        v17 = v16[None, :, :, :]
        v18 = first_1 * v17
        v19 = v15 + v18
        v20 = v19.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v20)
    # for tile_h in tfl.tile(x.size(1)):
    for tile_h_1_begin in tl.range(0, 2, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tl.static_assert(2 % BLOCK_TILE_H_1 == 0, "whole blocks of tile_h_1")
        # first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
        v21 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        first_2 = v21.to(tl.float32)
        v22 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        second_1 = v22.to(tl.float32)
        # out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
        v23 = c[None, :, :]
        v24 = v23[None, :, :, :]
        v25 = first_2 * v24
        v26 = s_[None, :, :]
        v27 = v26[None, :, :, :]
        v28 = second_1 * v27
        v29 = v25 - v28
        v30 = v29.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v30)
        # out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin
        v31 = c[None, :, :]
        v32 = v31[None, :, :, :]
        v33 = second_1 * v32
        v34 = s_[None, :, :]
        v35 = v34[None, :, :, :]
        v36 = first_2 * v35
        v37 = v33 + v36
        v38 = v37.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v38)
