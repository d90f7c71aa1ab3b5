# config: block:tile_k=32, block:tile_m=32, block:tile_n=16, flatten=True, group=4, load:x#0.access=descriptor, load:y#0.access=descriptor, num_warps=8, order=1,0, persistent=2, store:out#0.access=descriptor
# region 0, static
# grid: 264, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_K=32, BLOCK_TILE_M=32, BLOCK_TILE_N=16
# x_desc_32x32: tensordesc<bf16[32, 32]> = x
# y_desc_32x16: tensordesc<bf16[32, 16]> = y
# out_desc_32x16: tensordesc<bf16[32, 16]> = out
import triton
import triton.language as tl


# examples.matmul:matmul (matmul.py:33), launch 0, static sizes
#   block:tile_k=32, block:tile_m=32, block:tile_n=16, flatten=True, group=4,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_warps=8, order=1,0, persistent=2,
#   store:out#0.access=descriptor
@triton.jit
def matmul_0(
    x_desc_32x32,
    y_desc_32x16,
    out_desc_32x16,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), tile_m_count * tile_n_count, tl.num_programs(0), flatten=True):
        band = pid // (4 * tile_m_count)
        height = tl.minimum(tile_n_count - band * 4, 4)
        tile_n_begin = (band * 4 + pid % (4 * tile_m_count) % height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tl.static_assert(2992 % BLOCK_TILE_N == 0, "whole blocks of tile_n")
        tile_m_begin = (pid % (4 * tile_m_count) // height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        acc = acc_start
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v0 = x_desc_32x32.load([tile_m_begin, tile_k_begin])
            v1 = y_desc_32x16.load([tile_k_begin, tile_n_begin])
            acc_next = tl.dot(v0, v1, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v2 = acc.to(tl.bfloat16)
        out_desc_32x16.store([tile_m_begin, tile_n_begin], v2)
