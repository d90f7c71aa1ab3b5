# config: block:tile_k=64, block:tile_m=128, block:tile_n=256, group=4, num_stages=4, ping_pong=False, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (48 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == offsets.align)) and (49 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: maxnreg=168, num_warps=4
# constexprs: 
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_desc_64x64: tensordesc<bf16[64, 64]> = x
# y_desc_1x64x256: tensordesc<bf16[1, 64, 256]> = y
# out_desc_64x128: tensordesc<bf16[64, 128]> = out
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

ROWS = gl.constexpr(64)

BY_256 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16]))

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

COLUMNS = gl.constexpr(128)

BLOCK_TILE_K = gl.constexpr(64)

BLOCK_TILE_M = gl.constexpr(128)

BLOCK_TILE_N = gl.constexpr(256)


@gluon.jit
def uniform(number):
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "=r,r", [number], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def finish(sums):
    # What is left to do with the sums of all turns.
    v3 = sums.to(tl.bfloat16)
    return v3


@gluon.jit
def scatter(who: gl.constexpr, tile_n_begin, tile_m_begin, rows_end0, out_ptr, result):
    # Rows of the group, in a block that others have rows of.
    tile_n_idx = tile_n_begin + gl.arange(0, COLUMNS)
    tile_n_mask = tile_n_idx < 2992
    tile_m_idx = tile_m_begin + who * ROWS + gl.arange(0, ROWS)
    tile_m_mask = tile_m_idx < rows_end0
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], result, mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :])


@gluon.jit
def consumer(
    who: gl.constexpr,
    tiles,
    offsets_ptr,
    full,
    left,
    right,
    empty,
    out,
    out_desc_64x128,
    out_ptr,
):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, BLOCK_TILE_N], 0.0, gl.float32, BY_256)
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile = 0
    for grid_tile in range(0, tiles):
        pid = tl.program_id(0) + grid_tile * tl.num_programs(0)
        band = pid // (4 * tile_n_count)
        height = tl.minimum(48 - band * 4, 4)
        tile_g_begin = (band * 4 + pid % (4 * tile_n_count) % height)
        tile_n_begin = (pid % (4 * tile_n_count) // height) * BLOCK_TILE_N
        # for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
        v0 = tl.load(offsets_ptr + tile_g_begin)
        v1 = tile_g_begin + 1
        v2 = tl.load(offsets_ptr + v1)
        rows_end0 = v2
        for tile_m_begin in range(v0, rows_end0, BLOCK_TILE_M):
            start = uniform(tile * 16)
            mbarrier.wait(full.index(start % STAGES), (start // STAGES) & 1)  # this turn's boxes are there
            sums = warpgroup_mma(left.index((start % STAGES) * GROUPS + who), right.index(start % STAGES).reshape([64, 256]), no_sums, use_acc=False, is_async=True)
            sums = warpgroup_mma_wait(1, [sums])
            for turn in range(start + 1, start + 16):
                mbarrier.wait(full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's boxes are there
                sums = warpgroup_mma(left.index((turn % STAGES) * GROUPS + who), right.index(turn % STAGES).reshape([64, 256]), sums, is_async=True)
                sums = warpgroup_mma_wait(1, [sums])
                mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
            sums = warpgroup_mma_wait(0, [sums])
            mbarrier.arrive(empty.index((start + 15) % STAGES), count=1)
            sums_0, sums_1 = sums.reshape([64, 2, 128]).permute((0, 2, 1)).split()
            sums_0 = gl.convert_layout(sums_0, BY_128)
            sums_1 = gl.convert_layout(sums_1, BY_128)
            result = finish(sums_0)
            if tile_m_begin + (who + 1) * ROWS <= rows_end0:
                tma.store_wait(0)
                out.index(who).store(result)
                fence_async_shared()
                tma.async_copy_shared_to_global(out_desc_64x128, [tile_m_begin + who * ROWS, tile_n_begin], out.index(who))
            else:
                scatter(who, tile_n_begin, tile_m_begin, rows_end0, out_ptr, result)
            result = finish(sums_1)
            if tile_m_begin + (who + 1) * ROWS <= rows_end0:
                tma.store_wait(0)
                out.index(who).store(result)
                fence_async_shared()
                tma.async_copy_shared_to_global(out_desc_64x128, [tile_m_begin + who * ROWS, tile_n_begin + 128], out.index(who))
            else:
                scatter(who, tile_n_begin + 128, tile_m_begin, rows_end0, out_ptr, result)
            tile += 1
    tma.store_wait(0)


@gluon.jit
def producer(tiles, offsets_ptr, empty, full, x_desc_64x64, left, y_desc_1x64x256, right):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile = 0
    for grid_tile in range(0, tiles):
        pid = tl.program_id(0) + grid_tile * tl.num_programs(0)
        band = pid // (4 * tile_n_count)
        height = tl.minimum(48 - band * 4, 4)
        tile_g_begin = (band * 4 + pid % (4 * tile_n_count) % height)
        tile_n_begin = (pid % (4 * tile_n_count) // height) * BLOCK_TILE_N
        # for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
        v4 = tl.load(offsets_ptr + tile_g_begin)
        v5 = tile_g_begin + 1
        v6 = tl.load(offsets_ptr + v5)
        rows_end0 = v6
        for tile_m_begin in range(v4, rows_end0, BLOCK_TILE_M):
            start = uniform(tile * 16)
            for turn in range(start, start + 16):
                tile_k_begin = (turn - start) * BLOCK_TILE_K
                mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who multiplies by these boxes has done so
                mbarrier.expect(full.index(turn % STAGES), 8192)
                tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 0))
                mbarrier.expect(full.index(turn % STAGES), 8192)
                tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin + ROWS, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 1))
                mbarrier.expect(full.index(turn % STAGES), 32768)
                tma.async_copy_global_to_shared(y_desc_1x64x256, [tile_g_begin, tile_k_begin, tile_n_begin], full.index(turn % STAGES), right.index(turn % STAGES))
            tile += 1


@gluon.jit
def grouped_matmul_0(offsets_ptr, out_ptr, x_desc_64x64, y_desc_1x64x256, out_desc_64x128):
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (48 * tile_n_count - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(x_desc_64x64.dtype, [8, 64, 64], x_desc_64x64.layout)
    right = gl.allocate_shared_memory(y_desc_1x64x256.dtype, [4, 1, 64, 256], y_desc_1x64x256.layout)
    out = gl.allocate_shared_memory(out_desc_64x128.dtype, [2, 64, 128], out_desc_64x128.layout)
    # this turn's boxes are there
    full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(full.index(slot), count=3)
    # who multiplies by these boxes has done so
    empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(empty.index(slot), count=2)
    gl.warp_specialize([
        (consumer, (0, tiles, offsets_ptr, full, left, right, empty, out, out_desc_64x128, out_ptr,)),
        (consumer, (1, tiles, offsets_ptr, full, left, right, empty, out, out_desc_64x128, out_ptr,)),
        (producer, (tiles, offsets_ptr, empty, full, x_desc_64x64, left, y_desc_1x64x256, right,)),
    ], [4, 1], [240, 24])
