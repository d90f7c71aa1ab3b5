# config: block:tile_m=1, block:tile_n=4096, group=1, load:x#0.eviction=, load:y#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0, store:out#0.access=pointer
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (n % 16))) and (n <= 2147483647)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647)) and (0 == (y.stride.0 % 16))) and (y.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# n: i32 % 16 = n
# out_stride_0: i32 % 16 = out.stride.0
# x_stride_0: i32 % 16 = x.stride.0
# y_stride_0: i32 % 16 = y.stride.0
import triton
import triton.language as tl


@triton.jit
def concat_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    n,
    out_stride_0,
    x_stride_0,
    y_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tile_n_idx < n
    v1 = v0[None, :]
    v2 = tl.broadcast_to(v1, [BLOCK_TILE_M, BLOCK_TILE_N])
    v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :] & v2, other=0.0)
    v4 = tile_n_idx - n
    v5 = v0[None, :]
    v6 = v5 == 0
    v7 = tl.broadcast_to(v6, [BLOCK_TILE_M, BLOCK_TILE_N])
    v8 = tl.load(y_ptr + tile_m_idx[:, None] * y_stride_0 + v4[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :] & v7, other=0.0)
    v9 = v0[None, :]
    v10 = v3.to(tl.float32)
    v11 = v8.to(tl.float32)
    v12 = tl.where(v9, v10, v11)
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v13, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (n <= 2147483647)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647)) and (y.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 = end.1
# n: i32 = n
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
# y_stride_0: i32 = y.stride.0
import triton
import triton.language as tl


@triton.jit
def concat_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    n,
    out_stride_0,
    x_stride_0,
    y_stride_0,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tile_n_idx < n
    v1 = v0[None, :]
    v2 = tl.broadcast_to(v1, [BLOCK_TILE_M, BLOCK_TILE_N])
    v3 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :] & v2, other=0.0)
    v4 = tile_n_idx - n
    v5 = v0[None, :]
    v6 = v5 == 0
    v7 = tl.broadcast_to(v6, [BLOCK_TILE_M, BLOCK_TILE_N])
    v8 = tl.load(y_ptr + tile_m_idx[:, None] * y_stride_0 + v4[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :] & v7, other=0.0)
    v9 = v0[None, :]
    v10 = v3.to(tl.float32)
    v11 = v8.to(tl.float32)
    v12 = tl.where(v9, v10, v11)
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v13, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
