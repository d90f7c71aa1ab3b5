"""Kernels that are called with an int wider than 64 bits."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def added(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + n
    return out


@tileflow.kernel
def added_item(x: torch.Tensor, held: tuple[int, ...]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + held[0]
    return out


@tileflow.kernel
def reduced(x: torch.Tensor, n: int) -> torch.Tensor:
    rest = n % 97
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + rest
    return out


@tileflow.kernel
def added_literal(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + 2**64  # <-
    return out
