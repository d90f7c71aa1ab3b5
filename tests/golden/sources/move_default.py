# config: block:tile=512
# region 0, static
# grid: 8, 1, 1
# guards: ((((((((((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == fresh.align)) and (2992 == fresh.shape.0)) and (2992 == fresh.shape.1)) and (2992 == fresh.stride.0)) and (1 == fresh.stride.1)) and (2992 == h)) and (1 == heading.align)) and (4000 == heading.shape.0)) and (1 == heading.stride.0)) and (1 == trail.align)) and (2992 == trail.shape.0)) and (2992 == trail.shape.1)) and (2992 == trail.stride.0)) and (1 == trail.stride.1)) and (2992 == w)) and (1 == x.align)) and (4000 == x.shape.0)) and (1 == x.stride.0)) and (1 == y.align)) and (4000 == y.shape.0)) and (1 == y.stride.0)) and (1 == fresh.apart.heading)) and (1 == fresh.apart.trail)) and (1 == fresh.apart.x)) and (1 == fresh.apart.y)) and (1 == heading.apart.trail)) and (1 == heading.apart.x)) and (1 == heading.apart.y)) and (1 == trail.apart.x)) and (1 == trail.apart.y)) and (1 == x.apart.y)) and (seed <= 2147483647))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE=512
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
    pid = tl.program_id(0)
    tile_begin = pid * BLOCK_TILE
    tile_idx = tile_begin + tl.arange(0, BLOCK_TILE)
    tile_mask = tile_idx < 4000
    v0 = tl.load(x_ptr + tile_idx, mask=tile_mask, other=0.0)
    v1 = tl.load(y_ptr + tile_idx, mask=tile_mask, other=0.0)
    v2 = tl.load(heading_ptr + tile_idx, mask=tile_mask, other=0.0)
    v3 = tl.cos(v2)
    v4 = 9.0 * v3
    v5 = v0 + v4
    v6 = tl.sin(v2)
    v7 = 9.0 * v6
    v8 = v1 + v7
    v9 = tl.floor(v5)
    v10 = tl.floor(v8)
    v11 = v5 - v9
    v12 = v8 - v10
    v13 = v9.to(tl.int32)
    v14 = v13 % 2992 + tl.where((v13 % 2992 != 0) & ((v13 < 0) != (2992 < 0)), 2992, 0)
    v15 = v10.to(tl.int32)
    v16 = v15 % 2992 + tl.where((v15 % 2992 != 0) & ((v15 < 0) != (2992 < 0)), 2992, 0)
    v17 = v14 + 1
    v18 = v17 % 2992 + tl.where((v17 % 2992 != 0) & ((v17 < 0) != (2992 < 0)), 2992, 0)
    v19 = v16 + 1
    v20 = v19 % 2992 + tl.where((v19 % 2992 != 0) & ((v19 < 0) != (2992 < 0)), 2992, 0)
    v21 = tl.load(trail_ptr + v16 * 2992 + v14, mask=tile_mask, other=0.0)
    v22 = 1.0 - v11
    v23 = v21 * v22
    v24 = tl.load(trail_ptr + v16 * 2992 + v18, mask=tile_mask, other=0.0)
    v25 = v24 * v11
    v26 = v23 + v25
    v27 = tl.load(trail_ptr + v20 * 2992 + v14, mask=tile_mask, other=0.0)
    v28 = 1.0 - v11
    v29 = v27 * v28
    v30 = tl.load(trail_ptr + v20 * 2992 + v18, mask=tile_mask, other=0.0)
    v31 = v30 * v11
    v32 = v29 + v31
    v33 = 1.0 - v12
    v34 = v26 * v33
    v35 = v32 * v12
    v36 = v34 + v35
    v37 = v2 + SENSOR_ANGLE
    v38 = tl.cos(v37)
    v39 = 9.0 * v38
    v40 = v0 + v39
    v41 = tl.sin(v37)
    v42 = 9.0 * v41
    v43 = v1 + v42
    v44 = tl.floor(v40)
    v45 = tl.floor(v43)
    v46 = v40 - v44
    v47 = v43 - v45
    v48 = v44.to(tl.int32)
    v49 = v48 % 2992 + tl.where((v48 % 2992 != 0) & ((v48 < 0) != (2992 < 0)), 2992, 0)
    v50 = v45.to(tl.int32)
    v51 = v50 % 2992 + tl.where((v50 % 2992 != 0) & ((v50 < 0) != (2992 < 0)), 2992, 0)
    v52 = v49 + 1
    v53 = v52 % 2992 + tl.where((v52 % 2992 != 0) & ((v52 < 0) != (2992 < 0)), 2992, 0)
    v54 = v51 + 1
    v55 = v54 % 2992 + tl.where((v54 % 2992 != 0) & ((v54 < 0) != (2992 < 0)), 2992, 0)
    v56 = tl.load(trail_ptr + v51 * 2992 + v49, mask=tile_mask, other=0.0)
    v57 = 1.0 - v46
    v58 = v56 * v57
    v59 = tl.load(trail_ptr + v51 * 2992 + v53, mask=tile_mask, other=0.0)
    v60 = v59 * v46
    v61 = v58 + v60
    v62 = tl.load(trail_ptr + v55 * 2992 + v49, mask=tile_mask, other=0.0)
    v63 = 1.0 - v46
    v64 = v62 * v63
    v65 = tl.load(trail_ptr + v55 * 2992 + v53, mask=tile_mask, other=0.0)
    v66 = v65 * v46
    v67 = v64 + v66
    v68 = 1.0 - v47
    v69 = v61 * v68
    v70 = v67 * v47
    v71 = v69 + v70
    v72 = v2 - SENSOR_ANGLE
    v73 = tl.cos(v72)
    v74 = 9.0 * v73
    v75 = v0 + v74
    v76 = tl.sin(v72)
    v77 = 9.0 * v76
    v78 = v1 + v77
    v79 = tl.floor(v75)
    v80 = tl.floor(v78)
    v81 = v75 - v79
    v82 = v78 - v80
    v83 = v79.to(tl.int32)
    v84 = v83 % 2992 + tl.where((v83 % 2992 != 0) & ((v83 < 0) != (2992 < 0)), 2992, 0)
    v85 = v80.to(tl.int32)
    v86 = v85 % 2992 + tl.where((v85 % 2992 != 0) & ((v85 < 0) != (2992 < 0)), 2992, 0)
    v87 = v84 + 1
    v88 = v87 % 2992 + tl.where((v87 % 2992 != 0) & ((v87 < 0) != (2992 < 0)), 2992, 0)
    v89 = v86 + 1
    v90 = v89 % 2992 + tl.where((v89 % 2992 != 0) & ((v89 < 0) != (2992 < 0)), 2992, 0)
    v91 = tl.load(trail_ptr + v86 * 2992 + v84, mask=tile_mask, other=0.0)
    v92 = 1.0 - v81
    v93 = v91 * v92
    v94 = tl.load(trail_ptr + v86 * 2992 + v88, mask=tile_mask, other=0.0)
    v95 = v94 * v81
    v96 = v93 + v95
    v97 = tl.load(trail_ptr + v90 * 2992 + v84, mask=tile_mask, other=0.0)
    v98 = 1.0 - v81
    v99 = v97 * v98
    v100 = tl.load(trail_ptr + v90 * 2992 + v88, mask=tile_mask, other=0.0)
    v101 = v100 * v81
    v102 = v99 + v101
    v103 = 1.0 - v82
    v104 = v96 * v103
    v105 = v102 * v82
    v106 = v104 + v105
    position0 = (tile_begin // 4 + tl.arange(0, BLOCK_TILE // 4))
    v107 = seed.to(tl.int64)
    word0, word1, word2, word3 = tl.philox(v107, position0.to(tl.uint32), 0, 0, 0)
    bits0 = tl.reshape(tl.join(tl.join(word0, word2), tl.join(word1, word3)), [BLOCK_TILE])
    v108 = (bits0 >> 8).to(tl.float32) * 5.960464477539063e-08
    v109 = v71 > v106
    v110 = tl.where(v109, 0.7853981633974483, (-0.7853981633974483))
    v111 = v108 < 0.5
    v112 = tl.where(v111, 0.7853981633974483, (-0.7853981633974483))
    v113 = v36 < v71
    v114 = v36 < v106
    v115 = v113 & v114
    v116 = tl.where(v115, v112, v110)
    v117 = v36 >= v71
    v118 = v36 >= v106
    v119 = v117 & v118
    v120 = tl.where(v119, 0.0, v116)
    v121 = v2 + v120
    v122 = tl.cos(v121)
    v123 = STEP * v122
    v124 = v0 + v123
    v125 = _remainder(v124, 2992.0)
    v126 = tl.sin(v121)
    v127 = STEP * v126
    v128 = v1 + v127
    v129 = _remainder(v128, 2992.0)
    tl.store(x_ptr + tile_idx, v125, mask=tile_mask)
    tl.store(y_ptr + tile_idx, v129, mask=tile_mask)
    tl.store(heading_ptr + tile_idx, v121, mask=tile_mask)
    v130 = v129.to(tl.int32)
    v131 = v130 % 2992 + tl.where((v130 % 2992 != 0) & ((v130 < 0) != (2992 < 0)), 2992, 0)
    v132 = v125.to(tl.int32)
    v133 = v132 % 2992 + tl.where((v132 % 2992 != 0) & ((v132 < 0) != (2992 < 0)), 2992, 0)
    v134 = tl.full([BLOCK_TILE], DEPOSIT, tl.float32)
    v135 = tl.atomic_add(fresh_ptr + v131 * 2992 + v133, v134, mask=tile_mask, sem='relaxed')
