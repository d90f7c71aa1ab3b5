# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


@triton.jit
def layer_norm_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.sum(v1, axis=1)
    v3 = v2[:, None]
    v4 = v3 / 2992.0
    v5 = v1 - v4
    v6 = v5 * v5
    v7 = tl.where((tl.arange(0, 4096) < 2992)[None, :], v6, 0.0)
    v8 = tl.sum(v7, axis=1)
    v9 = v8[:, None]
    v10 = v9 / 2992.0
    v11 = v1 - v4
    v12 = v10 + eps
    v13 = tl.rsqrt(v12)
    v14 = v11 * v13
    v15 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v16 = v15.to(tl.float32)
    v17 = v16[None, :]
    v18 = v14 * v17
    v19 = tl.load(bias_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v20 = v19.to(tl.float32)
    v21 = v20[None, :]
    v22 = v18 + v21
    v23 = v22.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v23, mask=(tl.arange(0, 4096) < 2992)[None, :])
