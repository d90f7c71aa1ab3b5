"""Kernels that index at and past the ends of tensors, and sizes of 1 and 0, with what they must give: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case

X = rand(5, 6, 37)
V = rand(37, seed=1)


def guarded(x: torch.Tensor) -> torch.Tensor:
    """A view with NaN before and behind it in memory, which no kernel may read."""
    room = torch.full((2 * x.numel() + 64,), float("nan"))
    room[32 : 32 + x.numel()] = x.flatten()
    return room[32 : 32 + x.numel()].view(x.shape)


# ---- sizes of 1 -------------------------------------------------------------------------------------


@case(X, guarded(rand(1, 1, 37, seed=2)), wanted=lambda x, mask: x * mask, n=8)
@tileflow.kernel
def block_mask_by_begins(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A mask for all batches and heads, indexed by batch and head."""
    out = torch.empty_like(x)
    for b, h, n in tfl.tile(x.shape, block_size=[1, 1, None]):
        out[b.begin, h.begin, n] = x[b.begin, h.begin, n] * mask[b.begin, h.begin, n]
    return out


@case(guarded(rand(1, 37, seed=3)), wanted=lambda x: 3 * x, n=8)
@tileflow.kernel
def beside_the_only_row(x: torch.Tensor) -> torch.Tensor:
    """Rows above and below it are outside: a loop over one row broadcasts nothing."""
    out = torch.empty_like(x)
    for m, n in tfl.tile(x.shape, block_size=[1, None]):
        near = x[m.begin, n]
        for shift in range(3):
            near = near + x[m.begin + (shift - 1), n]
        out[m.begin, n] = near + x[m.id, n] + x[m.end, n] + x[m.begin * 2 - 1, n]
    return out


@case(X, guarded(rand(1, 1, 37, seed=2)), wanted=lambda x, mask: x * mask, b=2, h=4, n=8)
@tileflow.kernel
def block_mask_by_tiles(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for b, h, n in tfl.tile(x.shape):
        out[b, h, n] = x[b, h, n] * mask[b, h, n]
    return out


@case(X, guarded(rand(5, 1, 37, seed=2)), wanted=lambda x, mask: x * mask, n=8)
@tileflow.kernel
def block_mask_by_heads(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Two query heads for each of the mask's, of which there is one."""
    out = torch.empty_like(x)
    for b, h in tfl.grid([x.size(0), x.size(1)]):
        for n in tfl.tile(x.size(2)):
            out[b, h, n] = x[b, h, n] * mask[b, h // 2, n]
    return out


@case(X, guarded(rand(1, 6, 1, seed=2)), wanted=lambda x, scale: (x * scale).sum(2), b=2, n=8)
@tileflow.kernel
def sums_with_a_size_of_1(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The loop over the last dimension is the kernel's own."""
    out = torch.empty(x.size(0), x.size(1))
    for b in tfl.tile(x.size(0)):
        for h in tfl.grid(x.size(1)):
            acc = tfl.zeros([b])
            for n in tfl.tile(x.size(2)):
                acc += (x[b, h, n] * scale[b, h, n]).sum(1)
            out[b, h] = acc
    return out


# ---- scalars past the ends --------------------------------------------------------------------------


@case(V, guarded(rand(5, seed=3)), wanted=lambda x, s: x + s.repeat_interleave(8)[:37] + torch.cat(
    [torch.full((8 if n < 4 else 5,), s[n + 1].item() if n < 4 else 0.0) for n in range(5)]))  # fmt: skip
@tileflow.kernel
def the_next_tiles_number(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """The last tile has none after it, and blocks smaller than 8 more tiles than numbers."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0), block_size=8):
        out[t] = x[t] + s[t.id] + s[t.id + 1]
    return out


@case(guarded(V), wanted=lambda x: torch.cat([x[8:33:8], torch.zeros(1)])[: -(-37 // 8)])
@tileflow.kernel
def first_after_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(5)
    for t in tfl.tile(x.size(0), block_size=8):
        out[t.id] = x[t.end]
    return out


@case(guarded(V), wanted=lambda x: torch.cat([torch.zeros(1), x[7:32:8]]))
@tileflow.kernel
def last_before_a_tile(x: torch.Tensor) -> torch.Tensor:
    """A number below 0 that the kernel computes is outside, not counted from the end."""
    out = torch.empty(5)
    for t in tfl.tile(x.size(0), block_size=8):
        out[t.id] = x[t.begin - 1]
    return out


@case(guarded(V), wanted=lambda x: x[7:36:8].new_tensor([x[7], x[15], x[23], x[31], x[36]]))
@tileflow.kernel
def last_of_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(5)
    for t in tfl.tile(x.size(0), block_size=8):
        out[t.id] = x[t.end - 1]
    return out


# ---- loaded indices ---------------------------------------------------------------------------------

PLACES = torch.tensor([3, -1, 36, 37, 0, 1 << 20, -(1 << 20)], dtype=torch.int32)


def _picked(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    inside = (places >= 0) & (places < x.size(0))
    return torch.where(inside, x[places.clamp(0, x.size(0) - 1).long()], 0)


@case(guarded(V), PLACES, wanted=_picked, t=4)
@tileflow.kernel
def gathered(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty(places.size(0))
    for t in tfl.tile(places.size(0)):
        out[t] = x[places[t]]
    return out


@case(guarded(V), PLACES, wanted=_picked)
@tileflow.kernel
def gathered_one_by_one(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty(places.size(0))
    for i in tfl.grid(places.size(0)):
        out[i] = x[places[i]]
    return out


@case(guarded(rand(9, 8)), PLACES, wanted=lambda x, places: _picked(x[:, 0], places) * 0 + torch.stack(
    [x[p].amax() if 0 <= p < 9 else torch.zeros(()) for p in places.tolist()]), t=4)  # fmt: skip
@tileflow.kernel
def largest_of_gathered_rows(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty(places.size(0))
    for t in tfl.tile(places.size(0)):
        out[t] = x[places[t], :].amax(1)
    return out


def _scattered(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(37)
    inside = (places >= 0) & (places < 37)
    out[places[inside].long()] = x[: places.numel()][inside]
    return torch.cat([torch.full((8,), 7.0), out, torch.full((8,), 7.0)])


@case(V, PLACES, wanted=_scattered, t=4)
@tileflow.kernel
def scattered(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    room = torch.full((53,), 7.0)
    out = room[8:45]
    out.zero_()
    for t in tfl.tile(places.size(0)):
        out[places[t]] = x[t]
    return room


@case(V, PLACES, wanted=_scattered, t=4)
@tileflow.kernel
def added_by_atomics(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    room = torch.full((53,), 7.0)
    out = room[8:45]
    out.zero_()
    for t in tfl.tile(places.size(0)):
        tfl.atomic_add(out, [places[t]], x[t])
    return room


@case(guarded(V), torch.tensor([-3, 4, 30, 60]), wanted=lambda x, ends: torch.stack(
    [x[:4].sum(), x[4:30].sum(), x[30:].sum()]), j=8)  # fmt: skip
@tileflow.kernel
def ragged_past_both_ends(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Offsets that a caller got wrong: what is outside counts as 0."""
    out = torch.empty(ends.size(0) - 1)
    for i in tfl.grid(ends.size(0) - 1):
        acc = tfl.zeros([])
        for j in tfl.tile(ends[i], ends[i + 1]):
            acc = acc + x[j].sum(0)
        out[i] = acc
    return out


@case(guarded(V), torch.arange(37) * 5 - 60, wanted=lambda x, n: x[n % 37], t=8)
@tileflow.kernel
def wrapped_around(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t] = x[places[t] % x.size(0)]
    return out


# ---- a tile's dimension opposite the same tile's -----------------------------------------------------

SQUARE = rand(24, 24, seed=4)


@case(SQUARE, rand(24, seed=5), wanted=lambda a, b: a + b[:, None], t0=8, t1=8)
@tileflow.kernel
def rows_by_identity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A number for each row, also where rows and columns are as many and blocks as long."""
    out = torch.empty_like(a)
    for t0, t1 in tfl.tile(a.shape):
        out[t0, t1] = a[t0, t1] + b[t0]
    return out


@case(SQUARE, rand(24, seed=5), wanted=lambda a, b: b - a, t0=8, t1=4)
@tileflow.kernel
def columns_as_in_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in tfl.tile(a.shape):
        out[t0, t1] = b[t1] - a[t0, t1]
    return out


@case(rand(5, 6, 7), rand(5, 7, seed=5), rand(6, seed=6),
      wanted=lambda a, b, c: torch.where(a > 0, b[:, None], c[:, None]), t0=2, t1=4, t2=4)  # fmt: skip
@tileflow.kernel
def inner_and_outer_by_identity(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1, t2 in tfl.tile(a.shape):
        out[t0, t1, t2] = torch.where(a[t0, t1, t2] > 0, b[t0, t2], c[t1])
    return out


@case(SQUARE, wanted=lambda a: a / a.sum(1, keepdim=True), t=8)
@tileflow.kernel
def rows_beside_a_whole_dimension(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t in tfl.tile(a.size(0)):
        out[t, :] = a[t, :] / a[t, :].sum(1)
    return out


@case(rand(24, seed=5), wanted=lambda b: b[:, None].expand(24, 9), t0=8, t1=4)
@tileflow.kernel
def stored_by_identity(b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(b.size(0), 9)
    for t0, t1 in tfl.tile(out.shape):
        out[t0, t1] = b[t0]
    return out


@case(rand(24, seed=5), wanted=lambda b: (b[:, None] - b).sum(1))
@tileflow.kernel
def pairs_as_in_torch(b: torch.Tensor) -> torch.Tensor:
    """Opposite a size of 1 a tile broadcasts: all pairs."""
    out = torch.empty_like(b)
    for t in tfl.tile(b.size(0), block_size=32):
        values = b[t]
        out[t] = (values[:, None] - values).sum(1)
    return out


# ---- sizes of 0 -------------------------------------------------------------------------------------

EMPTY = torch.empty(5, 0)


@case(EMPTY, wanted=lambda x: torch.stack([x.sum(1), x.prod(1), x.mean(1), x.mean(1)]), t=4)
@tileflow.kernel
def statistics_of_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, x.size(0))
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        out[0, t], out[1, t], out[2, t], out[3, t] = row.sum(1), row.prod(1), row.mean(1), row.var(1)
    return out


@case(EMPTY, wanted=lambda x: x.sum(1) + 1, t=4, k=8)
@tileflow.kernel
def a_loop_over_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for t in tfl.tile(x.size(0)):
        acc = tfl.full([t], 1.0)
        for k in tfl.tile(x.size(1)):
            acc += x[t, k].sum(1)
        out[t] = acc
    return out


@case(EMPTY, torch.empty(0, 3), wanted=lambda x, y: x @ y, t=16, n=16)
@tileflow.kernel
def a_product_of_nothing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1))
    for t, n in tfl.tile([x.size(0), y.size(1)]):
        out[t, n] = x[t, :] @ y[:, n]
    return out


@case(EMPTY, wanted=lambda x: x.softmax(1).sum(1) + 0, t=4)
@tileflow.kernel
def locals_of_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for t in tfl.tile(x.size(0)):
        ones = tfl.zeros([t, x.size(1)]) + 1
        out[t] = (torch.softmax(x[t, :], 1) + ones).sum(1)
    return out


@case(EMPTY, wanted=lambda x: x.t() * 2, t=4)
@tileflow.kernel
def tiles_of_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(1), x.size(0))
    for t in tfl.tile(x.size(1)):
        out[t, :] = x[:, t].t() * 2
    return out


@case(torch.empty(0), PLACES, wanted=lambda x, places: torch.zeros(7), t=4)
@tileflow.kernel
def gathered_from_nothing(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty(places.size(0))
    for t in tfl.tile(places.size(0)):
        out[t] = x[places[t]]
    return out


# ---- numbers of Python's ranges -------------------------------------------------------------------


@case(X[0], wanted=lambda x: x.roll(2, 1), t=4)
@tileflow.kernel
def read_from_the_end(x: torch.Tensor) -> torch.Tensor:
    """The variable of a range is an int in Python: below zero it counts from the end, in a loop of any length."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for n in range(x.size(1)):
            out[t, n] = x[t, n - 2]
    return out


@case(X[0], wanted=lambda x: x.roll(-3, 1), t=4)
@tileflow.kernel
def written_from_the_end(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for n in range(x.size(1)):
            out[t, n - 3] = x[t, n]
    return out


@case(X[0], wanted=lambda x: x.flip(1).roll(1, 1), t=4)
@tileflow.kernel
def counted_down_past_the_end(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for n in range(x.size(1) - 1, -1, -1):
            out[t, -n - 1 + 1] = x[t, n]
    return out


@case(X[0], wanted=lambda x: torch.nn.functional.pad(x, (2, 0))[:, :-2], t=4)
@tileflow.kernel
def outside_of_a_grid(x: torch.Tensor) -> torch.Tensor:
    """A grid's number is the kernel's own: what it computes below zero is outside."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for n in tfl.grid(x.size(1)):
            out[t, n] = x[t, n - 2]
    return out


# ---- whole tiles of indices -----------------------------------------------------------------------

ROWS, COLUMNS = torch.tensor([3, 0, 4, 4, 1, 2, 0]).int(), torch.tensor([5, 0, 1, 3, 3, 2, 4]).int()


@case(X, ROWS, COLUMNS, wanted=lambda x, rows, columns: x[rows.long(), columns.long()].sum(0), t=8)
@tileflow.kernel
def as_many_rows_as_columns(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Two sizes that are equal in the call: element by element, as in torch, where they have names of their own too."""
    out = torch.empty(x.size(2))
    for t in tfl.tile(x.size(2)):
        out[t] = x[rows[:], columns[:], t].sum(0)
    return out


@case(X[:, :, 0], ROWS[:5], wanted=lambda x, places: x[torch.arange(5), places.long()])
@tileflow.kernel
def counted_beside_loaded(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    out = torch.empty(places.size(0))
    for _ in tfl.grid(1):
        out[:] = x[tfl.arange(x.size(0)), places[:]]
    return out
