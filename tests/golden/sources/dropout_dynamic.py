# config: block:tile=1, block:tile#1=4096, group=1, load:x#0.access=pointer, load:x#0.eviction=, num_stages=2, num_warps=8, order=0,1, persistent=0, store:out#0.access=pointer
# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.1 <= x.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and ((end.0 * end.1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (seed <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# p: fp32 = p
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# out_stride_0: i32 % 16 = out.stride.0
# seed: i32 = seed
# x_stride_0: i32 % 16 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def dropout_0(
    out_ptr,
    x_ptr,
    p,
    end_0,
    end_1,
    out_stride_0,
    seed,
    x_stride_0,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_1_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < end_1
    tile_begin = (pid // tl.cdiv(end_1, 4096))
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    position0 = tile_idx[:, None] * end_1 + tile_1_idx[None, :]
    v0 = seed.to(tl.int64)
    word0, word1, word2, word3 = tl.philox(v0, (position0 >> 2).to(tl.uint32), 0, 0, 0)
    bits0 = tl.where(position0 & 2 == 0, tl.where(position0 & 1 == 0, word0, word1), tl.where(position0 & 1 == 0, word2, word3))
    v1 = (bits0 >> 8).to(tl.float32) * 5.960464477539063e-08
    v2 = v1 >= p
    v3 = tl.load(x_ptr + tile_idx[:, None] * x_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v4 = 1.0 - p
    v5 = v3.to(tl.float32)
    v6 = v5 / v4
    v7 = tl.where(v2, v6, 0.0)
    v8 = v7.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx[:, None] * out_stride_0 + tile_1_idx[None, :], v8, mask=tile_mask[:, None] & tile_1_mask[None, :])

# region 0, dynamic
# grid: ((-(-end.1 // 4096)) * end.0), 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (end.0 <= x.shape.0)) and (end.1 <= x.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and ((end.0 * end.1) <= 2147483647)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (out.stride.0 <= 2147483647)) and (seed <= 2147483647)) and (x.stride.0 <= 2147483647))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE=1, BLOCK_TILE_1=4096
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# p: fp32 = p
# end_0: i32 = end.0
# end_1: i32 = end.1
# out_stride_0: i32 = out.stride.0
# seed: i32 = seed
# x_stride_0: i32 = x.stride.0
import triton
import triton.language as tl


@triton.jit
def dropout_0(
    out_ptr,
    x_ptr,
    p,
    end_0,
    end_1,
    out_stride_0,
    seed,
    x_stride_0,
    BLOCK_TILE: tl.constexpr,
    BLOCK_TILE_1: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_1_begin = (pid % tl.cdiv(end_1, 4096)) * BLOCK_TILE_1
    tile_1_idx = tile_1_begin + tl.arange(0, BLOCK_TILE_1)
    tile_1_mask = tile_1_idx < end_1
    tile_begin = (pid // tl.cdiv(end_1, 4096))
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    position0 = tile_idx[:, None] * end_1 + tile_1_idx[None, :]
    v0 = seed.to(tl.int64)
    word0, word1, word2, word3 = tl.philox(v0, (position0 >> 2).to(tl.uint32), 0, 0, 0)
    bits0 = tl.where(position0 & 2 == 0, tl.where(position0 & 1 == 0, word0, word1), tl.where(position0 & 1 == 0, word2, word3))
    v1 = (bits0 >> 8).to(tl.float32) * 5.960464477539063e-08
    v2 = v1 >= p
    v3 = tl.load(x_ptr + tile_idx[:, None] * x_stride_0 + tile_1_idx[None, :], mask=tile_mask[:, None] & tile_1_mask[None, :], other=0.0)
    v4 = 1.0 - p
    v5 = v3.to(tl.float32)
    v6 = v5 / v4
    v7 = tl.where(v2, v6, 0.0)
    v8 = v7.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx[:, None] * out_stride_0 + tile_1_idx[None, :], v8, mask=tile_mask[:, None] & tile_1_mask[None, :])
