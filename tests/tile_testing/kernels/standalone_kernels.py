"""Kernels that a package can hold, and those that it cannot."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor
EPS = 1e-5
LOWEST = -math.inf
SHARES = {"a": (1, 2.5), "b": [torch.float32]}
TABLE = torch.arange(4)


def act(v: Any) -> Any:
    """A helper that reads a constant, and a helper of its own."""
    return torch.maximum(shift(v), torch.full_like(v, LOWEST))


def shift(v: Any) -> Any:
    return F.relu(v) + SHARES["a"][0]


def decorated(fn: Any) -> Any:
    return fn


@decorated
def marked(v: Any) -> Any:
    return v


@tileflow.kernel(reference=lambda x, eps=EPS: x)
def acted(x: Tensor, eps: float = EPS, *, twice: bool = False) -> Tensor:
    """One line, and

    another."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = act(x[tile]) * (2 if twice else 1) + eps
    return out


@tileflow.kernel
def reads_a_tensor(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + TABLE[0]
    return out


@tileflow.kernel
def reads_marked(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = marked(x[tile])
    return out


renamed = act


@tileflow.kernel
def reads_renamed(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = renamed(x[tile])
    return out


class Holder:
    @tileflow.kernel
    def inside(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = x[tile]
        return out


# fmt: off
try:
    import a_library_that_nobody_has
except ImportError:
    if math.pi > 3:

        def lowered(v: Any) -> Any:
            return v - EPS

    @tileflow.kernel
    def fallen_back(x: Tensor) -> Tensor:
        """One line,
left of the margin,
            and right of it."""
        kind = f"""of
        {x.dtype}"""
        out = torch.empty_like(
    x,
        )
# left of the margin too
        for tile in tfl.tile(x.numel()):
            out[tile] = lowered(x[tile]) + (len(kind) - len("""of
        torch.float32"""))
        return out
else:
    fallen_back = a_library_that_nobody_has.kernel
# fmt: on
