"""A script with kernels: its annotations are evaluated, and its own tensors have the names of their variables."""

from typing import Optional, Protocol

import torch

import tileflow
import tileflow.language as tfl
from tile_testing import kernels

Tensor = torch.Tensor
HOME = torch.device("cpu")


class Named(Protocol):
    name: str


@tileflow.kernel
def scaled(x: torch.Tensor, scale: float = 2.0, *, bias: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:  # noqa: UP045
    """Two outputs."""
    out, copied = torch.empty_like(x), torch.empty(x.shape, dtype=x.dtype, device=HOME)
    for tile in tfl.tile(x.numel()):
        value = x[tile] * scale
        copied[tile] = x[tile]
        out[tile] = value if bias is None else value + bias[tile]
    return out, copied


@tileflow.kernel
def named(x: Tensor, by: Optional[Named] = None) -> Tensor:  # noqa: UP045
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile]
    return out


@tileflow.kernel
def reads_a_module(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + len(kernels.__name__)
    return out


x, bias, value = torch.randn(4), torch.ones(4), object()
out, copied = scaled(x, bias=bias)
