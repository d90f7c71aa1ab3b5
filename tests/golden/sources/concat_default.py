# config: block:tile_m=1, block:tile_n=2048
# region 0, static
# grid: 8000, 1, 1
# guards: ((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (4000 == end.1)) and (2992 == n)) and (1 == out.align)) and (4000 == out.shape.0)) and (4000 == out.shape.1)) and (4000 == out.stride.0)) and (1 == out.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (2992 == x.shape.1)) and (2992 == x.stride.0)) and (1 == x.stride.1)) and (1 == y.align)) and (4000 == y.shape.0)) and (1008 == y.shape.1)) and (1008 == y.stride.0)) and (1 == y.stride.1))
# options: num_stages=2, num_warps=4
# constexprs: BLOCK_TILE_M=1, BLOCK_TILE_N=2048
# out_ptr: *bf16 % 16 = out
# x_ptr: *bf16 % 16 = x
# y_ptr: *bf16 % 16 = y
import triton
import triton.language as tl


@triton.jit
def concat_0(
    out_ptr,
    x_ptr,
    y_ptr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    tile_n_begin = (pid % 2) * BLOCK_TILE_N
    tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
    tile_n_mask = tile_n_idx < 4000
    tile_m_begin = (pid // 2)
    tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
    v0 = tile_n_idx < 2992
    v1 = v0[None, :]
    v2 = tl.broadcast_to(v1, [BLOCK_TILE_M, BLOCK_TILE_N])
    v3 = tl.load(x_ptr + tile_m_idx[:, None] * 2992 + tile_n_idx[None, :], mask=tile_n_mask[None, :] & v2, other=0.0)
    v4 = tile_n_idx - 2992
    v5 = v0[None, :]
    v6 = v5 == 0
    v7 = tl.broadcast_to(v6, [BLOCK_TILE_M, BLOCK_TILE_N])
    v8 = tl.load(y_ptr + tile_m_idx[:, None] * 1008 + v4[None, :], mask=tile_n_mask[None, :] & v7, other=0.0)
    v9 = v0[None, :]
    v10 = v3.to(tl.float32)
    v11 = v8.to(tl.float32)
    v12 = tl.where(v9, v10, v11)
    v13 = v12.to(tl.bfloat16)
    tl.store(out_ptr + tile_m_idx[:, None] * 4000 + tile_n_idx[None, :], v13, mask=tile_n_mask[None, :])
