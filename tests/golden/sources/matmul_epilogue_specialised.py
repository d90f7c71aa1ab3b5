# config: block:tile_k=64, block:tile_m=128, block:tile_n=128, group=8, num_stages=6, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == epilogue.cell:bias.align)) and (2992 == epilogue.cell:bias.shape.0)) and (1 == epilogue.cell:bias.stride.0)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: maxnreg=168, num_warps=4
# constexprs: 
# epilogue_bias_ptr: *bf16 % 16 = epilogue.cell:bias
# x_desc_128x64: tensordesc<bf16[128, 64]> = x
# y_desc_64x128: tensordesc<bf16[64, 128]> = y
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

STAGES = gl.constexpr(6)

GROUPS = gl.constexpr(2)

ROWS = gl.constexpr(128)

BY_128 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))

BY_64 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))

COLUMNS = gl.constexpr(64)

BLOCK_TILE_K = gl.constexpr(64)

BLOCK_TILE_M = gl.constexpr(128)

BLOCK_TILE_N = gl.constexpr(128)


@gluon.jit
def finish(tile_n_begin, epilogue_bias_ptr, sums):
    # What is left to do with the sums of all turns.
    tile_n_idx = tile_n_begin + gl.arange(0, COLUMNS)
    tile_n_mask = tile_n_idx < 2992
    # return lambda acc, tile_m, tile_n: F.gelu(acc + bias[tile_n].float())
    v0 = tl.load(epilogue_bias_ptr + tile_n_idx, mask=tile_n_mask, other=0.0)
    v1 = gl.set_auto_layout(v0, gl.SliceLayout(0, BY_64))
    v2 = v1.to(tl.float32)
    v3 = v2[None, :]
    v4 = sums + v3
    v5 = 0.5 * v4
    v6 = v4 * 0.7071067811865476
    v7 = tl.erf(v6)
    v8 = 1.0 + v7
    v9 = v5 * v8
    v10 = v9.to(tl.bfloat16)
    return v10


@gluon.jit
def consumer(
    who: gl.constexpr,
    tiles,
    order,
    full,
    left,
    right,
    empty,
    epilogue_bias_ptr,
    out,
    out_desc_128x64,
):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, BLOCK_TILE_N], 0.0, gl.float32, BY_128)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(who, tiles, GROUPS):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        band = pid // (8 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 8, 8)
        tile_m_begin = (band * 8 + pid % (8 * tile_n_count) % height) * BLOCK_TILE_M
        tile_n_begin = (pid % (8 * tile_n_count) // height) * BLOCK_TILE_N
        start = tile * 16
        mbarrier.wait(order.index(who), ((tile // GROUPS) & 1) ^ (1 if who == 0 else 0))  # the tile before has all its products issued
        mbarrier.wait(full.index(start % STAGES), (start // STAGES) & 1)  # this turn's boxes are there
        sums = warpgroup_mma(left.index(start % STAGES), right.index(start % STAGES), no_sums, use_acc=False, is_async=True)
        sums = warpgroup_mma_wait(1, [sums])
        for turn in range(start + 1, start + 16):
            mbarrier.wait(full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's boxes are there
            sums = warpgroup_mma(left.index(turn % STAGES), right.index(turn % STAGES), sums, is_async=True)
            sums = warpgroup_mma_wait(1, [sums])
            mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
        mbarrier.arrive(order.index((who + 1) % GROUPS), count=1)
        sums = warpgroup_mma_wait(0, [sums])
        mbarrier.arrive(empty.index((start + 15) % STAGES), count=1)
        sums_0, sums_1 = sums.reshape([128, 2, 64]).permute((0, 2, 1)).split()
        sums_0 = gl.convert_layout(sums_0, BY_64)
        sums_1 = gl.convert_layout(sums_1, BY_64)
        result = finish(tile_n_begin, epilogue_bias_ptr, sums_0)
        tma.store_wait(0)
        out.index(who).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc_128x64, [tile_m_begin, tile_n_begin], out.index(who))
        result = finish(tile_n_begin + 64, epilogue_bias_ptr, sums_1)
        tma.store_wait(0)
        out.index(who).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc_128x64, [tile_m_begin, tile_n_begin + 64], out.index(who))
    tma.store_wait(0)


@gluon.jit
def producer(tiles, empty, full, x_desc_128x64, left, y_desc_64x128, right):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        band = pid // (8 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 8, 8)
        tile_m_begin = (band * 8 + pid % (8 * tile_n_count) % height) * BLOCK_TILE_M
        tile_n_begin = (pid % (8 * tile_n_count) // height) * BLOCK_TILE_N
        start = tile * 16
        for turn in range(start, start + 16):
            tile_k_begin = (turn - start) * BLOCK_TILE_K
            mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who multiplies by these boxes has done so
            mbarrier.expect(full.index(turn % STAGES), 16384)
            tma.async_copy_global_to_shared(x_desc_128x64, [tile_m_begin, tile_k_begin], full.index(turn % STAGES), left.index(turn % STAGES))
            mbarrier.expect(full.index(turn % STAGES), 16384)
            tma.async_copy_global_to_shared(y_desc_64x128, [tile_k_begin, tile_n_begin], full.index(turn % STAGES), right.index(turn % STAGES))


@gluon.jit
def matmul_epilogue_0(epilogue_bias_ptr, x_desc_128x64, y_desc_64x128, out_desc_128x64):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (tile_m_count * tile_n_count - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(x_desc_128x64.dtype, [6, 128, 64], x_desc_128x64.layout)
    right = gl.allocate_shared_memory(y_desc_64x128.dtype, [6, 64, 128], y_desc_64x128.layout)
    out = gl.allocate_shared_memory(out_desc_128x64.dtype, [2, 128, 64], out_desc_128x64.layout)
    # this turn's boxes are there
    full = gl.allocate_shared_memory(gl.int64, [6, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(6):
        mbarrier.init(full.index(slot), count=2)
    # who multiplies by these boxes has done so
    empty = gl.allocate_shared_memory(gl.int64, [6, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(6):
        mbarrier.init(empty.index(slot), count=1)
    # the tile before has all its products issued
    order = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(2):
        mbarrier.init(order.index(slot), count=1)
    gl.warp_specialize([
        (consumer, (0, tiles, order, full, left, right, empty, epilogue_bias_ptr, out, out_desc_128x64,)),
        (consumer, (1, tiles, order, full, left, right, empty, epilogue_bias_ptr, out, out_desc_128x64,)),
        (producer, (tiles, empty, full, x_desc_128x64, left, y_desc_64x128, right,)),
    ], [4, 1], [240, 24])
