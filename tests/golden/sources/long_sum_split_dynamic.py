# config: block:part=4096, block:tile_m=1, group=1, load:x#0.access=pointer, load:x#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == partial.align)) and (1 == partial.shape.1)) and (1 == partial.stride.0)) and (1 == partial.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.1 <= x.shape.1)) and (end.0 <= partial.shape.0)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((partial.shape.0 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_PART=4096, BLOCK_TILE_M=1
# partial_ptr: *fp32 % 16 = partial
# x_ptr: *bf16 % 16 = x
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def long_sum_split_0(
    partial_ptr,
    x_ptr,
    end_0,
    end_1,
    x_stride_0,
    BLOCK_PART: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_PART
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_PART)
    tile_n_mask = tile_n_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.sum(v1, axis=1)
    v3 = tile_n_begin // BLOCK_PART
    tl.store(partial_ptr + tile_m_idx + v3, v2, mask=tile_m_mask)

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == partial.align)) and (1 == partial.shape.1)) and (1 == partial.stride.0)) and (1 == partial.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.1 <= x.shape.1)) and (end.0 <= partial.shape.0)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and ((partial.shape.0 + -1) <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_PART=4096, BLOCK_TILE_M=1
# partial_ptr: *fp32 % 16 = partial
# x_ptr: *bf16 % 16 = x
# end_0: i32 = end.0
# end_1: i32 = end.1
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def long_sum_split_0(
    partial_ptr,
    x_ptr,
    end_0,
    end_1,
    x_stride_0,
    BLOCK_PART: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_PART
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_PART)
    tile_n_mask = tile_n_idx < end_1
    tile_m_begin = (pid // tl.cdiv(end_1, 4096))
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < end_0
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.sum(v1, axis=1)
    v3 = tile_n_begin // BLOCK_PART
    tl.store(partial_ptr + tile_m_idx + v3, v2, mask=tile_m_mask)
