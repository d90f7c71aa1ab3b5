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
