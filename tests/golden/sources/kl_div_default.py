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


# examples.kl_div:kl_div (kl_div.py:25), launch 0, static sizes
#   block:tile_m=1
@triton.jit
def kl_div_0(
    log_q_ptr,
    losses_ptr,
    p_ptr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # target, guess = p[tile_m, :].float(), log_q[tile_m, :].float()
    v0 = tl.load(p_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    target = v0.to(tl.float32)
    v1 = tl.load(log_q_ptr + tile_m_idx[:, None] * 2992 + tl.arange(0, 4096)[None, :], mask=(tl.arange(0, 4096) < 2992)[None, :], other=0.0)
    guess = v1.to(tl.float32)
    # terms = torch.where(target > 0, target * (torch.log(target) - guess), 0.0)
    v2 = target > 0.0
    v3 = tl.log(target)
    v4 = v3 - guess
    v5 = target * v4
    terms = tl.where(v2, v5, 0.0)
    # losses[tile_m] = terms.sum(dim=1)
    v6 = tl.sum(terms, axis=1)
    tl.store(losses_ptr + tile_m_idx, v6)
