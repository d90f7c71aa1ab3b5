# config: block:tile_h=1, block:tile_h#1=1, block:tile_s=64, group=1, load:cos#0.access=pointer, load:cos#0.eviction=, load:grad_k#0.access=pointer, load:grad_k#0.eviction=, load:grad_k#1.eviction=, load:grad_q#0.access=pointer, load:grad_q#0.eviction=, load:grad_q#1.eviction=, load:sin#0.access=pointer, load:sin#0.eviction=, num_stages=3, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == cos.align)) and (1 == cos.stride.1)) and (1 == grad_k.align)) and (1 == grad_k.stride.3)) and (1 == grad_q.align)) and (1 == grad_q.stride.3)) and (1 == out_k.align)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (1 == out_q.stride.3)) and (1 == sin.align)) and (1 == sin.stride.1)) and (end.1 <= cos.shape.0)) and (end.1 <= sin.shape.0)) and (grad_q.shape.1 <= 2147483647)) and (end.0 <= grad_q.shape.0)) and (end.1 <= grad_q.shape.2)) and (not ((grad_q.shape.3 // 2) < 0))) and ((grad_q.shape.3 // 2) <= grad_q.shape.3)) and ((grad_q.shape.3 // 2) == cos.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) == sin.shape.1)) and (cos.shape.1 == sin.shape.1)) and (end.0 <= out_q.shape.0)) and (grad_q.shape.1 <= out_q.shape.1)) and (end.1 <= out_q.shape.2)) and ((grad_q.shape.3 // 2) <= out_q.shape.3)) and ((grad_q.shape.3 // 2) == sin.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) == cos.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + out_q.shape.3) == sin.shape.1)) and (grad_k.shape.1 <= 2147483647)) and (end.0 <= grad_k.shape.0)) and (end.1 <= grad_k.shape.2)) and (not ((grad_k.shape.3 // 2) < 0))) and ((grad_k.shape.3 // 2) <= grad_k.shape.3)) and ((grad_k.shape.3 // 2) == cos.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) == sin.shape.1)) and (end.0 <= out_k.shape.0)) and (grad_k.shape.1 <= out_k.shape.1)) and (end.1 <= out_k.shape.2)) and ((grad_k.shape.3 // 2) <= out_k.shape.3)) and ((grad_k.shape.3 // 2) == sin.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) == cos.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + out_k.shape.3) == sin.shape.1)) and (((-1 * cos.stride.0) + (cos.shape.0 * cos.stride.0) + cos.shape.1 + -1) <= 2147483647)) and (cos.shape.1 <= 64)) and (((-1 * sin.stride.0) + (sin.shape.0 * sin.stride.0) + sin.shape.1 + -1) <= 2147483647)) and (((-1 * grad_q.stride.0) + (-1 * grad_q.stride.1) + (-1 * grad_q.stride.2) + (grad_q.shape.0 * grad_q.stride.0) + (grad_q.shape.1 * grad_q.stride.1) + (grad_q.shape.2 * grad_q.stride.2) + grad_q.shape.3 + -1) <= 2147483647)) and ((grad_q.shape.3 // 2) <= 64)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) <= 64)) and ((-1 * (grad_q.shape.3 // 2)) <= 2147483647)) and (((-1 * out_q.stride.0) + (-1 * out_q.stride.1) + (-1 * out_q.stride.2) + (out_q.shape.0 * out_q.stride.0) + (out_q.shape.1 * out_q.stride.1) + (out_q.shape.2 * out_q.stride.2) + out_q.shape.3 + -1) <= 2147483647)) and (((-1 * (grad_q.shape.3 // 2)) + out_q.shape.3) <= 64)) and (((-1 * grad_k.stride.0) + (-1 * grad_k.stride.1) + (-1 * grad_k.stride.2) + (grad_k.shape.0 * grad_k.stride.0) + (grad_k.shape.1 * grad_k.stride.1) + (grad_k.shape.2 * grad_k.stride.2) + grad_k.shape.3 + -1) <= 2147483647)) and ((grad_k.shape.3 // 2) <= 64)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) <= 64)) and ((-1 * (grad_k.shape.3 // 2)) <= 2147483647)) and (((-1 * out_k.stride.0) + (-1 * out_k.stride.1) + (-1 * out_k.stride.2) + (out_k.shape.0 * out_k.stride.0) + (out_k.shape.1 * out_k.stride.1) + (out_k.shape.2 * out_k.stride.2) + out_k.shape.3 + -1) <= 2147483647)) and (((-1 * (grad_k.shape.3 // 2)) + out_k.shape.3) <= 64)) and (0 == (cos.shape.1 % 16))) and (cos.shape.1 <= 2147483647)) and (0 == (cos.stride.0 % 16))) and (cos.stride.0 <= 2147483647)) and (0 == (end.1 % 16))) and (0 == (grad_k.shape.3 % 16))) and (grad_k.shape.3 <= 2147483647)) and (0 == (grad_k.stride.0 % 16))) and (grad_k.stride.0 <= 2147483647)) and (0 == (grad_k.stride.1 % 16))) and (grad_k.stride.1 <= 2147483647)) and (0 == (grad_k.stride.2 % 16))) and (grad_k.stride.2 <= 2147483647)) and (0 == (grad_q.shape.3 % 16))) and (grad_q.shape.3 <= 2147483647)) and (0 == (grad_q.stride.0 % 16))) and (grad_q.stride.0 <= 2147483647)) and (0 == (grad_q.stride.1 % 16))) and (grad_q.stride.1 <= 2147483647)) and (0 == (grad_q.stride.2 % 16))) and (grad_q.stride.2 <= 2147483647)) and (0 == (out_k.shape.3 % 16))) and (out_k.shape.3 <= 2147483647)) and (0 == (out_k.stride.0 % 16))) and (out_k.stride.0 <= 2147483647)) and (0 == (out_k.stride.1 % 16))) and (out_k.stride.1 <= 2147483647)) and (0 == (out_k.stride.2 % 16))) and (out_k.stride.2 <= 2147483647)) and (0 == (out_q.shape.3 % 16))) and (out_q.shape.3 <= 2147483647)) and (0 == (out_q.stride.0 % 16))) and (out_q.stride.0 <= 2147483647)) and (0 == (out_q.stride.1 % 16))) and (out_q.stride.1 <= 2147483647)) and (0 == (out_q.stride.2 % 16))) and (out_q.stride.2 <= 2147483647)) and (0 == (sin.stride.0 % 16))) and (sin.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=64
# cos_ptr: *bf16 % 16 = cos
# grad_k_ptr: *bf16 % 16 = grad_k
# grad_q_ptr: *bf16 % 16 = grad_q
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# sin_ptr: *bf16 % 16 = sin
# cos_shape_1: i32 % 16 = cos.shape.1
# cos_stride_0: i32 % 16 = cos.stride.0
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# grad_k_shape_1: i32 = grad_k.shape.1
# grad_k_shape_3: i32 % 16 = grad_k.shape.3
# grad_k_stride_0: i32 % 16 = grad_k.stride.0
# grad_k_stride_1: i32 % 16 = grad_k.stride.1
# grad_k_stride_2: i32 % 16 = grad_k.stride.2
# grad_q_shape_1: i32 = grad_q.shape.1
# grad_q_shape_3: i32 % 16 = grad_q.shape.3
# grad_q_stride_0: i32 % 16 = grad_q.stride.0
# grad_q_stride_1: i32 % 16 = grad_q.stride.1
# grad_q_stride_2: i32 % 16 = grad_q.stride.2
# out_k_shape_3: i32 % 16 = out_k.shape.3
# out_k_stride_0: i32 % 16 = out_k.stride.0
# out_k_stride_1: i32 % 16 = out_k.stride.1
# out_k_stride_2: i32 % 16 = out_k.stride.2
# out_q_shape_3: i32 % 16 = out_q.shape.3
# out_q_stride_0: i32 % 16 = out_q.stride.0
# out_q_stride_1: i32 % 16 = out_q.stride.1
# out_q_stride_2: i32 % 16 = out_q.stride.2
# sin_stride_0: i32 % 16 = sin.stride.0
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
    cos_shape_1,
    cos_stride_0,
    end_0,
    end_1,
    grad_k_shape_1,
    grad_k_shape_3,
    grad_k_stride_0,
    grad_k_stride_1,
    grad_k_stride_2,
    grad_q_shape_1,
    grad_q_shape_3,
    grad_q_stride_0,
    grad_q_stride_1,
    grad_q_stride_2,
    out_k_shape_3,
    out_k_stride_0,
    out_k_stride_1,
    out_k_stride_2,
    out_q_shape_3,
    out_q_stride_0,
    out_q_stride_1,
    out_q_stride_2,
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
    v4 = -v3
    for tile_h_begin in tl.range(0, grad_q_shape_1, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tile_h_mask = tile_h_idx < grad_q_shape_1
        v5 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * grad_q_stride_0 + tile_h_idx[None, :, None, None] * grad_q_stride_1 + tile_s_idx[None, None, :, None] * grad_q_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_q_shape_3 // 2))[None, None, None, :], other=0.0)
        v6 = v5.to(tl.float32)
        v7 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * grad_q_stride_0 + tile_h_idx[None, :, None, None] * grad_q_stride_1 + tile_s_idx[None, None, :, None] * grad_q_stride_2 + ((grad_q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_q_shape_3 // 2)) + grad_q_shape_3))[None, None, None, :], other=0.0)
        v8 = v7.to(tl.float32)
        v9 = v1[None, :, :]
        v10 = v9[None, :, :, :]
        v11 = v6 * v10
        v12 = v4[None, :, :]
        v13 = v12[None, :, :, :]
        v14 = v8 * v13
        v15 = v11 - v14
        v16 = tl.broadcast_to(v15, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v17 = v16.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + tl.arange(0, 64)[None, None, None, :], v17, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_q_shape_3 // 2))[None, None, None, :])
        v18 = v1[None, :, :]
        v19 = v18[None, :, :, :]
        v20 = v8 * v19
        v21 = v4[None, :, :]
        v22 = v21[None, :, :, :]
        v23 = v6 * v22
        v24 = v20 + v23
        v25 = tl.broadcast_to(v24, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v26 = v25.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + ((grad_q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v26, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_q_shape_3 // 2)) + out_q_shape_3))[None, None, None, :])
    for tile_h_1_begin in tl.range(0, grad_k_shape_1, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tile_h_1_mask = tile_h_1_idx < grad_k_shape_1
        v27 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * grad_k_stride_0 + tile_h_1_idx[None, :, None, None] * grad_k_stride_1 + tile_s_idx[None, None, :, None] * grad_k_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_k_shape_3 // 2))[None, None, None, :], other=0.0)
        v28 = v27.to(tl.float32)
        v29 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * grad_k_stride_0 + tile_h_1_idx[None, :, None, None] * grad_k_stride_1 + tile_s_idx[None, None, :, None] * grad_k_stride_2 + ((grad_k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_k_shape_3 // 2)) + grad_k_shape_3))[None, None, None, :], other=0.0)
        v30 = v29.to(tl.float32)
        v31 = v1[None, :, :]
        v32 = v31[None, :, :, :]
        v33 = v28 * v32
        v34 = v4[None, :, :]
        v35 = v34[None, :, :, :]
        v36 = v30 * v35
        v37 = v33 - v36
        v38 = tl.broadcast_to(v37, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v39 = v38.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + tl.arange(0, 64)[None, None, None, :], v39, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_k_shape_3 // 2))[None, None, None, :])
        v40 = v1[None, :, :]
        v41 = v40[None, :, :, :]
        v42 = v30 * v41
        v43 = v4[None, :, :]
        v44 = v43[None, :, :, :]
        v45 = v28 * v44
        v46 = v42 + v45
        v47 = tl.broadcast_to(v46, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v48 = v47.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + ((grad_k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v48, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_k_shape_3 // 2)) + out_k_shape_3))[None, None, None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 64)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == cos.align)) and (1 == cos.stride.1)) and (1 == grad_k.align)) and (1 == grad_k.stride.3)) and (1 == grad_q.align)) and (1 == grad_q.stride.3)) and (1 == out_k.align)) and (1 == out_k.stride.3)) and (1 == out_q.align)) and (1 == out_q.stride.3)) and (1 == sin.align)) and (1 == sin.stride.1)) and (end.1 <= cos.shape.0)) and (end.1 <= sin.shape.0)) and (grad_q.shape.1 <= 2147483647)) and (end.0 <= grad_q.shape.0)) and (end.1 <= grad_q.shape.2)) and (not ((grad_q.shape.3 // 2) < 0))) and ((grad_q.shape.3 // 2) <= grad_q.shape.3)) and ((grad_q.shape.3 // 2) == cos.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) == sin.shape.1)) and (cos.shape.1 == sin.shape.1)) and (end.0 <= out_q.shape.0)) and (grad_q.shape.1 <= out_q.shape.1)) and (end.1 <= out_q.shape.2)) and ((grad_q.shape.3 // 2) <= out_q.shape.3)) and ((grad_q.shape.3 // 2) == sin.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) == cos.shape.1)) and (((-1 * (grad_q.shape.3 // 2)) + out_q.shape.3) == sin.shape.1)) and (grad_k.shape.1 <= 2147483647)) and (end.0 <= grad_k.shape.0)) and (end.1 <= grad_k.shape.2)) and (not ((grad_k.shape.3 // 2) < 0))) and ((grad_k.shape.3 // 2) <= grad_k.shape.3)) and ((grad_k.shape.3 // 2) == cos.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) == sin.shape.1)) and (end.0 <= out_k.shape.0)) and (grad_k.shape.1 <= out_k.shape.1)) and (end.1 <= out_k.shape.2)) and ((grad_k.shape.3 // 2) <= out_k.shape.3)) and ((grad_k.shape.3 // 2) == sin.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) == cos.shape.1)) and (((-1 * (grad_k.shape.3 // 2)) + out_k.shape.3) == sin.shape.1)) and (((-1 * cos.stride.0) + (cos.shape.0 * cos.stride.0) + cos.shape.1 + -1) <= 2147483647)) and (cos.shape.1 <= 64)) and (((-1 * sin.stride.0) + (sin.shape.0 * sin.stride.0) + sin.shape.1 + -1) <= 2147483647)) and (((-1 * grad_q.stride.0) + (-1 * grad_q.stride.1) + (-1 * grad_q.stride.2) + (grad_q.shape.0 * grad_q.stride.0) + (grad_q.shape.1 * grad_q.stride.1) + (grad_q.shape.2 * grad_q.stride.2) + grad_q.shape.3 + -1) <= 2147483647)) and ((grad_q.shape.3 // 2) <= 64)) and (((-1 * (grad_q.shape.3 // 2)) + grad_q.shape.3) <= 64)) and ((-1 * (grad_q.shape.3 // 2)) <= 2147483647)) and (((-1 * out_q.stride.0) + (-1 * out_q.stride.1) + (-1 * out_q.stride.2) + (out_q.shape.0 * out_q.stride.0) + (out_q.shape.1 * out_q.stride.1) + (out_q.shape.2 * out_q.stride.2) + out_q.shape.3 + -1) <= 2147483647)) and (((-1 * (grad_q.shape.3 // 2)) + out_q.shape.3) <= 64)) and (((-1 * grad_k.stride.0) + (-1 * grad_k.stride.1) + (-1 * grad_k.stride.2) + (grad_k.shape.0 * grad_k.stride.0) + (grad_k.shape.1 * grad_k.stride.1) + (grad_k.shape.2 * grad_k.stride.2) + grad_k.shape.3 + -1) <= 2147483647)) and ((grad_k.shape.3 // 2) <= 64)) and (((-1 * (grad_k.shape.3 // 2)) + grad_k.shape.3) <= 64)) and ((-1 * (grad_k.shape.3 // 2)) <= 2147483647)) and (((-1 * out_k.stride.0) + (-1 * out_k.stride.1) + (-1 * out_k.stride.2) + (out_k.shape.0 * out_k.stride.0) + (out_k.shape.1 * out_k.stride.1) + (out_k.shape.2 * out_k.stride.2) + out_k.shape.3 + -1) <= 2147483647)) and (((-1 * (grad_k.shape.3 // 2)) + out_k.shape.3) <= 64)) and (cos.shape.1 <= 2147483647)) and (cos.stride.0 <= 2147483647)) and (grad_k.shape.3 <= 2147483647)) and (grad_k.stride.0 <= 2147483647)) and (grad_k.stride.1 <= 2147483647)) and (grad_k.stride.2 <= 2147483647)) and (grad_q.shape.3 <= 2147483647)) and (grad_q.stride.0 <= 2147483647)) and (grad_q.stride.1 <= 2147483647)) and (grad_q.stride.2 <= 2147483647)) and (out_k.shape.3 <= 2147483647)) and (out_k.stride.0 <= 2147483647)) and (out_k.stride.1 <= 2147483647)) and (out_k.stride.2 <= 2147483647)) and (out_q.shape.3 <= 2147483647)) and (out_q.stride.0 <= 2147483647)) and (out_q.stride.1 <= 2147483647)) and (out_q.stride.2 <= 2147483647)) and (sin.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_H=1, BLOCK_TILE_H_1=1, BLOCK_TILE_S=64
# cos_ptr: *bf16 % 16 = cos
# grad_k_ptr: *bf16 % 16 = grad_k
# grad_q_ptr: *bf16 % 16 = grad_q
# out_k_ptr: *bf16 % 16 = out_k
# out_q_ptr: *bf16 % 16 = out_q
# sin_ptr: *bf16 % 16 = sin
# cos_shape_1: i32 = cos.shape.1
# cos_stride_0: i32 = cos.stride.0
# end_0: i32 = end.0
# end_1: i32 = end.1
# grad_k_shape_1: i32 = grad_k.shape.1
# grad_k_shape_3: i32 = grad_k.shape.3
# grad_k_stride_0: i32 = grad_k.stride.0
# grad_k_stride_1: i32 = grad_k.stride.1
# grad_k_stride_2: i32 = grad_k.stride.2
# grad_q_shape_1: i32 = grad_q.shape.1
# grad_q_shape_3: i32 = grad_q.shape.3
# grad_q_stride_0: i32 = grad_q.stride.0
# grad_q_stride_1: i32 = grad_q.stride.1
# grad_q_stride_2: i32 = grad_q.stride.2
# out_k_shape_3: i32 = out_k.shape.3
# out_k_stride_0: i32 = out_k.stride.0
# out_k_stride_1: i32 = out_k.stride.1
# out_k_stride_2: i32 = out_k.stride.2
# out_q_shape_3: i32 = out_q.shape.3
# out_q_stride_0: i32 = out_q.stride.0
# out_q_stride_1: i32 = out_q.stride.1
# out_q_stride_2: i32 = out_q.stride.2
# sin_stride_0: i32 = sin.stride.0
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
    cos_shape_1,
    cos_stride_0,
    end_0,
    end_1,
    grad_k_shape_1,
    grad_k_shape_3,
    grad_k_stride_0,
    grad_k_stride_1,
    grad_k_stride_2,
    grad_q_shape_1,
    grad_q_shape_3,
    grad_q_stride_0,
    grad_q_stride_1,
    grad_q_stride_2,
    out_k_shape_3,
    out_k_stride_0,
    out_k_stride_1,
    out_k_stride_2,
    out_q_shape_3,
    out_q_stride_0,
    out_q_stride_1,
    out_q_stride_2,
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
    v4 = -v3
    for tile_h_begin in tl.range(0, grad_q_shape_1, BLOCK_TILE_H, num_stages=3):
        tile_h_idx = tile_h_begin + tl.arange(0, BLOCK_TILE_H)
        tile_h_mask = tile_h_idx < grad_q_shape_1
        v5 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * grad_q_stride_0 + tile_h_idx[None, :, None, None] * grad_q_stride_1 + tile_s_idx[None, None, :, None] * grad_q_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_q_shape_3 // 2))[None, None, None, :], other=0.0)
        v6 = v5.to(tl.float32)
        v7 = tl.load(grad_q_ptr + tile_b_idx[:, None, None, None] * grad_q_stride_0 + tile_h_idx[None, :, None, None] * grad_q_stride_1 + tile_s_idx[None, None, :, None] * grad_q_stride_2 + ((grad_q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_q_shape_3 // 2)) + grad_q_shape_3))[None, None, None, :], other=0.0)
        v8 = v7.to(tl.float32)
        v9 = v1[None, :, :]
        v10 = v9[None, :, :, :]
        v11 = v6 * v10
        v12 = v4[None, :, :]
        v13 = v12[None, :, :, :]
        v14 = v8 * v13
        v15 = v11 - v14
        v16 = tl.broadcast_to(v15, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v17 = v16.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + tl.arange(0, 64)[None, None, None, :], v17, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_q_shape_3 // 2))[None, None, None, :])
        v18 = v1[None, :, :]
        v19 = v18[None, :, :, :]
        v20 = v8 * v19
        v21 = v4[None, :, :]
        v22 = v21[None, :, :, :]
        v23 = v6 * v22
        v24 = v20 + v23
        v25 = tl.broadcast_to(v24, [1, BLOCK_TILE_H, BLOCK_TILE_S, 64])
        v26 = v25.to(tl.bfloat16)
        tl.store(out_q_ptr + tile_b_idx[:, None, None, None] * out_q_stride_0 + tile_h_idx[None, :, None, None] * out_q_stride_1 + tile_s_idx[None, None, :, None] * out_q_stride_2 + ((grad_q_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v26, mask=tile_b_mask[:, None, None, None] & tile_h_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_q_shape_3 // 2)) + out_q_shape_3))[None, None, None, :])
    for tile_h_1_begin in tl.range(0, grad_k_shape_1, BLOCK_TILE_H_1, num_stages=3):
        tile_h_1_idx = tile_h_1_begin + tl.arange(0, BLOCK_TILE_H_1)
        tile_h_1_mask = tile_h_1_idx < grad_k_shape_1
        v27 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * grad_k_stride_0 + tile_h_1_idx[None, :, None, None] * grad_k_stride_1 + tile_s_idx[None, None, :, None] * grad_k_stride_2 + tl.arange(0, 64)[None, None, None, :], mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_k_shape_3 // 2))[None, None, None, :], other=0.0)
        v28 = v27.to(tl.float32)
        v29 = tl.load(grad_k_ptr + tile_b_idx[:, None, None, None] * grad_k_stride_0 + tile_h_1_idx[None, :, None, None] * grad_k_stride_1 + tile_s_idx[None, None, :, None] * grad_k_stride_2 + ((grad_k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_k_shape_3 // 2)) + grad_k_shape_3))[None, None, None, :], other=0.0)
        v30 = v29.to(tl.float32)
        v31 = v1[None, :, :]
        v32 = v31[None, :, :, :]
        v33 = v28 * v32
        v34 = v4[None, :, :]
        v35 = v34[None, :, :, :]
        v36 = v30 * v35
        v37 = v33 - v36
        v38 = tl.broadcast_to(v37, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v39 = v38.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + tl.arange(0, 64)[None, None, None, :], v39, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < (grad_k_shape_3 // 2))[None, None, None, :])
        v40 = v1[None, :, :]
        v41 = v40[None, :, :, :]
        v42 = v30 * v41
        v43 = v4[None, :, :]
        v44 = v43[None, :, :, :]
        v45 = v28 * v44
        v46 = v42 + v45
        v47 = tl.broadcast_to(v46, [1, BLOCK_TILE_H_1, BLOCK_TILE_S, 64])
        v48 = v47.to(tl.bfloat16)
        tl.store(out_k_ptr + tile_b_idx[:, None, None, None] * out_k_stride_0 + tile_h_1_idx[None, :, None, None] * out_k_stride_1 + tile_s_idx[None, None, :, None] * out_k_stride_2 + ((grad_k_shape_3 // 2) + tl.arange(0, 64)[None, None, None, :]), v48, mask=tile_b_mask[:, None, None, None] & tile_h_1_mask[None, :, None, None] & tile_s_mask[None, None, :, None] & (tl.arange(0, 64) < ((-1 * (grad_k_shape_3 // 2)) + out_k_shape_3))[None, None, None, :])
