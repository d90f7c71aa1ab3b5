# config: block:tile=2048
# region 0, static
# grid: 2, 1, 1
# guards: (((((((((((0 == begin.0) and (4000 == end.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (1 == out.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (1 == x.stride.0)) and (1 == y.align)) and (4000 == y.shape.0)) and (1 == y.stride.0))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=2048
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
import triton
import triton.language as tl


# examples.vector_add:vector_add (vector_add.py:21), launch 0, static sizes
#   block:tile=2048
@triton.jit
def vector_add_0(
    out_ptr,
    x_ptr,
    y_ptr,
    BLOCK_TILE: tl.constexpr,
):
    # for tile in tfl.tile(x.numel()):
    pid = tl.program_id(0)
    tile_begin = pid * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < 4000
    # out[tile] = x[tile] + y[tile]
    v0 = tl.load(x_ptr + tile_idx, mask=tile_mask, other=0.0)
    v1 = tl.load(y_ptr + tile_idx, mask=tile_mask, other=0.0)
    v2 = v0.to(tl.float32)
    v3 = v1.to(tl.float32)
    v4 = v2 + v3
    v5 = v4.to(tl.bfloat16)
    tl.store(out_ptr + tile_idx, v5, mask=tile_mask)
