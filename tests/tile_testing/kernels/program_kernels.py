"""Kernels of a saved program, and what other processes do with it: ``python -m
tile_testing.kernels.program_kernels FILE``, or ``OPERATORS PACKAGE`` of one that AOTInductor made."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


@tileflow.kernel
def scaled(
    x: Tensor, y: Tensor, times: float, dtype: torch.dtype = torch.float32, steps: tuple[int, int] = (1, 2)
) -> tuple[Tensor, Tensor]:
    out, other = torch.empty_like(x, dtype=dtype), torch.empty_like(y)
    for tile in tfl.tile(x.numel()):
        out[tile] = (x[tile] * times).to(dtype)
        other[tile] = y[tile] + steps[1]
    return out, other


@tileflow.kernel
def into(total: Tensor, x: Tensor, named: Any) -> Tensor:
    for tile in tfl.tile(x.numel()):
        total[tile] += x[tile] * named["times"]
    return total


@tileflow.kernel
def mapped(x: Tensor, then: Any) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = then(x[tile])
    return out


def at_least(n: int) -> int:
    return max(n, 3)


@tileflow.kernel
def limited(x: Tensor, n: int) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = max(x[tile], 0.5) * min(at_least(n), 9) * math.pow(2.0, 3.0)
    return out


class Module(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        a, b = scaled(x, y, 3.0)
        total = a.clone()
        return into(total, b, {"times": 2.0})


def wanted(x: Tensor, y: Tensor) -> Tensor:
    return 3 * x + 2 * (y + 2)


def program() -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=2)
    return torch.export.export(Module(), (torch.randn(64), torch.randn(64)), dynamic_shapes=({0: n}, {0: n}))


def load(file: str, package: str = "") -> None:
    """As a server does that has no compiler."""
    sys.modules["triton"] = None  # type: ignore[assignment]
    assert len(tileflow.load_operators(file)) == 2
    if package:
        from torch._inductor import aoti_load_package  # noqa: TID251  (as documented)

        loaded = aoti_load_package(package)
    else:
        loaded = torch.export.load(file).module()
    for n in (64, 33):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(loaded(x, y), wanted(x, y))
    assert not any(name.startswith(("tileflow.emit", "tileflow.lowered")) for name in sys.modules), "no compiler"


if __name__ == "__main__":
    load(*sys.argv[1:])
