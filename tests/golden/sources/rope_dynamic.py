# config: block:tile_h=1, block:tile_h#1=1, block:tile_s=64, group=1, load:cos#0.access=pointer, load:cos#0.eviction=, load:k#0.access=pointer, load:k#0.eviction=, load:k#1.eviction=, load:q#0.access=pointer, load:q#0.eviction=, load:q#1.eviction=, load:sin#0.access=pointer, load:sin#0.eviction=, num_stages=3, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == cos.align)) and (1 == cos.stride.1)) and (1 == k.align)) and (1 == k.stride.3)) and (1 == out_k.align)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (1 == out_q.stride.3)) and (1 == q.align)) and (1 == q.stride.3)) and (1 == sin.align)) and (1 == sin.stride.1)) and (end.1 <= cos.shape.0)) and (end.1 <= sin.shape.0)) and (q.shape.1 <= 2147483647)) and (end.0 <= q.shape.0)) and (end.1 <= q.shape.2)) and (not ((q.shape.3 // 2) < 0))) and ((q.shape.3 // 2) <= q.shape.3)) and ((q.shape.3 // 2) == cos.shape.1)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) == sin.shape.1)) and (cos.shape.1 == sin.shape.1)) and (end.0 <= out_q.shape.0)) and (q.shape.1 <= out_q.shape.1)) and (end.1 <= out_q.shape.2)) and ((q.shape.3 // 2) <= out_q.shape.3)) and ((q.shape.3 // 2) == sin.shape.1)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) == cos.shape.1)) and (((-1 * (q.shape.3 // 2)) + out_q.shape.3) == sin.shape.1)) and (k.shape.1 <= 2147483647)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.2)) and (not ((k.shape.3 // 2) < 0))) and ((k.shape.3 // 2) <= k.shape.3)) and ((k.shape.3 // 2) == cos.shape.1)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) == sin.shape.1)) and (end.0 <= out_k.shape.0)) and (k.shape.1 <= out_k.shape.1)) and (end.1 <= out_k.shape.2)) and ((k.shape.3 // 2) <= out_k.shape.3)) and ((k.shape.3 // 2) == sin.shape.1)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) == cos.shape.1)) and (((-1 * (k.shape.3 // 2)) + out_k.shape.3) == sin.shape.1)) and (((-1 * cos.stride.0) + (cos.shape.0 * cos.stride.0) + cos.shape.1 + -1) <= 2147483647)) and (cos.shape.1 <= 64)) and (((-1 * sin.stride.0) + (sin.shape.0 * sin.stride.0) + sin.shape.1 + -1) <= 2147483647)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (-1 * q.stride.2) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + (q.shape.2 * q.stride.2) + q.shape.3 + -1) <= 2147483647)) and ((q.shape.3 // 2) <= 64)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) <= 64)) and ((-1 * (q.shape.3 // 2)) <= 2147483647)) and (((-1 * out_q.stride.0) + (-1 * out_q.stride.1) + (-1 * out_q.stride.2) + (out_q.shape.0 * out_q.stride.0) + (out_q.shape.1 * out_q.stride.1) + (out_q.shape.2 * out_q.stride.2) + out_q.shape.3 + -1) <= 2147483647)) and (((-1 * (q.shape.3 // 2)) + out_q.shape.3) <= 64)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (-1 * k.stride.2) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + (k.shape.2 * k.stride.2) + k.shape.3 + -1) <= 2147483647)) and ((k.shape.3 // 2) <= 64)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) <= 64)) and ((-1 * (k.shape.3 // 2)) <= 2147483647)) and (((-1 * out_k.stride.0) + (-1 * out_k.stride.1) + (-1 * out_k.stride.2) + (out_k.shape.0 * out_k.stride.0) + (out_k.shape.1 * out_k.stride.1) + (out_k.shape.2 * out_k.stride.2) + out_k.shape.3 + -1) <= 2147483647)) and (((-1 * (k.shape.3 // 2)) + out_k.shape.3) <= 64)) and (0 == (cos.shape.1 % 16))) and (cos.shape.1 <= 2147483647)) and (0 == (cos.stride.0 % 16))) and (cos.stride.0 <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (k.shape.3 % 16))) and (k.shape.3 <= 2147483647)) and (0 == (k.stride.0 % 16))) and (k.stride.0 <= 2147483647)) and (0 == (k.stride.1 % 16))) and (k.stride.1 <= 2147483647)) and (0 == (k.stride.2 % 16))) and (k.stride.2 <= 2147483647)) and (0 == (out_k.shape.3 % 16))) and (out_k.shape.3 <= 2147483647)) and (0 == (out_k.stride.0 % 16))) and (out_k.stride.0 <= 2147483647)) and (0 == (out_k.stride.1 % 16))) and (out_k.stride.1 <= 2147483647)) and (0 == (out_k.stride.2 % 16))) and (out_k.stride.2 <= 2147483647)) and (0 == (out_q.shape.3 % 16))) and (out_q.shape.3 <= 2147483647)) and (0 == (out_q.stride.0 % 16))) and (out_q.stride.0 <= 2147483647)) and (0 == (out_q.stride.1 % 16))) and (out_q.stride.1 <= 2147483647)) and (0 == (out_q.stride.2 % 16))) and (out_q.stride.2 <= 2147483647)) and (0 == (q.shape.3 % 16))) and (q.shape.3 <= 2147483647)) and (0 == (q.stride.0 % 16))) and (q.stride.0 <= 2147483647)) and (0 == (q.stride.1 % 16))) and (q.stride.1 <= 2147483647)) and (0 == (q.stride.2 % 16))) and (q.stride.2 <= 2147483647)) and (0 == (sin.stride.0 % 16))) and (sin.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=64
# cos_ptr: *bf16 % 16 = cos
# k_ptr: *bf16 % 16 = k
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# q_ptr: *bf16 % 16 = q
# sin_ptr: *bf16 % 16 = sin
# cos_shape_1: i32 % 16 = cos.shape.1
# cos_stride_0: i32 % 16 = cos.stride.0
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# k_shape_1: i32 = k.shape.1
# k_shape_3: i32 % 16 = k.shape.3
# k_stride_0: i32 % 16 = k.stride.0
# k_stride_1: i32 % 16 = k.stride.1
# k_stride_2: i32 % 16 = k.stride.2
# out_k_shape_3: i32 % 16 = out_k.shape.3
# out_k_stride_0: i32 % 16 = out_k.stride.0
# out_k_stride_1: i32 % 16 = out_k.stride.1
# out_k_stride_2: i32 % 16 = out_k.stride.2
# out_q_shape_3: i32 % 16 = out_q.shape.3
# out_q_stride_0: i32 % 16 = out_q.stride.0
# out_q_stride_1: i32 % 16 = out_q.stride.1
# out_q_stride_2: i32 % 16 = out_q.stride.2
# q_shape_1: i32 = q.shape.1
# q_shape_3: i32 % 16 = q.shape.3
# q_stride_0: i32 % 16 = q.stride.0
# q_stride_1: i32 % 16 = q.stride.1
# q_stride_2: i32 % 16 = q.stride.2
# sin_stride_0: i32 % 16 = sin.stride.0
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
    cos_shape_1,
    cos_stride_0,
    end_0,
    end_1,
    k_shape_1,
    k_shape_3,
    k_stride_0,
    k_stride_1,
    k_stride_2,
    out_k_shape_3,
    out_k_stride_0,
    out_k_stride_1,
    out_k_stride_2,
    out_q_shape_3,
    out_q_stride_0,
    out_q_stride_1,
    out_q_stride_2,
    q_shape_1,
    q_shape_3,
    q_stride_0,
    q_stride_1,
    q_stride_2,
    sin_stride_0,
    BLOCK_TILE_H: tl.constexpr,
    BLOCK_TILE_H_1: tl.constexpr,
    BLOCK_TILE_S: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_s_begin = (pid % tl.cdiv(end_1, 64)) * BLOCK_TILE_S
    tile_s_idx = tile_s_begin + tl.arange(0, BLOCK_TILE_S)
    tile_s_mask = tile_s_idx < end_1
    tile_b_begin = (pid // tl.cdiv(end_1, 64))
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    tile_b_mask = tile_b_idx < end_0
    v0 = tl.load(cos_ptr + tile_s_idx[:, None] * cos_stride_0 + tl.arange(0, 64)[None, :], mask=tile_s_mask[:, None] & (tl.arange(0, 64) < cos_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(sin_ptr + tile_s_idx[:, None] * sin_stride_0 + tl.arange(0, 64)[None, :], mask=tile_s_mask[:, None] & (tl.arange(0, 64) < cos_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    for tile_h_begin in tl.range(0, q_shape_1, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tile_h_mask = tile_h_idx < q_shape_1
        v4 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * q_stride_0 + tile_h_idx[None, :, None, None] * q_stride_1 + tile_s_idx[None, None, :, None] * q_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (q_shape_3 // 2))[None, None, None, :], other=0.0)
        v5 = v4.to(tl.float32)
        v6 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * q_stride_0 + tile_h_idx[None, :, None, None] * q_stride_1 + tile_s_idx[None, None, :, None] * q_stride_2 + ((q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (q_shape_3 // 2)) + q_shape_3))[None, None, None, :], other=0.0)
        v7 = v6.to(tl.float32)
        v8 = v1[None, :, :]
        v9 = v8[None, :, :, :]
        v10 = v5 * v9
        v11 = v3[None, :, :]
        v12 = v11[None, :, :, :]
        v13 = v7 * v12
        v14 = v10 - v13
        v15 = tl.broadcast_to(v14, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v16 = v15.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + tl.arange(0, 64)[None, None, None, :], v16, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (q_shape_3 // 2))[None, None, None, :])
        v17 = v1[None, :, :]
        v18 = v17[None, :, :, :]
        v19 = v7 * v18
        v20 = v3[None, :, :]
        v21 = v20[None, :, :, :]
        v22 = v5 * v21
        v23 = v19 + v22
        v24 = tl.broadcast_to(v23, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v25 = v24.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + ((q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v25, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (q_shape_3 // 2)) + out_q_shape_3))[None, None, None, :])
    for tile_h_1_begin in tl.range(0, k_shape_1, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tile_h_1_mask = tile_h_1_idx < k_shape_1
        v26 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * k_stride_0 + tile_h_1_idx[None, :, None, None] * k_stride_1 + tile_s_idx[None, None, :, None] * k_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (k_shape_3 // 2))[None, None, None, :], other=0.0)
        v27 = v26.to(tl.float32)
        v28 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * k_stride_0 + tile_h_1_idx[None, :, None, None] * k_stride_1 + tile_s_idx[None, None, :, None] * k_stride_2 + ((k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (k_shape_3 // 2)) + k_shape_3))[None, None, None, :], other=0.0)
        v29 = v28.to(tl.float32)
        v30 = v1[None, :, :]
        v31 = v30[None, :, :, :]
        v32 = v27 * v31
        v33 = v3[None, :, :]
        v34 = v33[None, :, :, :]
        v35 = v29 * v34
        v36 = v32 - v35
        v37 = tl.broadcast_to(v36, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v38 = v37.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + tl.arange(0, 64)[None, None, None, :], v38, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (k_shape_3 // 2))[None, None, None, :])
        v39 = v1[None, :, :]
        v40 = v39[None, :, :, :]
        v41 = v29 * v40
        v42 = v3[None, :, :]
        v43 = v42[None, :, :, :]
        v44 = v27 * v43
        v45 = v41 + v44
        v46 = tl.broadcast_to(v45, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v47 = v46.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + ((k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v47, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (k_shape_3 // 2)) + out_k_shape_3))[None, None, None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == cos.align)) and (1 == cos.stride.1)) and (1 == k.align)) and (1 == k.stride.3)) and (1 == out_k.align)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (1 == out_q.stride.3)) and (1 == q.align)) and (1 == q.stride.3)) and (1 == sin.align)) and (1 == sin.stride.1)) and (end.1 <= cos.shape.0)) and (end.1 <= sin.shape.0)) and (q.shape.1 <= 2147483647)) and (end.0 <= q.shape.0)) and (end.1 <= q.shape.2)) and (not ((q.shape.3 // 2) < 0))) and ((q.shape.3 // 2) <= q.shape.3)) and ((q.shape.3 // 2) == cos.shape.1)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) == sin.shape.1)) and (cos.shape.1 == sin.shape.1)) and (end.0 <= out_q.shape.0)) and (q.shape.1 <= out_q.shape.1)) and (end.1 <= out_q.shape.2)) and ((q.shape.3 // 2) <= out_q.shape.3)) and ((q.shape.3 // 2) == sin.shape.1)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) == cos.shape.1)) and (((-1 * (q.shape.3 // 2)) + out_q.shape.3) == sin.shape.1)) and (k.shape.1 <= 2147483647)) and (end.0 <= k.shape.0)) and (end.1 <= k.shape.2)) and (not ((k.shape.3 // 2) < 0))) and ((k.shape.3 // 2) <= k.shape.3)) and ((k.shape.3 // 2) == cos.shape.1)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) == sin.shape.1)) and (end.0 <= out_k.shape.0)) and (k.shape.1 <= out_k.shape.1)) and (end.1 <= out_k.shape.2)) and ((k.shape.3 // 2) <= out_k.shape.3)) and ((k.shape.3 // 2) == sin.shape.1)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) == cos.shape.1)) and (((-1 * (k.shape.3 // 2)) + out_k.shape.3) == sin.shape.1)) and (((-1 * cos.stride.0) + (cos.shape.0 * cos.stride.0) + cos.shape.1 + -1) <= 2147483647)) and (cos.shape.1 <= 64)) and (((-1 * sin.stride.0) + (sin.shape.0 * sin.stride.0) + sin.shape.1 + -1) <= 2147483647)) and (((-1 * q.stride.0) + (-1 * q.stride.1) + (-1 * q.stride.2) + (q.shape.0 * q.stride.0) + (q.shape.1 * q.stride.1) + (q.shape.2 * q.stride.2) + q.shape.3 + -1) <= 2147483647)) and ((q.shape.3 // 2) <= 64)) and (((-1 * (q.shape.3 // 2)) + q.shape.3) <= 64)) and ((-1 * (q.shape.3 // 2)) <= 2147483647)) and (((-1 * out_q.stride.0) + (-1 * out_q.stride.1) + (-1 * out_q.stride.2) + (out_q.shape.0 * out_q.stride.0) + (out_q.shape.1 * out_q.stride.1) + (out_q.shape.2 * out_q.stride.2) + out_q.shape.3 + -1) <= 2147483647)) and (((-1 * (q.shape.3 // 2)) + out_q.shape.3) <= 64)) and (((-1 * k.stride.0) + (-1 * k.stride.1) + (-1 * k.stride.2) + (k.shape.0 * k.stride.0) + (k.shape.1 * k.stride.1) + (k.shape.2 * k.stride.2) + k.shape.3 + -1) <= 2147483647)) and ((k.shape.3 // 2) <= 64)) and (((-1 * (k.shape.3 // 2)) + k.shape.3) <= 64)) and ((-1 * (k.shape.3 // 2)) <= 2147483647)) and (((-1 * out_k.stride.0) + (-1 * out_k.stride.1) + (-1 * out_k.stride.2) + (out_k.shape.0 * out_k.stride.0) + (out_k.shape.1 * out_k.stride.1) + (out_k.shape.2 * out_k.stride.2) + out_k.shape.3 + -1) <= 2147483647)) and (((-1 * (k.shape.3 // 2)) + out_k.shape.3) <= 64)) and (cos.shape.1 <= 2147483647)) and (cos.stride.0 <= 2147483647)) and (k.shape.3 <= 2147483647)) and (k.stride.0 <= 2147483647)) and (k.stride.1 <= 2147483647)) and (k.stride.2 <= 2147483647)) and (out_k.shape.3 <= 2147483647)) and (out_k.stride.0 <= 2147483647)) and (out_k.stride.1 <= 2147483647)) and (out_k.stride.2 <= 2147483647)) and (out_q.shape.3 <= 2147483647)) and (out_q.stride.0 <= 2147483647)) and (out_q.stride.1 <= 2147483647)) and (out_q.stride.2 <= 2147483647)) and (q.shape.3 <= 2147483647)) and (q.stride.0 <= 2147483647)) and (q.stride.1 <= 2147483647)) and (q.stride.2 <= 2147483647)) and (sin.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=64
# cos_ptr: *bf16 % 16 = cos
# k_ptr: *bf16 % 16 = k
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# q_ptr: *bf16 % 16 = q
# sin_ptr: *bf16 % 16 = sin
# cos_shape_1: i32 = cos.shape.1
# cos_stride_0: i32 = cos.stride.0
# end_0: i32 = end.0
# end_1: i32 = end.1
# k_shape_1: i32 = k.shape.1
# k_shape_3: i32 = k.shape.3
# k_stride_0: i32 = k.stride.0
# k_stride_1: i32 = k.stride.1
# k_stride_2: i32 = k.stride.2
# out_k_shape_3: i32 = out_k.shape.3
# out_k_stride_0: i32 = out_k.stride.0
# out_k_stride_1: i32 = out_k.stride.1
# out_k_stride_2: i32 = out_k.stride.2
# out_q_shape_3: i32 = out_q.shape.3
# out_q_stride_0: i32 = out_q.stride.0
# out_q_stride_1: i32 = out_q.stride.1
# out_q_stride_2: i32 = out_q.stride.2
# q_shape_1: i32 = q.shape.1
# q_shape_3: i32 = q.shape.3
# q_stride_0: i32 = q.stride.0
# q_stride_1: i32 = q.stride.1
# q_stride_2: i32 = q.stride.2
# sin_stride_0: i32 = sin.stride.0
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
    cos_shape_1,
    cos_stride_0,
    end_0,
    end_1,
    k_shape_1,
    k_shape_3,
    k_stride_0,
    k_stride_1,
    k_stride_2,
    out_k_shape_3,
    out_k_stride_0,
    out_k_stride_1,
    out_k_stride_2,
    out_q_shape_3,
    out_q_stride_0,
    out_q_stride_1,
    out_q_stride_2,
    q_shape_1,
    q_shape_3,
    q_stride_0,
    q_stride_1,
    q_stride_2,
    sin_stride_0,
    BLOCK_TILE_H: tl.constexpr,
    BLOCK_TILE_H_1: tl.constexpr,
    BLOCK_TILE_S: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_s_begin = (pid % tl.cdiv(end_1, 64)) * BLOCK_TILE_S
    tile_s_idx = tile_s_begin + tl.arange(0, BLOCK_TILE_S)
    tile_s_mask = tile_s_idx < end_1
    tile_b_begin = (pid // tl.cdiv(end_1, 64))
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    tile_b_mask = tile_b_idx < end_0
    v0 = tl.load(cos_ptr + tile_s_idx[:, None] * cos_stride_0 + tl.arange(0, 64)[None, :], mask=tile_s_mask[:, None] & (tl.arange(0, 64) < cos_shape_1)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(sin_ptr + tile_s_idx[:, None] * sin_stride_0 + tl.arange(0, 64)[None, :], mask=tile_s_mask[:, None] & (tl.arange(0, 64) < cos_shape_1)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    for tile_h_begin in tl.range(0, q_shape_1, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tile_h_mask = tile_h_idx < q_shape_1
        v4 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * q_stride_0 + tile_h_idx[None, :, None, None] * q_stride_1 + tile_s_idx[None, None, :, None] * q_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (q_shape_3 // 2))[None, None, None, :], other=0.0)
        v5 = v4.to(tl.float32)
        v6 = tl.load(q_ptr + tile_b_idx[:, None, None, None] * q_stride_0 + tile_h_idx[None, :, None, None] * q_stride_1 + tile_s_idx[None, None, :, None] * q_stride_2 + ((q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (q_shape_3 // 2)) + q_shape_3))[None, None, None, :], other=0.0)
        v7 = v6.to(tl.float32)
        v8 = v1[None, :, :]
        v9 = v8[None, :, :, :]
        v10 = v5 * v9
        v11 = v3[None, :, :]
        v12 = v11[None, :, :, :]
        v13 = v7 * v12
        v14 = v10 - v13
        v15 = tl.broadcast_to(v14, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v16 = v15.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + tl.arange(0, 64)[None, None, None, :], v16, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (q_shape_3 // 2))[None, None, None, :])
        v17 = v1[None, :, :]
        v18 = v17[None, :, :, :]
        v19 = v7 * v18
        v20 = v3[None, :, :]
        v21 = v20[None, :, :, :]
        v22 = v5 * v21
        v23 = v19 + v22
        v24 = tl.broadcast_to(v23, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v25 = v24.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + ((q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v25, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (q_shape_3 // 2)) + out_q_shape_3))[None, None, None, :])
    for tile_h_1_begin in tl.range(0, k_shape_1, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tile_h_1_mask = tile_h_1_idx < k_shape_1
        v26 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * k_stride_0 + tile_h_1_idx[None, :, None, None] * k_stride_1 + tile_s_idx[None, None, :, None] * k_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (k_shape_3 // 2))[None, None, None, :], other=0.0)
        v27 = v26.to(tl.float32)
        v28 = tl.load(k_ptr + tile_b_idx[:, None, None, None] * k_stride_0 + tile_h_1_idx[None, :, None, None] * k_stride_1 + tile_s_idx[None, None, :, None] * k_stride_2 + ((k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (k_shape_3 // 2)) + k_shape_3))[None, None, None, :], other=0.0)
        v29 = v28.to(tl.float32)
        v30 = v1[None, :, :]
        v31 = v30[None, :, :, :]
        v32 = v27 * v31
        v33 = v3[None, :, :]
        v34 = v33[None, :, :, :]
        v35 = v29 * v34
        v36 = v32 - v35
        v37 = tl.broadcast_to(v36, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v38 = v37.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + tl.arange(0, 64)[None, None, None, :], v38, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (k_shape_3 // 2))[None, None, None, :])
        v39 = v1[None, :, :]
        v40 = v39[None, :, :, :]
        v41 = v29 * v40
        v42 = v3[None, :, :]
        v43 = v42[None, :, :, :]
        v44 = v27 * v43
        v45 = v41 + v44
        v46 = tl.broadcast_to(v45, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v47 = v46.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + ((k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v47, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (k_shape_3 // 2)) + out_k_shape_3))[None, None, None, :])
