# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == log_q.align)) and (4000 == log_q.shape.0)) and (2992 == log_q.shape.1)) and (2992 == log_q.stride.0)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (1 == p.align)) and (4000 == p.shape.0)) and (2992 == p.shape.1)) and (2992 == p.stride.0)) and (1 == p.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
# p_ptr: *bf16 % 16 = p
import triton
import triton.language as tl


@triton.jit
def kl_div_0(
    log_q_ptr,
    losses_ptr,
    p_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.load(p_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_q_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = v1 > 0.0
    v5 = tl.log(v1)
    v6 = v5 - v3
    v7 = v1 * v6
    v8 = tl.where(v4, v7, 0.0)
    v9 = tl.sum(v8, axis=1)
    tl.store(losses_ptr + tile_m_idx, v9)
