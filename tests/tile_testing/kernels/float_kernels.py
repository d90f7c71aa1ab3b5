"""Floats taken apart."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mantissa, exponent = torch.empty_like(x), torch.empty(x.size(0), dtype=torch.int32)
    for tile in tfl.tile(x.size(0)):
        mantissa[tile], exponent[tile] = torch.frexp(x[tile])
    return mantissa, exponent


@tileflow.kernel
def neighbours(x: torch.Tensor, towards: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.nextafter(x[tile], towards[tile])
    return out
