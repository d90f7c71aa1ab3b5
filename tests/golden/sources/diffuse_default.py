# config: block:tile_x=2048, block:tile_y=1
# region 0, static
# grid: 8000, 1, 1
# guards: ((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (4000 == h)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == trail.align)) and (4000 == trail.shape.0)) and (2992 == trail.shape.1)) and (2992 == trail.stride.0)) and (1 == trail.stride.1)) and (2992 == w))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_X=2048, BLOCK_TILE_Y=1
# out_ptr: *fp32 % 16 = out
# trail_ptr: *fp32 % 16 = trail
# decay: fp32 = decay
import triton
import triton.language as tl


# examples.physarum:diffuse (physarum.py:108), launch 0, static sizes
#   block:tile_x=2048, block:tile_y=1
@triton.jit
def diffuse_0(
    out_ptr,
    trail_ptr,
    decay,
    BLOCK_TILE_X: tl.constexpr,
    BLOCK_TILE_Y: tl.constexpr,
):
    # for tile_y, tile_x in tfl.tile([h, w]):
    pid = tl.program_id(0)
    tile_x_count: tl.constexpr = (2992 + BLOCK_TILE_X - 1) // BLOCK_TILE_X
    tile_x_begin = (pid % tile_x_count) * BLOCK_TILE_X
    tile_x_idx = tile_x_begin + tl.arange(0, BLOCK_TILE_X)
    tile_x_mask = tile_x_idx < 2992
    tile_y_begin = (pid // tile_x_count) * BLOCK_TILE_Y
    tile_y_idx = tile_y_begin + tl.arange(0, BLOCK_TILE_Y)
    tl.static_assert(4000 % BLOCK_TILE_Y == 0, "whole blocks of tile_y")
    # total = tfl.zeros([tile_y, tile_x])
    total = tl.full([BLOCK_TILE_Y, BLOCK_TILE_X], 0.0, tl.float32)
    # total += trail[(tile_y.index + (h + dy)) % h, (tile_x.index + (w + dx)) % w]
    v0 = tile_y_idx + 3999
    v1 = v0 % 4000 + tl.where((v0 % 4000 != 0) & ((v0 < 0) != (4000 < 0)), 4000, 0)
    v2 = tile_x_idx + 2991
    v3 = v2 % 2992 + tl.where((v2 % 2992 != 0) & ((v2 < 0) != (2992 < 0)), 2992, 0)
    v4 = tl.load(trail_ptr + v1[:, None] * 2992 + v3[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_1 = total + v4
    v5 = tile_y_idx + 3999
    v6 = v5 % 4000 + tl.where((v5 % 4000 != 0) & ((v5 < 0) != (4000 < 0)), 4000, 0)
    v7 = tile_x_idx + 2992
    v8 = v7 % 2992 + tl.where((v7 % 2992 != 0) & ((v7 < 0) != (2992 < 0)), 2992, 0)
    v9 = tl.load(trail_ptr + v6[:, None] * 2992 + v8[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_2 = total_1 + v9
    v10 = tile_y_idx + 3999
    v11 = v10 % 4000 + tl.where((v10 % 4000 != 0) & ((v10 < 0) != (4000 < 0)), 4000, 0)
    v12 = tile_x_idx + 2993
    v13 = v12 % 2992 + tl.where((v12 % 2992 != 0) & ((v12 < 0) != (2992 < 0)), 2992, 0)
    v14 = tl.load(trail_ptr + v11[:, None] * 2992 + v13[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_3 = total_2 + v14
    v15 = tile_y_idx + 4000
    v16 = v15 % 4000 + tl.where((v15 % 4000 != 0) & ((v15 < 0) != (4000 < 0)), 4000, 0)
    v17 = tile_x_idx + 2991
    v18 = v17 % 2992 + tl.where((v17 % 2992 != 0) & ((v17 < 0) != (2992 < 0)), 2992, 0)
    v19 = tl.load(trail_ptr + v16[:, None] * 2992 + v18[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_4 = total_3 + v19
    v20 = tile_y_idx + 4000
    v21 = v20 % 4000 + tl.where((v20 % 4000 != 0) & ((v20 < 0) != (4000 < 0)), 4000, 0)
    v22 = tile_x_idx + 2992
    v23 = v22 % 2992 + tl.where((v22 % 2992 != 0) & ((v22 < 0) != (2992 < 0)), 2992, 0)
    v24 = tl.load(trail_ptr + v21[:, None] * 2992 + v23[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_5 = total_4 + v24
    v25 = tile_y_idx + 4000
    v26 = v25 % 4000 + tl.where((v25 % 4000 != 0) & ((v25 < 0) != (4000 < 0)), 4000, 0)
    v27 = tile_x_idx + 2993
    v28 = v27 % 2992 + tl.where((v27 % 2992 != 0) & ((v27 < 0) != (2992 < 0)), 2992, 0)
    v29 = tl.load(trail_ptr + v26[:, None] * 2992 + v28[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_6 = total_5 + v29
    v30 = tile_y_idx + 4001
    v31 = v30 % 4000 + tl.where((v30 % 4000 != 0) & ((v30 < 0) != (4000 < 0)), 4000, 0)
    v32 = tile_x_idx + 2991
    v33 = v32 % 2992 + tl.where((v32 % 2992 != 0) & ((v32 < 0) != (2992 < 0)), 2992, 0)
    v34 = tl.load(trail_ptr + v31[:, None] * 2992 + v33[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_7 = total_6 + v34
    v35 = tile_y_idx + 4001
    v36 = v35 % 4000 + tl.where((v35 % 4000 != 0) & ((v35 < 0) != (4000 < 0)), 4000, 0)
    v37 = tile_x_idx + 2992
    v38 = v37 % 2992 + tl.where((v37 % 2992 != 0) & ((v37 < 0) != (2992 < 0)), 2992, 0)
    v39 = tl.load(trail_ptr + v36[:, None] * 2992 + v38[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_8 = total_7 + v39
    v40 = tile_y_idx + 4001
    v41 = v40 % 4000 + tl.where((v40 % 4000 != 0) & ((v40 < 0) != (4000 < 0)), 4000, 0)
    v42 = tile_x_idx + 2993
    v43 = v42 % 2992 + tl.where((v42 % 2992 != 0) & ((v42 < 0) != (2992 < 0)), 2992, 0)
    v44 = tl.load(trail_ptr + v41[:, None] * 2992 + v43[None, :], mask=tile_x_mask[None, :], other=0.0)
    total_9 = total_8 + v44
    # out[tile_y, tile_x] = total * (decay / 9)
    v45 = decay / 9.0
    v46 = total_9 * v45
    tl.store(out_ptr + tile_y_idx[:, None] * 2992 + tile_x_idx[None, :], v46, mask=tile_x_mask[None, :])
