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


# examples.fp8_matmul:fp8_matmul (fp8_matmul.py:34), launch 0, static sizes
#   block:tile_k=128, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1,
#   store:out#0.access=descriptor, store:out#0.subtile=2
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
    # for tile_m, tile_n in tfl.tile([m, n]):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), tile_m_count * tile_n_count, tl.num_programs(0), flatten=True):
        band = pid // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        acc = acc_start
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            # acc = tfl.dot(x[tile_m, tile_k], y[tile_n, tile_k].T, acc=acc)
            v0 = x_desc_128x128.load([tile_m_begin, tile_k_begin])
            v1 = y_desc_256x128.load([tile_n_begin, tile_k_begin])
            v2 = tl.permute(v1, (1, 0))
            acc_next = tl.dot(v0, v2, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc * x_scale[tile_m][:, None] * y_scale[tile_n]
        v3 = tl.load(x_scale_ptr + tile_m_idx, mask=tile_m_mask, other=0.0)
        v4 = v3[:, None]
        v5 = tl.reshape(acc, [BLOCK_TILE_M, 2, (BLOCK_TILE_N // 2)])
        v6 = tl.permute(v5, (0, 2, 1))
        v7, v8 = tl.split(v6)
        tile_n_half0_begin = tile_n_begin
        tile_n_half0_idx = tile_n_half0_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half0_mask = tile_n_half0_idx < 2992
        v9 = v7 * v4
        v10 = tl.load(y_scale_ptr + tile_n_half0_idx, mask=tile_n_half0_mask, other=0.0)
        v11 = v10[None, :]
        v12 = v9 * v11
        v13 = v12.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half0_begin], v13)
        tile_n_half1_begin = tile_n_begin + (BLOCK_TILE_N // 2)
        tile_n_half1_idx = tile_n_half1_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half1_mask = tile_n_half1_idx < 2992
        v14 = v8 * v4
        v15 = tl.load(y_scale_ptr + tile_n_half1_idx, mask=tile_n_half1_mask, other=0.0)
        v16 = v15[None, :]
        v17 = v14 * v16
        v18 = v17.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half1_begin], v18)
