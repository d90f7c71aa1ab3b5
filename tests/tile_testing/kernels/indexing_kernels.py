"""Kernels whose indices are what is tried, with what they must give beside them: ``CASES``."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, Cases, ints, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
V = rand(37, seed=1)
OFFSETS = torch.tensor([0, 3, 3, 9, 14, 37])

# ---- slices by block size -----------------------------------------------------------------------


@case(V, wanted=lambda x: x * 2, b=8)
@tileflow.kernel
def slice_at_begin(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    b = tfl.register_block_size(32)
    for t in tfl.tile(x.size(0), block_size=b):
        out[t.begin : t.begin + b] = x[t.begin : t.begin + b] * 2
    return out


@case(V, wanted=lambda x: 2 * x + 2 * x * x, b=8)
@tileflow.kernel
def slice_meets_tile(x: torch.Tensor) -> torch.Tensor:
    """At the loop's end the tile is shorter than the slice: the result has its lanes."""
    out = torch.zeros_like(x)
    b = tfl.register_block_size(32)
    for t in tfl.tile(x.size(0), block_size=b):
        part = x[t.begin : t.begin + b]
        out[t] = part + x[t] + (part * 2)[None, :].squeeze(0) * x[t]
    return out


@case(V, wanted=lambda x: x + 1, b=8)
@tileflow.kernel
def slice_by_id(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    b = tfl.register_block_size(32)
    for t in tfl.tile(x.size(0), block_size=b):
        out[t.id * b : (t.id + 1) * b] = x[t.begin : t.begin + t.block_size] + 1
    return out


@case(rand(38, seed=1), wanted=lambda x: x.reshape(-1, 2).sum(1), tile=8)
@tileflow.kernel
def slice_of_two_blocks(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0) // 2, device=x.device)
    for tile in tfl.tile(x.size(0) // 2):
        pairs = x[tile.begin * 2 : tile.begin * 2 + tile.block_size * 2].reshape(tile.block_size, 2)
        out[tile.begin : tile.begin + tile.block_size] = pairs.sum(1)
    return out


@case(rand(5, seed=1), wanted=lambda x: torch.stack([x.sum(), x.sum()]), b=8)
@tileflow.kernel
def slice_longer_than_the_tensor(x: torch.Tensor) -> torch.Tensor:
    """What lies past the end reads 0, and the slice is as long as it says."""
    out = torch.empty(2, device=x.device)
    b = tfl.register_block_size(8, 16)
    for t in tfl.tile(2, block_size=b):
        out[t] = (x[:b] + tfl.zeros([b])).sum() + tfl.zeros([t])
    return out


@case(V, wanted=lambda x: x + F.pad(x, (3, 0))[:-3], b=8)
@tileflow.kernel
def slice_from_before_the_tensor(x: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x, 7.0)
    b = tfl.register_block_size(16)
    for t in tfl.tile(x.size(0), block_size=b):
        shifted = x[t.begin - 3 : t.begin - 3 + b]
        out[t.begin : t.begin + b] = shifted + x[t.begin : t.begin + b]
    return out


@case(V, OFFSETS, wanted=lambda x, offsets: torch.stack([F.pad(x, (0, 9))[o : o + 4] for o in offsets[:-1]]), b=4)
@tileflow.kernel
def slice_at_a_loaded_start(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.empty(offsets.size(0) - 1, 4, device=x.device)
    b = tfl.register_block_size(4, 4)
    for i in tfl.grid(offsets.size(0) - 1):
        start = offsets[i]
        out[i, :] = x[start : start + 4] + 0 * x[offsets[i] : offsets[i] + b].sum()
    return out


@case(V, wanted=lambda x: x * 3, tile=8)
@tileflow.kernel
def slice_from_begin_to_end(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile.begin : tile.end] = x[tile] * 3
    return out


@case(V, wanted=lambda x: x[4:] - x[:-4], tile=8)
@tileflow.kernel
def slice_from_begin_to_end_shifted(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0) - 4, device=x.device)
    for tile in tfl.tile(x.size(0) - 4):
        out[tile] = x[tile.begin + 4 : tile.end + 4] - x[tile]
    return out


@case(X, wanted=lambda x: x[2:10, -3:] + x[:8, :3])
@tileflow.kernel
def slices_of_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(8, 3, device=x.device)
    for _ in tfl.grid(1):
        out[:, :] = x[2:10, -3:] + x[:8, :3] + tfl.zeros([8, 1])
    return out


@case(rand(5, 4), wanted=lambda x: x[2:9, -7:2])
@tileflow.kernel
def slices_past_the_ends(x: torch.Tensor) -> torch.Tensor:
    """Between sizes they are clipped, as in Python."""
    out = torch.empty(3, 2, device=x.device)
    for _ in tfl.grid(1):
        out[:, :] = x[2:9, -7:2]
    return out


# ---- shifted tiles ------------------------------------------------------------------------------


@case(V, wanted=lambda x: F.pad(x, (1, 1))[:-2] + 2 * x + F.pad(x, (1, 1))[2:], tile=8)
@tileflow.kernel
def stencil(x: torch.Tensor) -> torch.Tensor:
    """Outside the tensor a shifted tile reads 0."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile - 1] + 2 * x[tile] + x[tile + 1]
    return out


@case(V, wanted=lambda x: torch.cat([x.new_full((2,), -1.0), x[:-2]]), tile=8)
@tileflow.kernel
def shifted_store(x: torch.Tensor) -> torch.Tensor:
    """Outside the tensor a shifted tile is not written."""
    out = torch.full_like(x, -1.0)
    for tile in tfl.tile(x.size(0)):
        out[tile + 2] = x[tile]
    return out


@case(V, wanted=lambda x: torch.stack([(x - 9).roll(1, 0)[1:].max(), torch.zeros(())]), tile=8)
@tileflow.kernel
def shifted_extremum(x: torch.Tensor) -> torch.Tensor:
    """The lanes outside read 0 and count; those past the loop's end do not."""
    out = torch.zeros(2, device=x.device)
    for one in tfl.tile(1):
        best = tfl.full([one], -100.0)
        wide = tfl.full([one], -100.0)
        for tile in tfl.tile(x.size(0) - 1):
            best = torch.maximum(best, (x[tile] - 9).amax())
            wide = torch.maximum(wide, torch.clamp(x[tile - 1], max=0).amax())
        out[one] = best
        out[one + 1] = wide
    return out


@case(rand(9, 7), wanted=lambda x: (sum(x.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9), tile_m=4,
      tile_n=4)  # fmt: skip
@tileflow.kernel
def diffusion(x: torch.Tensor) -> torch.Tensor:
    """A periodic 3 by 3 mean."""
    m, n = x.shape
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([m, n]):
        total = tfl.zeros([tile_m, tile_n])
        for i in (-1, 0, 1):
            for j in (-1, 0, 1):
                total += x[(tile_m.index + i + m) % m, (tile_n.index + j + n) % n]
        out[tile_m, tile_n] = total / 9
    return out


# ---- tiles of ints ------------------------------------------------------------------------------


@case(rand(5, 7, 4), ints(5, 21, seed=1), ints(4, 21, seed=2), wanted=lambda x, a, b: x[a, :, b], tile=8)
@tileflow.kernel
def together_around_a_slice(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(a.size(0), x.size(1), device=x.device)
    for tile in tfl.tile(a.size(0)):
        out[tile, :] = x[a[tile], :, b[tile]]
    return out


@case(rand(5, 7, 4), ints(5, 6, 9, seed=1), ints(7, 9, seed=2), wanted=lambda x, a, b: x[a, b, 2], tile_m=4, tile_n=4)
@tileflow.kernel
def of_two_and_one_dimensions(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(a.shape, device=x.device)
    for tile_m, tile_n in tfl.tile([a.size(0), a.size(1)]):
        out[tile_m, tile_n] = x[a[tile_m, tile_n], b[tile_n], 2]
    return out


@case(X, ints(13, 21, seed=2), wanted=lambda x, rows: x[rows].sum(0) + x[rows].amax(0), tile=8)
@tileflow.kernel
def gathered_tail(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The lanes of a tail gather nothing: they are neutral to the reductions."""
    out = torch.empty(x.size(1), device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        total, best = tfl.zeros([tile_n]), tfl.full([tile_n], float("-inf"))
        for tile in tfl.tile(rows.size(0)):
            found = x[rows[tile] + 0, tile_n]
            total += found.sum(0)
            best = torch.maximum(best, found.amax(0))
        out[tile_n] = total + best
    return out


@case(rand(3, 5, 7), torch.tensor(2), wanted=lambda x, i: x[-1, i, :] + x[0, -2, :] + x[1][None, i][0], tile=4)
@tileflow.kernel
def scalars(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(2), device=x.device)
    for tile in tfl.tile(x.size(2)):
        out[tile] = x[-1, i, tile] + x[0, -2, tile] + x[1, None, i, tile].sum(0)
    return out


@case(rand(3, 5, 7), wanted=lambda x: x.permute(2, 0, 1) * 2, tile_m=2, tile_n=4)
@tileflow.kernel
def every_kind_of_item(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(2), x.size(0), x.size(1), device=x.device)
    for i in tfl.grid(x.size(1)):
        for tile_m, tile_n in tfl.tile([x.size(0), x.size(2)]):
            out[tile_n, tile_m, ..., i] = (x[tile_m, i, None, tile_n.index] * 2).squeeze(1).T
            out[tile_n.index[:, None], tile_m.index[None, :], i] = out[tile_n, tile_m, i]
    return out


# ---- ragged and causal loops --------------------------------------------------------------------


@case(V, OFFSETS, wanted=lambda x, o: torch.stack([x[a:b].sum() + x[a : max(a, b - 2)].sum() for a, b in pairwise(o)]),
      tile=4, part=2)  # fmt: skip
@tileflow.kernel
def ragged(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Loaded int64 bounds, arithmetic with them, empty ranges."""
    out = torch.empty(offsets.size(0) - 1, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        begin, end = offsets[i], offsets[i + 1]
        total = 0.0
        for tile in tfl.tile(begin, end):
            total = total + x[tile].sum()
        for part in tfl.tile(begin, end - 2):
            total = total + x[part.index].sum()
        out[i] = total
    return out


@case(rand(21, 21), wanted=lambda x: x.tril().sum(1) + x.triu().sum(1), tile_m=8, tile_a=4, tile_b=4, tile_c=4)
@tileflow.kernel
def causal(x: torch.Tensor) -> torch.Tensor:
    """Whole blocks before the diagonal, then the ones on it; from another tile's begin to the end."""
    n = x.size(0)
    out = torch.empty(n, device=x.device)
    for tile_m in tfl.tile(n):
        total = tfl.zeros([tile_m])
        for tile_a in tfl.tile(tile_m.begin):
            total += x[tile_m, tile_a].sum(1)
        for tile_b in tfl.tile(tile_m.begin, min(tile_m.end, n)):
            keep = tile_b.index[None, :] <= tile_m.index[:, None]
            total += torch.where(keep, x[tile_m, tile_b], 0.0).sum(1)
        for tile_c in tfl.tile(tile_m.begin, n):
            keep = tile_c.index[None, :] >= tile_m.index[:, None]
            total += torch.where(keep, x[tile_m, tile_c], 0.0).sum(1)
        out[tile_m] = total
    return out


@case(
    rand(21), torch.tensor([17]), wanted=lambda x, n: x[: n.item()].sum()[None] + x[:10].sum(), tile=4, half=4, inner=2
)
@tileflow.kernel
def bound_of_one_element(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, device=x.device)
    for one in tfl.tile(1):
        total = tfl.zeros([one])
        for tile in tfl.tile(n[0]):
            for inner in tfl.tile(tile.begin, tile.end):
                total += x[inner].sum()
        for half in tfl.tile(x.size(0) // 2):
            total += x[half].sum()
        out[one] = total
    return out


# ---- jagged tiles -------------------------------------------------------------------------------


def segments(x: torch.Tensor, offsets: torch.Tensor) -> list[torch.Tensor]:
    return [x[a:b] for a, b in pairwise(offsets.tolist())]


def extrema(row: torch.Tensor, length: int) -> torch.Tensor:
    part = row[:length]
    best = (part - 9).max() if length else torch.tensor(-99.0)
    return torch.stack([best, part.sum(), (part + 1).prod()])


@case(rand(37, 5), OFFSETS, wanted=lambda x, o: torch.stack([s.sum(0) for s in segments(x, o)]), tile_b=2, tile_j=4,
      tile_m=4)  # fmt: skip
@tileflow.kernel
def jagged_sums(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    n = offsets.size(0) - 1
    out = torch.empty(n, x.size(1), device=x.device)
    for tile_b, tile_m in tfl.tile([n, x.size(1)]):
        starts = offsets[tile_b]
        total = tfl.zeros([tile_b, tile_m])
        for tile_j in tfl.jagged_tile(offsets[tile_b + 1] - starts):
            rows = starts[:, None] + tile_j.index[None, :]
            total += x[rows, tile_m].sum(1)
        out[tile_b, tile_m] = total
    return out


@case(rand(5, 9), torch.tensor([3, 0, 9, 5, 1]), tile_b=2, tile_j=4,
      wanted=lambda x, n: torch.stack([extrema(*rk) for rk in zip(x, n.tolist(), strict=True)]))  # fmt: skip
@tileflow.kernel
def jagged_extrema(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Values that are not 0 in the lanes past a row's length, and a tile that only the jagged dimension indexes."""
    out = torch.empty(x.size(0), 3, device=x.device)
    for tile_b in tfl.tile(x.size(0)):
        best, total, product = tfl.full([tile_b], -99.0), tfl.zeros([tile_b]), tfl.full([tile_b], 1.0)
        for tile_j in tfl.jagged_tile(lengths[tile_b]):
            value = x[tile_b, tile_j]
            best = torch.maximum(best, (value - 9).amax(1))
            total += (value + 0 * x[0, tile_j][None, :]).sum(1)
            product *= (value + 1).prod(1)
        out[tile_b, 0] = best
        out[tile_b, 1] = total
        out[tile_b, 2] = product
    return out


@case(rand(5, 9), torch.tensor([3, 0, 9, 5, 1]), tile_b=2, tile_j=4,
      wanted=lambda x, n: torch.where(torch.arange(9) < n[:, None], x, 0).sum(1)
      + torch.where(torch.arange(1, 9) <= n[:, None], x[:, 1:], 0).sum(1))  # fmt: skip
@tileflow.kernel
def jagged_slices(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """A slice from where a jagged tile begins to where it ends is that tile, shifted too."""
    out = torch.empty(x.size(0), device=x.device)
    for tile_b in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_b])
        for tile_j in tfl.jagged_tile(lengths[tile_b]):
            total += x[tile_b, tile_j.begin : tile_j.end].sum(1)
            total += x[tile_b, tile_j.begin + 1 : tile_j.end + 1].sum(1)
        out[tile_b] = total
    return out


@case(rand(8, 8), rand(8), tile_m=4, tile_n=4, wanted=lambda x, y: x + x.roll(1, 0) * (torch.arange(8) > 0)[:, None]
      + y[:, None])  # fmt: skip
@tileflow.kernel
def slices_between_the_ends_of_tiles(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """They are the tiles, so that a number for each row goes to the rows."""
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        before = x[tile_m.begin - 1 : tile_m.end - 1, tile_n]
        out[tile_m, tile_n] = x[tile_m.begin : tile_m.end, tile_n.begin : tile_n.end] + before + y[tile_m]
    return out


@case(rand(5, 9), torch.tensor([3, 0, 9, 5, 1]), tile_b=2, tile_j=4,
      wanted=lambda x, n: torch.where(torch.arange(9) < n[:, None], x * 2, -1.0))  # fmt: skip
@tileflow.kernel
def jagged_store(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x, -1.0)
    for tile_b in tfl.tile(x.size(0)):
        for tile_j in tfl.jagged_tile(lengths[tile_b]):
            out[tile_b, tile_j] = x[tile_b, tile_j] * 2
    return out


@case(rand(5, 9), rand(9, 6, seed=1), torch.tensor([3, 0, 9, 5, 1]), tile_b=16, tile_j=16, tile_n=16,
      wanted=lambda x, y, n: torch.where(torch.arange(9) < n[:, None], x, 0.0) @ y)  # fmt: skip
@tileflow.kernel
def jagged_product(x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), device=x.device)
    for tile_b, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_b, tile_n])
        for tile_j in tfl.jagged_tile(lengths[tile_b]):
            acc = acc + (x[tile_b, tile_j] + 1 - 1) @ y[tile_j, tile_n]
        out[tile_b, tile_n] = acc
    return out


@case(rand(5, 9), torch.tensor([3, 0, 9, 5, 1]), tile_j=16,
      wanted=lambda x, n: torch.where(torch.arange(9) < n[:, None], x + 1, 0.0).sum(0))  # fmt: skip
@tileflow.kernel
def jagged_over_the_parent(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """A sum over the parent's lanes passes over those that are too short."""
    out = torch.zeros(x.size(1), device=x.device)
    for tile_b in tfl.tile(x.size(0), block_size=8):
        for tile_j in tfl.jagged_tile(lengths[tile_b]):
            out[tile_j] = (x[tile_b, tile_j] + 1).sum(0)
    return out


@case(rand(37, 5), torch.tensor([0, 3, 4, 14, 37]), tile_b=2, tile_j=4, tile_k=8, tile_m=4,
      wanted=lambda x, o: torch.cat([torch.softmax(s, 0) for s in segments(x, o)]))  # fmt: skip
@tileflow.kernel
def jagged_softmax(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """In one pass over each sequence its maximum and its sum, scattered back in another."""
    out = torch.empty_like(x)
    for tile_b, tile_m in tfl.tile([offsets.size(0) - 1, x.size(1)]):
        starts = offsets[tile_b]
        lengths = offsets[tile_b + 1] - starts
        best, total = tfl.full([tile_b, tile_m], -1e30), tfl.zeros([tile_b, tile_m])
        for tile_j in tfl.jagged_tile(lengths):
            value = x[starts[:, None] + tile_j.index[None, :], tile_m]
            above = torch.maximum(best, value.amax(1))
            total = total * torch.exp(best - above) + torch.exp(value - above[:, None, :]).sum(1)
            best = above
        for tile_k in tfl.jagged_tile(lengths):
            rows = starts[:, None] + tile_k.index[None, :]
            out[rows, tile_m] = torch.exp(x[rows, tile_m] - best[:, None, :]) / total[:, None, :]
    return out


@case(rand(37, 5), OFFSETS, tile_b=2, tile_j=4, tile_k=2,
      wanted=lambda x, o: torch.stack([s[:, 0].sum() * s[:, 1].sum() for s in segments(x, o)]))  # fmt: skip
@tileflow.kernel
def jagged_in_jagged(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Two jagged tiles over one parent, in one tile of three dimensions."""
    out = torch.empty(offsets.size(0) - 1, device=x.device)
    for tile_b in tfl.tile(offsets.size(0) - 1):
        starts = offsets[tile_b]
        lengths = offsets[tile_b + 1] - starts
        total = tfl.zeros([tile_b])
        for tile_j in tfl.jagged_tile(lengths):
            first = x[starts[:, None] + tile_j.index[None, :], 0]
            for tile_k in tfl.jagged_tile(lengths):
                second = x[starts[:, None] + tile_k.index[None, :], 1]
                total += (first[:, :, None] * second[:, None, :]).sum(2).sum(1)
        out[tile_b] = total
    return out


@case(rand(45), wanted=lambda x: torch.stack([F.pad(x, (0, 9))[24 * i : 24 * i + 24].amax() for i in range(2)]), b=8)
@tileflow.kernel
def slice_of_three_blocks(x: torch.Tensor) -> torch.Tensor:
    """A length that is no power of two; past the tensor's end it reads 0, and 0 counts."""
    out = torch.empty(2, device=x.device)
    b = tfl.register_block_size(8, 8)
    for t in tfl.tile(x.size(0) // 3, block_size=b):
        out[t.id] = x[t.begin * 3 : t.begin * 3 + 3 * b].amax()
    return out


@case(rand(9, seed=5), ints(9, 9, seed=6), b=4,
      wanted=lambda x, i: F.pad(x, (1, 0)) + F.pad(x, (0, 1)) + torch.zeros(10).index_add(0, i, x))  # fmt: skip
@tileflow.kernel
def atomics(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Atomics take the same indices."""
    out = torch.zeros(10, device=x.device)
    b = tfl.register_block_size(8)
    for t in tfl.tile(x.size(0), block_size=b):
        tfl.atomic_add(out, [t + 1], x[t])
        tfl.atomic_add(out, [slice(t.begin, t.begin + b)], x[t.begin : t.begin + b])
        tfl.atomic_add(out, [index[t]], x[t])
    return out


WIDE_ROWS = rand(131, 300)


def _of_narrow_rows(dtype: torch.dtype) -> None:
    """A row times its stride is more than its own dtype holds, and so may be the number of rows."""
    index = torch.tensor([0, 3, 120, 126, 77]).to(dtype)

    @tileflow.kernel
    def kernel(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for i, t in tfl.tile([index.size(0), x.size(1)]):
            out[index[i], t] = x[index[i], t] * 2
        return out

    name = f"rows_by_{str(dtype)[6:]}"
    globals()[name] = kernel
    kept = torch.zeros(131, 1).index_fill(0, index.long(), 2.0)
    CASES[name] = Case(kernel, (WIDE_ROWS, index), lambda x, index: x * kept, (("block:i", 2), ("block:t", 64)))


for _dtype in (torch.int8, torch.uint8, torch.int16):
    _of_narrow_rows(_dtype)


@case(WIDE_ROWS, torch.tensor([3, 120], dtype=torch.int8), wanted=lambda x, index: x[[3, 120]], t=64)
@tileflow.kernel
def row_by_a_narrow_scalar(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty(index.size(0), x.size(1), device=x.device)
    for i in tfl.grid(index.size(0)):
        row = index[i]
        for t in tfl.tile(x.size(1)):
            out[i, t] = x[row, t]
    return out


@case(V, torch.tensor([0]), wanted=lambda x, offsets: torch.zeros(0), tile=4)
@tileflow.kernel
def segments_of_none(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Nothing to share the tensor's length among."""
    out = torch.empty(offsets.size(0) - 1, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        total = 0.0
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            total = total + x[tile].sum()
        out[i] = total
    return out


@case(rand(9), torch.tensor(7), wanted=lambda x, n: x[:7].sum()[None], tile=4)
@tileflow.kernel
def bound_of_a_scalar_tensor(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, device=x.device)
    for one in tfl.tile(1):
        total = tfl.zeros([one])
        for tile in tfl.tile(n):
            total += x[tile].sum()
        out[one] = total
    return out


@case(X, wanted=lambda x: torch.where(x < 0, -1.5, x.double()).float(), tile=4)
@tileflow.kernel
def a_choice_of_a_number_or_a_wider_load_stored(x: torch.Tensor) -> torch.Tensor:
    """Torch is asked whether float64 holds what is stored, on no tile of the kernel's."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        wide = x[tile, :].double()
        out[tile, :] = torch.where(wide < 0, -1.5, wide)
    return out
