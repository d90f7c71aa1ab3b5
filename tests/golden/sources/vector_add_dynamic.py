# config: block:tile=2048
# region 0, dynamic
# grid: (-(-end.0 // 2048)), 1, 1
# guards: ((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.0)) and (1 == x.align)) and (1 == x.stride.0)) and (1 == y.align)) and (1 == y.stride.0)) and (end.0 <= x.shape.0)) and (end.0 <= y.shape.0)) and (end.0 <= out.shape.0)) and (end.0 <= 2147481599)) and ((x.shape.0 + -1) <= 2147483647)) and ((y.shape.0 + -1) <= 2147483647)) and ((out.shape.0 + -1) <= 2147483647)) and (0 == (end.0 % 16)))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=2048
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 % 16 = end.0
import triton
import triton.language as tl


# examples.vector_add:vector_add (vector_add.py:21), launch 0, run-time sizes
#   block:tile=2048
@triton.jit
def vector_add_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    BLOCK_TILE: tl.constexpr,
):
    # for tile in tfl.tile(x.numel()):
    pid = tl.program_id(0)
    tile_begin = pid * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    # out[tile] = x[tile] + y[tile]
    v0 = tl.load(x_ptr + tile_idx, mask=tile_mask, other=0.0)
    v1 = tl.load(y_ptr + tile_idx, mask=tile_mask, other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 + v3
    v5 = v4.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx, v5, mask=tile_mask)

# region 0, dynamic
# grid: (-(-end.0 // 2048)), 1, 1
# guards: (((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.0)) and (1 == x.align)) and (1 == x.stride.0)) and (1 == y.align)) and (1 == y.stride.0)) and (end.0 <= x.shape.0)) and (end.0 <= y.shape.0)) and (end.0 <= out.shape.0)) and (end.0 <= 2147481599)) and ((x.shape.0 + -1) <= 2147483647)) and ((y.shape.0 + -1) <= 2147483647)) and ((out.shape.0 + -1) <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=2048
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
import triton
import triton.language as tl


# examples.vector_add:vector_add (vector_add.py:21), launch 0, run-time sizes
#   block:tile=2048
@triton.jit
def vector_add_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    BLOCK_TILE: tl.constexpr,
):
    # for tile in tfl.tile(x.numel()):
    pid = tl.program_id(0)
    tile_begin = pid * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < end_0
    # out[tile] = x[tile] + y[tile]
    v0 = tl.load(x_ptr + tile_idx, mask=tile_mask, other=0.0)
    v1 = tl.load(y_ptr + tile_idx, mask=tile_mask, other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 + v3
    v5 = v4.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx, v5, mask=tile_mask)
