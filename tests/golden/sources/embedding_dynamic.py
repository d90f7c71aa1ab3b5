# config: block:tile_m=1, block:tile_n=4096, group=1, load:indices#0.eviction=, load:table#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0, store:out#0.access=pointer
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == indices.align)) and (1 == indices.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == table.align)) and (1 == table.stride.1)) and (end.0 <= indices.shape.0)) and (end.1 <= table.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and ((indices.shape.0 + -1) <= 2147483647)) and (((-1 * table.stride.0) + (table.shape.0 * table.stride.0) + table.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (table.stride.0 % 16))) and (table.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# indices_ptr: *i64 % 16 = indices
# out_ptr: *bf16 % 16 = out
# table_ptr: *bf16 % 16 = table
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# out_stride_0: i32 % 16 = out.stride.0
# table_stride_0: i32 % 16 = table.stride.0
import triton
import triton.language as tl


@triton.jit
def embedding_0(
    indices_ptr,
    out_ptr,
    table_ptr,
    end_0,
    end_1,
    out_stride_0,
    table_stride_0,
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
    v0 = tl.load(indices_ptr + tile_m_idx, mask=tile_m_mask, other=0)
    v1 = tl.load(table_ptr + v0[:, None] * table_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v1, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == indices.align)) and (1 == indices.stride.0)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == table.align)) and (1 == table.stride.1)) and (end.0 <= indices.shape.0)) and (end.1 <= table.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and ((indices.shape.0 + -1) <= 2147483647)) and (((-1 * table.stride.0) + (table.shape.0 * table.stride.0) + table.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.stride.0 <= 2147483647)) and (table.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=4096
# indices_ptr: *i64 % 16 = indices
# out_ptr: *bf16 % 16 = out
# table_ptr: *bf16 % 16 = table
# end_0: i32 = end.0
# end_1: i32 = end.1
# out_stride_0: i32 = out.stride.0
# table_stride_0: i32 = table.stride.0
import triton
import triton.language as tl


@triton.jit
def embedding_0(
    indices_ptr,
    out_ptr,
    table_ptr,
    end_0,
    end_1,
    out_stride_0,
    table_stride_0,
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
    v0 = tl.load(indices_ptr + tile_m_idx, mask=tile_m_mask, other=0)
    v1 = tl.load(table_ptr + v0[:, None] * table_stride_0 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & tile_n_mask[None, :], other=0.0)
    tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v1, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
