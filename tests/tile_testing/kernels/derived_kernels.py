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


@example(lambda x, y: torch.erfinv(torch.tanh(x) * 0.9) + torch.fmax(x, y), (5, 7), (5, 7))
def inverse_of_erf(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape):
        a, b = x[tile], y[tile]
        out[tile] = torch.erfinv(torch.tanh(a) * 0.9) + torch.fmax(a, b)
    return out


@example(lambda x, scale, bias: x * scale + bias[:, None], (5, 7), (7,), (5,))
def broadcast_both_ways(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        out[tile_m, tile_n] = x[tile_m, tile_n] * scale[tile_n] + bias[tile_m][:, None]
    return out


@example(lambda x, w: torch.tanh(x * 2) @ w, (2, 20, 24), (2, 24, 9))
def batches_by_number(x: Tensor, w: Tensor) -> Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(2))
    for b in tfl.grid(x.size(0)):
        rows, columns = torch.tanh(x[b] * 2), w[b].T
        for t, n in tfl.tile([x.size(1), w.size(2)]):
            total = torch.zeros(t, n, dtype=x.dtype)
            for k in tfl.tile(x.size(2)):
                total = total + (rows[t, k][:, :, None] * columns[n, k].T[None]).sum(1)
            out[b, t, n] = total
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


@example(lambda x: (x.softmax(1) * x.amax(1, keepdim=True), x.logsumexp(1) + x.amax(1).sin()), (4, 6))
def peaks_that_are_read_too(x: Tensor) -> tuple[Tensor, Tensor]:
    """A peak that is subtracted for range alone, and the same one with a gradient of its own."""
    out, lse = torch.empty_like(x), x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = torch.softmax(row, 1) * row.amax(1, keepdim=True)
        lse[tile] = torch.logsumexp(row, 1) + torch.sin(row.amax(1))
    return out, lse


@example(lambda x: (x.exp() ** x.amax(1, keepdim=True), x.fmod(1.5 + x.amax(1, keepdim=True).abs())), (4, 6))
def functions_of_a_peak(x: Tensor) -> tuple[Tensor, Tensor]:
    """No rule says how a power or a remainder moves when a peak does."""
    powers, rests = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        peak = row.amax(1, keepdim=True)
        powers[tile, :] = torch.exp(row) ** peak
        rests[tile, :] = torch.fmod(row, 1.5 + peak.abs())
    return powers, rests


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


def _padded_parts(x: Tensor) -> Tensor:
    row = x[:, :5] * x[:, :5].tanh()
    return torch.cat([F.pad(row, (0, 2)) * F.pad(row, (0, 2)).cos(), x.exp()], 1)


@example(_padded_parts, (3, 7))
def first_lanes(x: Tensor) -> Tensor:
    """Lanes that stay where they are: the first ones of a dimension, and some more behind them."""
    out = x.new_empty(x.size(0), 14)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        five = row[:, :5] * torch.tanh(row[:, :5])
        seven = F.pad(five, (0, 2))
        out[tile, :7] = seven * torch.cos(seven)
        out[tile, 7:] = torch.exp(row)
    return out


def _moved(x: Tensor) -> Tensor:
    row = x * x
    return torch.cat([row[:, 2:7] * row[:, 1::2].tanh(), row.flip(1) * row.roll(2, 1), row.roll(-4, 1)[:, :7]], 1)


@example(_moved, (5, 10))
def moved_lanes(x: Tensor) -> Tensor:
    """Elements of a row at places that are known, each once at most."""
    out = x.new_empty(x.size(0), 22)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :] * x[tile, :]
        out[tile, :5] = row[:, 2:7] * torch.tanh(row[:, 1::2])
        out[tile, 5:15] = row.flip(1) * row.roll(2, 1)
        out[tile, 15:] = row.roll(-4, 1)[:, :7]
    return out


def _repeated(x: Tensor, places: Tensor) -> Tensor:
    row = x * x
    padded = F.pad(row[:, None], (2, 1), mode="reflect")[:, 0]
    parts = [row.repeat_interleave(2, 1), row.repeat(1, 2), padded, row[:, places], row.gather(1, places.expand(5, 3))]
    return torch.cat(parts, 1).sin()


@example(_repeated, (5, 6), torch.tensor([4, 0, 4]))
def repeated_lanes(x: Tensor, places: Tensor) -> Tensor:
    """Elements of a row that several lanes take, at places that are known and at some that are loaded."""
    out = x.new_empty(x.size(0), 39)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :] * x[tile, :]
        out[tile, :12] = torch.sin(row.repeat_interleave(2, 1))
        out[tile, 12:24] = torch.sin(row.repeat(1, 2))
        out[tile, 24:33] = torch.sin(F.pad(row[:, None, :], (2, 1), mode="reflect")[:, 0, :])
        out[tile, 33:36] = torch.sin(row[:, places[:]])
        out[tile, 36:] = torch.sin(row.gather(1, places[None, :].expand(tile, 3)))
    return out


@example(lambda x: x[:, 1:3, :].flip(1).diff(dim=2)[:, :, :4] * x[:, :2, 2:].roll(1, 2), (3, 4, 6))
def moved_rows(x: Tensor) -> Tensor:
    """Along a dimension in the middle, and the last one."""
    out = x.new_empty(x.size(0), 2, 4)
    for tile in tfl.tile(x.size(0)):
        box = x[tile, :, :]
        out[tile, :, :] = (box[:, 1:3, :].flip(1).diff(dim=2)[:, :, :4]) * box[:, :2, 2:].roll(1, 2)
    return out


@example(lambda x: torch.cat([x, 2 * x, x * x], 1).sin(), (3, 4))
def three_in_a_row(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0), 12)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = torch.sin(torch.cat([row, 2 * row, row * row], 1))
    return out


@example(lambda x: torch.cat([x[:, 4:] * 2, x[:, :4]], 1), (3, 8))
def halves(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :4] = x[tile, 4:] * 2
        out[tile, 4:] = x[tile, :4]
    return out


@example(lambda x: torch.stack([-x[:, 1::2], 2 * x[:, ::2]], 2).flatten(1), (3, 8))
def every_second(x: Tensor) -> Tensor:
    """Slices with a step name elements of their own; the helper's return is none of the kernel's."""

    def twice(value: Any) -> Any:
        return value * 2

    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, ::2] = -x[tile, 1::2]
        out[tile, 1::2] = twice(x[tile, ::2])
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


# ---- branches and ragged loops ------------------------------------------------------------------

FLAGS = torch.tensor([1, 0, -2, 3, 1])
COUNTS = torch.tensor([3, 0, 41, 7, 16])
STARTS = torch.tensor([0, 3, 3, 44, 51, 67])


@example(lambda x, w, flags: torch.where(flags[:, None] > 0, x * x * w, torch.sin(x) + x), (5, 7), (7,), FLAGS)
def row_by_row(x: Tensor, w: Tensor, flags: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        row = x[i, :]
        if flags[i] > 0:
            value = row * row * w[:]
        else:
            value = torch.sin(row) + row
        out[i, :] = value
    return out


@example(lambda x, y, flags: torch.where(flags[:, None] > 0, x * y, 0 * x), (5, 7), (5, 7), FLAGS)
def stored_in_a_branch(x: Tensor, y: Tensor, flags: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for i in tfl.grid(x.size(0)):
        if flags[i] > 0:
            out[i, :] = x[i, :] * y[i, :]
    return out


@example(lambda x, y, flags: torch.where(flags[:, None] > 0, x * y, x.exp()), (5, 7), (5, 7), FLAGS)
def stored_on_both_sides(x: Tensor, y: Tensor, flags: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for i in tfl.grid(x.size(0)):
        if flags[i] > 0:
            out[i, :] = x[i, :] * y[i, :]
        else:
            out[i, :] = torch.exp(x[i, :])
    return out


@example(lambda x: (x * torch.ones(40, 40, dtype=x.dtype).tril()).square().sum(1), (40, 40))
def causal_skip(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile], dtype=x.dtype)
        for other in tfl.tile(x.size(1)):
            if other.begin < tile.end:
                v = torch.where(other.index[None, :] <= tile.index[:, None], x[tile, other], 0.0)
                total = total + (v * v).sum(1)
        out[tile] = total
    return out


@example(lambda x: x.square().sum() if x.sum() > 0 else x.sin().sum(), (13,))
def on_a_computed_value(x: Tensor) -> Tensor:
    out = x.new_empty(1)
    for i in tfl.grid(1):
        row = x[:]
        s = row.sum(0)
        if s > 0:
            v = (row * row).sum(0)
        else:
            v = torch.sin(row).sum(0)
        out[i] = v
    return out[0]


def _within(x: Tensor, w: Tensor, lengths: Tensor) -> Tensor:
    return (x * w * (torch.arange(x.size(1)) < lengths[:, None])).sum(1)


@example(_within, (5, 41), (41,), COUNTS)
def jagged_sum(x: Tensor, w: Tensor, lengths: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile], dtype=x.dtype)
        for other in tfl.jagged_tile(lengths[tile]):
            total = total + (x[tile, other] * w[other][None, :]).sum(1)
        out[tile] = total
    return out


def _segments(values: Tensor, offsets: Tensor, scale: Tensor) -> Tensor:
    parts = values.tensor_split(offsets[1:-1])
    return torch.stack([(part.square() * s).sum(0) for part, s in zip(parts, scale, strict=True)])


@example(_segments, (67, 5), STARTS, (5,))
def segments_by_scalars(values: Tensor, offsets: Tensor, scale: Tensor) -> Tensor:
    out = values.new_empty(scale.size(0), values.size(1))
    for i in tfl.grid(scale.size(0)):
        total = tfl.zeros([values.size(1)], dtype=values.dtype)
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            v = values[tile, :]
            total = total + (v * v * scale[i]).sum(0)
        out[i, :] = total
    return out


@example(_segments, (67, 5), STARTS, (5,))
def segments_by_jagged_tiles(values: Tensor, offsets: Tensor, scale: Tensor) -> Tensor:
    out = values.new_empty(scale.size(0), values.size(1))
    for tile, tile_n in tfl.tile([scale.size(0), values.size(1)]):
        starts = offsets[tile]
        total = tfl.zeros([tile, tile_n], dtype=values.dtype)
        for k in tfl.jagged_tile(offsets[tile.index + 1] - starts):
            rows = starts[:, None] + k.index[None, :]
            v = values[rows, tile_n]
            total = total + (v * v * scale[tile][:, None, None]).sum(1)
        out[tile, tile_n] = total
    return out


def _each_segment(values: Tensor, offsets: Tensor) -> Tensor:
    return torch.cat([part.softmax(0) for part in values.tensor_split(offsets[1:-1])])


@example(_each_segment, (67,), STARTS)
def segment_softmax(values: Tensor, offsets: Tensor) -> Tensor:
    out = torch.empty_like(values)
    for i in tfl.grid(offsets.size(0) - 1):
        peak = tfl.full([1], float("-inf"), dtype=values.dtype)
        total = tfl.zeros([1], dtype=values.dtype)
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            v = values[tile]
            new = torch.maximum(peak, v.amax(0, keepdim=True))
            total = total * torch.exp(peak - new) + torch.exp(v - new).sum(0, keepdim=True)
            peak = new
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            out[tile] = torch.exp(values[tile] - peak) / total
    return out


def _three_ways(x: Tensor, y: Tensor, flags: Tensor) -> Tensor:
    rows = flags[:, None]
    return torch.where(rows > 1, x * y, torch.where(rows > 0, x.exp(), y)).cumsum(1)


@example(_three_ways, (5, 19), (5, 19), FLAGS)
def elif_in_a_loop(x: Tensor, y: Tensor, flags: Tensor) -> Tensor:
    """Each side hands on the sum that the loop carries, and adds something else to it."""
    out = torch.empty_like(x)
    for i, j in tfl.grid(list(x.shape)):
        total = tfl.zeros([], dtype=x.dtype)
        for k in tfl.grid(j + 1):
            if flags[i] > 1:
                total = total + x[i, k] * y[i, k]
            elif flags[i] > 0:
                total = total + torch.exp(x[i, k])
            else:
                total = total + y[i, k]
        out[i, j] = total
    return out


def _blocks(x: Tensor, y: Tensor, kept: Tensor) -> Tensor:
    mask = kept.repeat_interleave(16, 0)[: x.size(0)].repeat_interleave(16, 1)[:, : x.size(1)]
    return (x * mask) @ y


@example(_blocks, (20, 37), (37, 9), torch.tensor([[1, 0, 1], [0, 0, 1]]))
def product_of_blocks(x: Tensor, y: Tensor, kept: Tensor) -> Tensor:
    """A product whose loop leaves out blocks: its launches for the operands are not exchanged."""
    out = x.new_empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)], block_size=[16, None]):
        acc = tfl.zeros([tile_m, tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1), block_size=16):
            if kept[tile_m.id, tile_k.id] > 0:
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


# ---- parts of tensors -------------------------------------------------------------------------------------------


def store_scaled(o: Tensor, x: Tensor, scale: Tensor) -> None:
    for t in tfl.tile(o.size(0)):
        o[t] = x[t] * scale


@example(lambda x, s: (x * s[:, None, None], x[:, :, :3].exp()), (3, 4, 6), (3,))
def stored_through_parts(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    out, other = torch.empty_like(x), x.new_empty(*x.shape[:2], 3)
    for b in tfl.grid(x.size(0)):
        rows, more = out[b], other[b, :, :]
        for n in tfl.grid(x.size(1)):
            store_scaled(rows[n], x[b, n], s[b])
        for t in tfl.tile(more.size(0)):
            more[t] = x[b, t, :3].exp()
    return out, other
