# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


@triton.jit
def rms_norm_0(
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
    v2 = v1 * v1
    v3 = tl.sum(v2, axis=1)
    v4 = v3[:, None]
    v5 = v4 / 2992.0
    v6 = v5 + eps
    v7 = tl.rsqrt(v6)
    v8 = v1 * v7
    v9 = tl.load(weight_ptr + tl.arange(0, 4096), mask=(tl.arange(0, 4096) < 2992), other=0.0)
    v10 = v9.to(tl.float32)
    v11 = v10[None, :]
    v12 = v8 * v11
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v13, mask=(tl.arange(0, 4096) < 2992)[None, :])
