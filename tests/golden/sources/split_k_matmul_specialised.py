# config: block:tile_k=64, block:tile_m=128, block:tile_n=128, group=4, num_stages=4, ping_pong=False, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (0 == begin.2)) and (0 == is_whole)) and (1008 == k)) and (256 == length)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: maxnreg=168, num_warps=4
# constexprs: 
# out_ptr: *fp32 % 16 = out
# x_desc_64x64: tensordesc<bf16[64, 64]> = x
# y_desc_64x128: tensordesc<bf16[64, 128]> = y
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

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

BLOCK_TILE_K = gl.constexpr(64)

BLOCK_TILE_M = gl.constexpr(128)

BLOCK_TILE_N = gl.constexpr(128)

TUNABLE_SPLIT_K = gl.constexpr(4)


@gluon.jit
def finish(tile_m_begin, who: gl.constexpr, tile_n_begin, out_ptr, sums):
    # What is left to do with the sums of all turns.
    tile_m_idx = tile_m_begin + who * ROWS + gl.arange(0, ROWS)
    tile_m_mask = tile_m_idx < 4000
    tile_n_idx = tile_n_begin + gl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    # tfl.atomic_add(out, [tile_m, tile_n], acc)
    tl.atomic_add(gl.set_auto_layout(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], BY_128), sums, mask=gl.set_auto_layout(tile_m_mask[:, None] & tile_n_mask[None, :], BY_128), sem='relaxed')


@gluon.jit
def consumer(who: gl.constexpr, tiles, full, left, right, empty, out_ptr):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, BLOCK_TILE_N], 0.0, gl.float32, BY_128)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        plane = pid % (tile_n_count * 4)
        tile_m_begin = ((pid // (tile_n_count * 4))) * BLOCK_TILE_M
        band = plane // (4 * 4)
        height = tl.minimum(tile_n_count - band * 4, 4)
        tile_n_begin = (band * 4 + plane % (4 * 4) % height) * BLOCK_TILE_N
        part_begin = (plane % (4 * 4) // height)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v0 = tl.cast((-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v1 = part_begin * v0
        v2 = part_begin + 1
        v3 = tl.cast((-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v4 = v2 * v3
        v5 = tl.minimum(v4, 1008)
        start = tile * 4
        mbarrier.wait(full.index(start % STAGES), (start // STAGES) & 1)  # this turn's boxes are there
        sums = warpgroup_mma(left.index((start % STAGES) * GROUPS + who), right.index(start % STAGES), no_sums, use_acc=False, is_async=True)
        sums = warpgroup_mma_wait(1, [sums])
        for turn in range(start + 1, start + 4):
            mbarrier.wait(full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's boxes are there
            sums = warpgroup_mma(left.index((turn % STAGES) * GROUPS + who), right.index(turn % STAGES), sums, is_async=True)
            sums = warpgroup_mma_wait(1, [sums])
            mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
        sums = warpgroup_mma_wait(0, [sums])
        mbarrier.arrive(empty.index((start + 3) % STAGES), count=1)
        finish(tile_m_begin, who, tile_n_begin, out_ptr, sums)
    tma.store_wait(0)


@gluon.jit
def producer(tiles, empty, full, x_desc_64x64, left, y_desc_64x128, right):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        plane = pid % (tile_n_count * 4)
        tile_m_begin = ((pid // (tile_n_count * 4))) * BLOCK_TILE_M
        band = plane // (4 * 4)
        height = tl.minimum(tile_n_count - band * 4, 4)
        tile_n_begin = (band * 4 + plane % (4 * 4) % height) * BLOCK_TILE_N
        part_begin = (plane % (4 * 4) // height)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v6 = tl.cast((-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v7 = part_begin * v6
        v8 = part_begin + 1
        v9 = tl.cast((-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v10 = v8 * v9
        v11 = tl.minimum(v10, 1008)
        start = tile * 4
        for turn in range(start, start + 4):
            tile_k_begin = v7 + (turn - start) * BLOCK_TILE_K
            mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who multiplies by these boxes has done so
            mbarrier.expect(full.index(turn % STAGES), 8192)
            tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 0))
            mbarrier.expect(full.index(turn % STAGES), 8192)
            tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin + ROWS, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 1))
            mbarrier.expect(full.index(turn % STAGES), 16384)
            tma.async_copy_global_to_shared(y_desc_64x128, [tile_k_begin, tile_n_begin], full.index(turn % STAGES), right.index(turn % STAGES))


@gluon.jit
def split_k_matmul_0(out_ptr, x_desc_64x64, y_desc_64x128):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (tile_m_count * tile_n_count * 4 - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(x_desc_64x64.dtype, [8, 64, 64], x_desc_64x64.layout)
    right = gl.allocate_shared_memory(y_desc_64x128.dtype, [4, 64, 128], y_desc_64x128.layout)
    # this turn's boxes are there
    full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(full.index(slot), count=3)
    # who multiplies by these boxes has done so
    empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(empty.index(slot), count=2)
    gl.warp_specialize([
        (consumer, (0, tiles, full, left, right, empty, out_ptr,)),
        (consumer, (1, tiles, full, left, right, empty, out_ptr,)),
        (producer, (tiles, empty, full, x_desc_64x64, left, y_desc_64x128, right,)),
    ], [4, 1], [240, 24])
