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


@triton.jit
def mixed_matmul_0(
    x_desc_128x64,
    y_desc_64x128,
    out_desc_128x128,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    band = pid // (8 * 24)
    height = tl.minimum(32 - band * 8, 8)
    tile_m_begin = (band * 8 + pid % (8 * 24) % height) * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    tile_n_begin = (pid % (8 * 24) // height) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
    v1 = tl.permute(v0, (1, 0))
    c0 = v1
    for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
        tile_k_mask = tile_k_idx < 1008
        v2 = x_desc_128x64.load([tile_m_begin, tile_k_begin])
        v3 = y_desc_64x128.load([tile_k_begin, tile_n_begin])
        v4 = v3.to(tl.float32).to(tl.bfloat16)
        v5 = tl.permute(v4, (1, 0))
        v6 = tl.permute(v2, (1, 0))
        v7 = tl.dot(v5, v6, acc=c0)
        v8 = settled(v7)
        c0 = v8
    v9 = tl.permute(c0, (1, 0))
    v10 = v9.to(tl.bfloat16)
    out_desc_128x128.store([tile_m_begin, tile_n_begin], v10)
