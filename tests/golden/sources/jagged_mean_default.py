# config: block:tile_m=64, block:tile_n=64, num_stages=3, num_warps=2
# region 0, static
# grid: 235, 1, 1
# guards: (((((((((((((((((0 == begin.0) and (5 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == offsets.align)) and (6 == offsets.shape.0)) and (1 == offsets.stride.0)) and (1 == out.align)) and (5 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=3, num_warps=2
# constexprs: BLOCK_TILE_M=64, BLOCK_TILE_N=64
# offsets_ptr: *i32 % 16 = offsets
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
import triton
import triton.language as tl


# examples.jagged:jagged_mean (jagged.py:28), launch 0, static sizes
#   block:tile_m=64, block:tile_n=64, num_stages=3, num_warps=2
@triton.jit
def jagged_mean_0(
    offsets_ptr,
    out_ptr,
    x_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_b, tile_n in tfl.tile([batch, n], block_size=[1, None]):
    pid = tl.program_id(0)
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    tile_n_begin = (pid % tile_n_count) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 2992
    tile_b_begin = (pid // tile_n_count)
    tile_b_idx = tile_b_begin + tl.arange(0, 1)
    # begin, end = offsets[tile_b.begin], offsets[tile_b.begin + 1]
    begin = tl.load(offsets_ptr + tile_b_begin)
    v0 = tile_b_begin + 1
    end = tl.load(offsets_ptr + v0)
    # total = tfl.zeros([tile_n])
    total_start = tl.full([BLOCK_TILE_N], 0.0, tl.float32)
    # for tile_m in tfl.tile(begin, end):
    total = total_start
    for tile_m_begin in tl.range(begin, end, BLOCK_TILE_M, num_stages=3):
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < end
        # total += x[tile_m, tile_n].sum(dim=0)
        v1 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000) & tile_n_mask[None, :], other=0.0)
        v2 = v1.to(tl.float32)
        v3 = tl.sum(v2, axis=0)
        total_next = total + v3
        total = total_next
    # out[tile_b.begin, tile_n] = total / max(end - begin, 1)
    v4 = end - begin
    v5 = tl.maximum(v4, 1)
    v6 = v5.to(tl.float32)
    v7 = total / v6
    v8 = v7.to(tl.bfloat16)
    tl.store(out_ptr + tile_b_begin * 2992 + tile_n_idx, v8, mask=tile_n_mask)
