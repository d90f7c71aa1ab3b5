# config: block:block_k=32, block:tile_m=128, block:tile_n=128, group=8, load:packed#0.access=descriptor, num_stages=4, num_warps=8, product:dot#0.transposed=True, store:sums#0.access=descriptor
# region 0, static
# grid: 768, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (0 == begin.1)) and (4000 == end.1)) and (0 == begin.2)) and (2992 == end.2)) and (512 == length)) and (1 == packed.align)) and (504 == packed.shape.0)) and (2992 == packed.shape.1)) and (2992 == packed.stride.0)) and (1 == packed.stride.1)) and (504 == rows)) and (1 == sums.align)) and (1 == sums.shape.0)) and (4000 == sums.shape.1)) and (2992 == sums.shape.2)) and (2992 == sums.stride.1)) and (1 == sums.stride.2)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_BLOCK_K=32, BLOCK_TILE_M=128, BLOCK_TILE_N=128, TUNABLE_SPLIT_K=1
# packed_ptr: *i8 % 16 = packed
# x_ptr: *bf16 % 16 = x
# sums_desc_1x128x128: tensordesc<bf16[1, 128, 128]> = sums
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def settled(x):
    if INTERPRETED:
        return x
    else:
        return tl.inline_asm_elementwise("", "=f,0", [x], dtype=x.dtype, is_pure=True, pack=1)


# examples.int4_matmul:int4_matmul (int4_matmul.py:38), launch 0, static sizes
#   block:block_k=32, block:tile_m=128, block:tile_n=128, group=8, load:packed#0.access=descriptor,
#   num_stages=4, num_warps=8, product:dot#0.transposed=True, store:sums#0.access=descriptor,
#   tunable:split_k=1
@triton.jit
def int4_matmul_0(
    packed_ptr,
    x_ptr,
    sums_desc_1x128x128,
    BLOCK_BLOCK_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
    TUNABLE_SPLIT_K: tl.constexpr,
):
    # for part, tile_m, tile_n in tfl.tile([parts, m, n], block_size=[1, None, None]):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    plane = pid % (tile_m_count * tile_n_count)
    part_begin = ((pid // (tile_m_count * tile_n_count)))
    part_idx = part_begin + tl.arange(0, 1)
    band = plane // (8 * tile_n_count)
    height = tl.minimum(tile_m_count - band * 8, 8)
    tile_m_begin = (band * 8 + plane % (8 * tile_n_count) % height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    tile_n_begin = (plane % (8 * tile_n_count) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    # acc = tfl.zeros([tile_m, tile_n])
    acc = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
    # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
    v0 = tl.full([], (-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
    v1 = part_begin * v0
    v2 = part_begin + 1
    v3 = tl.full([], (-128 * (-504 // (128 * TUNABLE_SPLIT_K))), tl.int32)
    v4 = v2 * v3
    v5 = tl.minimum(v4, 504)
    v6 = tl.permute(acc, (1, 0))
    c0 = v6
    for tile_k_begin in tl.range(v1, v5, BLOCK_BLOCK_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_BLOCK_K)
        tile_k_mask = tile_k_idx < v5
        # begin = tile_k.begin
        begin = tl.cast(tile_k_begin, tl.int32)
        # y = unpacked(packed[tile_k, tile_n]).to(x.dtype)
        v7 = tl.load(packed_ptr + tile_k_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0)
        v8 = v7.to(tl.uint8, bitcast=True).to(tl.int32)
        v9 = ((v8 | (v8 << 12)) & 0xf000f) ^ 0x43084308
        v10 = v9.to(tl.int16).to(tl.bfloat16, bitcast=True) - 136.0
        v11 = (v9 >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True) - 136.0
        # return torch.stack([low, high], dim=1).reshape(2 * packed.shape[0], packed.shape[1])
        v12 = tl.join(v10, v11)
        v13 = tl.permute(v12, (0, 2, 1))
        v14 = tl.reshape(v13, [(2 * BLOCK_BLOCK_K), BLOCK_TILE_N])
        # acc = torch.addmm(acc, x[tile_m, 2 * begin : 2 * begin + 2 * block_k], y)
        v15 = 2 * begin
        v16 = tl.arange(0, (2 * BLOCK_BLOCK_K))
        v17 = v16 + v15
        v18 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + v17[None, :], mask=tile_m_mask[:, None] & (v17[None, :] >= 0) & (v17[None, :] < 1008), other=0.0)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
        v19 = tl.permute(v14, (1, 0))
        v20 = tl.permute(v18, (1, 0))
        # acc = torch.addmm(acc, x[tile_m, 2 * begin : 2 * begin + 2 * block_k], y)
        v21 = tl.dot(v19, v20, acc=c0)
        v22 = settled(v21)
        c0 = v22
    # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, rows), block_size=block_k):
    acc_1 = tl.permute(c0, (1, 0))
    # sums[part.begin, tile_m, tile_n] = acc
    v23 = acc_1.to(tl.bfloat16)
    sums_desc_1x128x128.store([part_begin, tile_m_begin, tile_n_begin], tl.reshape(v23, [1, BLOCK_TILE_M, BLOCK_TILE_N]))
