# config: block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (0 == begin.2)) and (1 == is_whole)) and (1008 == k)) and (1024 == length)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (1008 == y.shape.0)) and (2992 == y.shape.1)) and (2992 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256, TUNABLE_SPLIT_K=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
import triton
import triton.language as tl


# examples.split_k:split_k_matmul (split_k.py:29), launch 0, static sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
@triton.jit
def split_k_matmul_0(
    out_ptr,
    x_ptr,
    y_ptr,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
    TUNABLE_SPLIT_K: tl.constexpr,
):
    # for tile_m, tile_n, part in tfl.tile([m, n, parts], block_size=[None, None, 1]):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), tile_m_count * tile_n_count * 1, tl.num_programs(0), flatten=True):
        plane = pid % (tile_m_count * tile_n_count)
        part_begin = ((pid // (tile_m_count * tile_n_count)))
        part_idx = part_begin + tl.arange(0, 1)
        band = plane // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + plane % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (plane % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v0 = tl.full([], (-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v1 = part_begin * v0
        v2 = part_begin + 1
        v3 = tl.full([], (-128 * (-1008 // (128 * TUNABLE_SPLIT_K))), tl.int32)
        v4 = v2 * v3
        v5 = tl.minimum(v4, 1008)
        acc = acc_start
        for tile_k_begin in tl.range(v1, v5, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < v5
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v6 = tl.load(x_ptr + tile_m_idx[:, None] * 1008 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
            v7 = tl.load(y_ptr + tile_k_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0.0)
            acc_next = tl.dot(v6, v7, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v8 = acc.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], v8, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
