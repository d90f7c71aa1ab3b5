# config: block:tile_k=64, block:tile_m=256, block:tile_n=64, group=8, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=3, persistent=1, store:out#0.access=descriptor
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=256, BLOCK_TILE_N=64
# x_desc_256x64: tensordesc<bf16[256, 64]> = x
# y_desc_64x64: tensordesc<i16[64, 64]> = y
# out_desc_256x64: tensordesc<bf16[256, 64]> = out
import triton
import triton.language as tl


@triton.jit
def mixed_matmul_0(
    x_desc_256x64,
    y_desc_64x64,
    out_desc_256x64,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 752, tl.num_programs(0)):
        band = pid // (8 * 47)
        height = tl.minimum(16 - band * 8, 8)
        tile_m_begin = (band * 8 + pid % (8 * 47) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (pid % (8 * 47) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        c0 = v0
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            v1 = x_desc_256x64.load([tile_m_begin, tile_k_begin])
            v2 = y_desc_64x64.load([tile_k_begin, tile_n_begin])
            v3 = v2.to(tl.float32).to(tl.bfloat16)
            v4 = tl.dot(v1, v3, acc=c0)
            c0 = v4
        v5 = c0.to(tl.bfloat16)
        out_desc_256x64.store([tile_m_begin, tile_n_begin], v5)
