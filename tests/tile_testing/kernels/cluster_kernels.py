"""Rows that the blocks of a cluster may hold together, and rows that they may not."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


@tileflow.kernel
def extremes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's largest and smallest number, and its product: numbers that every block stores alike."""
    m = x.size(0)
    high, low, product = (torch.empty(m, dtype=x.dtype, device=x.device) for _ in range(3))
    for tile in tfl.tile(m):
        row = x[tile, :]
        high[tile] = torch.amax(row, 1)
        low[tile] = torch.amin(row, 1)
        product[tile] = torch.prod(row, 1)
    return high, low, product


@tileflow.kernel
def places(x: Tensor) -> Tensor:
    """Where each row's largest number is."""
    out = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.argmax(x[tile, :], 1)
    return out


@tileflow.kernel
def any_of_rows(x: Tensor) -> Tensor:
    """Whether a row has a number above 1."""
    out = torch.empty(x.size(0), dtype=torch.bool, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.any(x[tile, :] > 1, 1)
    return out


@tileflow.kernel
def two_at_once(x: Tensor) -> Tensor:
    """Two rows a program, whatever the config."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=2):
        out[tile, :] = torch.softmax(x[tile, :], 1)
    return out


@tileflow.kernel
def added(x: Tensor, total: Tensor) -> None:
    """Each row's sum, added to one number by an atomic."""
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(total, [tile], torch.sum(x[tile, :], 1))


@tileflow.kernel
def given_sums(x: Tensor, scale: Tensor, out: Tensor) -> None:
    """A number of each row is loaded, and one stored at its place: a caller may pass one tensor for both."""
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.sum(x[tile, :], 1) * scale[tile]


@tileflow.kernel
def given_places(x: Tensor, place: Tensor, kept: Tensor) -> None:
    """A number that is loaded by its place, of those of which the row stores one."""
    for tile in tfl.tile(x.size(0)):
        kept[tile] = torch.sum(x[tile, :], 1) * kept[place[tile]]


@tileflow.kernel
def in_a_loop(x: Tensor) -> Tensor:
    """A row for each turn of a loop."""
    out = torch.empty_like(x)
    for tile_b in tfl.tile(x.size(0)):
        for tile_m in tfl.tile(x.size(1)):
            out[tile_b, tile_m, :] = torch.softmax(x[tile_b, tile_m, :], 2)
    return out


@tileflow.kernel
def of_columns(x: Tensor) -> Tensor:
    """A number for each column that a program has beside the row's number."""
    out = torch.empty(x.size(0), x.size(2), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.sum(x[tile, :, :], 1)
    return out


@tileflow.kernel
def dropped_sums(x: Tensor, seed: int) -> Tensor:
    """Each row's sum, in which each number has a random weight."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile] = torch.sum(row * tfl.rand([tile, x.size(1)], seed), 1)
    return out


@tileflow.kernel
def norm_gradient(grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers of each row, neither of which needs the other, and a row that turns add up."""
    m, n = x.shape
    block = tfl.register_block_size(m)
    out = torch.empty_like(x)
    sums = torch.empty((m + block - 1) // block, n, dtype=torch.float32, device=x.device)
    for rows in tfl.tile(m, block_size=block):
        total = tfl.zeros([n])
        for tile in tfl.tile(rows.begin, rows.end):
            g, row = grad[tile, :].float(), x[tile, :].float()
            total += (g * row).sum(0)
            out[tile, :] = g - g.mean(1, keepdim=True) - row * (g * row).mean(1, keepdim=True)
        sums[rows.id, :] = total
    return out, sums


@tileflow.kernel
def in_a_branch(x: Tensor, chosen: Tensor) -> Tensor:
    """A row's sum, in a branch."""
    out = torch.zeros(x.size(0), dtype=x.dtype, device=x.device)
    for i in tfl.grid(x.size(0)):
        if chosen[i] > 0:
            out[i] = torch.sum(x[i, :], 0)
    return out


@tileflow.kernel
def of_jagged_rows(x: Tensor, offsets: Tensor) -> Tensor:
    """Each group's largest number, row by row: groups have rows of their own number."""
    out = torch.empty(offsets.size(0) - 1, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(offsets.size(0) - 1, block_size=1):
        begin, end = offsets[tile], offsets[tile.index + 1]
        most = tfl.full([tile], float("-inf"), dtype=x.dtype)
        for row in tfl.jagged_tile(end - begin):
            most = torch.maximum(most, x[begin[:, None] + row.index[None, :], :].amax(2).amax(1))
        out[tile] = most
    return out


@tileflow.kernel
def running(x: Tensor) -> None:
    """Each row less the row's mean before it, which the turn before has stored."""
    for _ in tfl.grid(1):
        for i in tfl.grid(1, x.size(0)):
            x[i, :] = x[i, :] - torch.mean(x[i - 1, :], 0)


@tileflow.kernel
def running_number(x: Tensor, total: Tensor) -> None:
    """A sum of all rows, which turns load and store."""
    for _ in tfl.grid(1):
        for i in tfl.grid(x.size(0)):
            total[0] = total[0] + torch.sum(x[i, :], 0)


@tileflow.kernel
def overlapping(x: Tensor, out: Tensor) -> None:
    """A row is stored, and again one element further."""
    n = x.size(1)
    for tile in tfl.tile(x.size(0), block_size=1):
        row = torch.softmax(x[tile, :], 1)
        out[tile, :n] = row
        out[tile, 1:] = row


@tileflow.kernel
def of_squares(x: Tensor) -> Tensor:
    """Each row beside each of its own numbers."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :]
        out[tile] = (row[:, :, None] * row[:, None, :]).amax(2).amax(1)
    return out


@tileflow.kernel
def in_place(x: Tensor) -> None:
    """Rows that are changed where they are, so that no loop may read them again."""
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.softmax(x[tile, :], -1)
