"""Loops that the blocks of a cluster may share, of sums and the like, and loops that they may not."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


@tileflow.kernel
def row_sums(x: Tensor) -> Tensor:
    """Each row's sum."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def column_sums(x: Tensor) -> Tensor:
    """Each column's sum."""
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        total = tfl.zeros([tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(0)):
            total += x[tile_k, tile_n].sum(0)
        out[tile_n] = total
    return out


@tileflow.kernel
def whole_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers of each row, without a loop."""
    mean, square = (torch.empty(x.size(0), dtype=x.dtype, device=x.device) for _ in range(2))
    for tile_m in tfl.tile(x.size(0)):
        mean[tile_m] = x[tile_m, :].mean(1)
        square[tile_m] = (x[tile_m, :] * x[tile_m, :]).sum(1)
    return mean, square


@tileflow.kernel
def whole_columns(x: Tensor) -> Tensor:
    """Each column's sum, without a loop."""
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        out[tile_n] = x[:, tile_n].sum(0)
    return out


@tileflow.kernel
def whole_softmax(x: Tensor) -> Tensor:
    """Rows that are read again after their sum."""
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m, :] = torch.softmax(x[tile_m, :], 1)
    return out


@tileflow.kernel
def column_softmax(x: Tensor) -> Tensor:
    """Columns that are read again, and stored, after their sum."""
    out = torch.empty_like(x)
    for tile_n in tfl.tile(x.size(1)):
        out[:, tile_n] = torch.softmax(x[:, tile_n].float(), 0)
    return out


@tileflow.kernel
def column_variances(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two passes, of which the second one needs what the first one found, and a number of each."""
    mean, out = (torch.empty(x.size(1), device=x.device) for _ in range(2))
    for tile_n in tfl.tile(x.size(1)):
        column = x[:, tile_n].float()
        centre = column.mean(0)
        mean[tile_n] = centre
        out[tile_n] = (column - centre[None, :]).square().mean(0)
    return mean, out


@tileflow.kernel
def column_facts(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What blocks put together of places, of bools and of halves."""
    high, low = (torch.empty(x.size(1), dtype=torch.int64, device=x.device) for _ in range(2))
    some, every = (torch.empty(x.size(1), dtype=torch.bool, device=x.device) for _ in range(2))
    total = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        column = x[:, tile_n]
        high[tile_n], low[tile_n] = column.argmax(0), column.argmin(0)
        some[tile_n], every[tile_n] = (column > 3).any(0), (column < 3).all(0)
        total[tile_n] = column.sum(0)
    return high, low, some, every, total


@tileflow.kernel
def number(x: Tensor) -> tuple[Tensor, Tensor]:
    """A sum of all that there is, and whether any is large."""
    out, some = torch.empty(1, device=x.device), torch.empty(1, dtype=torch.bool, device=x.device)
    for n in tfl.grid(1):
        out[n] = x[:].float().sum()
        some[n] = (x[:] > 3).any()
    return out, some


@tileflow.kernel
def looped_variances(x: Tensor) -> Tensor:
    """The same by loops of the author's."""
    out = torch.empty(x.size(1), device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        total = tfl.zeros([tile_n])
        for tile_k in tfl.tile(x.size(0)):
            total += x[tile_k, tile_n].sum(0)
        centre = total / x.size(0)
        squares = tfl.zeros([tile_n])
        for tile_k in tfl.tile(x.size(0)):
            squares += (x[tile_k, tile_n] - centre[None, :]).square().sum(0)
        out[tile_n] = squares / x.size(0)
    return out


@tileflow.kernel
def continued(x: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Sums that begin with a number of each row, one of them with what is taken from it."""
    up, down = torch.empty_like(start), torch.empty_like(start)
    for tile_m in tfl.tile(x.size(0)):
        total, rest = start[tile_m], start[tile_m] * 2
        for tile_k in tfl.tile(x.size(1)):
            row = x[tile_m, tile_k].sum(1)
            total = total + row
            rest = rest - row
        up[tile_m] = total
        down[tile_m] = rest
    return up, down


@tileflow.kernel
def column_extrema(x: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The least number of each column, and the largest one or a number of its own."""
    low, high = torch.empty_like(start), torch.empty_like(start)
    for tile_n in tfl.tile(x.size(1)):
        most = start[tile_n]
        least = most * 0 + 99
        for tile_k in tfl.tile(x.size(0)):
            piece = x[tile_k, tile_n]
            least = torch.minimum(least, piece.amin(0))
            most = torch.maximum(most, piece.amax(0))
        low[tile_n] = least
        high[tile_n] = most
    return low, high


@tileflow.kernel
def whole_extrema(x: Tensor) -> Tensor:
    """Each column's largest number, without a loop."""
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile_n in tfl.tile(x.size(1)):
        out[tile_n] = x[:, tile_n].amax(0)
    return out


@tileflow.kernel
def row_products(x: Tensor) -> Tensor:
    """Each row's product."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.full([tile_m], 1, dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1)):
            total = total * x[tile_m, tile_k].prod(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def in_halves(x: Tensor) -> Tensor:
    """Sums of which each turn takes the halves apart."""
    out = torch.empty(x.size(0), 2, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        both = tfl.zeros([tile_m, 2])
        for tile_k in tfl.tile(x.size(1)):
            first, second = tfl.split(both)
            both = tfl.join(first + x[tile_m, tile_k].sum(1), second * 0.5)
        out[tile_m, :] = both
    return out


@tileflow.kernel
def bounded(x: Tensor) -> Tensor:
    """A number that each turn bounds on both sides."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        best = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            best = torch.maximum(best, x[tile_m, tile_k].amin(1))
            best = torch.minimum(best, x[tile_m, tile_k].amax(1))
        out[tile_m] = best
    return out


@tileflow.kernel
def peaks(x: Tensor) -> Tensor:
    """Sums of what each turn reduces: each thread has several of a vector's numbers, and others have them too."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].amax(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def decayed(x: Tensor) -> Tensor:
    """A sum that each turn scales."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total = total * 0.5 + x[tile_m, tile_k].sum(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def read_again(x: Tensor) -> Tensor:
    """A sum that each turn looks at."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total, spread = tfl.zeros([tile_m]), tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total = total + x[tile_m, tile_k].sum(1)
            spread = spread + total * total
        out[tile_m] = spread
    return out


@tileflow.kernel
def stored_each_turn(x: Tensor) -> Tensor:
    """What each turn has is stored."""
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            out[tile_m, tile_k] = x[tile_m, tile_k] * 2
            total += x[tile_m, tile_k].sum(1)
        out[tile_m, 0] = total
    return out


@tileflow.kernel
def stored_before(x: Tensor) -> Tensor:
    """Something is added to memory before the loop."""
    out = torch.zeros(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [tile_m], 1.0)
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        tfl.atomic_add(out, [tile_m], total)
    return out


@tileflow.kernel
def stored_in_a_branch_before(x: Tensor, y: Tensor) -> Tensor:
    """Some programs change something before the loop."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        if tile_m.begin == 0:
            y[tile_m] = y[tile_m] + 1
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def whole_with_a_branch_behind(x: Tensor, y: Tensor) -> Tensor:
    """The same behind a sum, in front of which it stands where that is a loop."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m] = x[tile_m, :].sum(1)
        if tile_m.begin == 0:
            tfl.atomic_add(y, [tile_m], 1.0)
    return out


@tileflow.kernel
def written_in_place(x: Tensor) -> Tensor:
    """A last loop that writes what the first one has read."""
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        for tile_k in tfl.tile(x.size(1)):
            x[tile_m, tile_k] = x[tile_m, tile_k] - total[:, None]
    return x


@tileflow.kernel
def written_behind(x: Tensor) -> Tensor:
    """What a last loop reads, written behind it: by a block that may be ahead of the others."""
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        for tile_k in tfl.tile(x.size(1)):
            out[tile_m, tile_k] = x[tile_m, tile_k] - total[:, None]
        x[tile_m, 0] = total
    return out


@tileflow.kernel
def written_before(x: Tensor) -> tuple[Tensor, Tensor]:
    """A loop that writes before the one that sums."""
    out, sums = torch.empty_like(x), torch.empty(x.size(0), device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        for tile_k in tfl.tile(x.size(1)):
            out[tile_m, tile_k] = x[tile_m, tile_k] * 2
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        sums[tile_m] = total
    return out, sums


@tileflow.kernel
def loops_in_turns(x: Tensor) -> Tensor:
    """A loop whose turns have loops."""
    out = torch.empty(x.size(0), device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            for tile_j in tfl.tile(tile_k.begin, x.size(1)):
                total += x[tile_m, tile_j].sum(1)
        out[tile_m] = total
    return out


@tileflow.kernel
def loop_in_a_branch(x: Tensor) -> Tensor:
    """A loop that only some programs have."""
    out = torch.empty(x.size(0), device=x.device)
    for i in tfl.grid(x.size(0)):
        total, first = tfl.zeros([1]), tfl.zeros([1])
        for tile_k in tfl.tile(x.size(1)):
            total += x[i, tile_k].sum()
        if x[i, 0] > 0:
            for tile_j in tfl.tile(x.size(1)):
                first += x[i, tile_j].amax()
        out[i] = total.sum() + first.sum()
    return out


@tileflow.kernel
def two_loops(x: Tensor) -> Tensor:
    """Sums, then what is left of each number."""
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile_m, tile_k].sum(1)
        for tile_k in tfl.tile(x.size(1)):
            out[tile_m, tile_k] = x[tile_m, tile_k] - total[:, None]
    return out


@tileflow.kernel
def read_behind(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A last loop that writes, and one of its numbers that is read again."""
    out, first = torch.empty_like(x), torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile])
        for tile_k in tfl.tile(x.size(1)):
            total += x[tile, tile_k].sum(1)
        for tile_k in tfl.tile(x.size(1)):
            out[tile, tile_k] = x[tile, tile_k] / total[:, None]
        first[tile] = out[tile, 0]
    return out, first


@tileflow.kernel
def kept_between(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """A number of each column that is stored between sums, and read again behind them."""
    out = torch.empty_like(kept)
    for tile in tfl.tile(x.size(1)):
        mean = x[:, tile].mean(0)
        kept[tile] = mean
        out[tile] = (x[:, tile] - mean[None, :]).square().mean(0) + kept[tile]
    return out


@tileflow.kernel
def moved_behind(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """A number of each column that is read, and stored behind all sums."""
    out = torch.empty_like(kept)
    for tile in tfl.tile(x.size(1)):
        mean = x[:, tile].mean(0)
        out[tile] = (x[:, tile] - mean[None, :]).square().mean(0)
        kept[tile] = 0.9 * kept[tile] + 0.1 * mean
    return out
