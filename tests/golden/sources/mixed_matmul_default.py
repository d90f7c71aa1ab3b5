# config: block:tile_k=64, block:tile_m=128, block:tile_n=128, group=8, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, product:dot#0.transposed=True, store:out#0.access=descriptor
# region 0, static
# grid: 768, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=128
# x_desc_128x64: tensordesc<bf16[128, 64]> = x
# y_desc_64x128: tensordesc<i16[64, 128]> = y
# out_desc_128x128: tensordesc<bf16[128, 128]> = out
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def settled(x):
    if INTERPRETED:
        return x
    else:
        return tl.inline_asm_elementwise("", "=f,0", [x], dtype=x.dtype, is_pure=True, pack=1)


# examples.mixed_matmul:mixed_matmul (mixed_matmul.py:24), launch 0, static sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=128, group=8, load:x#0.access=descriptor,
#   load:y#0.access=descriptor, num_stages=4, num_warps=8, product:dot#0.transposed=True,
#   store:out#0.access=descriptor
@triton.jit
def mixed_matmul_0(
    x_desc_128x64,
    y_desc_64x128,
    out_desc_128x128,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    pid = tl.program_id(0)
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    band = pid // (8 * tile_n_count)
    height = tl.minimum(tile_m_count - band * 8, 8)
    tile_m_begin = (band * 8 + pid % (8 * tile_n_count) % height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    tile_n_begin = (pid % (8 * tile_n_count) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    # acc = tfl.zeros([tile_m, tile_n])
    acc = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
    # for tile_k in tfl.tile(k):
    v0 = tl.permute(acc, (1, 0))
    c0 = v0
    for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
        tile_k_mask = tile_k_idx < 1008
        # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n].to(x.dtype))
        v1 = x_desc_128x64.load([tile_m_begin, tile_k_begin])
        v2 = y_desc_64x128.load([tile_k_begin, tile_n_begin])
        v3 = v2.to(tl.float32).to(tl.bfloat16)
        # for tile_k in tfl.tile(k):
        v4 = tl.permute(v3, (1, 0))
        v5 = tl.permute(v1, (1, 0))
        # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n].to(x.dtype))
        v6 = tl.dot(v4, v5, acc=c0)
        v7 = settled(v6)
        c0 = v7
    # for tile_k in tfl.tile(k):
    acc_1 = tl.permute(c0, (1, 0))
    # out[tile_m, tile_n] = acc
    v8 = acc_1.to(tl.bfloat16)
    out_desc_128x128.store([tile_m_begin, tile_n_begin], v8)
