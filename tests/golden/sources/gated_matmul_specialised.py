# config: block:tile_k=64, block:tile_m=128, block:tile_n=128, group=16, num_stages=4, ping_pong=False, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == gate.align)) and (2992 == gate.shape.0)) and (1008 == gate.shape.1)) and (1008 == gate.stride.0)) and (1 == gate.stride.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == up.align)) and (2992 == up.shape.0)) and (1008 == up.shape.1)) and (1008 == up.stride.0)) and (1 == up.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: maxnreg=168, num_warps=4
# constexprs: 
# x_desc_64x64: tensordesc<bf16[64, 64]> = x
# gate_desc_128x64: tensordesc<bf16[128, 64]> = gate
# out_desc_64x64: tensordesc<bf16[64, 64]> = out
# up_desc_128x64: tensordesc<bf16[128, 64]> = up
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

BY_64 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))

BLOCK_TILE_K = gl.constexpr(64)

BLOCK_TILE_M = gl.constexpr(128)

BLOCK_TILE_N = gl.constexpr(128)


@gluon.jit
def finish(sums, sums_beside):
    # What is left to do with the sums of all turns.
    # out[tile_m, tile_n] = (F.silu(a) if activation == "silu" else F.gelu(a, approximate="tanh")) * b
    v0 = 1.0 / (1.0 + tl.exp2(sums * -1.4426950408889634))
    v1 = sums * v0
    v2 = v1 * sums_beside
    v3 = v2.to(tl.bfloat16)
    return v3


@gluon.jit
def consumer(who: gl.constexpr, tiles, full, left, right, empty, out, out_desc_64x64):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, 256], 0.0, gl.float32, BY_256)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        band = pid // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        start = tile * 16
        mbarrier.wait(full.index(start % STAGES), (start // STAGES) & 1)  # this turn's boxes are there
        sums = warpgroup_mma(left.index((start % STAGES) * GROUPS + who), right.index(start % STAGES).permute((1, 0)), no_sums, use_acc=False, is_async=True)
        sums = warpgroup_mma_wait(1, [sums])
        for turn in range(start + 1, start + 16):
            mbarrier.wait(full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's boxes are there
            sums = warpgroup_mma(left.index((turn % STAGES) * GROUPS + who), right.index(turn % STAGES).permute((1, 0)), sums, is_async=True)
            sums = warpgroup_mma_wait(1, [sums])
            mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
        sums = warpgroup_mma_wait(0, [sums])
        mbarrier.arrive(empty.index((start + 15) % STAGES), count=1)
        sums_l, sums_r = sums.reshape([64, 2, 128]).permute((0, 2, 1)).split()
        sums_0, sums_1 = sums_l.reshape([64, 2, 64]).permute((0, 2, 1)).split()
        sums_2, sums_3 = sums_r.reshape([64, 2, 64]).permute((0, 2, 1)).split()
        sums_0 = gl.convert_layout(sums_0, BY_64)
        sums_1 = gl.convert_layout(sums_1, BY_64)
        sums_2 = gl.convert_layout(sums_2, BY_64)
        sums_3 = gl.convert_layout(sums_3, BY_64)
        result = finish(sums_0, sums_2)
        tma.store_wait(0)
        out.index(who).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc_64x64, [tile_m_begin + who * ROWS, tile_n_begin], out.index(who))
        result = finish(sums_1, sums_3)
        tma.store_wait(0)
        out.index(who).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc_64x64, [tile_m_begin + who * ROWS, tile_n_begin + 64], out.index(who))
    tma.store_wait(0)


@gluon.jit
def producer(tiles, empty, full, x_desc_64x64, left, gate_desc_128x64, right, up_desc_128x64):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        band = pid // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        start = tile * 16
        for turn in range(start, start + 16):
            tile_k_begin = (turn - start) * BLOCK_TILE_K
            mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who multiplies by these boxes has done so
            mbarrier.expect(full.index(turn % STAGES), 8192)
            tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 0))
            mbarrier.expect(full.index(turn % STAGES), 8192)
            tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin + ROWS, tile_k_begin], full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 1))
            mbarrier.expect(full.index(turn % STAGES), 16384)
            tma.async_copy_global_to_shared(gate_desc_128x64, [tile_n_begin, tile_k_begin], full.index(turn % STAGES), right.index(turn % STAGES).slice(0, 128, 0))
            mbarrier.expect(full.index(turn % STAGES), 16384)
            tma.async_copy_global_to_shared(up_desc_128x64, [tile_n_begin, tile_k_begin], full.index(turn % STAGES), right.index(turn % STAGES).slice(128, 128, 0))


@gluon.jit
def gated_linear_0(x_desc_64x64, gate_desc_128x64, out_desc_64x64, up_desc_128x64):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (tile_m_count * tile_n_count - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(x_desc_64x64.dtype, [8, 64, 64], x_desc_64x64.layout)
    right = gl.allocate_shared_memory(gate_desc_128x64.dtype, [4, 256, 64], gate_desc_128x64.layout)
    out = gl.allocate_shared_memory(out_desc_64x64.dtype, [2, 64, 64], out_desc_64x64.layout)
    # this turn's boxes are there
    full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(full.index(slot), count=4)
    # who multiplies by these boxes has done so
    empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(empty.index(slot), count=2)
    gl.warp_specialize([
        (consumer, (0, tiles, full, left, right, empty, out, out_desc_64x64,)),
        (consumer, (1, tiles, full, left, right, empty, out, out_desc_64x64,)),
        (producer, (tiles, empty, full, x_desc_64x64, left, gate_desc_128x64, right, up_desc_128x64,)),
    ], [4, 1], [240, 24])
