# config: block:tile_k=128, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1, store:out#0.access=descriptor, store:out#0.subtile=2
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == x_scale.align)) and (4000 == x_scale.shape.0)) and (1 == x_scale.stride.0)) and (1 == y.align)) and (2992 == y.shape.0)) and (1008 == y.shape.1)) and (1008 == y.stride.0)) and (1 == y.stride.1)) and (1 == y_scale.align)) and (2992 == y_scale.shape.0)) and (1 == y_scale.stride.0))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=128, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# x_scale_ptr: *fp32 % 16 = x_scale
# y_scale_ptr: *fp32 % 16 = y_scale
# x_desc_128x128: tensordesc<fp8e4nv[128, 128]> = x
# y_desc_256x128: tensordesc<fp8e4nv[256, 128]> = y
# out_desc_128x128: tensordesc<bf16[128, 128]> = out
import triton
import triton.language as tl


@triton.jit
def fp8_matmul_0(
    x_scale_ptr,
    y_scale_ptr,
    x_desc_128x128,
    y_desc_256x128,
    out_desc_128x128,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    for pid in tl.range(tl.program_id(0), 384, tl.num_programs(0), flatten=True):
        band = pid // (16 * 12)
        height = tl.minimum(32 - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * 12) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (pid % (16 * 12) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        v0 = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        c0 = v0
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            v1 = x_desc_128x128.load([tile_m_begin, tile_k_begin])
            v2 = y_desc_256x128.load([tile_n_begin, tile_k_begin])
            v3 = tl.permute(v2, (1, 0))
            v4 = tl.dot(v1, v3, acc=c0)
            c0 = v4
        v5 = tl.load(x_scale_ptr + tile_m_idx, mask=tile_m_mask, other=0.0)
        v6 = v5[:, None]
        v7 = tl.reshape(c0, [BLOCK_TILE_M, 2, 128])
        v8 = tl.permute(v7, (0, 2, 1))
        v9, v10 = tl.split(v8)
        tile_n_half0_begin = tile_n_begin
        tile_n_half0_idx = tile_n_half0_begin + tl.arange(0, 128)
        tile_n_half0_mask = tile_n_half0_idx < 2992
        v11 = v9 * v6
        v12 = tl.load(y_scale_ptr + tile_n_half0_idx, mask=tile_n_half0_mask, other=0.0)
        v13 = v12[None, :]
        v14 = v11 * v13
        v15 = v14.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half0_begin], v15)
        tile_n_half1_begin = tile_n_begin + 128
        tile_n_half1_idx = tile_n_half1_begin + tl.arange(0, 128)
        tile_n_half1_mask = tile_n_half1_idx < 2992
        v16 = v10 * v6
        v17 = tl.load(y_scale_ptr + tile_n_half1_idx, mask=tile_n_half1_mask, other=0.0)
        v18 = v17[None, :]
        v19 = v16 * v18
        v20 = v19.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half1_begin], v20)
