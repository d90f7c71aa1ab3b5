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


# examples.softmax:softmax_bwd (softmax.py:67), launch 0, static sizes
#   block:tile_m=1
@triton.jit
def softmax_bwd_0(
    grad_ptr,
    grad_x_ptr,
    out_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(out.size(0)):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # y, g = out[tile_m, :].float(), grad[tile_m, :].float()
    v0 = tl.load(out_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    y = v0.to(tl.float32)
    v1 = tl.load(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    g = v1.to(tl.float32)
    # grad_x[tile_m, :] = y * (g - (y * g).sum(dim=1, keepdim=True))
    v2 = y * g
    v3 = tl.sum(v2, axis=1)
    v4 = v3[:, None]
    v5 = g - v4
    v6 = y * v5
    v7 = v6.to(tl.bfloat16)
    tl.store(grad_x_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v7, mask=(tl.arange(0, 4096) < 2992)[None, :])
