# config: block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (48 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1008 == k)) and (1 == offsets.align)) and (49 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_desc_1x64x256: tensordesc<bf16[1, 64, 256]> = y
import triton
import triton.language as tl


# examples.grouped_matmul:grouped_matmul (grouped_matmul.py:35), launch 0, static sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1
@triton.jit
def grouped_matmul_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    y_desc_1x64x256,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_g, tile_n in tfl.tile([groups, n], block_size=[1, None]):
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), 48 * tile_n_count, tl.num_programs(0), flatten=True):
        band = pid // (16 * tile_n_count)
        height = tl.minimum(48 - band * 16, 16)
        tile_g_begin = (band * 16 + pid % (16 * tile_n_count) % height)
        tile_g_idx = tile_g_begin + tl.arange(0, 1)
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
        v0 = tl.load(offsets_ptr + tile_g_begin)
        v1 = tile_g_begin + 1
        v2 = tl.load(offsets_ptr + v1)
        for tile_m_begin in tl.range(v0, v2, BLOCK_TILE_M):
            tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
            tile_m_mask = tile_m_idx < v2
            # acc = tfl.zeros([tile_m, tile_n])
            acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
            # for tile_k in tfl.tile(k):
            acc = acc_start
            for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
                tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
                tile_k_mask = tile_k_idx < 1008
                # acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
                v3 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_k_mask[None, :], other=0.0)
                v4 = tl.reshape(y_desc_1x64x256.load([tile_g_begin, tile_k_begin, tile_n_begin]), [BLOCK_TILE_K, BLOCK_TILE_N])
                acc_next = tl.dot(v3, v4, acc=acc)
                acc = acc_next
            # out[tile_m, tile_n] = acc
            v5 = acc.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v5, mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :])
