# config: block:block_m=128, block:tile_k=64, block:tile_n=256, flatten=True, group=16, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1
# region 0, static
# grid: 132, 1, 1
# guards: ((((((((((((((((((((((((((0 == begin.0) and (79 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (48 == groups)) and (1008 == k)) and (1 == offsets.align)) and (49 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (48 == y.shape.0)) and (1008 == y.shape.1)) and (2992 == y.shape.2)) and (3015936 == y.stride.0)) and (2992 == y.stride.1)) and (1 == y.stride.2))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_BLOCK_M=128, BLOCK_TILE_K=64, BLOCK_TILE_N=256
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_desc_1x64x256: tensordesc<bf16[1, 64, 256]> = y
import triton
import triton.language as tl


# examples.grouped_matmul:grouped_matmul_flat (grouped_matmul.py:50), launch 0, static sizes
#   block:block_m=128, block:tile_k=64, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1
@triton.jit
def grouped_matmul_flat_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    y_desc_1x64x256,
    BLOCK_BLOCK_M: tl.constexpr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile, tile_n in tfl.tile([m // block_m + groups, n], block_size=[1, None]):
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), 79 * tile_n_count, tl.num_programs(0), flatten=True):
        band = pid // (16 * tile_n_count)
        height = tl.minimum(79 - band * 16, 16)
        tile_begin = (band * 16 + pid % (16 * tile_n_count) % height)
        tile_idx = tile_begin + tl.arange(0, 1)
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # counts = (offsets[1:] - offsets[:-1] + block_m - 1) // block_m
        v0 = tl.load(offsets_ptr + (1 + tl.arange(0, 64)), mask=(tl.arange(0, 64) < 48), other=0)
        v1 = tl.load(offsets_ptr + tl.arange(0, 64), mask=(tl.arange(0, 64) < 48), other=0)
        v2 = v0 - v1
        v3 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v4 = v2 + v3
        v5 = v4 - 1
        v6 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        counts = v5 // v6 - ((v5 % v6 != 0) & ((v5 < 0) != (v6 < 0)))
        # is_before = torch.cumsum(counts, dim=0) <= tile.begin
        v7 = counts.to(tl.int64)
        v8 = tl.where((tl.arange(0, 64) < 48), v7, 0)
        v9 = tl.cumsum(v8, axis=0)
        v10 = tile_begin.to(tl.int64)
        is_before = v9 <= v10
        # group = min(is_before.sum(), groups - 1)
        v11 = is_before.to(tl.int64)
        v12 = tl.where((tl.arange(0, 64) < 48), v11, 0)
        v13 = tl.sum(v12, axis=0)
        group = tl.minimum(v13, 47)
        # begin = offsets[group] + (tile.begin - torch.where(is_before, counts, 0).sum()) * block_m
        v14 = tl.load(offsets_ptr + group, mask=(group >= 0), other=0)
        v15 = tl.where(is_before, counts, 0)
        v16 = v15.to(tl.int64)
        v17 = tl.where((tl.arange(0, 64) < 48), v16, 0)
        v18 = tl.sum(v17, axis=0)
        v19 = tile_begin.to(tl.int64)
        v20 = v19 - v18
        v21 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v22 = tl.cast(v21, tl.int64)
        v23 = v20 * v22
        v24 = v14.to(tl.int64)
        begin = v24 + v23
        # for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
        v25 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v26 = tl.cast(v25, tl.int64)
        v27 = begin + v26
        v28 = group + 1
        v29 = tl.load(offsets_ptr + v28, mask=(v28 >= 0), other=0)
        v30 = v29.to(tl.int64)
        v31 = tl.minimum(v27, v30)
        v32 = begin.to(tl.int32)
        v33 = v31.to(tl.int32)
        for tile_m_begin in tl.range(v32, v33, BLOCK_BLOCK_M):
            tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_BLOCK_M)
            tile_m_mask = tile_m_idx < v33
            # acc = tfl.zeros([tile_m, tile_n])
            acc_start = tl.full([BLOCK_BLOCK_M, BLOCK_TILE_N], 0.0, tl.float32)
            # for tile_k in tfl.tile(k):
            acc = acc_start
            for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
                tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
                tile_k_mask = tile_k_idx < 1008
                # acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
                v34 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_k_mask[None, :], other=0.0)
                v35 = group.to(tl.int32)
                v36 = tl.reshape(y_desc_1x64x256.load([v35, tile_k_begin, tile_n_begin]), [BLOCK_TILE_K, BLOCK_TILE_N])
                acc_next = tl.dot(v34, v36, acc=acc)
                acc = acc_next
            # out[tile_m, tile_n] = acc
            v37 = acc.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v37, mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :])
