# config: block:block_k=32, block:tile_m=16, block:tile_n=32, group=4, load:packed#0.eviction=evict_last, load:x#0.eviction=evict_last, num_stages=2, num_warps=8, order=1,0, persistent=2, store:out#0.access=pointer
# region 0, static
# grid: 264, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == packed.align)) and (504 == packed.shape.0)) and (2992 == packed.shape.1)) and (2992 == packed.stride.0)) and (1 == packed.stride.1)) and (504 == rows)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=8
# constexprs: BLOCK_BLOCK_K=32, BLOCK_TILE_M=16, BLOCK_TILE_N=32
# out_ptr: *bf16 % 16 = out
# packed_ptr: *i8 % 16 = packed
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def int4_matmul_0(
    out_ptr,
    packed_ptr,
    x_ptr,
    BLOCK_BLOCK_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 23500, tl.num_programs(0)):
        band = pid // (4 * 250)
        height = tl.minimum(94 - band * 4, 4)
        tile_n_begin = (band * 4 + pid % (4 * 250) % height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        tile_m_begin = (pid % (4 * 250) // height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        c0 = v0
        for tile_k_begin in tl.range(0, 504, BLOCK_BLOCK_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_BLOCK_K)
            tile_k_mask = tile_k_idx < 504
            v1 = tl.arange(0, BLOCK_BLOCK_K)
            v2 = v1 + tile_k_begin
            v3 = tl.load(packed_ptr + v2[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & (v2[:, None] < 504), other=0, eviction_policy='evict_last')
            v4 = v3 << 4
            v5 = v4 >> 4
            v6 = v3 >> 4
            v7 = tl.join(v5, v6)
            v8 = tl.permute(v7, (0, 2, 1))
            v9 = tl.reshape(v8, [(2 * BLOCK_BLOCK_K), BLOCK_TILE_N])
            v10 = v9.to(tl.float32).to(tl.bfloat16)
            v11 = 2 * tile_k_begin
            v12 = tl.arange(0, (2 * BLOCK_BLOCK_K))
            v13 = v12 + v11
            v14 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + v13[None, :], mask=(v13[None, :] < 1008), other=0.0, eviction_policy='evict_last')
            v15 = tl.dot(v14, v10, acc=c0)
            c0 = v15
        v16 = c0.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v16, mask=tile_n_mask[None, :])
