# config: block:tile_m=1
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == grad.align)) and (4000 == grad.shape.0)) and (2992 == grad.shape.1)) and (2992 == grad.stride.0)) and (1 == grad.stride.1)) and (1 == log_p.align)) and (4000 == log_p.shape.0)) and (2992 == log_p.shape.1)) and (2992 == log_p.stride.0)) and (1 == log_p.stride.1)) and (1 == log_q.align)) and (4000 == log_q.shape.0)) and (2992 == log_q.shape.1)) and (2992 == log_q.stride.0)) and (1 == log_q.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (4000 == m))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1
# grad_ptr: *bf16 % 16 = grad
# log_p_ptr: *bf16 % 16 = log_p
# log_q_ptr: *bf16 % 16 = log_q
# losses_ptr: *fp32 % 16 = losses
import triton
import triton.language as tl


@triton.jit
def jsd_0(
    grad_ptr,
    log_p_ptr,
    log_q_ptr,
    losses_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_m_begin = pid
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tl.load(log_q_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v1 = v0.to(tl.float32)
    v2 = tl.load(log_p_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    v3 = v2.to(tl.float32)
    v4 = tl.exp(v1)
    v5 = tl.exp(v3)
    v6 = 0.5 * v5
    v7 = 0.5 * v4
    v8 = v6 + v7
    v9 = tl.log(v8)
    v10 = 0.5 * v4
    v11 = v1 - v9
    v12 = v10 * v11
    v13 = 0.5 * v5
    v14 = v3 - v9
    v15 = v13 * v14
    v16 = v15 + v12
    v17 = tl.sum(v16, axis=1)
    tl.store(losses_ptr + tile_m_idx, v17)
    v18 = v12 / 4000.0
    v19 = v18.to(tl.bfloat16)
    tl.store(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v19, mask=(tl.arange(0, 4096) < 2992)[None, :])
