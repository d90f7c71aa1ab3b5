"""One element in, one element out; and what only moves elements."""

import helion
import helion.language as hl
import torch
import torch.nn.functional as F


@helion.kernel(config=helion.Config(block_sizes=[16, 8], flatten_loops=[True], indexing="pointer", num_warps=4))
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = torch.broadcast_tensors(x, y)
    out = torch.empty(x.shape, dtype=torch.promote_types(x.dtype, y.dtype), device=x.device)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + y[tile]
    return out


@helion.kernel(config={"block_size": 32})
def exponential(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.numel()):
        out[tile] = torch.exp(x[tile])
    return out


@helion.kernel(autotune_effort="none")
def exponential_backward(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(grad)
    for tile in hl.tile(grad.size(0)):
        result[tile] = grad[tile] * out[tile]
    return result


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = exponential(x)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return exponential_backward(grad.contiguous(), out)


def exponential_and_gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    Exponential.apply(leaf).sum().backward()
    return leaf.grad


@helion.kernel(config=helion.Config(block_sizes=[64], num_warps=8, num_stages=2))
def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(gate)
    gates, ups, flat = gate.view(-1), up.view(-1), out.view(-1)
    for tile in hl.tile(gate.numel()):
        g = gates[tile].to(torch.float32)
        inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
        activated = 0.5 * g * (1 + torch.tanh(inner))
        flat[tile] = activated.to(up.dtype) * ups[tile]
    return out


@helion.kernel(config=helion.Config(block_sizes=[4, 16], loop_orders=[[1, 0]], l2_groupings=[2]))
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(gate)
    for tile_m, tile_n in hl.tile(gate.shape):
        g = gate[tile_m, tile_n].to(torch.float32)
        out[tile_m, tile_n] = (g * torch.sigmoid(g)).to(up.dtype) * up[tile_m, tile_n]
    return out


@helion.kernel(config=helion.Config(block_sizes=[8, 16]))
def swiglu_backward(grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    grad_gate, grad_up = torch.empty_like(gate), torch.empty_like(up)
    for tile in hl.tile(gate.shape):
        g, u, d = gate[tile].float(), up[tile].float(), grad[tile].float()
        s = torch.sigmoid(g)
        grad_gate[tile] = d * u * s * (1 + g * (1 - s))
        grad_up[tile] = d * g * s
    return grad_gate, grad_up


def swiglu_gradients(grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, ...]:
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    return torch.autograd.grad(F.silu(gate) * up, (gate, up), grad)


@helion.kernel(config=helion.Config(block_sizes=[4, 16]))
def concatenate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.size(0) == y.size(0)
    out = torch.empty([x.size(0), x.size(1) + y.size(1)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        left = tile_n.index < x.size(1)
        from_x = hl.load(x, [tile_m, tile_n], extra_mask=left[None, :])
        from_y = hl.load(y, [tile_m, tile_n.index - x.size(1)], extra_mask=~left[None, :])
        out[tile_m, tile_n] = torch.where(left[None, :], from_x, from_y)
    return out


@helion.kernel(config=helion.Config(block_sizes=[8, 8]))
def embedding(rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    flat = rows.reshape(-1)
    out = torch.empty([flat.size(0), table.size(1)], dtype=table.dtype, device=table.device)
    for tile_b, tile_e in hl.tile([flat.size(0), table.size(1)]):
        out[tile_b, tile_e] = table[flat[tile_b], tile_e]
    return out.view(*rows.size(), table.size(1))


@helion.kernel(config=helion.Config(block_sizes=[4, 4]))
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    rows, width = x.shape
    half = width // 2
    out = torch.empty_like(x)
    for tile_m, tile_h in hl.tile([rows, half]):
        first, second = x[tile_m, tile_h], x[tile_m, tile_h + half]
        c, s = cos[tile_m, tile_h], sin[tile_m, tile_h]
        out[tile_m, tile_h] = first * c - second * s
        out[tile_m, tile_h + half] = second * c + first * s
    return out


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)


@helion.kernel(config=helion.Config(block_sizes=[16]))
def grid_row_scale(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(x.size(0)):
        for tile in hl.tile(x.size(1)):
            out[i, tile] = x[i, tile] * scale[i]
    return out


@helion.kernel(static_shapes=False, config=helion.Config(block_sizes=[8, 8]))
def transpose_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(1), x.size(0)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(x.size()):
        out[tile_n, tile_m] = x[tile_m, tile_n].T + y[tile_n, tile_m]
    return out


def cases():
    x, y = torch.randn(13, 37), torch.randn(37)
    gate, up, grad = torch.randn(9, 21).half(), torch.randn(9, 21).half(), torch.randn(9, 21)
    angles = torch.randn(7, 6)
    yield "add", add, (x, y), torch.add
    yield "exp", exponential, (y,), torch.exp
    yield "exp_backward", exponential_and_gradient, (y,), torch.exp
    yield "geglu", geglu, (gate, up), lambda g, u: F.gelu(g, approximate="tanh") * u
    yield "swiglu", swiglu, (gate, up), lambda g, u: F.silu(g) * u
    yield "swiglu_backward", swiglu_backward, (grad, gate.float(), up.float()), swiglu_gradients
    yield "concatenate", concatenate, (x, torch.randn(13, 12)), lambda a, b: torch.cat([a, b], 1)
    yield "embedding", embedding, (torch.randint(0, 13, (4, 5)), x), lambda rows, table: table[rows]
    yield "rope", rope, (torch.randn(7, 12), angles.cos(), angles.sin()), rotated
    yield "grid_row_scale", grid_row_scale, (x, torch.randn(13)), lambda a, s: a * s[:, None]
    yield "transpose_add", transpose_add, (x, torch.randn(37, 13)), lambda a, b: a.T + b
