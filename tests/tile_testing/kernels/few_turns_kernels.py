"""Kernels with ranges of eight turns whose text would be long, or nearly: ``LOOPS`` and ``WRITTEN_OUT``."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

SCALES = [0.5 + 0.25 * n for n in range(8)]


def long(row: Any) -> Any:
    """Twelve sines, which compile for longer than anything else."""
    for _ in tfl.static_range(12):
        row = torch.sin(row) * 1.5
    return row


@tileflow.kernel
def nothing_of_the_counter(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile]
        for _ in range(8):
            row = long(row) + x[tile]
        out[tile] = row
    return out


@tileflow.kernel
def counters_as_places_and_conditions(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(8, x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row, sums = x[tile], [tfl.zeros([tile]), tfl.zeros([tile])]
        for k, i in enumerate(reversed(range(8)), 3):
            row = long(row) * (2 if i % 2 == 0 else 3) + k
            sums[1] = sums[1] + row * i
            if i > 4:
                row = row * 0.5
            out[i, tile] = row + sums[1]
    return out


@tileflow.kernel
def counter_as_an_index_of_a_list(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile]
        for i in range(8):
            row = long(row) * SCALES[i]
        out[tile] = row
    return out


@tileflow.kernel
def list_that_grows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row, rows = x[tile], []
        for _ in range(8):
            row = long(row)
            rows.append(row)
        out[tile] = rows[2] + rows[7] + len(rows)
    return out


@tileflow.kernel
def float_of_the_counter(x: torch.Tensor) -> torch.Tensor:
    """A float of Python has 64 bits, one of the kernel 32."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile]
        for i in range(8):
            row = long(row) * (1 / (i + 3))
        out[tile] = row
    return out


@tileflow.kernel
def shift_by_the_counter(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row, bits = x[tile], torch.zeros_like(x[tile], dtype=torch.int64)
        for i in range(8):
            row = long(row)
            bits = bits + torch.where(row > 0, 1 << (6 * i), 0)
        out[tile] = (bits >> 20).to(x.dtype)
    return out


@tileflow.kernel
def type_that_changes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile]
        for _ in range(8):
            row = long(row.double()).to(torch.float16)
        out[tile] = row * 0.5
    return out


@tileflow.kernel
def number_of_python(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row, count = x[tile], 0
        for i in range(8):
            row, count = long(row), count + i
        out[tile] = row + torch.zeros(count, device=x.device).sum() + count
    return out


LOOPS = {k.__name__: k for k in (nothing_of_the_counter, counters_as_places_and_conditions)}
WRITTEN_OUT = {
    k.__name__: k
    for k in (
        counter_as_an_index_of_a_list,
        list_that_grows,
        float_of_the_counter,
        shift_by_the_counter,
        type_that_changes,
        number_of_python,
    )
}
