# config: block:block_n=4096, block:tile_m=1, num_stages=3
# region 0, static
# grid: 4000, 1, 1
# guards: (((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (1 == bias.align)) and (2992 == bias.shape.0)) and (1 == bias.stride.0)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == weight.align)) and (2992 == weight.shape.0)) and (1 == weight.stride.0)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=4
# constexprs: BLOCK_BLOCK_N=4096, BLOCK_TILE_M=1
# bias_ptr: *bf16 % 16 = bias
# out_ptr: *bf16 % 16 = out
# weight_ptr: *bf16 % 16 = weight
# x_ptr: *bf16 % 16 = x
# eps: fp32 = eps
import triton
import triton.language as tl


# examples.welford:welford (welford.py:21), launch 0, static sizes
#   block:block_n=4096, block:tile_m=1, num_stages=3
@triton.jit
def welford_0(
    bias_ptr,
    out_ptr,
    weight_ptr,
    x_ptr,
    eps,
    BLOCK_BLOCK_N: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
):
    # for tile_m in tfl.tile(m):
    pid = tl.program_id(0)
    tile_m_begin = pid * BLOCK_TILE_M
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    tl.static_assert(4000 % BLOCK_TILE_M == 0, "whole blocks of tile_m")
    # mean, squares = tfl.zeros([tile_m]), tfl.zeros([tile_m])
    mean_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    squares_start = tl.full([BLOCK_TILE_M], 0.0, tl.float32)
    # for tile_n in tfl.tile(n, block_size=block_n):
    v0 = tl.full([], 0.0, tl.float32)
    count = v0
    mean = mean_start
    squares = squares_start
    for tile_n_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_mask = tile_n_idx < 2992
        # values = x[tile_m, tile_n].float()
        v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :], other=0.0)
        values = v1.to(tl.float32)
        # here = tile_n.end - tile_n.begin
        v2 = tl.minimum(tl.cast(tile_n_begin, tl.int32) + BLOCK_BLOCK_N, 2992)
        v3 = tl.cast(tile_n_begin, tl.int32)
        here = v2 - v3
        # here_mean = values.sum(dim=1) / here
        v4 = tl.sum(values, axis=1)
        v5 = here.to(tl.float32)
        here_mean = v4 / v5
        # distance = values - here_mean[:, None]
        v6 = here_mean[:, None]
        distance = values - v6
        # gap = here_mean - mean
        gap = here_mean - mean
        # total = count + here
        total = count + v5
        # mean += gap * (here / total)
        v7 = v5 / total
        v8 = gap * v7
        mean_next = mean + v8
        # squares += (distance * distance).sum(dim=1) + gap * gap * (count * here / total)
        v9 = distance * distance
        v10 = tl.where(tile_n_mask[None, :], v9, 0.0)
        v11 = tl.sum(v10, axis=1)
        v12 = gap * gap
        v13 = count * v5
        v14 = v13 / total
        v15 = v12 * v14
        v16 = v11 + v15
        squares_next = squares + v16
        count = total
        mean = mean_next
        squares = squares_next
    # scale = torch.rsqrt(squares / n + eps)
    v17 = squares / 2992.0
    v18 = v17 + eps
    scale = tl.rsqrt(v18)
    # for tile_n in tfl.tile(n, block_size=block_n):
    for tile_n_1_begin in tl.range(0, 2992, BLOCK_BLOCK_N, num_stages=3):
        tile_n_1_idx = tile_n_1_begin + tl.arange(0, BLOCK_BLOCK_N)
        tile_n_1_mask = tile_n_1_idx < 2992
        # values = (x[tile_m, tile_n].float() - mean[:, None]) * scale[:, None]
        v19 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], mask=tile_n_1_mask[None, :], other=0.0)
        v20 = v19.to(tl.float32)
        v21 = mean[:, None]
        v22 = v20 - v21
        v23 = scale[:, None]
        values_1 = v22 * v23
        # out[tile_m, tile_n] = values * weight[tile_n].float() + bias[tile_n].float()
        v24 = tl.load(weight_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v25 = v24.to(tl.float32)
        v26 = v25[None, :]
        v27 = values_1 * v26
        v28 = tl.load(bias_ptr + tile_n_1_idx, mask=tile_n_1_mask, other=0.0)
        v29 = v28.to(tl.float32)
        v30 = v29[None, :]
        v31 = v27 + v30
        v32 = v31.to(tl.bfloat16)
        tl.store(out_ptr + tile_m_idx[:, None] * 2992 + tile_n_1_idx[None, :], v32, mask=tile_n_1_mask[None, :])
