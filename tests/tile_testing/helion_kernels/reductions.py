"""Sums, softmaxes and norms of rows, in one piece and in loops."""

import helion
import helion.language as hl
import torch
import torch.nn.functional as F


@helion.kernel(config=helion.Config(block_sizes=[4], reduction_loops=[128], num_warps=8, indexing="block_ptr"))
def row_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(x.size(0)):
        out[tile_m] = x[tile_m, :].sum(-1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[32, 2], num_stages=3))
def long_sum(x: torch.Tensor) -> torch.Tensor:
    m, n = x.size()
    out = torch.empty([m], dtype=x.dtype, device=x.device)
    block_n = hl.register_block_size(n)
    for tile_m in hl.tile(m):
        acc = hl.zeros([tile_m, block_n], dtype=x.dtype)
        for tile_n in hl.tile(n, block_size=block_n):
            acc += hl.load(x, [tile_m, tile_n], extra_mask=(tile_n.index < n)[None, :])
        out[tile_m] = acc.sum(-1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[2], reduction_loops=[None]))
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = F.softmax(x[tile, :], dim=1)
    return out


@helion.kernel(config=helion.Config(block_size=2, reduction_loop=128))
def softmax_decomposed(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        row = x[tile, :]
        powers = torch.exp(row - torch.amax(row, dim=1, keepdim=True))
        out[tile, :] = powers / torch.sum(powers, dim=1, keepdim=True)
    return out


@helion.kernel(config=helion.Config(block_sizes=[4, 64]))
def softmax_two_pass(x: torch.Tensor) -> torch.Tensor:
    m, n = x.size()
    out = torch.empty_like(x)
    block_m = hl.register_block_size(m)
    block_n = hl.register_block_size(n)
    for tile_m in hl.tile(m, block_size=block_m):
        highest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n, block_size=block_n):
            part = x[tile_m, tile_n]
            higher = torch.maximum(highest, torch.amax(part, dim=1))
            total = total * torch.exp(highest - higher) + torch.exp(part - higher[:, None]).sum(dim=1)
            highest = higher
        for tile_n in hl.tile(n, block_size=block_n):
            out[tile_m, tile_n] = torch.exp(x[tile_m, tile_n] - highest[:, None]) / total[:, None]
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 64, 32]))
def softmax_backward(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    m, n = grad.size()
    result = torch.empty_like(grad)
    for tile_m in hl.tile(m):
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n):
            total += (grad[tile_m, tile_n] * out[tile_m, tile_n]).sum(1)
        for tile_n in hl.tile(n):
            result[tile_m, tile_n] = out[tile_m, tile_n] * (grad[tile_m, tile_n] - total[:, None])
    return result


@helion.kernel(config=helion.Config(block_sizes=[2]))
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.size()
    assert weight.size(0) == n, f"{weight.size(0)} weights for {n} columns"
    out = torch.empty_like(x)
    inverse = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        scale = torch.rsqrt(torch.mean(row * row, dim=-1) + eps)
        out[tile_m, :] = (row * scale[:, None] * weight[:].to(torch.float32)).to(out.dtype)
        inverse[tile_m] = scale
    return out, inverse


def rms_normed(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    inverse = torch.rsqrt(x.float().pow(2).mean(-1) + 1e-5)
    return (x.float() * inverse[:, None] * weight.float()).to(x.dtype), inverse


@helion.kernel(config=helion.Config(block_sizes=[2], load_eviction_policies=["first", "last", "last"]))
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float = 1e-5):
    m, _n = x.size()
    out = torch.empty_like(x)
    mean = torch.empty([m], dtype=torch.float32, device=x.device)
    rstd = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        variance, middle = torch.var_mean(row, dim=-1, keepdim=True, correction=0)
        scale = torch.rsqrt(variance + eps)
        normal = (row - middle) * scale * weight[:].to(torch.float32)
        if bias is not None:
            normal = normal + bias[:].to(torch.float32)
        out[tile_m, :] = normal.to(out.dtype)
        mean[tile_m] = middle.squeeze(-1)
        rstd[tile_m] = scale.squeeze(-1)
    return out, mean, rstd


def layer_normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    out, mean, rstd = torch.native_layer_norm(x, [x.size(1)], weight, bias, 1e-5)
    return out, mean.squeeze(-1), rstd.squeeze(-1)


@helion.kernel(config=helion.Config(block_sizes=[16, 4]))
def layer_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
):
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    grad_x = torch.empty_like(x)
    blocks = helion.cdiv(m, block_m)
    partial_weight = torch.empty([blocks, n], dtype=torch.float32, device=x.device)
    partial_bias = torch.empty([blocks, n], dtype=torch.float32, device=x.device)
    for tile_b in hl.tile(m, block_size=block_m):
        sum_weight = hl.zeros([n], dtype=torch.float32)
        sum_bias = hl.zeros([n], dtype=torch.float32)
        for tile_m in hl.tile(tile_b.begin, tile_b.end):
            g = grad[tile_m, :].to(torch.float32)
            normal = (x[tile_m, :].to(torch.float32) - mean[tile_m][:, None]) * rstd[tile_m][:, None]
            sum_weight += (g * normal).sum(0)
            sum_bias += g.sum(0)
            wg = g * weight[:].to(torch.float32)
            c1 = (wg * normal).sum(-1) / n
            c2 = wg.sum(-1) / n
            grad_x[tile_m, :] = (wg - (normal * c1[:, None] + c2[:, None])) * rstd[tile_m][:, None]
        partial_weight[tile_b.id, :] = sum_weight
        partial_bias[tile_b.id, :] = sum_bias
    return grad_x, partial_weight.sum(0), partial_bias.sum(0)


def layer_norm_gradients(grad, x, weight, mean, rstd):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    bias = torch.zeros_like(weight).requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, [x.size(1)], weight, bias), (x, weight, bias), grad)


@helion.kernel(config=helion.Config(block_sizes=[4, 32, 32]))
def welford(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        count = torch.zeros_like(x[tile_m, 0], dtype=torch.float32)
        mean = torch.zeros_like(count)
        spread = torch.zeros_like(count)
        for tile_n in hl.tile(n):
            part = x[tile_m, tile_n].to(torch.float32)
            size = tile_n.end - tile_n.begin
            part_mean = part.sum(-1) / size
            deviation = torch.where((tile_n.index < n)[None, :], part - part_mean[:, None], 0.0)
            delta = part_mean - mean
            total = count + size
            mean = mean + delta * size / total
            spread = spread + (deviation * deviation).sum(-1) + delta * delta * count * size / total
            count = total
        scale = torch.rsqrt(spread / count + eps)
        for tile_n in hl.tile(n):
            normal = (x[tile_m, tile_n] - mean[:, None]) * scale[:, None]
            out[tile_m, tile_n] = normal * weight[tile_n][None, :] + bias[tile_n][None, :]
    return out


@helion.kernel(config=helion.Config(block_sizes=[4, 2]))
def batch_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_b, tile_m in hl.tile([x.size(0), x.size(1)]):
        row = x[tile_b, tile_m, :]
        powers = torch.exp(row - row.amax(dim=2, keepdim=True))
        out[tile_b, tile_m, :] = powers / powers.sum(dim=2, keepdim=True)
    return out


@helion.kernel(config=helion.Config(block_sizes=[4]))
def row_argmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.int64, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = torch.argmax(x[tile, :], dim=-1)
    return out


def cases():
    x = torch.randn(5, 300)
    w, b = torch.randn(300), torch.randn(300)
    grad = torch.randn(5, 300)
    tall = torch.randn(37, 20)
    mean, rstd = tall.mean(1), torch.rsqrt(tall.var(1, correction=0) + 1e-5)
    yield "row_sum", row_sum, (x,), lambda a: a.sum(1)
    yield "long_sum", long_sum, (x,), lambda a: a.sum(1)
    for name, kernel in (("plain", softmax), ("decomposed", softmax_decomposed), ("two_pass", softmax_two_pass)):
        yield f"softmax_{name}", kernel, (x,), lambda a: torch.softmax(a, 1)
    yield "softmax_backward", softmax_backward, (grad, x), lambda g, o: o * (g - (g * o).sum(1, keepdim=True))
    yield "rms_norm", rms_norm, (x.half(), w.half()), rms_normed
    yield "layer_norm", layer_norm, (x, w, b), layer_normed
    yield "layer_norm_no_bias", layer_norm, (x, w, None), layer_normed
    yield (
        "layer_norm_backward", layer_norm_backward, (torch.randn(37, 20), tall, torch.randn(20), mean, rstd),
        layer_norm_gradients,
    )  # fmt: skip
    yield "welford", welford, (x, w, b), lambda a, u, v: F.layer_norm(a, [300], u, v)
    yield "batch_softmax", batch_softmax, (torch.randn(6, 3, 21),), lambda a: torch.softmax(a, 2)
    yield "row_argmax", row_argmax, (x,), lambda a: torch.argmax(a, 1)
