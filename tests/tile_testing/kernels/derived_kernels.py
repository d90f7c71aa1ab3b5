"""Small kernels, one for each class of operation that is differentiated, with what they compute in plain torch.

They keep the dtype of their arguments, so that gradients can be checked in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


class Example(NamedTuple):
    """A kernel, what it computes, and arguments for it: shapes of random tensors, or the arguments themselves."""

    kernel: Any
    meaning: Callable[..., Any]
    args: tuple[Any, ...]


EXAMPLES: dict[str, Example] = {}


def example(meaning: Callable[..., Any], *args: Any) -> Callable[[Callable[..., Any]], Any]:
    def register(function: Callable[..., Any]) -> Any:
        made = tileflow.kernel(function)
        EXAMPLES[function.__name__] = Example(made, meaning, args)
        return made

    return register


# ---- lane by lane -------------------------------------------------------------------------------


@example(lambda x, y: torch.tanh(x) * torch.sin(y) + F.silu(x * y) / (1 + y * y), (5, 7), (5, 7))
def mixed_functions(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape):
        a, b = x[tile], y[tile]
        out[tile] = torch.tanh(a) * torch.sin(b) + F.silu(a * b) / (1 + b * b)
    return out


@example(lambda x, scale, bias: x * scale + bias[:, None], (5, 7), (7,), (5,))
def broadcast_both_ways(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        out[tile_m, tile_n] = x[tile_m, tile_n] * scale[tile_n] + bias[tile_m][:, None]
    return out


@example(lambda x, low: torch.maximum(x, low).clamp(max=0.5), (40,), (40,))
def clipped(x: Tensor, low: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.maximum(x[tile], low[tile]).clamp(max=0.5)
    return out


@example(lambda pair, scale: pair[0] * pair[1] * scale, ((6,), (6,)), 3.0)
def of_a_tuple(pair: tuple[Tensor, Tensor], scale: float) -> Tensor:
    out = torch.empty_like(pair[0])
    for tile in tfl.tile(out.size(0)):
        out[tile] = pair[0][tile] * pair[1][tile] * scale
    return out


# ---- reductions ---------------------------------------------------------------------------------


@example(lambda x: (x.mean(1), x.amax(1), x.amin(0)), (5, 7))
def three_reductions(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean, largest, least = x.new_empty(x.size(0)), x.new_empty(x.size(0)), x.new_empty(x.size(1))
    for tile in tfl.tile(x.size(0)):
        mean[tile] = x[tile, :].mean(1)
        largest[tile] = x[tile, :].amax(1)
    for tile in tfl.tile(x.size(1)):
        least[tile] = x[:, tile].amin(0)
    return mean, largest, least


@example(lambda x: (torch.logsumexp(x, 1), x.log_softmax(1), x.var(1), x.norm(dim=1)), (4, 6))
def statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    m = x.size(0)
    lse, variance, length = x.new_empty(m), x.new_empty(m), x.new_empty(m)
    logs = torch.empty_like(x)
    for tile in tfl.tile(m):
        row = x[tile, :]
        lse[tile] = torch.logsumexp(row, 1)
        logs[tile, :] = row.log_softmax(1)
        variance[tile] = row.var(1)
        length[tile] = row.norm(dim=1)
    return lse, logs, variance, length


@example(lambda x: x.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")).softmax(1), (5, 5))
def causal_softmax(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        columns = tfl.arange(x.size(1))
        row = torch.where(columns[None, :] <= tile.index[:, None], x[tile, :], float("-inf"))
        out[tile, :] = torch.softmax(row, 1)
    return out


@example(lambda x, y: (x.prod(1), (y * y).prod(0)), (3, 4), (4, 6))
def products_of_factors(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = x.new_empty(x.size(0)), y.new_empty(y.size(1))
    for tile in tfl.tile(x.size(0)):
        rows[tile] = x[tile, :].prod(1)
    for tile in tfl.tile(y.size(1)):
        columns[tile] = (y[:, tile] * y[:, tile]).prod(0)
    return rows, columns


@example(lambda x: x.cumsum(1), (3, 8))
def running_sums(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.cumsum(x[tile, :], 1)
    return out


@example(lambda x, w: (x * w[:, None]).sum(1) / x.size(1), (3, 40), (3,))
def looped_mean(x: Tensor, w: Tensor) -> Tensor:
    """A row's factor is the same in each turn: its gradient is a sum over them."""
    m, n = x.shape
    total = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        acc = tfl.zeros([tile_m], dtype=x.dtype)
        factor = w[tile_m]
        for tile_n in tfl.tile(n):
            acc = acc + (x[tile_m, tile_n] * factor[:, None]).sum(1)
        total[tile_m] = acc
    return total / n


# ---- products -----------------------------------------------------------------------------------


@example(lambda x, y, bias: F.relu(x @ y + bias), (4, 40), (40, 5), (5,))
def linear_relu(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    m, k = x.shape
    out = x.new_empty(m, y.size(1))
    for tile_m, tile_n in tfl.tile([m, y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(k):
            acc = tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = torch.relu(acc + bias[tile_n])
    return out


@example(lambda q, k, v: torch.softmax(q @ k.mT / 2, -1) @ v, (2, 5, 4), (2, 40, 4), (2, 40, 4))
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Sums relative to a running peak."""
    b, m, d = q.shape
    out = torch.empty_like(q)
    for tile_b, tile_m in tfl.tile([b, m], block_size=[1, None]):
        peak = tfl.full([tile_b, tile_m], float("-inf"), dtype=q.dtype)
        total = tfl.zeros([tile_b, tile_m], dtype=q.dtype)
        acc = tfl.zeros([tile_b, tile_m, d], dtype=q.dtype)
        rows = q[tile_b, tile_m, :] * 0.5
        for tile_n in tfl.tile(k.size(1)):
            scores = torch.bmm(rows, k[tile_b, tile_n, :].transpose(1, 2))
            new = torch.maximum(peak, scores.amax(-1))
            p = torch.exp(scores - new[:, :, None])
            follow = torch.exp(peak - new)
            total = total * follow + p.sum(-1)
            acc = torch.baddbmm(acc * follow[:, :, None], p, v[tile_b, tile_n, :])
            peak = new
        out[tile_b, tile_m, :] = acc / total[:, :, None]
    return out


# ---- indices ------------------------------------------------------------------------------------

ROWS = torch.tensor([2, 0, 2, 1])


@example(lambda table, rows: table[rows] ** 2, (3, 5), ROWS)
def gathered(table: Tensor, rows: Tensor) -> Tensor:
    out = table.new_empty(rows.size(0), table.size(1))
    for tile_m, tile_n in tfl.tile([rows.size(0), table.size(1)]):
        value = table[rows[tile_m], tile_n]
        out[tile_m, tile_n] = value * value
    return out


@example(lambda x, rows: torch.zeros(3, 5).to(x).index_add(0, rows, x * x), (4, 5), ROWS)
def scattered(x: Tensor, rows: Tensor) -> Tensor:
    out = x.new_zeros(3, x.size(1))
    for tile_m, tile_n in tfl.tile(x.shape):
        value = x[tile_m, tile_n]
        tfl.atomic_add(out, [rows[tile_m], tile_n], value * value)
    return out


@example(lambda x: x * F.pad(x, (1, 0))[:-1] + F.pad(x, (0, 1))[1:], (40,))
def stencil(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * x[tile - 1] + x[tile + 1]
    return out


@example(lambda x, labels: -x.log_softmax(1).gather(1, labels[:, None])[:, 0].mean(), (4, 5), ROWS)
def picked(x: Tensor, labels: Tensor) -> Tensor:
    losses = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        logs = x[tile, :].log_softmax(1)
        losses[tile] = -torch.gather(logs, 1, labels[tile][:, None])[:, 0]
    return losses.mean()


@example(lambda x: torch.cat([x[:, 4:] * 2, x[:, :4]], 1), (3, 8))
def halves(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :4] = x[tile, 4:] * 2
        out[tile, 4:] = x[tile, :4]
    return out


@example(lambda x: (x.reshape(3, 4, 2)[:, :, 0] * x.reshape(3, 4, 2)[:, :, 1]).T, (3, 8))
def pairs(x: Tensor) -> Tensor:
    out = x.new_empty(4, x.size(0))
    for tile in tfl.tile(x.size(0)):
        a, b = tfl.split(x[tile, :].reshape(tile, 4, 2))
        out[:, tile] = (a * b).permute(1, 0)
    return out


@example(lambda x: x[:, 0] * x[:, 1], (6, 2))
def one_at_a_time(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for i in tfl.grid(x.size(0)):
        out[i] = x[i, 0] * x[i, 1]
    return out


@example(lambda x: torch.where(x > 0, x * x, 0.0), (40,))
def masked(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        positive = x[tile] > 0
        value = tfl.load(x, [tile], extra_mask=positive)
        tfl.store(out, [tile], value * value, extra_mask=positive)
    return out


# ---- launches -----------------------------------------------------------------------------------


@example(lambda x, w: torch.tanh(x * w).sum(1) * w[0], (4, 6), (6,))
def two_launches(x: Tensor, w: Tensor) -> Tensor:
    hidden, out = torch.empty_like(x), x.new_empty(x.size(0))
    for tile in tfl.tile(x.shape):
        hidden[tile] = x[tile] * w[tile[1]]
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.tanh(hidden[tile, :]).sum(1) * w[0]
    return out


@example(lambda x: x.flatten().exp().reshape(x.shape), (3, 4))
def of_a_view(x: Tensor) -> Tensor:
    flat = x.view(-1)
    out = torch.empty_like(flat)
    for tile in tfl.tile(flat.size(0)):
        out[tile] = torch.exp(flat[tile])
    return out.view(x.shape)


@example(lambda x, w: (x.exp().sum(1) * w).square().sum() + w.sum(), (4, 6), (4,))
def nonlinear_host_code(x: Tensor, w: Tensor) -> Tensor:
    """Host code after the launch needs what it wrote, and depends on an argument itself."""
    sums = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        sums[tile] = torch.exp(x[tile, :]).sum(1)
    return (sums * w).square().sum() + w.sum()
