# config: block:block_m=128, block:tile_k=64, block:tile_n=128, group=4, num_stages=4, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (79 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (48 == groups)) and (1008 == k)) and (1 == offsets.align)) and (49 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: maxnreg=168, num_warps=4
# constexprs: 
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_desc_128x64: tensordesc<bf16[128, 64]> = x
# y_desc_1x64x128: tensordesc<bf16[1, 64, 128]> = y
# out_desc_128x64: tensordesc<bf16[128, 64]> = out
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

STAGES = gl.constexpr(4)

GROUPS = gl.constexpr(2)

ROWS = gl.constexpr(128)

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

BY_64 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))

COLUMNS = gl.constexpr(64)

BLOCK_BLOCK_M = gl.constexpr(128)

BLOCK_TILE_K = gl.constexpr(64)

BLOCK_TILE_N = gl.constexpr(128)


@gluon.jit
def _plus(a, b):
    return a + b


@gluon.jit
def uniform(number):
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "=r,r", [number], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def finish(sums):
    # What is left to do with the sums of all turns.
    v36 = sums.to(tl.bfloat16)
    return v36


@gluon.jit
def scatter(tile_n_begin, tile_m_begin, rows_end0, out_ptr, result):
    # Rows of the group, in a block that others have rows of.
    tile_n_idx = tile_n_begin + gl.arange(0, COLUMNS)
    tile_n_mask = tile_n_idx < 2992
    tile_m_idx = tile_m_begin + gl.arange(0, ROWS)
    tile_m_mask = tile_m_idx < rows_end0
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], result, mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :])


@gluon.jit
def consumer(
    who: gl.constexpr,
    tiles,
    offsets_ptr,
    order,
    full,
    left,
    right,
    empty,
    out,
    out_desc_128x64,
    out_ptr,
):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, BLOCK_TILE_N], 0.0, gl.float32, BY_128)
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile = 0
    for grid_tile in range(0, tiles):
        pid = tl.program_id(0) + grid_tile * tl.num_programs(0)
        band = pid // (4 * tile_n_count)
        height = tl.minimum(79 - band * 4, 4)
        tile_begin = (band * 4 + pid % (4 * tile_n_count) % height)
        tile_n_begin = (pid % (4 * tile_n_count) // height) * BLOCK_TILE_N
        # counts = (offsets[1:] - offsets[:-1] + block_m - 1) // block_m
        v0 = tl.load(offsets_ptr + (1 + gl.arange(0, 64)), mask=(gl.arange(0, 64) < 48), other=0)
        v1 = gl.set_auto_layout(v0, gl.BlockedLayout([2], [32], [gl.num_warps()], [0]))
        v2 = tl.load(offsets_ptr + gl.arange(0, 64), mask=(gl.arange(0, 64) < 48), other=0)
        v3 = gl.set_auto_layout(v2, gl.BlockedLayout([2], [32], [gl.num_warps()], [0]))
        v4 = v1 - v3
        v5 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v6 = v4 + v5
        v7 = v6 - 1
        v8 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        counts = v7 // v8 - ((v7 % v8 != 0) & ((v7 < 0) != (v8 < 0)))
        # is_before = torch.cumsum(counts, dim=0) <= tile.begin
        v9 = counts.to(tl.int64)
        v10 = tl.where((gl.arange(0, 64) < 48), v9, 0)
        v11 = gl.associative_scan(v10, 0, _plus)
        v12 = tile_begin.to(tl.int64)
        is_before = v11 <= v12
        # group = min(is_before.sum(), groups - 1)
        v13 = is_before.to(tl.int64)
        v14 = tl.where((gl.arange(0, 64) < 48), v13, 0)
        v15 = gl.sum(v14, axis=0)
        group = tl.minimum(v15, 47)
        # begin = offsets[group] + (tile.begin - torch.where(is_before, counts, 0).sum()) * block_m
        v16 = tl.load(offsets_ptr + group, mask=(group >= 0), other=0)
        v17 = tl.where(is_before, counts, 0)
        v18 = v17.to(tl.int64)
        v19 = tl.where((gl.arange(0, 64) < 48), v18, 0)
        v20 = gl.sum(v19, axis=0)
        v21 = tile_begin.to(tl.int64)
        v22 = v21 - v20
        v23 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v24 = tl.cast(v23, tl.int64)
        v25 = v22 * v24
        v26 = v16.to(tl.int64)
        begin = v26 + v25
        # for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
        v27 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v28 = tl.cast(v27, tl.int64)
        v29 = begin + v28
        v30 = group + 1
        v31 = tl.load(offsets_ptr + v30, mask=(v30 >= 0), other=0)
        v32 = v31.to(tl.int64)
        v33 = tl.minimum(v29, v32)
        v34 = v33.to(tl.int32)
        rows_end0 = v34
        v35 = begin.to(tl.int32)
        for tile_m_begin in range(v35, rows_end0, BLOCK_BLOCK_M):
            if tile % GROUPS == who:
                start = uniform(tile * 16)
                mbarrier.wait(order.index(who), ((tile // GROUPS) & 1) ^ (1 if who == 0 else 0))  # the tile before has all its products issued
                mbarrier.wait(full.index(start % STAGES), (start // STAGES) & 1)  # this turn's boxes are there
                sums = warpgroup_mma(left.index(start % STAGES), right.index(start % STAGES).reshape([64, 128]), no_sums, use_acc=False, is_async=True)
                sums = warpgroup_mma_wait(1, [sums])
                for turn in range(start + 1, start + 16):
                    mbarrier.wait(full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's boxes are there
                    sums = warpgroup_mma(left.index(turn % STAGES), right.index(turn % STAGES).reshape([64, 128]), sums, is_async=True)
                    sums = warpgroup_mma_wait(1, [sums])
                    mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
                mbarrier.arrive(order.index((who + 1) % GROUPS), count=1)
                sums = warpgroup_mma_wait(0, [sums])
                mbarrier.arrive(empty.index((start + 15) % STAGES), count=1)
                sums_0, sums_1 = sums.reshape([128, 2, 64]).permute((0, 2, 1)).split()
                sums_0 = gl.convert_layout(sums_0, BY_64)
                sums_1 = gl.convert_layout(sums_1, BY_64)
                result = finish(sums_0)
                if tile_m_begin + ROWS <= rows_end0:
                    tma.store_wait(0)
                    out.index(who).store(result)
                    fence_async_shared()
                    tma.async_copy_shared_to_global(out_desc_128x64, [tile_m_begin, tile_n_begin], out.index(who))
                else:
                    scatter(tile_n_begin, tile_m_begin, rows_end0, out_ptr, result)
                result = finish(sums_1)
                if tile_m_begin + ROWS <= rows_end0:
                    tma.store_wait(0)
                    out.index(who).store(result)
                    fence_async_shared()
                    tma.async_copy_shared_to_global(out_desc_128x64, [tile_m_begin, tile_n_begin + 64], out.index(who))
                else:
                    scatter(tile_n_begin + 64, tile_m_begin, rows_end0, out_ptr, result)
            tile += 1
    tma.store_wait(0)


@gluon.jit
def producer(tiles, offsets_ptr, empty, full, x_desc_128x64, left, y_desc_1x64x128, right):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile = 0
    for grid_tile in range(0, tiles):
        pid = tl.program_id(0) + grid_tile * tl.num_programs(0)
        band = pid // (4 * tile_n_count)
        height = tl.minimum(79 - band * 4, 4)
        tile_begin = (band * 4 + pid % (4 * tile_n_count) % height)
        tile_n_begin = (pid % (4 * tile_n_count) // height) * BLOCK_TILE_N
        # counts = (offsets[1:] - offsets[:-1] + block_m - 1) // block_m
        v37 = tl.load(offsets_ptr + (1 + gl.arange(0, 64)), mask=(gl.arange(0, 64) < 48), other=0)
        v38 = gl.set_auto_layout(v37, gl.BlockedLayout([2], [32], [gl.num_warps()], [0]))
        v39 = tl.load(offsets_ptr + gl.arange(0, 64), mask=(gl.arange(0, 64) < 48), other=0)
        v40 = gl.set_auto_layout(v39, gl.BlockedLayout([2], [32], [gl.num_warps()], [0]))
        v41 = v38 - v40
        v42 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v43 = v41 + v42
        v44 = v43 - 1
        v45 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        counts_1 = v44 // v45 - ((v44 % v45 != 0) & ((v44 < 0) != (v45 < 0)))
        # is_before = torch.cumsum(counts, dim=0) <= tile.begin
        v46 = counts_1.to(tl.int64)
        v47 = tl.where((gl.arange(0, 64) < 48), v46, 0)
        v48 = gl.associative_scan(v47, 0, _plus)
        v49 = tile_begin.to(tl.int64)
        is_before_1 = v48 <= v49
        # group = min(is_before.sum(), groups - 1)
        v50 = is_before_1.to(tl.int64)
        v51 = tl.where((gl.arange(0, 64) < 48), v50, 0)
        v52 = gl.sum(v51, axis=0)
        group_1 = tl.minimum(v52, 47)
        # begin = offsets[group] + (tile.begin - torch.where(is_before, counts, 0).sum()) * block_m
        v53 = tl.load(offsets_ptr + group_1, mask=(group_1 >= 0), other=0)
        v54 = tl.where(is_before_1, counts_1, 0)
        v55 = v54.to(tl.int64)
        v56 = tl.where((gl.arange(0, 64) < 48), v55, 0)
        v57 = gl.sum(v56, axis=0)
        v58 = tile_begin.to(tl.int64)
        v59 = v58 - v57
        v60 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v61 = tl.cast(v60, tl.int64)
        v62 = v59 * v61
        v63 = v53.to(tl.int64)
        begin_2 = v63 + v62
        # for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
        v64 = tl.cast(BLOCK_BLOCK_M, tl.int32)
        v65 = tl.cast(v64, tl.int64)
        v66 = begin_2 + v65
        v67 = group_1 + 1
        v68 = tl.load(offsets_ptr + v67, mask=(v67 >= 0), other=0)
        v69 = v68.to(tl.int64)
        v70 = tl.minimum(v66, v69)
        v71 = v70.to(tl.int32)
        rows_end0 = v71
        v72 = begin_2.to(tl.int32)
        for tile_m_begin in range(v72, rows_end0, BLOCK_BLOCK_M):
            start = uniform(tile * 16)
            for turn in range(start, start + 16):
                tile_k_begin = (turn - start) * BLOCK_TILE_K
                mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who multiplies by these boxes has done so
                mbarrier.expect(full.index(turn % STAGES), 16384)
                tma.async_copy_global_to_shared(x_desc_128x64, [tile_m_begin, tile_k_begin], full.index(turn % STAGES), left.index(turn % STAGES))
                v73 = group_1.to(tl.int32)
                mbarrier.expect(full.index(turn % STAGES), 16384)
                tma.async_copy_global_to_shared(y_desc_1x64x128, [v73, tile_k_begin, tile_n_begin], full.index(turn % STAGES), right.index(turn % STAGES))
            tile += 1


@gluon.jit
def grouped_matmul_flat_0(offsets_ptr, out_ptr, x_desc_128x64, y_desc_1x64x128, out_desc_128x64):
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (79 * tile_n_count - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(x_desc_128x64.dtype, [4, 128, 64], x_desc_128x64.layout)
    right = gl.allocate_shared_memory(y_desc_1x64x128.dtype, [4, 1, 64, 128], y_desc_1x64x128.layout)
    out = gl.allocate_shared_memory(out_desc_128x64.dtype, [2, 128, 64], out_desc_128x64.layout)
    # this turn's boxes are there
    full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(full.index(slot), count=2)
    # who multiplies by these boxes has done so
    empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(empty.index(slot), count=1)
    # the tile before has all its products issued
    order = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(order.index(slot), count=1)
    gl.warp_specialize([
        (consumer, (0, tiles, offsets_ptr, order, full, left, right, empty, out, out_desc_128x64, out_ptr,)),
        (consumer, (1, tiles, offsets_ptr, order, full, left, right, empty, out, out_desc_128x64, out_ptr,)),
        (producer, (tiles, offsets_ptr, empty, full, x_desc_128x64, left, y_desc_1x64x128, right,)),
    ], [4, 1], [232, 40])
