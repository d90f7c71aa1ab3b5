# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == inv_rms.align)) and (4000 == inv_rms.shape.0)) and (1 == inv_rms.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# inv_rms_ptr: *fp32 % 16 = inv_rms
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.rms_norm:rms_norm_train (rms_norm.py:47), launch 0, static sizes
#   block:tile_m=1
@triton.jit
def rms_norm_train_0(
    inv_rms_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # row = x[tile_m, :].float()
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    row = v0.to(tl.float32)
    # scale = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
    v1 = row * row
    v2 = tl.sum(v1, axis=1)
    v3 = v2 / 2992.0
    v4 = v3 + eps
    scale = tl.rsqrt(v4)
    # inv_rms[tile_m] = scale
    tl.store(inv_rms_ptr + tile_m_idx, scale)
    # out[tile_m, :] = row * scale[:, None] * weight[:].float()
    v5 = scale[:, None]
    v6 = row * v5
    v7 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v8 = v7.to(tl.float32)
    v9 = v8[None, :]
    v10 = v6 * v9
    v11 = v10.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v11, mask=(tl.arange(0, 4096) < 2992)[None, :])
