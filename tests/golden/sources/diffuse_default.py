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


@triton.jit
def diffuse_0(
    out_ptr,
    trail_ptr,
    decay,
    BLOCK_TILE_X: tl.constexpr,
    BLOCK_TILE_Y: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_x_begin = (pid % 2) * BLOCK_TILE_X
    tile_x_idx = tile_x_begin + tl.arange(0, BLOCK_TILE_X)
    tile_x_mask = tile_x_idx < 2992
    tile_y_begin = (pid // 2)
    tile_y_idx = tile_y_begin + tl.arange(0, BLOCK_TILE_Y)
    v0 = tl.full([BLOCK_TILE_Y, BLOCK_TILE_X], 0.0, tl.float32)
    v1 = tile_y_idx + 3999
    v2 = v1 % 4000 + tl.where((v1 % 4000 != 0) & ((v1 < 0) != (4000 < 0)), 4000, 0)
    v3 = tile_x_idx + 2991
    v4 = v3 % 2992 + tl.where((v3 % 2992 != 0) & ((v3 < 0) != (2992 < 0)), 2992, 0)
    v5 = tl.load(trail_ptr + v2[:, None] * 2992 + v4[None, :], mask=tile_x_mask[None, :], other=0.0)
    v6 = v0 + v5
    v7 = tile_y_idx + 3999
    v8 = v7 % 4000 + tl.where((v7 % 4000 != 0) & ((v7 < 0) != (4000 < 0)), 4000, 0)
    v9 = tile_x_idx + 2992
    v10 = v9 % 2992 + tl.where((v9 % 2992 != 0) & ((v9 < 0) != (2992 < 0)), 2992, 0)
    v11 = tl.load(trail_ptr + v8[:, None] * 2992 + v10[None, :], mask=tile_x_mask[None, :], other=0.0)
    v12 = v6 + v11
    v13 = tile_y_idx + 3999
    v14 = v13 % 4000 + tl.where((v13 % 4000 != 0) & ((v13 < 0) != (4000 < 0)), 4000, 0)
    v15 = tile_x_idx + 2993
    v16 = v15 % 2992 + tl.where((v15 % 2992 != 0) & ((v15 < 0) != (2992 < 0)), 2992, 0)
    v17 = tl.load(trail_ptr + v14[:, None] * 2992 + v16[None, :], mask=tile_x_mask[None, :], other=0.0)
    v18 = v12 + v17
    v19 = tile_y_idx + 4000
    v20 = v19 % 4000 + tl.where((v19 % 4000 != 0) & ((v19 < 0) != (4000 < 0)), 4000, 0)
    v21 = tile_x_idx + 2991
    v22 = v21 % 2992 + tl.where((v21 % 2992 != 0) & ((v21 < 0) != (2992 < 0)), 2992, 0)
    v23 = tl.load(trail_ptr + v20[:, None] * 2992 + v22[None, :], mask=tile_x_mask[None, :], other=0.0)
    v24 = v18 + v23
    v25 = tile_y_idx + 4000
    v26 = v25 % 4000 + tl.where((v25 % 4000 != 0) & ((v25 < 0) != (4000 < 0)), 4000, 0)
    v27 = tile_x_idx + 2992
    v28 = v27 % 2992 + tl.where((v27 % 2992 != 0) & ((v27 < 0) != (2992 < 0)), 2992, 0)
    v29 = tl.load(trail_ptr + v26[:, None] * 2992 + v28[None, :], mask=tile_x_mask[None, :], other=0.0)
    v30 = v24 + v29
    v31 = tile_y_idx + 4000
    v32 = v31 % 4000 + tl.where((v31 % 4000 != 0) & ((v31 < 0) != (4000 < 0)), 4000, 0)
    v33 = tile_x_idx + 2993
    v34 = v33 % 2992 + tl.where((v33 % 2992 != 0) & ((v33 < 0) != (2992 < 0)), 2992, 0)
    v35 = tl.load(trail_ptr + v32[:, None] * 2992 + v34[None, :], mask=tile_x_mask[None, :], other=0.0)
    v36 = v30 + v35
    v37 = tile_y_idx + 4001
    v38 = v37 % 4000 + tl.where((v37 % 4000 != 0) & ((v37 < 0) != (4000 < 0)), 4000, 0)
    v39 = tile_x_idx + 2991
    v40 = v39 % 2992 + tl.where((v39 % 2992 != 0) & ((v39 < 0) != (2992 < 0)), 2992, 0)
    v41 = tl.load(trail_ptr + v38[:, None] * 2992 + v40[None, :], mask=tile_x_mask[None, :], other=0.0)
    v42 = v36 + v41
    v43 = tile_y_idx + 4001
    v44 = v43 % 4000 + tl.where((v43 % 4000 != 0) & ((v43 < 0) != (4000 < 0)), 4000, 0)
    v45 = tile_x_idx + 2992
    v46 = v45 % 2992 + tl.where((v45 % 2992 != 0) & ((v45 < 0) != (2992 < 0)), 2992, 0)
    v47 = tl.load(trail_ptr + v44[:, None] * 2992 + v46[None, :], mask=tile_x_mask[None, :], other=0.0)
    v48 = v42 + v47
    v49 = tile_y_idx + 4001
    v50 = v49 % 4000 + tl.where((v49 % 4000 != 0) & ((v49 < 0) != (4000 < 0)), 4000, 0)
    v51 = tile_x_idx + 2993
    v52 = v51 % 2992 + tl.where((v51 % 2992 != 0) & ((v51 < 0) != (2992 < 0)), 2992, 0)
    v53 = tl.load(trail_ptr + v50[:, None] * 2992 + v52[None, :], mask=tile_x_mask[None, :], other=0.0)
    v54 = v48 + v53
    v55 = decay / 9.0
    v56 = v54 * v55
    tl.store(out_ptr + tile_y_idx[:, None] * 2992 + tile_x_idx[None, :], v56, mask=tile_x_mask[None, :])
