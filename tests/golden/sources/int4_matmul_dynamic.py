# config: block:block_k=8, block:tile_m=128, block:tile_n=256, group=8, load:packed#0.eviction=, load:x#0.eviction=, num_stages=3, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.0 // 128)) * (-(-end.1 // 256))), 1, 1
# guards: (((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == packed.align)) and (1 == packed.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (rows <= 2147483647)) and (end.1 <= packed.shape.1)) and (end.0 <= x.shape.0)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-1 * packed.stride.0) + (packed.shape.0 * packed.stride.0) + packed.shape.1 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (packed.shape.0 <= 2147483647)) and (0 == (packed.stride.0 % 16))) and (packed.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_K=8, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# out_ptr: *bf16 % 16 = out
# packed_ptr: *i8 % 16 = packed
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# out_stride_0: i32 % 16 = out.stride.0
# packed_shape_0: i32 = packed.shape.0
# packed_stride_0: i32 % 16 = packed.stride.0
# rows: i32 = rows
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def int4_matmul_0(
    out_ptr,
    packed_ptr,
    x_ptr,
    end_0,
    end_1,
    out_stride_0,
    packed_shape_0,
    packed_stride_0,
    rows,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 256))
    height = tl.minimum(tl.cdiv(end_0, 128) - band * 8, 8)
    tile_m_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 256)) % height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    tile_n_begin = (pid % (8 * tl.cdiv(end_1, 256)) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
    c0 = v0
    for tile_k_begin in tl.range(0, rows, BLOCK_BLOCK_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_BLOCK_K)
        tile_k_mask = tile_k_idx < rows
        v1 = tl.arange(0, BLOCK_BLOCK_K)
        v2 = v1 + tile_k_begin
        v3 = tl.load(packed_ptr + v2[:, None] * packed_stride_0 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & (v2[:, None] < packed_shape_0), other=0)
        v4 = v3 << 4
        v5 = v4 >> 4
        v6 = v3 >> 4
        v7 = tl.join(v5, v6)
        v8 = tl.permute(v7, (0, 2, 1))
        v9 = tl.reshape(v8, [(2 * BLOCK_BLOCK_K), BLOCK_TILE_N])
        v10 = v9.to(tl.float32).to(tl.bfloat16)
        v11 = 2 * tile_k_begin
        v12 = tl.arange(0, (2 * BLOCK_BLOCK_K))
        v13 = v12 + v11
        v14 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + v13[None, :], mask=tile_m_mask[:, None] & (v13[None, :] < x_shape_1), other=0.0)
        v15 = tl.dot(v14, v10, acc=c0)
        c0 = v15
    v16 = c0.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v16, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.0 // 128)) * (-(-end.1 // 256))), 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == packed.align)) and (1 == packed.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (rows <= 2147483647)) and (end.1 <= packed.shape.1)) and (end.0 <= x.shape.0)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-1 * packed.stride.0) + (packed.shape.0 * packed.stride.0) + packed.shape.1 + -1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.stride.0 <= 2147483647)) and (packed.shape.0 <= 2147483647)) and (packed.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_BLOCK_K=8, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# out_ptr: *bf16 % 16 = out
# packed_ptr: *i8 % 16 = packed
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# end_1: i32 = end.1
# out_stride_0: i32 = out.stride.0
# packed_shape_0: i32 = packed.shape.0
# packed_stride_0: i32 = packed.stride.0
# rows: i32 = rows
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def int4_matmul_0(
    out_ptr,
    packed_ptr,
    x_ptr,
    end_0,
    end_1,
    out_stride_0,
    packed_shape_0,
    packed_stride_0,
    rows,
    x_shape_1,
    x_stride_0,
    BLOCK_BLOCK_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * tl.cdiv(end_1, 256))
    height = tl.minimum(tl.cdiv(end_0, 128) - band * 8, 8)
    tile_m_begin = (band * 8 + pid % (8 * tl.cdiv(end_1, 256)) % height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    tile_n_begin = (pid % (8 * tl.cdiv(end_1, 256)) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
    c0 = v0
    for tile_k_begin in tl.range(0, rows, BLOCK_BLOCK_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_BLOCK_K)
        tile_k_mask = tile_k_idx < rows
        v1 = tl.arange(0, BLOCK_BLOCK_K)
        v2 = v1 + tile_k_begin
        v3 = tl.load(packed_ptr + v2[:, None] * packed_stride_0 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & (v2[:, None] < packed_shape_0), other=0)
        v4 = v3 << 4
        v5 = v4 >> 4
        v6 = v3 >> 4
        v7 = tl.join(v5, v6)
        v8 = tl.permute(v7, (0, 2, 1))
        v9 = tl.reshape(v8, [(2 * BLOCK_BLOCK_K), BLOCK_TILE_N])
        v10 = v9.to(tl.float32).to(tl.bfloat16)
        v11 = 2 * tile_k_begin
        v12 = tl.arange(0, (2 * BLOCK_BLOCK_K))
        v13 = v12 + v11
        v14 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + v13[None, :], mask=tile_m_mask[:, None] & (v13[None, :] < x_shape_1), other=0.0)
        v15 = tl.dot(v14, v10, acc=c0)
        c0 = v15
    v16 = c0.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v16, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
