"""Kernels whose arguments a caller may pass in one memory, and calls of them one after the other."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError


@tileflow.kernel
def from_the_one_before(x: torch.Tensor, y: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        for i in tfl.grid(1, x.size(1)):
            x[tile, i] = y[tile, i - 1] + 1


@tileflow.kernel
def doubled(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2


@tileflow.kernel
def multiplied(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] @ w[:, :]


def rows_replaced_by_products() -> dict[str, float]:
    """How far off products of whole rows are, of their largest number: apart, then stored where the rows were."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(shape, generator=generator).bfloat16() for shape in ((40, 160), (160, 160)))
    wanted = x.double() @ w.double()
    multiplied(x, w, apart := torch.empty_like(x))
    multiplied(x, w, x)
    return {name: float((y - wanted).abs().max() / wanted.abs().max()) for name, y in (("apart", apart), ("one", x))}


def one_after_the_other() -> dict[str, Any]:
    """First apart, then in one memory, and back; then a call that no variant is right for."""
    x, y = torch.zeros(4, 8), torch.zeros(4, 8)
    found: dict[str, Any] = {}
    for name in ("apart", "warm"):
        from_the_one_before(x, y)
        found[name] = x.clone()
    from_the_one_before(y, y)
    found["one"] = y.clone()
    from_the_one_before(y, y)
    x.zero_()
    from_the_one_before(x, torch.zeros(4, 8))
    found["again"] = x.clone()
    line = torch.arange(9.0)
    doubled(line, out := torch.empty(9))
    found["doubled"] = out.clone()
    doubled(line, line)
    found["in place"] = line.clone()
    try:
        doubled(line[1:], line[:-1])
        found["shifted"] = "launched"
    except CallError as error:
        found["shifted"] = str(error)
    return found
