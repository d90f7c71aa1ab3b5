# config: block:tile=128
# region 0, static
# grid: 32, 1, 1
# guards: ((((((((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == fresh.align)) and (2992 == fresh.shape.0)) and (2992 == fresh.shape.1)) and (2992 == fresh.stride.0)) and (1 == fresh.stride.1)) and (2992 == h)) and (1 == heading.align)) and (4000 == heading.shape.0)) and (1 == heading.stride.0)) and (1 == trail.align)) and (2992 == trail.shape.0)) and (2992 == trail.shape.1)) and (2992 == trail.stride.0)) and (1 == trail.stride.1)) and (2992 == w)) and (1 == x.align)) and (4000 == x.shape.0)) and (1 == x.stride.0)) and (1 == y.align)) and (4000 == y.shape.0)) and (1 == y.stride.0)) and (1 == fresh.apart.heading)) and (1 == fresh.apart.trail)) and (1 == fresh.apart.x)) and (1 == fresh.apart.y)) and (1 == heading.apart.trail)) and (1 == heading.apart.x)) and (1 == heading.apart.y)) and (1 == trail.apart.x)) and (1 == trail.apart.y)) and (1 == x.apart.y)) and (seed <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=128
# fresh_ptr: *fp32 % 16 = fresh
# heading_ptr: *fp32 % 16 = heading
# trail_ptr: *fp32 % 16 = trail
# x_ptr: *fp32 % 16 = x
# y_ptr: *fp32 % 16 = y
# DEPOSIT: fp32 = DEPOSIT
# SENSOR_ANGLE: fp32 = SENSOR_ANGLE
# STEP: fp32 = STEP
# seed: i32 = seed
import triton
import triton.language as tl
from triton.language.extra import libdevice

_fmod = (lambda a, b: a % b) if triton.knobs.runtime.interpret else libdevice.fmod


@triton.jit
def _remainder(a, b):
    rest = _fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


# examples.physarum:move (physarum.py:73), launch 0, static sizes
#   block:tile=128
@triton.jit
def move_0(
    fresh_ptr,
    heading_ptr,
    trail_ptr,
    x_ptr,
    y_ptr,
    DEPOSIT,
    SENSOR_ANGLE,
    STEP,
    seed,
    BLOCK_TILE: tl.constexpr,
):
    # for tile in tfl.tile(x.size(0)):
    pid = tl.program_id(0)
    tile_begin = pid * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < 4000
    # px, py, angle = x[tile], y[tile], heading[tile]
    px = tl.load(x_ptr + tile_idx, mask=tile_mask, other=0.0)
    py = tl.load(y_ptr + tile_idx, mask=tile_mask, other=0.0)
    angle = tl.load(heading_ptr + tile_idx, mask=tile_mask, other=0.0)
    # x = x + SENSOR_DISTANCE * torch.cos(angle)
    v0 = tl.cos(angle)
    v1 = 9.0 * v0
    x = px + v1
    # y = y + SENSOR_DISTANCE * torch.sin(angle)
    v2 = tl.sin(angle)
    v3 = 9.0 * v2
    y = py + v3
    # left, top = torch.floor(x), torch.floor(y)
    left = tl.floor(x)
    top = tl.floor(y)
    # right_share, bottom_share = x - left, y - top
    right_share = x - left
    bottom_share = y - top
    # x0, y0 = left.int() % w, top.int() % h
    v4 = left.to(tl.int32)
    x0 = v4 % 2992 + tl.where((v4 % 2992 != 0) & ((v4 < 0) != (2992 < 0)), 2992, 0)
    v5 = top.to(tl.int32)
    y0 = v5 % 2992 + tl.where((v5 % 2992 != 0) & ((v5 < 0) != (2992 < 0)), 2992, 0)
    # x1, y1 = (x0 + 1) % w, (y0 + 1) % h
    v6 = x0 + 1
    x1 = v6 % 2992 + tl.where((v6 % 2992 != 0) & ((v6 < 0) != (2992 < 0)), 2992, 0)
    v7 = y0 + 1
    y1 = v7 % 2992 + tl.where((v7 % 2992 != 0) & ((v7 < 0) != (2992 < 0)), 2992, 0)
    # upper = trail[y0, x0] * (1 - right_share) + trail[y0, x1] * right_share
    v8 = tl.load(trail_ptr + y0 * 2992 + x0, mask=tile_mask, other=0.0)
    v9 = 1.0 - right_share
    v10 = v8 * v9
    v11 = tl.load(trail_ptr + y0 * 2992 + x1, mask=tile_mask, other=0.0)
    v12 = v11 * right_share
    upper = v10 + v12
    # lower = trail[y1, x0] * (1 - right_share) + trail[y1, x1] * right_share
    v13 = tl.load(trail_ptr + y1 * 2992 + x0, mask=tile_mask, other=0.0)
    v14 = 1.0 - right_share
    v15 = v13 * v14
    v16 = tl.load(trail_ptr + y1 * 2992 + x1, mask=tile_mask, other=0.0)
    v17 = v16 * right_share
    lower = v15 + v17
    # return upper * (1 - bottom_share) + lower * bottom_share
    v18 = 1.0 - bottom_share
    v19 = upper * v18
    v20 = lower * bottom_share
    front = v19 + v20
    # left = sense(trail, px, py, angle + SENSOR_ANGLE)
    v21 = angle + SENSOR_ANGLE
    # x = x + SENSOR_DISTANCE * torch.cos(angle)
    v22 = tl.cos(v21)
    v23 = 9.0 * v22
    x_1 = px + v23
    # y = y + SENSOR_DISTANCE * torch.sin(angle)
    v24 = tl.sin(v21)
    v25 = 9.0 * v24
    y_1 = py + v25
    # left, top = torch.floor(x), torch.floor(y)
    left_1 = tl.floor(x_1)
    top_1 = tl.floor(y_1)
    # right_share, bottom_share = x - left, y - top
    right_share_1 = x_1 - left_1
    bottom_share_1 = y_1 - top_1
    # x0, y0 = left.int() % w, top.int() % h
    v26 = left_1.to(tl.int32)
    x0_1 = v26 % 2992 + tl.where((v26 % 2992 != 0) & ((v26 < 0) != (2992 < 0)), 2992, 0)
    v27 = top_1.to(tl.int32)
    y0_1 = v27 % 2992 + tl.where((v27 % 2992 != 0) & ((v27 < 0) != (2992 < 0)), 2992, 0)
    # x1, y1 = (x0 + 1) % w, (y0 + 1) % h
    v28 = x0_1 + 1
    x1_1 = v28 % 2992 + tl.where((v28 % 2992 != 0) & ((v28 < 0) != (2992 < 0)), 2992, 0)
    v29 = y0_1 + 1
    y1_1 = v29 % 2992 + tl.where((v29 % 2992 != 0) & ((v29 < 0) != (2992 < 0)), 2992, 0)
    # upper = trail[y0, x0] * (1 - right_share) + trail[y0, x1] * right_share
    v30 = tl.load(trail_ptr + y0_1 * 2992 + x0_1, mask=tile_mask, other=0.0)
    v31 = 1.0 - right_share_1
    v32 = v30 * v31
    v33 = tl.load(trail_ptr + y0_1 * 2992 + x1_1, mask=tile_mask, other=0.0)
    v34 = v33 * right_share_1
    upper_1 = v32 + v34
    # lower = trail[y1, x0] * (1 - right_share) + trail[y1, x1] * right_share
    v35 = tl.load(trail_ptr + y1_1 * 2992 + x0_1, mask=tile_mask, other=0.0)
    v36 = 1.0 - right_share_1
    v37 = v35 * v36
    v38 = tl.load(trail_ptr + y1_1 * 2992 + x1_1, mask=tile_mask, other=0.0)
    v39 = v38 * right_share_1
    lower_1 = v37 + v39
    # return upper * (1 - bottom_share) + lower * bottom_share
    v40 = 1.0 - bottom_share_1
    v41 = upper_1 * v40
    v42 = lower_1 * bottom_share_1
    left_2 = v41 + v42
    # right = sense(trail, px, py, angle - SENSOR_ANGLE)
    v43 = angle - SENSOR_ANGLE
    # x = x + SENSOR_DISTANCE * torch.cos(angle)
    v44 = tl.cos(v43)
    v45 = 9.0 * v44
    x_2 = px + v45
    # y = y + SENSOR_DISTANCE * torch.sin(angle)
    v46 = tl.sin(v43)
    v47 = 9.0 * v46
    y_2 = py + v47
    # left, top = torch.floor(x), torch.floor(y)
    left_3 = tl.floor(x_2)
    top_2 = tl.floor(y_2)
    # right_share, bottom_share = x - left, y - top
    right_share_2 = x_2 - left_3
    bottom_share_2 = y_2 - top_2
    # x0, y0 = left.int() % w, top.int() % h
    v48 = left_3.to(tl.int32)
    x0_2 = v48 % 2992 + tl.where((v48 % 2992 != 0) & ((v48 < 0) != (2992 < 0)), 2992, 0)
    v49 = top_2.to(tl.int32)
    y0_2 = v49 % 2992 + tl.where((v49 % 2992 != 0) & ((v49 < 0) != (2992 < 0)), 2992, 0)
    # x1, y1 = (x0 + 1) % w, (y0 + 1) % h
    v50 = x0_2 + 1
    x1_2 = v50 % 2992 + tl.where((v50 % 2992 != 0) & ((v50 < 0) != (2992 < 0)), 2992, 0)
    v51 = y0_2 + 1
    y1_2 = v51 % 2992 + tl.where((v51 % 2992 != 0) & ((v51 < 0) != (2992 < 0)), 2992, 0)
    # upper = trail[y0, x0] * (1 - right_share) + trail[y0, x1] * right_share
    v52 = tl.load(trail_ptr + y0_2 * 2992 + x0_2, mask=tile_mask, other=0.0)
    v53 = 1.0 - right_share_2
    v54 = v52 * v53
    v55 = tl.load(trail_ptr + y0_2 * 2992 + x1_2, mask=tile_mask, other=0.0)
    v56 = v55 * right_share_2
    upper_2 = v54 + v56
    # lower = trail[y1, x0] * (1 - right_share) + trail[y1, x1] * right_share
    v57 = tl.load(trail_ptr + y1_2 * 2992 + x0_2, mask=tile_mask, other=0.0)
    v58 = 1.0 - right_share_2
    v59 = v57 * v58
    v60 = tl.load(trail_ptr + y1_2 * 2992 + x1_2, mask=tile_mask, other=0.0)
    v61 = v60 * right_share_2
    lower_2 = v59 + v61
    # return upper * (1 - bottom_share) + lower * bottom_share
    v62 = 1.0 - bottom_share_2
    v63 = upper_2 * v62
    v64 = lower_2 * bottom_share_2
    right = v63 + v64
    # angle = angle + turn(front, left, right, tfl.rand([tile], seed))
    position0 = (tile_begin // 4 + tl.arange(0, BLOCK_TILE // 4))
    v65 = tl.cast(seed, tl.int64)
    word0, word1, word2, word3 = tl.philox(v65, position0.to(tl.uint32), 0, 0, 0)
    bits0 = tl.reshape(tl.join(tl.join(word0, word2), tl.join(word1, word3)), [BLOCK_TILE])
    v66 = (bits0 >> 8).to(tl.float32) * 5.960464477539063e-08
    # sideways = torch.where(left > right, TURN, -TURN)
    v67 = left_2 > right
    sideways = tl.where(v67, 0.7853981633974483, (-0.7853981633974483))
    # either = torch.where(coin < 0.5, TURN, -TURN)
    v68 = v66 < 0.5
    either = tl.where(v68, 0.7853981633974483, (-0.7853981633974483))
    # chosen = torch.where((front < left) & (front < right), either, sideways)
    v69 = front < left_2
    v70 = front < right
    v71 = v69 & v70
    chosen = tl.where(v71, either, sideways)
    # return torch.where((front >= left) & (front >= right), 0.0, chosen)
    v72 = front >= left_2
    v73 = front >= right
    v74 = v72 & v73
    v75 = tl.where(v74, 0.0, chosen)
    # angle = angle + turn(front, left, right, tfl.rand([tile], seed))
    angle_1 = angle + v75
    # px = torch.remainder(px + STEP * torch.cos(angle), w)
    v76 = tl.cos(angle_1)
    v77 = STEP * v76
    v78 = px + v77
    px_1 = _remainder(v78, 2992.0)
    # py = torch.remainder(py + STEP * torch.sin(angle), h)
    v79 = tl.sin(angle_1)
    v80 = STEP * v79
    v81 = py + v80
    py_1 = _remainder(v81, 2992.0)
    # x[tile], y[tile], heading[tile] = px, py, angle
    tl.store(x_ptr + tile_idx, px_1, mask=tile_mask)
    tl.store(y_ptr + tile_idx, py_1, mask=tile_mask)
    tl.store(heading_ptr + tile_idx, angle_1, mask=tile_mask)
    # tfl.atomic_add(fresh, [py.int() % h, px.int() % w], DEPOSIT)
    v82 = py_1.to(tl.int32)
    v83 = v82 % 2992 + tl.where((v82 % 2992 != 0) & ((v82 < 0) != (2992 < 0)), 2992, 0)
    v84 = px_1.to(tl.int32)
    v85 = v84 % 2992 + tl.where((v84 % 2992 != 0) & ((v84 < 0) != (2992 < 0)), 2992, 0)
    v86 = tl.full([BLOCK_TILE], DEPOSIT, tl.float32)
    v87 = tl.atomic_add(fresh_ptr + v83 * 2992 + v85, v86, mask=tile_mask, sem='relaxed')
