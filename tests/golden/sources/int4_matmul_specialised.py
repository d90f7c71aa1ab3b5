# config: block:block_k=32, block:tile_m=64, block:tile_n=128, num_stages=4, ping_pong=False, schedule=warp_specialised
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (4000 == end.1)) and (0 == begin.2)) and (2992 == end.2)) and (512 == length)) and (1 == packed.align)) and (504 == packed.shape.0)) and (2992 == packed.shape.1)) and (2992 == packed.stride.0)) and (1 == packed.stride.1)) and (504 == rows)) and (1 == sums.align)) and (1 == sums.shape.0)) and (4000 == sums.shape.1)) and (2992 == sums.shape.2)) and (2992 == sums.stride.1)) and (1 == sums.stride.2)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: maxnreg=168, num_warps=4
# constexprs: 
# packed_desc_32x64: tensordesc<i8[32, 64]> = packed
# x_desc_64x64: tensordesc<bf16[64, 64]> = x
# sums_desc_1x64x64: tensordesc<bf16[1, 64, 64]> = sums
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

BY_64 = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))

LANES_32_64 = gl.constexpr(gl.DistributedLinearLayout([[0, 8], [4, 0], [8, 0], [16, 0]], [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]], [[0, 16], [0, 32]], [], [32, 64]))

AS_OPERAND = gl.constexpr(gl.DotOperandLayout(0, BY_64, 2))

BLOCK_BLOCK_K = gl.constexpr(32)

BLOCK_TILE_M = gl.constexpr(64)

BLOCK_TILE_N = gl.constexpr(128)

TUNABLE_SPLIT_K = gl.constexpr(1)


@gluon.jit
def nibbles(wide):
    # Both halves of one register, as a product reads them.
    asm: gl.constexpr = """
        {
        .reg .b32 both, zeros;
        mov.b32 zeros, 0x43084308;
        mul.lo.u32 both, $2, 0x1001;
        lop3.b32 both, both, 0xf000f, zeros, 0x6a;  // (both & mask) ^ zeros
        sub.rn.bf16x2 both, both, zeros;
        mov.b32 {$0, $1}, both;
        }
    """
    return gl.inline_asm_elementwise(asm, "=h,=h,r", [wide], (gl.bfloat16, gl.bfloat16), is_pure=True, pack=1)


@gluon.jit
def prepare(box):
    # This turn's operand, where its product reads it.
    # y = unpacked(packed[tile_k, tile_n]).to(x.dtype)
    v6 = box.load(LANES_32_64)
    v7 = v6.to(tl.uint8, bitcast=True).to(tl.int32)
    v8, v9 = nibbles(v7)
    # return torch.stack([low, high], dim=1).reshape(2 * packed.shape[0], packed.shape[1])
    v10 = gl.join(v8, v9)
    v11 = v10.permute((0, 2, 1))
    v12 = v11.reshape([(2 * BLOCK_BLOCK_K), ROWS])
    # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
    v13 = v12.permute((1, 0))
    return gl.convert_layout(v13, AS_OPERAND)


@gluon.jit
def finish(sums):
    # What is left to do with the sums of all turns.
    v14 = sums.to(tl.bfloat16)
    return v14


@gluon.jit
def consumer(
    who: gl.constexpr,
    tiles,
    left_full,
    left,
    right_full,
    right,
    empty,
    out,
    sums_desc_1x64x64,
):
    # A group of rows: their products, and what the author computes between them.
    no_sums = gl.full([ROWS, BLOCK_TILE_M], 0.0, gl.float32, BY_64)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        tile_n_begin = (pid % tile_n_count) * BLOCK_TILE_N
        tile_m_begin = ((pid // tile_n_count) % tile_m_count) * BLOCK_TILE_M
        part_begin = (((pid // tile_n_count) // tile_m_count))
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
        v0 = tl.cast((-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v1 = part_begin * v0
        v2 = part_begin + 1
        v3 = tl.cast((-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v4 = v2 * v3
        v5 = tl.minimum(v4, 504)
        start = tile * 16
        mbarrier.wait(left_full.index(start % STAGES), (start // STAGES) & 1)  # what this turn's operands are computed from is there
        computed = prepare(left.index((start % STAGES) * GROUPS + who))
        mbarrier.wait(right_full.index(start % STAGES), (start // STAGES) & 1)  # this turn's right operand is there
        operand = computed
        sums = warpgroup_mma(operand, right.index(start % STAGES).permute((1, 0)), no_sums, use_acc=False, is_async=True)
        for turn in range(start + 1, start + 16):
            mbarrier.wait(left_full.index(turn % STAGES), (turn // STAGES) & 1)  # what this turn's operands are computed from is there
            computed = prepare(left.index((turn % STAGES) * GROUPS + who))
            mbarrier.wait(right_full.index(turn % STAGES), (turn // STAGES) & 1)  # this turn's right operand is there
            sums, computed = warpgroup_mma_wait(0, [sums, computed])
            mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
            operand = computed
            sums = warpgroup_mma(operand, right.index(turn % STAGES).permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(0, [sums])
        mbarrier.arrive(empty.index((start + 15) % STAGES), count=1)
        result = finish(sums)
        tma.store_wait(0)
        out.index(who).reshape([64, 64]).permute((1, 0)).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(sums_desc_1x64x64, [part_begin, tile_m_begin, tile_n_begin + who * ROWS], out.index(who))
    tma.store_wait(0)


@gluon.jit
def producer(tiles, empty, left_full, packed_desc_32x64, left, right_full, x_desc_64x64, right):
    # Boxes of memory, copied as far ahead as there are slots.
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for tile in range(0, tiles):
        pid = tl.program_id(0) + tile * tl.num_programs(0)
        tile_n_begin = (pid % tile_n_count) * BLOCK_TILE_N
        tile_m_begin = ((pid // tile_n_count) % tile_m_count) * BLOCK_TILE_M
        part_begin = (((pid // tile_n_count) // tile_m_count))
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
        v15 = tl.cast((-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v16 = part_begin * v15
        v17 = part_begin + 1
        v18 = tl.cast((-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v19 = v17 * v18
        v20 = tl.minimum(v19, 504)
        start = tile * 16
        for turn in range(start, start + 16):
            tile_k_begin = v16 + (turn - start) * BLOCK_BLOCK_K
            # begin = tile_k.begin
            begin = tl.cast(tile_k_begin, tl.int32)
            # acc = torch.addmm(acc, x[tile_m, 2 * begin : 2 * begin + 2 * block_k], y)
            v21 = 2 * begin
            mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)  # who reads these boxes has multiplied by them
            mbarrier.expect(left_full.index(turn % STAGES), 2048)
            tma.async_copy_global_to_shared(packed_desc_32x64, [tile_k_begin, tile_n_begin], left_full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 0))
            mbarrier.expect(left_full.index(turn % STAGES), 2048)
            tma.async_copy_global_to_shared(packed_desc_32x64, [tile_k_begin, tile_n_begin + ROWS], left_full.index(turn % STAGES), left.index((turn % STAGES) * GROUPS + 1))
            mbarrier.expect(right_full.index(turn % STAGES), 8192)
            tma.async_copy_global_to_shared(x_desc_64x64, [tile_m_begin, v21], right_full.index(turn % STAGES), right.index(turn % STAGES))


@gluon.jit
def int4_matmul_0(packed_desc_32x64, x_desc_64x64, sums_desc_1x64x64):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tiles = (1 * tile_m_count * tile_n_count - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)
    left = gl.allocate_shared_memory(packed_desc_32x64.dtype, [8, 32, 64], packed_desc_32x64.layout)
    right = gl.allocate_shared_memory(x_desc_64x64.dtype, [4, 64, 64], x_desc_64x64.layout)
    out = gl.allocate_shared_memory(sums_desc_1x64x64.dtype, [2, 1, 64, 64], sums_desc_1x64x64.layout)
    # what this turn's operands are computed from is there
    left_full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(left_full.index(slot), count=2)
    # this turn's right operand is there
    right_full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(right_full.index(slot), count=1)
    # who reads these boxes has multiplied by them
    empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(4):
        mbarrier.init(empty.index(slot), count=2)
    gl.warp_specialize([
        (consumer, (0, tiles, left_full, left, right_full, right, empty, out, sums_desc_1x64x64,)),
        (consumer, (1, tiles, left_full, left, right_full, right, empty, out, sums_desc_1x64x64,)),
        (producer, (tiles, empty, left_full, packed_desc_32x64, left, right_full, x_desc_64x64, right,)),
    ], [4, 1], [240, 24])
