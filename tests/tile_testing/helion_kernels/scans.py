"""Scans, chunked recurrences, segments, random numbers: what goes beyond sums and products."""

from __future__ import annotations

import helion
import helion.language as hl
import torch

from tileflow.language.random import philox


def combine(left_value, left_row, right_value, right_row):
    return torch.where(left_row == right_row, left_value + right_value, right_value), right_row


@helion.kernel(config=helion.Config(block_sizes=[8, 4]))
def segment_sum(rows: torch.Tensor, values: torch.Tensor, count: int) -> torch.Tensor:
    n, features = values.shape
    out = torch.zeros([count, features], dtype=values.dtype, device=values.device)
    for tile_e, tile_f in hl.tile([n, features]):
        part = values[tile_e, tile_f]
        row = rows[tile_e]
        following = hl.load(rows, [tile_e.index + 1], extra_mask=tile_e.index < n - 1)
        sums, _ = hl.associative_scan(combine, (part, row.unsqueeze(1).expand_as(part)), dim=0)
        last = (
            (row != following) | (tile_e.index % tile_e.block_size == tile_e.block_size - 1) | (tile_e.index == n - 1)
        )
        hl.atomic_add(out, [row, tile_f], torch.where(last.unsqueeze(1), sums, 0.0))
    return out


@helion.kernel(config=helion.Config(block_sizes=[4]))
def running_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = hl.cumsum(x[tile, :], dim=1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[4]))
def running_product(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = hl.cumprod(x[tile, :], dim=1, reverse=True)
    return out


def add_pair(left, right):
    return left + right


@helion.kernel(config=helion.Config(block_sizes=[4]))
def reduce_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = hl.reduce(add_pair, x[tile, :], dim=1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16]))
def dropout(p: float, x: torch.Tensor, seed: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        keep = hl.rand([tile], seed=seed) > p
        out[tile] = torch.where(keep, x[tile] / (1 - p), 0.0)
    return out


@helion.kernel(static_shapes=True)
def numbers_from(out: torch.Tensor, drawn: torch.Tensor, begin: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Random numbers of a loop that begins within the rows: a row of them is as long as the loop."""
    for rows, columns in hl.tile([0, begin], out.size()):
        out[rows, columns] = hl.rand([rows, columns], seed=seed)
        drawn[rows, columns] = hl.randint([rows, columns], -5, 100, seed=seed)
    return out, drawn


def _numbered_from(out: torch.Tensor, drawn: torch.Tensor, begin: int, seed: int) -> tuple[torch.Tensor, ...]:
    """The numbers of Triton's generator for each row's start and the columns behind it."""
    rows, columns = torch.meshgrid(torch.arange(out.size(0)), torch.arange(begin, out.size(1)), indexing="ij")
    place = rows * (out.size(1) - begin) + columns
    word = philox((place, torch.zeros_like(place), 0, 0), seed)[0].to(torch.int32).long()
    out[:, begin:] = torch.where(word < 0, -word - 1, word) * 4.6566127342e-10
    drawn[:, begin:] = (word.abs() % 105 - 5).int()
    return out, drawn


def dropout_rate(x: torch.Tensor) -> torch.Tensor:
    """Whether about a quarter is dropped, the rest scaled, and the same seed gives the same lanes."""
    out, again, other = dropout(0.25, x, 7), dropout(0.25, x, 7), dropout(0.25, x, 8)
    dropped = (out == 0).float().mean()
    kept = torch.where(out == 0, 0.0, x / 0.75)
    return torch.tensor([
        bool(0.15 < dropped < 0.35), torch.equal(out, again), not torch.equal(out, other),
        torch.allclose(out, kept),
    ])  # fmt: skip


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]))
def chunk_scan(
    cb: torch.Tensor, x: torch.Tensor, dt: torch.Tensor, decay: torch.Tensor, c: torch.Tensor, states: torch.Tensor,
    skip: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    batch, chunks, groups, size, _ = cb.shape
    _, length, heads, width = x.shape
    assert chunks == helion.cdiv(length, size)
    block_m = hl.register_block_size(size)
    block_n = hl.register_block_size(width)
    block_k = hl.register_block_size(16, 64)
    out = torch.empty_like(x)
    for tile_h, tile_m, tile_n, tile_b, tile_c in hl.tile(
        [heads, size, width, batch, chunks], block_size=[1, block_m, block_n, 1, 1]
    ):
        group = tile_h.begin // (heads // groups)
        decay_m = decay[tile_b.begin, tile_h.begin, tile_c.begin, tile_m].to(torch.float32)
        c_local = c[tile_b.begin, tile_m.index + tile_c.begin * size, group, :]
        before = states[tile_b.begin, tile_c.begin, tile_h.begin, tile_n, :]
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        acc = hl.dot(c_local, before.T, acc=acc)
        acc *= torch.exp(decay_m)[:, None]
        for tile_k in hl.tile((tile_m.id + 1) * block_m, block_size=block_k):
            part = cb[tile_b.begin, tile_c.begin, group, tile_m, tile_k].to(torch.float32)
            decay_k = decay[tile_b.begin, tile_h.begin, tile_c.begin, tile_k].to(torch.float32)
            part *= torch.exp(decay_m[:, None] - decay_k[None, :])
            part = (part * dt[tile_b.begin, tile_h.begin, tile_c.begin, tile_k].to(torch.float32)[None, :]).to(cb.dtype)
            seen = (tile_m.index + 0)[:, None] >= (tile_k.index + 0)[None, :]
            part = torch.where(seen, part, torch.zeros_like(part))
            x_local = x[tile_b.begin, tile_c.begin * size + tile_k.index, tile_h.begin, tile_n]
            acc = hl.dot(part, x_local, acc=acc)
        residual = x[tile_b.begin, tile_c.begin * size + tile_m.index, tile_h.begin, tile_n].to(torch.float32)
        acc += residual * skip[tile_h.begin].to(torch.float32)
        out[tile_b.begin, tile_c.begin * size + tile_m.index, tile_h.begin, tile_n] = acc.to(dtype=cb.dtype)
    return out


def chunk_scanned(cb, x, dt, decay, c, states, skip):
    batch, chunks, groups, size, _ = cb.shape
    _, _length, heads, width = x.shape
    c = c.repeat_interleave(heads // groups, dim=2).reshape(batch, chunks, size, heads, -1)
    cb = cb.repeat_interleave(heads // groups, dim=2)
    scores = cb * torch.exp(decay[..., :, None] - decay[..., None, :]).permute(0, 2, 1, 3, 4)
    scores = scores.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), 0)
    out = torch.einsum("bchls,bhcs,bcshp->bclhp", scores, dt, x.reshape(batch, chunks, size, heads, width))
    out += torch.einsum("bclhn,bchpn->bclhp", c, states) * torch.exp(decay).permute(0, 2, 3, 1)[..., None]
    return out.reshape(x.shape) + x * skip[:, None]


@helion.kernel(config=helion.Config(block_sizes=[16]))
def gated_delta(k: torch.Tensor, w: torch.Tensor, u: torch.Tensor, g: torch.Tensor, size: int) -> torch.Tensor:
    batch, length, heads, width = k.shape
    width = hl.specialize(width)
    size = hl.specialize(size)
    states = u.shape[-1]
    h = torch.empty(batch, helion.cdiv(length, size), heads, width, states, dtype=k.dtype, device=k.device)
    block_v = hl.register_block_size(states)
    for tile_b, tile_h, tile_v in hl.tile([batch, heads, states], block_size=[1, 1, block_v]):
        state = hl.zeros([width, tile_v], dtype=torch.float32)
        for chunk in hl.tile(length, block_size=size):
            h[tile_b.begin, chunk.id, tile_h.begin, :, tile_v] = state.to(k.dtype)
            seen = hl.dot(w[tile_b.begin, chunk, tile_h.begin, :], state.to(k.dtype), out_dtype=torch.float32)
            value = u[tile_b.begin, chunk, tile_h.begin, tile_v].to(torch.float32) - seen
            last = min(chunk.begin + size, length) - 1
            gate_last = g[tile_b.begin, last, tile_h.begin].to(torch.float32)
            gate = g[tile_b.begin, chunk, tile_h.begin].to(torch.float32)
            value *= torch.where(chunk.index < length, torch.exp(gate_last - gate), 0)[:, None]
            state *= torch.exp(gate_last)
            state = hl.dot(k[tile_b.begin, chunk, tile_h.begin, :].T, value.to(k.dtype), acc=state)
    return h


def gated_delta_reference(k, w, u, g, size):
    batch, length, heads, width = k.shape
    out, state = [], torch.zeros(batch, heads, width, u.size(-1))
    for begin in range(0, length, size):
        out.append(state.clone())
        part = slice(begin, min(begin + size, length))
        value = u[:, part] - torch.einsum("bchk,bhkv->bchv", w[:, part], state)
        last = g[:, part][:, -1]
        value = value * torch.exp(last[:, None] - g[:, part])[..., None]
        state = state * torch.exp(last)[..., None, None] + torch.einsum("bchk,bchv->bhkv", k[:, part], value)
    return torch.stack(out, 1)


@helion.kernel(config=helion.Config(block_sizes=[16]))
def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    out = torch.zeros([bins], dtype=torch.int32, device=x.device)
    for tile in hl.tile(x.size(0)):
        ones = hl.full([tile], 1, dtype=torch.int32)
        hl.atomic_add(out, [x[tile]], ones)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16]))
def split_pairs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n = x.size(0) // 2
    even, odd = x.new_empty(n), x.new_empty(n)
    pairs = x.view(n, 2)
    for tile in hl.tile(n):
        first, second = hl.split(pairs[tile, :])
        even[tile], odd[tile] = first, second
    return even, odd


@helion.kernel(config=helion.Config(block_sizes=[16]))
def join_pairs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), 2)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = hl.join(x[tile], y[tile])
    return out


@helion.kernel(config=helion.Config(block_sizes=[16]))
def taps(x: torch.Tensor, weight: torch.Tensor, width: hl.constexpr) -> torch.Tensor:
    n = x.size(0) - width + 1
    out = x.new_empty(n)
    for tile in hl.tile(n):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i in hl.static_range(width):
            acc = acc + x[tile.index + i] * weight[i]
        out[tile] = acc
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 16]))
def two_phases(x: torch.Tensor) -> torch.Tensor:
    doubled, out = torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        doubled[tile] = x[tile] * 2
    hl.barrier()
    for tile in hl.tile(x.size(0)):
        out[tile] = doubled[x.size(0) - 1 - tile.index] + 1
    return out


@helion.kernel(config=helion.Config(block_sizes=[16]))
def by_functions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        index = hl.tile_index(tile)
        inside = index < hl.tile_end(tile)
        part = hl.load(x, [tile], extra_mask=inside)
        column = hl.subscript(part, [slice(None), None])
        out[tile] = column.squeeze(1) + hl.tile_begin(tile) + hl.tile_id(tile) * hl.tile_block_size(tile) - 2 * index
    return out


def begin_plus_id(x: torch.Tensor) -> torch.Tensor:
    lanes = torch.arange(x.size(0))
    return x + 2 * (lanes // 16 * 16) - 2 * lanes


def cases():
    rows = torch.randint(0, 5, (29,)).sort().values
    values = torch.randn(29, 6)
    yield "segment_sum", segment_sum, (rows, values, 6), lambda r, v, n: torch.zeros(n, 6).index_add_(0, r, v)
    yield "running_sum", running_sum, (values,), lambda a: a.cumsum(1)
    yield "running_product", running_product, (values,), lambda a: a.flip(1).cumprod(1).flip(1)
    yield "reduce_sum", reduce_sum, (values,), lambda a: a.sum(1)
    numbers = torch.zeros(7, 30), torch.zeros(7, 30, dtype=torch.int32), 8, 42
    yield "numbers_from", numbers_from, numbers, _numbered_from
    yield "dropout", dropout_rate, (torch.randn(300),), lambda a: torch.tensor([True] * 4)
    f = torch.randn
    yield (
        "chunk_scan", chunk_scan,
        (f(1, 2, 1, 32, 32), f(1, 64, 2, 16), f(1, 2, 2, 32), 0.1 * f(1, 2, 2, 32), f(1, 64, 1, 16),
         f(1, 2, 2, 16, 16), f(2)),
        chunk_scanned,
    )  # fmt: skip
    yield (
        "gated_delta", gated_delta,
        (f(1, 37, 2, 16), 0.1 * f(1, 37, 2, 16), f(1, 37, 2, 24), -torch.rand(1, 37, 2), 16),
        gated_delta_reference,
    )  # fmt: skip
    yield "histogram", histogram, (rows, 6), lambda r, n: torch.bincount(r, minlength=n).int()
    yield "split_pairs", split_pairs, (torch.randn(40),), lambda a: (a[0::2], a[1::2])
    yield "join_pairs", join_pairs, (torch.randn(20), torch.randn(20)), lambda a, b: torch.stack([a, b], 1)
    yield "taps", taps, (torch.randn(40), torch.randn(3), 3), lambda a, w, n: a.unfold(0, n, 1) @ w
    yield "two_phases", two_phases, (torch.randn(40),), lambda a: 2 * a.flip(0) + 1
    yield "by_functions", by_functions, (torch.randn(40),), begin_plus_id
