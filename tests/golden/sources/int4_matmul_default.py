# config: block:block_k=32, block:tile_m=256, block:tile_n=64, group=8, num_stages=3, persistent=1, store:out#0.access=descriptor
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == packed.align)) and (504 == packed.shape.0)) and (2992 == packed.shape.1)) and (2992 == packed.stride.0)) and (1 == packed.stride.1)) and (504 == rows)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_K=32, BLOCK_TILE_M=256, BLOCK_TILE_N=64
# packed_ptr: *i8 % 16 = packed
# x_ptr: *bf16 % 16 = x
# out_desc_256x64: tensordesc<bf16[256, 64]> = out
import triton
import triton.language as tl


@triton.jit
def int4_matmul_0(
    packed_ptr,
    x_ptr,
    out_desc_256x64,
    BLOCK_BLOCK_K: tl.constexpr,
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
        for tile_k_begin in tl.range(0, 504, BLOCK_BLOCK_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_BLOCK_K)
            tile_k_mask = tile_k_idx < 504
            v1 = tl.cast(tile_k_begin, tl.int32)
            v2 = tl.arange(0, BLOCK_BLOCK_K)
            v3 = v2 + v1
            v4 = tl.load(packed_ptr + v3[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & (v3[:, None] < 504), other=0)
            v5 = v4 << 4
            v6 = v5 >> 4
            v7 = v4 >> 4
            v8 = tl.join(v6, v7)
            v9 = tl.permute(v8, (0, 2, 1))
            v10 = tl.reshape(v9, [(2 * BLOCK_BLOCK_K), BLOCK_TILE_N])
            v11 = v10.to(tl.float32).to(tl.bfloat16)
            v12 = 2 * v1
            v13 = tl.arange(0, (2 * BLOCK_BLOCK_K))
            v14 = v13 + v12
            v15 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + v14[None, :], mask=tile_m_mask[:, None] & (v14[None, :] < 1008), other=0.0)
            v16 = tl.dot(v15, v11, acc=c0)
            c0 = v16
        v17 = c0.to(tl.bfloat16)
        out_desc_256x64.store([tile_m_begin, tile_n_begin], v17)
