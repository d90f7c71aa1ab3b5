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


# examples.rope:rope (rope.py:53), launch 0, static sizes
#   block:tile_h=1, block:tile_h#1=1, block:tile_s=32, num_stages=3
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
    # for tile_b, tile_s in tfl.tile([b, s], block_size=[1, None]):
    pid = tl.program_id(0)
    tile_s_count: tl.constexpr = (4000 + BLOCK_TILE_S - 1) // BLOCK_TILE_S
    tile_s_begin = (pid % tile_s_count) * BLOCK_TILE_S
    tile_s_idx = tile_s_begin + tl.arange(0, BLOCK_TILE_S)
    tl.static_assert(4000 % BLOCK_TILE_S == 0, "whole blocks of tile_s")
    tile_b_begin = (pid // tile_s_count)
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    # c, s_ = cos[tile_s, :].float(), sin[tile_s, :].float()
    v0 = tl.load(cos_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    c = v0.to(tl.float32)
    v1 = tl.load(sin_ptr + tile_s_idx[:, None] * 64 + tl.arange(0, 64)[None, :])
    s_ = v1.to(tl.float32)
    # for tile_h in tfl.tile(x.size(1)):
    for tile_h_begin in tl.range(0, 4, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tl.static_assert(4 % BLOCK_TILE_H == 0, "whole blocks of tile_h")
        # first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
        v2 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        first_1 = v2.to(tl.float32)
        v3 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        second = v3.to(tl.float32)
        # out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
        v4 = c[None, :, :]
        v5 = v4[None, :, :, :]
        v6 = first_1 * v5
        v7 = s_[None, :, :]
        v8 = v7[None, :, :, :]
        v9 = second * v8
        v10 = v6 - v9
        v11 = v10.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v11)
        # out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin
        v12 = c[None, :, :]
        v13 = v12[None, :, :, :]
        v14 = second * v13
        v15 = s_[None, :, :]
        v16 = v15[None, :, :, :]
        v17 = first_1 * v16
        v18 = v14 + v17
        v19 = v18.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * 2048000 + tile_h_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v19)
    # for tile_h in tfl.tile(x.size(1)):
    for tile_h_1_begin in tl.range(0, 2, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tl.static_assert(2 % BLOCK_TILE_H_1 == 0, "whole blocks of tile_h_1")
        # first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
        v20 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :])
        first_2 = v20.to(tl.float32)
        v21 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]))
        second_1 = v21.to(tl.float32)
        # out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
        v22 = c[None, :, :]
        v23 = v22[None, :, :, :]
        v24 = first_2 * v23
        v25 = s_[None, :, :]
        v26 = v25[None, :, :, :]
        v27 = second_1 * v26
        v28 = v24 - v27
        v29 = v28.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + tl.arange(0, 64)[None, None, None, :], v29)
        # out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin
        v30 = c[None, :, :]
        v31 = v30[None, :, :, :]
        v32 = second_1 * v31
        v33 = s_[None, :, :]
        v34 = v33[None, :, :, :]
        v35 = first_2 * v34
        v36 = v32 + v35
        v37 = v36.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * 1024000 + tile_h_1_idx[None, :, None, None] * 512000 + tile_s_idx[None, None, :, None] * 128 + (64 + tl.arange(0, 64)[None, None, None, :]), v37)
