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


# examples.jsd:jsd (jsd.py:37), launch 0, static sizes
#   block:tile_m=1
@triton.jit
def jsd_0(
    grad_ptr,
    log_p_ptr,
    log_q_ptr,
    losses_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # student, teacher = log_q[tile_m, :].float(), log_p[tile_m, :].float()
    v0 = tl.load(log_q_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    student = v0.to(tl.float32)
    v1 = tl.load(log_p_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    teacher = v1.to(tl.float32)
    # q, p = torch.exp(student), torch.exp(teacher)
    q = tl.exp(student)
    p = tl.exp(teacher)
    # middle = torch.log(beta * p + (1 - beta) * q)
    v2 = 0.5 * p
    v3 = 0.5 * q
    v4 = v2 + v3
    middle = tl.log(v4)
    # slope = (1 - beta) * q * (student - middle)
    v5 = 0.5 * q
    v6 = student - middle
    slope = v5 * v6
    # terms = beta * p * (teacher - middle) + slope
    v7 = 0.5 * p
    v8 = teacher - middle
    v9 = v7 * v8
    terms = v9 + slope
    # losses[tile_m] = terms.sum(dim=1)
    v10 = tl.sum(terms, axis=1)
    tl.store(losses_ptr + tile_m_idx, v10)
    # grad[tile_m, :] = slope / m
    v11 = slope * 0.00025
    v12 = v11.to(tl.bfloat16)
    tl.store(grad_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], v12, mask=(tl.arange(0, 4096) < 2992)[None, :])
