"""Kernels that a soak calls beside the gallery's. A launch that is repeated or dropped changes their result."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def pair(n: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random vectors of ``n`` elements."""
    return torch.randn(n, device=device), torch.randn(n, device=device)


def added_twice(x: torch.Tensor, y: torch.Tensor) -> None:
    """Compute :func:`add_twice` with torch."""
    x += y
    x += 1


@tileflow.kernel(inputs=pair, reference=added_twice)  # type: ignore[untyped-decorator]
def add_twice(x: torch.Tensor, y: torch.Tensor) -> None:
    """``x + y + 1`` in place, in two launches: neither may run twice."""
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] + y[tile]
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] + 1
