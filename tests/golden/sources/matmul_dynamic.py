# config: block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1, store:out#0.access=descriptor, store:out#0.subtile=2
# region 0, dynamic
# grid: min(132, ((-(-end.0 // 128)) * (-(-end.1 // 256)))), 1, 1
# guards: (((((((((((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (k <= 2147483647)) and (end.0 <= x.shape.0)) and (k <= x.shape.1)) and (k <= y.shape.0)) and (end.1 <= y.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (0 < k)) and (((-(-end.0 // 128)) * (-(-end.1 // 256))) <= 2147483647)) and (end.0 <= 2147483519)) and (end.1 <= 2147483391)) and (k <= 2147483583)) and (1 <= x.shape.0)) and (1 <= x.shape.1)) and (0 == ((2 * x.stride.0) % 16))) and (end.0 == x.shape.0)) and (k == x.shape.1)) and (1 <= y.shape.0)) and (1 <= y.shape.1)) and (0 == ((2 * y.stride.0) % 16))) and (k == y.shape.0)) and (end.1 == y.shape.1)) and (end.1 <= 2147483519)) and (1 <= out.shape.0)) and (1 <= out.shape.1)) and (0 == ((2 * out.stride.0) % 16))) and (end.0 == out.shape.0)) and (end.1 == out.shape.1)) and (-2147483647 <= k))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# x_desc_128x64: tensordesc<bf16[128, 64]> = x
# y_desc_64x256: tensordesc<bf16[64, 256]> = y
# out_desc_128x128: tensordesc<bf16[128, 128]> = out
# end_0: i32 = end.0
# end_1: i32 = end.1
# k: i32 = k
import triton
import triton.language as tl


# examples.matmul:matmul (matmul.py:33), launch 0, run-time sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1,
#   store:out#0.access=descriptor, store:out#0.subtile=2
@triton.jit
def matmul_0(
    x_desc_128x64,
    y_desc_64x256,
    out_desc_128x128,
    end_0,
    end_1,
    k,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    for pid in tl.range(tl.program_id(0), (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N)), tl.num_programs(0), flatten=True):
        band = pid // (16 * tl.cdiv(end_1, BLOCK_TILE_N))
        height = tl.minimum(tl.cdiv(end_0, BLOCK_TILE_M) - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end_0
        tile_n_begin = (pid % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < end_1
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        acc = acc_start
        for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < k
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v0 = x_desc_128x64.load([tile_m_begin, tile_k_begin])
            v1 = y_desc_64x256.load([tile_k_begin, tile_n_begin])
            acc_next = tl.dot(v0, v1, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v2 = tl.reshape(acc, [BLOCK_TILE_M, 2, (BLOCK_TILE_N // 2)])
        v3 = tl.permute(v2, (0, 2, 1))
        v4, v5 = tl.split(v3)
        tile_n_half0_begin = tile_n_begin
        tile_n_half0_idx = tile_n_half0_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half0_mask = tile_n_half0_idx < end_1
        v6 = v4.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half0_begin], v6)
        tile_n_half1_begin = tile_n_begin + (BLOCK_TILE_N // 2)
        tile_n_half1_idx = tile_n_half1_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half1_mask = tile_n_half1_idx < end_1
        v7 = v5.to(tl.bfloat16)
        out_desc_128x128.store([tile_m_begin, tile_n_half1_begin], v7)

# region 0, dynamic
# grid: min(132, ((-(-end.0 // 128)) * (-(-end.1 // 256)))), 1, 1
# guards: ((((((((((((((((((((((((((((((0 == begin.0) and (end.0 <= 2147483647)) and (0 == begin.1)) and (end.1 <= 2147483647)) and (1 == out.align)) and (1 == out.stride.1)) and (1 == x.align)) and (1 == x.stride.1)) and (1 == y.align)) and (1 == y.stride.1)) and (k <= 2147483647)) and (end.0 <= x.shape.0)) and (k <= x.shape.1)) and (k <= y.shape.0)) and (end.1 <= y.shape.1)) and (end.0 <= out.shape.0)) and (end.1 <= out.shape.1)) and (0 < k)) and (((-(-end.0 // 128)) * (-(-end.1 // 256))) <= 2147483647)) and (end.0 <= 2147483519)) and (end.1 <= 2147483391)) and (k <= 2147483583)) and (((-1 * x.stride.0) + (x.shape.0 * x.stride.0) + x.shape.1 + -1) <= 2147483647)) and (((-1 * y.stride.0) + (y.shape.0 * y.stride.0) + y.shape.1 + -1) <= 2147483647)) and (end.1 <= 2147483519)) and (((-1 * out.stride.0) + (out.shape.0 * out.stride.0) + out.shape.1 + -1) <= 2147483647)) and (-2147483647 <= k)) and (out.stride.0 <= 2147483647)) and (x.stride.0 <= 2147483647)) and (y.stride.0 <= 2147483647))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=256
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
# end_0: i32 = end.0
# end_1: i32 = end.1
# k: i32 = k
# out_stride_0: i32 = out.stride.0
# x_stride_0: i32 = x.stride.0
# y_stride_0: i32 = y.stride.0
import triton
import triton.language as tl


# examples.matmul:matmul (matmul.py:33), launch 0, run-time sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=256, flatten=True, group=16,
#   load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, num_warps=8, persistent=1,
#   store:out#0.access=descriptor, store:out#0.subtile=2
@triton.jit
def matmul_0(
    out_ptr,
    x_ptr,
    y_ptr,
    end_0,
    end_1,
    k,
    out_stride_0,
    x_stride_0,
    y_stride_0,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    for pid in tl.range(tl.program_id(0), (tl.cdiv(end_0, BLOCK_TILE_M) * tl.cdiv(end_1, BLOCK_TILE_N)), tl.num_programs(0), flatten=True):
        band = pid // (16 * tl.cdiv(end_1, BLOCK_TILE_N))
        height = tl.minimum(tl.cdiv(end_0, BLOCK_TILE_M) - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end_0
        tile_n_begin = (pid % (16 * tl.cdiv(end_1, BLOCK_TILE_N)) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < end_1
        # acc = tfl.zeros([tile_m, tile_n])
        acc_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        acc = acc_start
        for tile_k_begin in tl.range(0, k, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < k
            # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            v0 = tl.load(x_ptr + tile_m_idx[:, None] * x_stride_0 + tile_k_idx[None, :], mask=tile_m_mask[:, None] & tile_k_mask[None, :], other=0.0)
            v1 = tl.load(y_ptr + tile_k_idx[:, None] * y_stride_0 + tile_n_idx[None, :], mask=tile_k_mask[:, None] & tile_n_mask[None, :], other=0.0)
            acc_next = tl.dot(v0, v1, acc=acc)
            acc = acc_next
        # out[tile_m, tile_n] = acc
        v2 = tl.reshape(acc, [BLOCK_TILE_M, 2, (BLOCK_TILE_N // 2)])
        v3 = tl.permute(v2, (0, 2, 1))
        v4, v5 = tl.split(v3)
        tile_n_half0_begin = tile_n_begin
        tile_n_half0_idx = tile_n_half0_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half0_mask = tile_n_half0_idx < end_1
        v6 = v4.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_half0_idx[None, :], v6, mask=tile_m_mask[:, None] & tile_n_half0_mask[None, :])
        tile_n_half1_begin = tile_n_begin + (BLOCK_TILE_N // 2)
        tile_n_half1_idx = tile_n_half1_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half1_mask = tile_n_half1_idx < end_1
        v7 = v5.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * out_stride_0 + tile_n_half1_idx[None, :], v7, mask=tile_m_mask[:, None] & tile_n_half1_mask[None, :])
