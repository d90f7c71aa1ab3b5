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
    for pid in tl.range(tl.program_id(0), 948, tl.num_programs(0), flatten=True):
        band = pid // (16 * 12)
        height = tl.minimum(79 - band * 16, 16)
        tile_begin = (band * 16 + pid % (16 * 12) % height)
        tile_idx = tile_begin + tl.arange(0, 1)
        tile_n_begin = (pid % (16 * 12) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        v0 = tl.load(offsets_ptr + (1 + tl.arange(0, 64)), mask=(tl.arange(0, 64) < 48), other=0)
        v1 = tl.load(offsets_ptr + tl.arange(0, 64), mask=(tl.arange(0, 64) < 48), other=0)
        v2 = v0 - v1
        v3 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v4 = v2 + v3
        v5 = v4 - 1
        v6 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v7 = v5 // v6 - ((v5 % v6 != 0) & ((v5 < 0) != (v6 < 0)))
        v8 = v7.to(tl.int64)
        v9 = tl.where((tl.arange(0, 64) < 48), v8, 0)
        v10 = tl.cumsum(v9, axis=0)
        v11 = tile_begin.to(tl.int64)
        v12 = v10 <= v11
        v13 = v12.to(tl.int64)
        v14 = tl.where((tl.arange(0, 64) < 48), v13, 0)
        v15 = tl.sum(v14, axis=0)
        v16 = tl.minimum(v15, 47)
        v17 = tl.load(offsets_ptr + v16, mask=(v16 >= 0), other=0)
        v18 = tl.where(v12, v7, 0)
        v19 = v18.to(tl.int64)
        v20 = tl.where((tl.arange(0, 64) < 48), v19, 0)
        v21 = tl.sum(v20, axis=0)
        v22 = tile_begin.to(tl.int64)
        v23 = v22 - v21
        v24 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v25 = v24.to(tl.int64)
        v26 = v23 * v25
        v27 = v17.to(tl.int64)
        v28 = v27 + v26
        v29 = tl.full([], BLOCK_BLOCK_M, tl.int32)
        v30 = v29.to(tl.int64)
        v31 = v28 + v30
        v32 = v16 + 1
        v33 = tl.load(offsets_ptr + v32, mask=(v32 >= 0), other=0)
        v34 = v33.to(tl.int64)
        v35 = tl.minimum(v31, v34)
        v36 = v28.to(tl.int32)
        v37 = v35.to(tl.int32)
        for tile_m_begin in tl.range(v36, v37, BLOCK_BLOCK_M):
            tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_BLOCK_M)
            tile_m_mask = tile_m_idx < v37
            v38 = tl.full([BLOCK_BLOCK_M, BLOCK_TILE_N], 0.0, tl.float32)
            c0 = v38
            for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
                tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
                tile_k_mask = tile_k_idx < 1008
                v39 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_k_mask[None, :], other=0.0)
                v40 = v16.to(tl.int32)
                v41 = tl.reshape(y_desc_1x64x256.load([v40, tile_k_begin, tile_n_begin]), [BLOCK_TILE_K, BLOCK_TILE_N])
                v42 = tl.dot(v39, v41, acc=c0)
                c0 = v42
            v43 = c0.to(tl.bfloat16)
            tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v43, mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :])
