# config: block:tile_k=64, block:tile_m=64, load:x#0.access=descriptor, load:y#0.access=descriptor, num_stages=4, store:out#0.access=descriptor
# region 0, static
# grid: 63, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (256 == bias.shape.0)) and (1 == bias.stride.0)) and (2992 == k)) and (256 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (256 == out.shape.1)) and (256 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (256 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (2992 == y.shape.0)) and (256 == y.shape.1)) and (256 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=4, num_warps=4
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=64
# bias_ptr: *bf16 % 16 = bias
# weight_ptr: *bf16 % 16 = weight
# x_desc_64x64: tensordesc<bf16[64, 64]> = x
# y_desc_64x256: tensordesc<bf16[64, 256]> = y
# out_desc_64x256: tensordesc<bf16[64, 256]> = out
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.matmul_layer_norm:matmul_layer_norm (matmul_layer_norm.py:28), launch 0, static sizes
#   block:tile_k=64, block:tile_m=64, load:x#0.access=descriptor, load:y#0.access=descriptor,
#   num_stages=4, store:out#0.access=descriptor
@triton.jit
def matmul_layer_norm_0(
    bias_ptr,
    weight_ptr,
    x_desc_64x64,
    y_desc_64x256,
    out_desc_64x256,
    eps,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tile_m_mask = tile_m_idx < 4000
    # acc = tfl.zeros([tile_m, n])
    acc_start = tl.full([BLOCK_TILE_M, 256], 0.0, tl.float32)
    # for tile_k in tfl.tile(k):
    acc = acc_start
    for tile_k_begin in tl.range(0, 2992, BLOCK_TILE_K):
        tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
        tile_k_mask = tile_k_idx < 2992
        # acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, :])
        v0 = x_desc_64x64.load([tile_m_begin, tile_k_begin])
        v1 = y_desc_64x256.load([tile_k_begin, 0])
        acc_next = tl.dot(v0, v1, acc=acc)
        acc = acc_next
    # variance, mean = torch.var_mean(acc, dim=1, keepdim=True, correction=0)
    v2 = tl.sum(acc, axis=1)
    v3 = v2[:, None]
    mean = v3 / 256.0
    v4 = acc - mean
    v5 = v4 * v4
    v6 = tl.sum(v5, axis=1)
    v7 = v6[:, None]
    variance = v7 / 256.0
    # out[tile_m, :] = (acc - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    v8 = acc - mean
    v9 = variance + eps
    v10 = tl.rsqrt(v9)
    v11 = v8 * v10
    v12 = tl.load(weight_ptr + tl.arange(0, 256))
    v13 = v12.to(tl.float32)
    v14 = v13[None, :]
    v15 = v11 * v14
    v16 = tl.load(bias_ptr + tl.arange(0, 256))
    v17 = v16.to(tl.float32)
    v18 = v17[None, :]
    v19 = v15 + v18
    v20 = v19.to(tl.bfloat16)
    out_desc_64x256.store([tile_m_begin, 0], v20)
