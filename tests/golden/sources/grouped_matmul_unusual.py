# config: block:tile_k=32, block:tile_m=16, block:tile_n=32, group=4, load:x#0.access=pointer, load:x#0.eviction=evict_last, load:y#0.access=pointer, load:y#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2
# region 0, static
# grid: 264, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (48 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == offsets.align)) and (49 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_TILE_K=32, BLOCK_TILE_M=16, BLOCK_TILE_N=32
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
import triton
import triton.language as tl


@triton.jit
def grouped_matmul_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    y_ptr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 4512, tl.num_programs(0)):
        band = pid // (4 * 48)
        height = tl.minimum(94 - band * 4, 4)
        tile_n_begin = (band * 4 + pid % (4 * 48) % height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        tile_g_begin = (pid % (4 * 48) // height)
        tile_g_idx = tile_g_begin + tl.arange(0, 1)
        v0 = tl.load(offsets_ptr + tile_g_begin)
        v1 = tile_g_begin + 1
        v2 = tl.load(offsets_ptr + v1)
        for tile_m_begin in tl.range(v0, v2, BLOCK_TILE_M):
            tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
            tile_m_mask = tile_m_idx < v2
            v3 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
            c0 = v3
            for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
                tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
                tile_k_mask = tile_k_idx < 1008
                v4 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0, eviction_policy='evict_last')
                v5 = tl.load(y_ptr + tile_g_begin * 3015936 + tile_k_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0.0, eviction_policy='evict_last')
                v6 = tl.dot(v4, v5, acc=c0)
                c0 = v6
            v7 = c0.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v7, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
