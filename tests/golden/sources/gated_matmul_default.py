# config: block:tile_k=64, block:tile_m=128, block:tile_n=128, group=16, load:gate#0.access=descriptor, load:up#0.access=descriptor, load:x#0.access=descriptor, num_stages=4, num_warps=8, persistent=1, store:out#0.access=descriptor, store:out#0.subtile=2
# region 0, static
# grid: 132, 1, 1
# guards: (((((((((((((((((((((((((0 == begin.0) and (4000 == end.0)) and (0 == begin.1)) and (2992 == end.1)) and (1 == gate.align)) and (2992 == gate.shape.0)) and (1008 == gate.shape.1)) and (1008 == gate.stride.0)) and (1 == gate.stride.1)) and (1008 == k)) and (1 == out.align)) and (4000 == out.shape.0)) and (2992 == out.shape.1)) and (2992 == out.stride.0)) and (1 == out.stride.1)) and (1 == up.align)) and (2992 == up.shape.0)) and (1008 == up.shape.1)) and (1008 == up.stride.0)) and (1 == up.stride.1)) and (1 == x.align)) and (4000 == x.shape.0)) and (1008 == x.shape.1)) and (1008 == x.stride.0)) and (1 == x.stride.1))
# options: num_stages=4, num_warps=8
# constexprs: BLOCK_TILE_K=64, BLOCK_TILE_M=128, BLOCK_TILE_N=128
# x_desc_128x64: tensordesc<bf16[128, 64]> = x
# gate_desc_128x64: tensordesc<bf16[128, 64]> = gate
# up_desc_128x64: tensordesc<bf16[128, 64]> = up
# out_desc_128x64: tensordesc<bf16[128, 64]> = out
import triton
import triton.language as tl


# examples.gated_matmul:gated_matmul (gated.py:151), launch 0, static sizes
#   block:tile_k=64, block:tile_m=128, block:tile_n=128, group=16, load:gate#0.access=descriptor,
#   load:up#0.access=descriptor, load:x#0.access=descriptor, num_stages=4, num_warps=8, persistent=1,
#   store:out#0.access=descriptor, store:out#0.subtile=2
@triton.jit
def gated_linear_0(
    x_desc_128x64,
    gate_desc_128x64,
    up_desc_128x64,
    out_desc_128x64,
    BLOCK_TILE_K: tl.constexpr,
    BLOCK_TILE_M: tl.constexpr,
    BLOCK_TILE_N: tl.constexpr,
):
    # for tile_m, tile_n in tfl.tile([m, n]):
    tile_m_count: tl.constexpr = (4000 + BLOCK_TILE_M - 1) // BLOCK_TILE_M
    tile_n_count: tl.constexpr = (2992 + BLOCK_TILE_N - 1) // BLOCK_TILE_N
    for pid in tl.range(tl.program_id(0), tile_m_count * tile_n_count, tl.num_programs(0)):
        band = pid // (16 * tile_n_count)
        height = tl.minimum(tile_m_count - band * 16, 16)
        tile_m_begin = (band * 16 + pid % (16 * tile_n_count) % height) * BLOCK_TILE_M
        tile_m_idx = tile_m_begin + tl.arange(0, BLOCK_TILE_M)
        tile_m_mask = tile_m_idx < 4000
        tile_n_begin = (pid % (16 * tile_n_count) // height) * BLOCK_TILE_N
        tile_n_idx = tile_n_begin + tl.arange(0, BLOCK_TILE_N)
        tile_n_mask = tile_n_idx < 2992
        # a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        a_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        b_start = tl.full([BLOCK_TILE_M, BLOCK_TILE_N], 0.0, tl.float32)
        # for tile_k in tfl.tile(k):
        a = a_start
        b = b_start
        for tile_k_begin in tl.range(0, 1008, BLOCK_TILE_K):
            tile_k_idx = tile_k_begin + tl.arange(0, BLOCK_TILE_K)
            tile_k_mask = tile_k_idx < 1008
            # rows = x[tile_m, tile_k]
            rows = x_desc_128x64.load([tile_m_begin, tile_k_begin])
            # a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            v0 = gate_desc_128x64.load([tile_n_begin, tile_k_begin])
            v1 = tl.permute(v0, (1, 0))
            a_next = tl.dot(rows, v1, acc=a)
            # b = torch.addmm(b, rows, up[tile_n, tile_k].t())
            v2 = up_desc_128x64.load([tile_n_begin, tile_k_begin])
            v3 = tl.permute(v2, (1, 0))
            b_next = tl.dot(rows, v3, acc=b)
            a = a_next
            b = b_next
        # out[tile_m, tile_n] = (F.silu(a) if activation == "silu" else F.gelu(a, approximate="tanh")) * b
        v4 = tl.reshape(a, [BLOCK_TILE_M, 2, (BLOCK_TILE_N // 2)])
        v5 = tl.permute(v4, (0, 2, 1))
        v6, v7 = tl.split(v5)
        v8 = tl.reshape(b, [BLOCK_TILE_M, 2, (BLOCK_TILE_N // 2)])
        v9 = tl.permute(v8, (0, 2, 1))
        v10, v11 = tl.split(v9)
        tile_n_half0_begin = tile_n_begin
        tile_n_half0_idx = tile_n_half0_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half0_mask = tile_n_half0_idx < 2992
        v12 = 1.0 / (1.0 + tl.exp2(v6 * -1.4426950408889634))
        v13 = v6 * v12
        v14 = v13 * v10
        v15 = v14.to(tl.bfloat16)
        out_desc_128x64.store([tile_m_begin, tile_n_half0_begin], v15)
        tile_n_half1_begin = tile_n_begin + (BLOCK_TILE_N // 2)
        tile_n_half1_idx = tile_n_half1_begin + tl.arange(0, (BLOCK_TILE_N // 2))
        tile_n_half1_mask = tile_n_half1_idx < 2992
        v16 = 1.0 / (1.0 + tl.exp2(v7 * -1.4426950408889634))
        v17 = v7 * v16
        v18 = v17 * v11
        v19 = v18.to(tl.bfloat16)
        out_desc_128x64.store([tile_m_begin, tile_n_half1_begin], v19)
