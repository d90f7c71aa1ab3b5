# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((0 == begin.0) and (4000 == end.0)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.softmax:softmax_online (softmax.py:33), launch 0, static sizes
#   block:block_n=4096, block:tile_m=1, num_stages=3
@triton.jit
def softmax_online_0(
    out_ptr,
    x_ptr,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # peak = tfl.full([tile_m], float("-inf"))
    peak_start = tl.full([BLOCK_TILE_M], float('-inf'), tl.float32)
    # total = tfl.zeros([tile_m])
    total_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # for tile_n in tfl.tile(n, block_size=block_n):
    peak = peak_start
    total = total_start
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        # values = x[tile_m, tile_n].float()
        v0 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=float('-inf'))
        values = v0.to(tl.float32)
        # new_peak = torch.maximum(peak, torch.amax(values, dim=1))
        v1 = tl.reduce(values, 1, _maximum)
        new_peak = tl.maximum(peak, v1, propagate_nan=tl.PropagateNan.ALL)
        # shift = torch.where(new_peak == float("-inf"), 0.0, new_peak)  # so far all may be masked
        v2 = new_peak == float('-inf')
        shift = tl.where(v2, 0.0, new_peak)
        # total = total * torch.exp(peak - shift) + torch.exp(values - shift[:, None]).sum(dim=1)
        v3 = peak - shift
        v4 = tl.exp2(v3 * 1.4426950408889634)
        v5 = total * v4
        v6 = shift[:, None]
        v7 = values - v6
        v8 = tl.exp2(v7 * 1.4426950408889634)
        v9 = tl.sum(v8, axis=1)
        total_next = v5 + v9
        peak = new_peak
        total = total_next
    # for tile_n in tfl.tile(n, block_size=block_n):
    for tile_n_1_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < 2992
        # values = x[tile_m, tile_n].float()
        v10 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], mask=tile_n_1_mask[None, :], other=0.0)
        values_1 = v10.to(tl.float32)
        # out[tile_m, tile_n] = torch.exp(values - peak[:, None]) / total[:, None]
        v11 = peak[:, None]
        v12 = values_1 - v11
        v13 = tl.exp2(v12 * 1.4426950408889634)
        v14 = total[:, None]
        v15 = v13 / v14
        v16 = v15.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], v16, mask=tile_n_1_mask[None, :])
