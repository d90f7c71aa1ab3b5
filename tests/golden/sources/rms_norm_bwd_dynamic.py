# config: block:block_m=16, block:tile_m=1, num_stages=3
# region 0, dynamic
# grid: (-(-end.0 // 16)), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == inv_rms.align)) and (1 == inv_rms.stride.0)) and (1 == partial.align)) and (1 == partial.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= inv_rms.shape.0)) and (end.0 <= x.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == x.shape.1)) and (n == x.shape.1)) and (grad.shape.1 == weight.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= grad_x.shape.0)) and (grad_x.shape.1 == x.shape.1)) and (n == partial.shape.1)) and (end.0 <= 2147483631)) and ((weight.shape.0 + -1) <= 2147483647)) and (grad_x.shape.1 <= 4096)) and ((inv_rms.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (((-1 * partial.stride.0) + (partial.shape.0 * partial.stride.0) + partial.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (grad_x.shape.1 % 16))) and (grad_x.shape.1 <= 2147483647)) and (0 == (grad_x.stride.0 % 16))) and (grad_x.stride.0 <= 2147483647)) and (partial.shape.0 <= 2147483647)) and (0 == (partial.stride.0 % 16))) and (partial.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# inv_rms_ptr: *fp32 % 16 = inv_rms
# partial_ptr: *fp32 % 16 = partial
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# grad_stride_0: i32 % 16 = grad.stride.0
# grad_x_shape_1: i32 % 16 = grad_x.shape.1
# grad_x_stride_0: i32 % 16 = grad_x.stride.0
# partial_shape_0: i32 = partial.shape.0
# partial_stride_0: i32 % 16 = partial.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm_bwd (rms_norm.py:78), launch 0, run-time sizes
#   block:block_m=16, block:tile_m=1, num_stages=3
@triton.jit
def rms_norm_bwd_0(
    grad_ptr,
    grad_x_ptr,
    inv_rms_ptr,
    partial_ptr,
    weight_ptr,
    x_ptr,
    end_0,
    grad_stride_0,
    grad_x_shape_1,
    grad_x_stride_0,
    partial_shape_0,
    partial_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for rows in tfl.tile(m, block_size=block_m):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    rows_mask = rows_idx < end_0
    # factor = weight[:].float()
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < grad_x_shape_1), other=0.0)
    factor = v0.to(tl.float32)
    # to_weight = tfl.zeros([n])
    to_weight_start = tl.full([4096], 0.0, tl.float32)
    # for tile_m in tfl.tile(rows.begin, rows.end):
    v1 = tl.minimum(rows_begin + BLOCK_BLOCK_M, end_0)
    to_weight = to_weight_start
    for tile_m_begin in tl.range(rows_begin, v1, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        # scale = inv_rms[tile_m][:, None]
        v2 = tl.load(inv_rms_ptr + tile_m_idx)
        scale = v2[:, None]
        # normed = x[tile_m, :].float() * scale
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        normed = v4 * scale
        # g = grad[tile_m, :].float()
        v5 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        g = v5.to(tl.float32)
        # to_weight += (g * normed).sum(dim=0)
        v6 = g * normed
        v7 = tl.sum(v6, axis=0)
        v8 = to_weight + v7
        to_weight_next = tl.broadcast_to(v8, [4096])
        # g = g * factor
        v9 = factor[None, :]
        g_1 = g * v9
        # grad_x[tile_m, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * scale
        v10 = g_1 * normed
        v11 = tl.where((tl.arange(0, 4096) < grad_x_shape_1)[None, :], v10, 0.0)
        v12 = tl.sum(v11, axis=1)
        v13 = v12[:, None]
        v14 = tl.cast(x_shape_1, tl.float32)
        v15 = v13 / v14
        v16 = normed * v15
        v17 = g_1 - v16
        v18 = v17 * scale
        v19 = tl.broadcast_to(v18, [BLOCK_TILE_M, 4096])
        v20 = v19.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v20, mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :])
        to_weight = to_weight_next
    # partial[rows.id, :] = to_weight
    v21 = rows_begin // BLOCK_BLOCK_M
    v22 = tl.broadcast_to(to_weight, [4096])
    tl.store(partial_ptr + v21 * partial_stride_0 + tl.arange(0, 4096), v22, mask=(tl.arange(0, 4096) < grad_x_shape_1) & (v21 < partial_shape_0))

# region 0, dynamic
# grid: (-(-end.0 // 16)), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == inv_rms.align)) and (1 == inv_rms.stride.0)) and (1 == partial.align)) and (1 == partial.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= inv_rms.shape.0)) and (end.0 <= x.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == x.shape.1)) and (n == x.shape.1)) and (grad.shape.1 == weight.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= grad_x.shape.0)) and (grad_x.shape.1 == x.shape.1)) and (n == partial.shape.1)) and (end.0 <= 2147483631)) and ((weight.shape.0 + -1) <= 2147483647)) and (grad_x.shape.1 <= 4096)) and ((inv_rms.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (((-1 * partial.stride.0) + (partial.shape.0 * partial.stride.0) + partial.shape.1 + -1) <= 2147483647)) and (0 == (grad.stride.0 % 16))) and (grad.stride.0 <= 2147483647)) and (0 == (grad_x.shape.1 % 16))) and (grad_x.shape.1 <= 2147483647)) and (0 == (grad_x.stride.0 % 16))) and (grad_x.stride.0 <= 2147483647)) and (partial.shape.0 <= 2147483647)) and (0 == (partial.stride.0 % 16))) and (partial.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# inv_rms_ptr: *fp32 % 16 = inv_rms
# partial_ptr: *fp32 % 16 = partial
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# grad_stride_0: i32 % 16 = grad.stride.0
# grad_x_shape_1: i32 % 16 = grad_x.shape.1
# grad_x_stride_0: i32 % 16 = grad_x.stride.0
# partial_shape_0: i32 = partial.shape.0
# partial_stride_0: i32 % 16 = partial.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm_bwd (rms_norm.py:78), launch 0, run-time sizes
#   block:block_m=16, block:tile_m=1, num_stages=3
@triton.jit
def rms_norm_bwd_0(
    grad_ptr,
    grad_x_ptr,
    inv_rms_ptr,
    partial_ptr,
    weight_ptr,
    x_ptr,
    end_0,
    grad_stride_0,
    grad_x_shape_1,
    grad_x_stride_0,
    partial_shape_0,
    partial_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for rows in tfl.tile(m, block_size=block_m):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    rows_mask = rows_idx < end_0
    # factor = weight[:].float()
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < grad_x_shape_1), other=0.0)
    factor = v0.to(tl.float32)
    # to_weight = tfl.zeros([n])
    to_weight_start = tl.full([4096], 0.0, tl.float32)
    # for tile_m in tfl.tile(rows.begin, rows.end):
    v1 = tl.minimum(rows_begin + BLOCK_BLOCK_M, end_0)
    to_weight = to_weight_start
    for tile_m_begin in tl.range(rows_begin, v1, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        # scale = inv_rms[tile_m][:, None]
        v2 = tl.load(inv_rms_ptr + tile_m_idx)
        scale = v2[:, None]
        # normed = x[tile_m, :].float() * scale
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        normed = v4 * scale
        # g = grad[tile_m, :].float()
        v5 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        g = v5.to(tl.float32)
        # to_weight += (g * normed).sum(dim=0)
        v6 = g * normed
        v7 = tl.sum(v6, axis=0)
        v8 = to_weight + v7
        to_weight_next = tl.broadcast_to(v8, [4096])
        # g = g * factor
        v9 = factor[None, :]
        g_1 = g * v9
        # grad_x[tile_m, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * scale
        v10 = g_1 * normed
        v11 = tl.where((tl.arange(0, 4096) < grad_x_shape_1)[None, :], v10, 0.0)
        v12 = tl.sum(v11, axis=1)
        v13 = v12[:, None]
        v14 = tl.cast(x_shape_1, tl.float32)
        v15 = v13 / v14
        v16 = normed * v15
        v17 = g_1 - v16
        v18 = v17 * scale
        v19 = tl.broadcast_to(v18, [BLOCK_TILE_M, 4096])
        v20 = v19.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v20, mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :])
        to_weight = to_weight_next
    # partial[rows.id, :] = to_weight
    v21 = rows_begin // BLOCK_BLOCK_M
    v22 = tl.broadcast_to(to_weight, [4096])
    tl.store(partial_ptr + v21 * partial_stride_0 + tl.arange(0, 4096), v22, mask=(tl.arange(0, 4096) < grad_x_shape_1) & (v21 < partial_shape_0))

# region 0, dynamic
# grid: (-(-end.0 // 16)), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == grad.align)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (1 == grad_x.stride.1)) and (1 == inv_rms.align)) and (1 == inv_rms.stride.0)) and (1 == partial.align)) and (1 == partial.stride.1)) and (1 == weight.align)) and (1 == weight.stride.0)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= inv_rms.shape.0)) and (end.0 <= x.shape.0)) and (end.0 <= grad.shape.0)) and (grad.shape.1 == x.shape.1)) and (n == x.shape.1)) and (grad.shape.1 == weight.shape.0)) and (weight.shape.0 == x.shape.1)) and (end.0 <= grad_x.shape.0)) and (grad_x.shape.1 == x.shape.1)) and (n == partial.shape.1)) and (end.0 <= 2147483631)) and ((weight.shape.0 + -1) <= 2147483647)) and (grad_x.shape.1 <= 4096)) and ((inv_rms.shape.0 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * grad.stride.0) + (grad.shape.0 * grad.stride.0) + grad.shape.1 + -1) <= 2147483647)) and (((-1 * grad_x.stride.0) + (grad_x.shape.0 * grad_x.stride.0) + grad_x.shape.1 + -1) <= 2147483647)) and (((-1 * partial.stride.0) + (partial.shape.0 * partial.stride.0) + partial.shape.1 + -1) <= 2147483647)) and (grad.stride.0 <= 2147483647)) and (grad_x.shape.1 <= 2147483647)) and (grad_x.stride.0 <= 2147483647)) and (partial.shape.0 <= 2147483647)) and (partial.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_M=16, BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# inv_rms_ptr: *fp32 % 16 = inv_rms
# partial_ptr: *fp32 % 16 = partial
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# grad_stride_0: i32 = grad.stride.0
# grad_x_shape_1: i32 = grad_x.shape.1
# grad_x_stride_0: i32 = grad_x.stride.0
# partial_shape_0: i32 = partial.shape.0
# partial_stride_0: i32 = partial.stride.0
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


# examples.rms_norm:rms_norm_bwd (rms_norm.py:78), launch 0, run-time sizes
#   block:block_m=16, block:tile_m=1, num_stages=3
@triton.jit
def rms_norm_bwd_0(
    grad_ptr,
    grad_x_ptr,
    inv_rms_ptr,
    partial_ptr,
    weight_ptr,
    x_ptr,
    end_0,
    grad_stride_0,
    grad_x_shape_1,
    grad_x_stride_0,
    partial_shape_0,
    partial_stride_0,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for rows in tfl.tile(m, block_size=block_m):
    pid = tl.program_id(0)
    rows_begin = pid * BLOCK_BLOCK_M
    rows_idx = rows_begin + tl.arange(0, BLOCK_BLOCK_M)
    rows_mask = rows_idx < end_0
    # factor = weight[:].float()
    v0 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < grad_x_shape_1), other=0.0)
    factor = v0.to(tl.float32)
    # to_weight = tfl.zeros([n])
    to_weight_start = tl.full([4096], 0.0, tl.float32)
    # for tile_m in tfl.tile(rows.begin, rows.end):
    v1 = tl.minimum(rows_begin + BLOCK_BLOCK_M, end_0)
    to_weight = to_weight_start
    for tile_m_begin in tl.range(rows_begin, v1, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        # scale = inv_rms[tile_m][:, None]
        v2 = tl.load(inv_rms_ptr + tile_m_idx)
        scale = v2[:, None]
        # normed = x[tile_m, :].float() * scale
        v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        v4 = v3.to(tl.float32)
        normed = v4 * scale
        # g = grad[tile_m, :].float()
        v5 = tl.load(grad_ptr + tile_m_idx[:, None] * grad_stride_0 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :], other=0.0)
        g = v5.to(tl.float32)
        # to_weight += (g * normed).sum(dim=0)
        v6 = g * normed
        v7 = tl.sum(v6, axis=0)
        v8 = to_weight + v7
        to_weight_next = tl.broadcast_to(v8, [4096])
        # g = g * factor
        v9 = factor[None, :]
        g_1 = g * v9
        # grad_x[tile_m, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * scale
        v10 = g_1 * normed
        v11 = tl.where((tl.arange(0, 4096) < grad_x_shape_1)[None, :], v10, 0.0)
        v12 = tl.sum(v11, axis=1)
        v13 = v12[:, None]
        v14 = tl.cast(x_shape_1, tl.float32)
        v15 = v13 / v14
        v16 = normed * v15
        v17 = g_1 - v16
        v18 = v17 * scale
        v19 = tl.broadcast_to(v18, [BLOCK_TILE_M, 4096])
        v20 = v19.to(tl.bfloat16)
        tl.store(grad_x_ptr + tile_m_idx[:, None] * grad_x_stride_0 + tl.arange(0, 4096)[None, :], v20, mask=(tl.arange(0, 4096) < grad_x_shape_1)[None, :])
        to_weight = to_weight_next
    # partial[rows.id, :] = to_weight
    v21 = rows_begin // BLOCK_BLOCK_M
    v22 = tl.broadcast_to(to_weight, [4096])
    tl.store(partial_ptr + v21 * partial_stride_0 + tl.arange(0, 4096), v22, mask=(tl.arange(0, 4096) < grad_x_shape_1) & (v21 < partial_shape_0))
