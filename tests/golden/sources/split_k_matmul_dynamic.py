# config: block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
# region 0, dynamic
# grid: min(132, ((-(-end.0 // 128)) * (-(-end.1 // 256)))), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (0 == begin.2)) and (1 == is_whole)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (length <= 2147483647)) and (-2147483647 <= length)) and (end.0 <= x.shape.0)) and (end.1 <= y.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-(-end.0 // 128)) * (-(-end.1 // 256))) <= 2147483647)) and (end.0 <= 2147483519)) and (end.1 <= 2147483391)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.0 % 16))) and (0 == (end.1 % 16))) and (0 == (k % 16))) and (k <= 2147483647)) and (-2147483647 <= k)) and (0 == (length % 16))) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647)) and (0 == (y.shape.0 % 16))) and (y.shape.0 <= 2147483647)) and (0 == (y.stride.0 % 16))) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256, TUNABLE_SPLIT_K=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 % 16 = end.0
# end_1: i32 % 16 = end.1
# k: i32 % 16 = k
# length: i32 % 16 = length
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
# y_shape_0: i32 % 16 = y.shape.0
# y_stride_0: i32 % 16 = y.stride.0
import triton
import triton.language as tl


# examples.split_k:split_k_matmul (split_k.py:29), launch 0, run-time sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
@triton.jit
def split_k_matmul_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    k,
    length,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    y_shape_0,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
    TUNABLE_SPLIT_K: tl.constexpr,
):
    # for tile_m, tile_n, part in tfl.tile([m, n, parts], block_size=[None, None, 1]):
    for pid in tl.range(tl.program_id(0), (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N) * TUNABLE_SPLIT_K), tl.num_programs(0), flatten=True):
        plane = pid % (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))
        part_begin = ((pid // (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))))
        part_idx = part_begin + tl.arange(0, 1)
        band = plane // (16 * tl.cdiv(end_1, BLOCK_TILE_N))
        height = tl.minimum(tl.cdiv(end_0, BLOCK_TILE_M) - band * 16, 16)
        tile_m_begin = (band * 16 + plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end_0
        tile_n_begin = (plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < end_1
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v0 = part_begin * length
        v1 = part_begin + 1
        v2 = v1 * length
        v3 = tl.minimum(v2, k)
        acc = acc_start
        for tile_k_begin in tl.range(v0, v3, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < v3
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v4 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :] & (tile_k_idx[None, :] >= 0) & (tile_k_idx[None, :] < x_shape_1), other=0.0)
            v5 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & (tile_k_idx[:, None] >= 0) & (tile_k_idx[:, None] < y_shape_0) & tile_n_mask[None, :], other=0.0)
            acc_next = tl.dot(v4, v5, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v6 = acc.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v6, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: min(132, ((-(-end.0 // 128)) * (-(-end.1 // 256)))), 1, 1
# guards: ((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (0 == begin.2)) and (1 == is_whole)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (length <= 2147483647)) and (-2147483647 <= length)) and (end.0 <= x.shape.0)) and (end.1 <= y.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-(-end.0 // 128)) * (-(-end.1 // 256))) <= 2147483647)) and (end.0 <= 2147483519)) and (end.1 <= 2147483391)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (0 == (end.1 % 16))) and (k <= 2147483647)) and (-2147483647 <= k)) and (0 == (out.stride.0 % 16))) and (out.stride.0 <= 2147483647)) and (0 == (x.shape.1 % 16))) and (x.shape.1 <= 2147483647)) and (0 == (x.stride.0 % 16))) and (x.stride.0 <= 2147483647)) and (y.shape.0 <= 2147483647)) and (0 == (y.stride.0 % 16))) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256, TUNABLE_SPLIT_K=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 % 16 = end.1
# k: i32 = k
# length: i32 = length
# out_stride_0: i32 % 16 = out.stride.0
# x_shape_1: i32 % 16 = x.shape.1
# x_stride_0: i32 % 16 = x.stride.0
# y_shape_0: i32 = y.shape.0
# y_stride_0: i32 % 16 = y.stride.0
import triton
import triton.language as tl


# examples.split_k:split_k_matmul (split_k.py:29), launch 0, run-time sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
@triton.jit
def split_k_matmul_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    k,
    length,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    y_shape_0,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
    TUNABLE_SPLIT_K: tl.constexpr,
):
    # for tile_m, tile_n, part in tfl.tile([m, n, parts], block_size=[None, None, 1]):
    for pid in tl.range(tl.program_id(0), (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N) * TUNABLE_SPLIT_K), tl.num_programs(0), flatten=True):
        plane = pid % (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))
        part_begin = ((pid // (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))))
        part_idx = part_begin + tl.arange(0, 1)
        band = plane // (16 * tl.cdiv(end_1, BLOCK_TILE_N))
        height = tl.minimum(tl.cdiv(end_0, BLOCK_TILE_M) - band * 16, 16)
        tile_m_begin = (band * 16 + plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end_0
        tile_n_begin = (plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < end_1
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v0 = part_begin * length
        v1 = part_begin + 1
        v2 = v1 * length
        v3 = tl.minimum(v2, k)
        acc = acc_start
        for tile_k_begin in tl.range(v0, v3, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < v3
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v4 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :] & (tile_k_idx[None, :] >= 0) & (tile_k_idx[None, :] < x_shape_1), other=0.0)
            v5 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & (tile_k_idx[:, None] >= 0) & (tile_k_idx[:, None] < y_shape_0) & tile_n_mask[None, :], other=0.0)
            acc_next = tl.dot(v4, v5, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v6 = acc.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v6, mask=tile_m_mask[:, None] & tile_n_mask[None, :])

# region 0, dynamic
# grid: min(132, ((-(-end.0 // 128)) * (-(-end.1 // 256)))), 1, 1
# guards: (((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (0 == begin.2)) and (1 == is_whole)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (length <= 2147483647)) and (-2147483647 <= length)) and (end.0 <= x.shape.0)) and (end.1 <= y.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (((-(-end.0 // 128)) * (-(-end.1 // 256))) <= 2147483647)) and (end.0 <= 2147483519)) and (end.1 <= 2147483391)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (k <= 2147483647)) and (-2147483647 <= k)) and (out.stride.0 <= 2147483647)) and (x.shape.1 <= 2147483647)) and (x.stride.0 <= 2147483647)) and (y.shape.0 <= 2147483647)) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256, TUNABLE_SPLIT_K=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 = end.1
# k: i32 = k
# length: i32 = length
# out_stride_0: i32 = out.stride.0
# x_shape_1: i32 = x.shape.1
# x_stride_0: i32 = x.stride.0
# y_shape_0: i32 = y.shape.0
# y_stride_0: i32 = y.stride.0
import triton
import triton.language as tl


# examples.split_k:split_k_matmul (split_k.py:29), launch 0, run-time sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:y#0.access=descriptor, num_stages=4, num_warps=8, order=2,0,1, persistent=1, tunable:split_k=1
@triton.jit
def split_k_matmul_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    k,
    length,
    out_stride_0,
    x_shape_1,
    x_stride_0,
    y_shape_0,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
    TUNABLE_SPLIT_K: tl.constexpr,
):
    # for tile_m, tile_n, part in tfl.tile([m, n, parts], block_size=[None, None, 1]):
    for pid in tl.range(tl.program_id(0), (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N) * TUNABLE_SPLIT_K), tl.num_programs(0), flatten=True):
        plane = pid % (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))
        part_begin = ((pid // (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N))))
        part_idx = part_begin + tl.arange(0, 1)
        band = plane // (16 * tl.cdiv(end_1, BLOCK_TILE_N))
        height = tl.minimum(tl.cdiv(end_0, BLOCK_TILE_M) - band * 16, 16)
        tile_m_begin = (band * 16 + plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end_0
        tile_n_begin = (plane % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < end_1
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
        v0 = part_begin * length
        v1 = part_begin + 1
        v2 = v1 * length
        v3 = tl.minimum(v2, k)
        acc = acc_start
        for tile_k_begin in tl.range(v0, v3, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < v3
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v4 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :] & (tile_k_idx[None, :] >= 0) & (tile_k_idx[None, :] < x_shape_1), other=0.0)
            v5 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & (tile_k_idx[:, None] >= 0) & (tile_k_idx[:, None] < y_shape_0) & tile_n_mask[None, :], other=0.0)
            acc_next = tl.dot(v4, v5, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v6 = acc.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_idx[None, :], v6, mask=tile_m_mask[:, None] & tile_n_mask[None, :])
