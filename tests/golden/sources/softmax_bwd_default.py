# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == grad_x.align)) and (4000 == grad_x.shape.0)) and (2992 == grad_x.shape.1)) and (2992 == grad_x.stride.0)) and (1 == grad_x.stride.1)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# grad_x_ptr: *bf16 % 16 = grad_x
# out_ptr: *bf16 % 16 = out
import triton
import triton.language as tl


@triton.jit
def softmax_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.load(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 * v3
    v5 = tl.sum(v4, axis=1)
    v6 = v5[:, None]
    v7 = v3 - v6
    v8 = v1 * v7
    v9 = v8.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v9, mask=(tl.arange(0, 4096) < 2992)[None, :])
