# config: block:tile_m=1, block:tile_v=4096, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: ((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == labels.align)) and (4000 == labels.shape.0)) and (1 == labels.stride.0)) and (1 == logits.align)) and (4000 == logits.shape.0)) and (2992 == logits.shape.1)) and (2992 == logits.stride.0)) and (1 == logits.stride.1)) and (1 == losses.align)) and (4000 == losses.shape.0)) and (1 == losses.stride.0)) and (1 == lse.align)) and (4000 == lse.shape.0)) and (1 == lse.stride.0)) and (2992 == v)) and (ignore_index <= 2147483647))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_V=4096
# labels_ptr: *i64 % 16 = labels
# logits_ptr: *bf16 % 16 = logits
# losses_ptr: *fp32 % 16 = losses
# lse_ptr: *fp32 % 16 = lse
# ignore_index: i32 = ignore_index
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# examples.cross_entropy:cross_entropy (cross_entropy.py:32), launch 0, static sizes
#   block:tile_m=1, block:tile_v=4096, num_stages=3
@triton.jit
def cross_entropy_0(
    labels_ptr,
    logits_ptr,
    losses_ptr,
    lse_ptr,
    ignore_index,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_V: tl.constexpr,
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
    # for tile_v in tfl.tile(v):
    peak = peak_start
    total = total_start
    for tile_v_begin in tl.range(0, 2992, BLOCK_TILE_V, num_stages=3):
        tile_v_idx = tile_v_begin + tl.arange(0, BLOCK_TILE_V)
        tile_v_mask = tile_v_idx < 2992
        # values = logits[tile_m, tile_v].float()
        v0 = tl.load(logits_ptr + tile_m_idx[:, None] * 2992 + tile_v_idx[None, :], mask=tile_v_mask[None, :], other=float('-inf'))
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
    # label = labels[tile_m]
    label = tl.load(labels_ptr + tile_m_idx)
    # counts = label != ignore_index
    v10 = tl.cast(ignore_index, tl.int64)
    counts = label != v10
    # picked = logits[tile_m.index, torch.where(counts, label, 0)].float()
    v11 = tl.where(counts, label, 0)
    v12 = tl.load(logits_ptr + tile_m_idx * 2992 + v11, mask=(v11 >= 0) & (v11 < 2992), other=0.0)
    picked = v12.to(tl.float32)
    # row_lse = peak + torch.log(total)
    v13 = tl.log(total)
    row_lse = peak + v13
    # lse[tile_m] = row_lse
    tl.store(lse_ptr + tile_m_idx, row_lse)
    # losses[tile_m] = torch.where(counts, row_lse - picked, 0.0)
    v14 = row_lse - picked
    v15 = tl.where(counts, v14, 0.0)
    tl.store(losses_ptr + tile_m_idx, v15)
