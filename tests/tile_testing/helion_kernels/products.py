"""Products of matrices and what is fused with them."""

import helion
import helion.language as hl
import torch
import torch.nn.functional as F
from helion.autotuner import EnumFragment, PowerOfTwoFragment


@helion.kernel(
    static_shapes=True,
    config=helion.Config(
        block_sizes=[16, 32, 16], loop_orders=[[1, 0]], l2_groupings=[2], num_warps=4, num_stages=3,
        indexing="tensor_descriptor", pid_type="persistent_interleaved", range_unroll_factors=[0, 2],
    ),
)  # fmt: skip
def matmul(x: torch.Tensor, y: torch.Tensor, epilogue=lambda acc, tile: acc) -> torch.Tensor:
    m, k = x.size()
    k2, n = y.size()
    assert k == k2, f"size mismatch {k} != {k2}"
    out = torch.empty([m, n], dtype=torch.promote_types(x.dtype, y.dtype), device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = epilogue(acc, (tile_m, tile_n))
    return out


def matmul_with_bias(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return matmul(x, y, lambda acc, tile: torch.relu(acc + bias[tile[1]]))


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]), dot_precision="ieee")
def addmm(bias: torch.Tensor, x: torch.Tensor, y: torch.Tensor, alpha: float = 1.0, beta: float = 1.0):
    m, k = x.size()
    n = y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    bias = torch.broadcast_to(bias, [m, n])
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc += x[tile_m, tile_k] @ y[tile_k, tile_n]
        out[tile_m, tile_n] = alpha * acc + beta * bias[tile_m, tile_n]
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 16, 16, 16]))
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    batch, m, k = a.size()
    n = b.size(2)
    out = torch.empty([batch, m, n], dtype=torch.promote_types(a.dtype, b.dtype), device=a.device)
    for tile_b, tile_m, tile_n in hl.tile([batch, m, n]):
        acc = hl.zeros([tile_b, tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.baddbmm(acc, a[tile_b, tile_m, tile_k], b[tile_b, tile_k, tile_n])
        out[tile_b, tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16, 16], split_k=4))
def matmul_split_k(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = y.size(1)
    out = torch.zeros([m, n], dtype=torch.float32, device=x.device)
    split_k = hl.register_tunable("split_k", PowerOfTwoFragment(1, 64))
    block = helion.next_power_of_2(helion.cdiv(k, split_k))
    for tile_m, tile_n, outer in hl.tile([m, n, k], block_size=[None, None, block]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for inner in hl.tile(outer.begin, outer.end):
            acc = torch.addmm(acc, x[tile_m, inner], y[inner, tile_n])
        if outer.begin == 0:
            acc = acc + 1.0
        hl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16], order="yx"))
def matmul_with_choice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    order = hl.register_tunable("order", EnumFragment(choices=("xy", "yx")))
    m, k = x.size()
    n = y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_n, tile_m] if order == "yx" else [tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            if order == "yx":
                acc = torch.addmm(acc, y[tile_k, tile_n].T, x[tile_m, tile_k].T)
            else:
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.T if order == "yx" else acc
    return out


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16]))
def matmul_layernorm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = hl.specialize(y.size(1))
    out = torch.empty([m, n], dtype=torch.promote_types(x.dtype, y.dtype), device=x.device)
    for tile_m in hl.tile(m):
        acc = hl.zeros([tile_m, n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, :])
        variance, mean = torch.var_mean(acc, dim=-1, keepdim=True, correction=0)
        normal = (acc - mean) * torch.rsqrt(variance + 1e-5)
        out[tile_m, :] = normal * weight[:].to(torch.float32) + bias[:].to(torch.float32)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]))
def broadcast_matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    batch, m, k = x.size()
    n = y.size(1)
    flat = x.reshape(-1, k)
    out = torch.empty([batch * m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([flat.size(0), n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(flat[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out.view(batch, m, n)


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 32, 32]))
def squeeze_and_excite(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, n = x.size()
    k = a.size(1)
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile([m, n]):
        excited = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            squeezed = hl.zeros([tile_m, tile_k], dtype=torch.float32)
            for tile_i in hl.tile(n):
                squeezed = torch.addmm(squeezed, x[tile_m, tile_i], a[tile_i, tile_k])
            excited = torch.addmm(excited, torch.relu(squeezed).to(x.dtype), b[tile_k, tile_n])
        out[tile_m, tile_n] = (x[tile_m, tile_n] * torch.sigmoid(excited)).to(x.dtype)
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 8, 16]))
def gather_gemv(w: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    count, size = rows.size(0), w.size(1)
    out = torch.empty([count, size], dtype=x.dtype, device=x.device)
    for tile_i, tile_j in hl.tile([count, size]):
        acc = hl.zeros([tile_i, tile_j], dtype=torch.float32)
        for tile_k in hl.tile(size):
            acc = acc + (w[rows[tile_i], tile_j, tile_k] * x[tile_k]).sum(-1)
        out[tile_i, tile_j] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=False, config=helion.Config(block_sizes=[16, 16, 16]))
def grouped_gemm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    total, k = a.shape
    n = b.size(1)
    out = torch.empty(total, n, dtype=torch.promote_types(a.dtype, b.dtype), device=a.device)
    for g in hl.grid(offsets.size(0) - 1):
        start = offsets[g]
        rows = offsets[g + 1] - start
        if rows != 0:
            for tile_m, tile_n in hl.tile([rows, n]):
                acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
                for tile_k in hl.tile(k):
                    acc = torch.addmm(acc, a[start + tile_m.index, tile_k], b[tile_k, tile_n])
                out[start + tile_m.index, tile_n] = acc.to(out.dtype)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]))
def grouped_gemm_persistent(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, workers: int) -> torch.Tensor:
    block_m = hl.register_block_size(16, 64)
    block_n = hl.register_block_size(16, 64)
    total, k = a.shape
    n = b.size(1)
    out = torch.zeros(total, n, dtype=a.dtype, device=a.device)
    for worker in hl.grid(workers):
        for g in hl.grid(offsets.size(0) - 1):
            start, end = offsets[g], offsets[g + 1]
            rows = end - start
            if rows > 0:
                down = (rows + block_m - 1) // block_m
                across = (n + block_n - 1) // block_n
                for local in hl.grid(down * across):
                    place = local * workers + worker
                    if place < down * across:
                        row = start + (place % down) * block_m + hl.arange(block_m)
                        column = (place // down) * block_n + hl.arange(block_n)
                        acc = hl.zeros([block_m, block_n], dtype=torch.float32)
                        for tile_k in hl.tile(k):
                            left = hl.load(a, [row, tile_k.index], extra_mask=(row < end)[:, None])
                            right = hl.load(b, [tile_k.index, column], extra_mask=(column < n)[None, :])
                            acc = torch.addmm(acc, left, right)
                        valid = (row < end)[:, None] & (column < n)[None, :]
                        hl.store(out, [row, column], acc.to(out.dtype), extra_mask=valid)
    return out


def grouped(a: torch.Tensor, b: torch.Tensor, *_) -> torch.Tensor:
    return a @ b


@helion.kernel(static_shapes=False, config=helion.Config(block_sizes=[16, 16, 16]))
def moe_matmul(
    a: torch.Tensor, w: torch.Tensor, counts: torch.Tensor, offsets: torch.Tensor, order: torch.Tensor,
    longest: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    tokens, k = a.shape
    experts, _, n = w.shape
    most = longest.numel()
    out = torch.zeros(tokens, n, dtype=torch.promote_types(a.dtype, w.dtype), device=a.device)
    for expert in hl.grid(experts):
        start = offsets[expert]
        count = counts[expert]
        if count != 0:
            for tile_t, tile_n in hl.tile([most, n]):
                valid = tile_t.index < count
                row = order[start + torch.where(valid, tile_t.index, 0)]
                acc = hl.zeros([tile_t, tile_n], dtype=torch.float32)
                for tile_k in hl.tile(k):
                    left = a[row, tile_k].masked_fill(~valid[:, None], 0.0)
                    acc = torch.addmm(acc, left, w[expert, tile_k, tile_n])
                block_t, block_n = acc.size(0), acc.size(1)
                mask = valid.view(block_t, 1).expand(block_t, block_n)
                hl.store(out, [row, tile_n], acc.to(out.dtype), extra_mask=mask)
    return out


def moe(a: torch.Tensor, w: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    order = torch.argsort(chosen, stable=True).to(torch.int32)
    counts = torch.bincount(chosen, minlength=w.size(0)).to(torch.int32)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0).to(torch.int32)])
    return moe_matmul(a, w, counts, offsets, order, a.new_empty(int(counts.max())))


def experts(a: torch.Tensor, w: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.stack([row @ w[e] for row, e in zip(a, chosen, strict=True)])


def cases():
    x, y = torch.randn(33, 50), torch.randn(50, 20)
    h, g = x.half(), y.half()
    offsets = torch.tensor([0, 5, 5, 28, 33], dtype=torch.int32)
    yield "matmul", matmul, (h, g), torch.matmul
    yield "matmul_float32", matmul, (x, y), torch.matmul
    yield "matmul_epilogue", matmul_with_bias, (h, g, torch.randn(20).half()), lambda a, b, c: F.relu(a @ b + c)
    yield "addmm", addmm, (torch.randn(20), x, y, 0.5, 2.0), lambda c, a, b, s, t: torch.addmm(c, a, b, alpha=s, beta=t)
    yield "bmm", bmm, (torch.randn(3, 17, 33).half(), torch.randn(3, 33, 21).half()), torch.bmm
    yield "matmul_split_k", matmul_split_k, (h, g), lambda a, b: a.float() @ b.float() + 1
    yield "matmul_with_choice", matmul_with_choice, (h, g), torch.matmul
    yield (
        "matmul_layernorm", matmul_layernorm,
        (h, torch.randn(50, 32).half(), torch.randn(32).half(), torch.randn(32).half()),
        lambda a, b, u, v: F.layer_norm((a.float() @ b.float()), [32], u.float(), v.float()).half(),
    )  # fmt: skip
    yield "broadcast_matmul", broadcast_matmul, (torch.randn(2, 9, 50).half(), g), torch.matmul
    yield (
        "squeeze_and_excite", squeeze_and_excite, (torch.randn(17, 20), torch.randn(20, 33), torch.randn(33, 20)),
        lambda c, a, b: c * torch.sigmoid(F.relu(c @ a) @ b),
    )  # fmt: skip
    yield (
        "gather_gemv", gather_gemv,
        (torch.randint(-9, 9, (4, 20, 20), dtype=torch.int8), torch.tensor([3, 0, 3]), torch.randn(20)),
        lambda w, i, v: w[i].to(v.dtype) @ v,
    )  # fmt: skip
    yield "grouped_gemm", grouped_gemm, (h, g, offsets), grouped
    yield "grouped_gemm_persistent", grouped_gemm_persistent, (h, g, offsets, 3), grouped
    yield "moe_matmul", moe, (x[:13], torch.randn(4, 50, 20), torch.tensor([0, 2, 2, 0, 3] * 2 + [2, 2, 0])), experts
