# config: block:tile_b=1, block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=3, num_warps=8, persistent=1, store:out#0.access=descriptor
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((((((((((0 == begin.0) and (48 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (0 == begin.2)) and (2992 == end.2)) and (1008 == k)) and (1 == out.align)) and (48 == out.shape.0)) and (4000 == out.shape.1)) and (2992 == out.shape.2)) and (11968000 == out.stride.0)) and (2992 == out.stride.1)) and (1 == out.stride.2)) and (1 == x.align)) and (48 == x.shape.0)) and (4000 == x.shape.1)) and (1008 == x.shape.2)) and (4032000 == x.stride.0)) and (1008 == x.stride.1)) and (1 == x.stride.2)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: num_stages=3, num_warps=8
# constexprs: BLOCK_TILE_B=1, BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# x_desc_1x128x64: tensordesc<bf16[1, 128, 64]> = x
# y_desc_1x64x256: tensordesc<bf16[1, 64, 256]> = y
# out_desc_1x128x256: tensordesc<bf16[1, 128, 256]> = out
import triton
import triton.language as tl


# examples.bmm:bmm_small (bmm.py:41), launch 0, static sizes
#   block:tile_b=1, block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=3, num_warps=8, persistent=1,
#   store:out#0.access=descriptor
@triton.jit
def bmm_small_0(
    x_desc_1x128x64,
    y_desc_1x64x256,
    out_desc_1x128x256,
    BLOCK_TILE_B: tl.constexpr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_b, tile_m, tile_n in tfl.tile([b, m, n]):
    tile_b_count: tl.constexpr = (48 + BLOCK_TILE_B - 1) // BLOCK_TILE_B
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), tile_b_count * tile_m_count * tile_n_count, tl.num_programs(0), flatten=True):
        plane = pid % (tile_m_count * tile_n_count)
        tile_b_begin = ((pid // (tile_m_count * tile_n_count))) * BLOCK_TILE_B
        tile_b_idx = tile_b_begin + tl.arange(0, BLOCK_TILE_B)
        tl.static_assert(48 % BLOCK_TILE_B == 0, "whole blocks of tile_b")
        band = plane // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + plane % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (plane % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # acc = tfl.zeros([tile_b, tile_m, tile_n])
        v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        c0 = v0
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            # acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], y[tile_b, tile_k, tile_n])
            v1 = tl.reshape(x_desc_1x128x64.load([tile_b_begin, tile_m_begin, tile_k_begin]), [BLOCK_TILE_M, BLOCK_TILE_K])
            v2 = tl.reshape(y_desc_1x64x256.load([tile_b_begin, tile_k_begin, tile_n_begin]), [BLOCK_TILE_K, BLOCK_TILE_N])
            v3 = tl.dot(v1, v2, acc=c0)
            c0 = v3
        # out[tile_b, tile_m, tile_n] = acc
        v4 = c0.to(tl.bfloat16)
        out_desc_1x128x256.store([tile_b_begin, tile_m_begin, tile_n_begin], tl.reshape(v4, [1, BLOCK_TILE_M, BLOCK_TILE_N]))
