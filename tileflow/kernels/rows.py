"""Tensors of any leading dimensions as the matrices that row-wise kernels take, and what a call must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TypeGuard

import torch

from ..errors import CallError
from ..runtime.argtree import is_traced
from ..runtime.describe import refuse_transforms


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """``x`` as (rows, last dimension), contiguous: no copy where it already is."""
    return x.reshape(math.prod(x.shape[:-1]), x.size(-1)).contiguous()


def require_rows(function: str, **tensors: torch.Tensor) -> None:
    """Raises CallError for tensors that are not floating, or have no last dimension."""
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor) or not x.ndim or not x.is_floating_point():
            raise CallError(
                f"{name} is a floating tensor of one dimension or more",
                got=f"{x.dtype} of {tuple(x.shape)}" if isinstance(x, torch.Tensor) else repr(x),
                where=f"tileflow.kernels.{function}",
            )


def is_size(value: object) -> TypeGuard[int]:
    """Whether it is a whole number from 0 up, numpy's among them."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def size_of_rows(module: str, size: object) -> int:
    """What a norm is made with as an int: a tuple or a list of one, as torch's norms take, is its item. Raises
    CallError for anything else."""
    (one,) = size if isinstance(size, (tuple, list)) and len(size) == 1 else (size,)
    if not is_size(one):
        raise CallError(
            "a norm is over the last dimension, and made with its size",
            got=repr(size),
            where=f"tileflow.kernels.{module}",
            hint=f"{module}(4096); x.flatten(-2) makes one dimension of two",
        )
    return int(one)


def require_shape(function: str, name: str, x: torch.Tensor | None, shape: Sequence[int], why: str) -> None:
    """Raises CallError for a tensor of another shape, with the rule that asks for this one."""
    if not isinstance(x, torch.Tensor) or tuple(x.shape) != tuple(shape):
        raise CallError(
            why,
            got=f"{name} of {tuple(x.shape)}, not {tuple(shape)}" if isinstance(x, torch.Tensor) else f"{name}={x!r}",
            where=f"tileflow.kernels.{function}",
            hint=f"{name}.expand(...) or .reshape(...) it; nothing broadcasts",
        )


def require_inside(function: str, name: str, values: torch.Tensor, size: int, but: int | None = None) -> None:
    """Raises CallError for ints of a CPU outside of 0 to ``size``, but for one. Elsewhere a question about values waits
    for the device: kernels read nothing for such an int, and give NaN."""
    if values.device.type != "cpu" or torch.compiler.is_compiling() or is_traced(values):
        return
    refuse_transforms(f"tileflow.kernels.{function}", name, values)
    values = values.long()
    outside = (values < 0) | (values >= size)
    if but is not None:
        outside &= values != but
    if outside.any():
        raise CallError(
            f"{name} are from 0 to {size - 1}" + ("" if but is None else f", or ignore_index={but}"),
            got=f"{values[outside][0].item()} at {tuple(outside.nonzero()[0].tolist())}",
            where=f"tileflow.kernels.{function}",
            hint=f"correct {name}, or what makes them",
        )


def widened(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors in one dtype, to which torch promotes theirs."""
    dtype = tensors[0].dtype
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    return tuple(x.to(dtype) for x in tensors)


def wider_first(x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two summands, of which the first has the dtype of their sum; a cast is made where neither has it."""
    dtype = torch.promote_types(x.dtype, residual.dtype)
    if x.dtype == dtype:
        return x, residual
    return (residual, x) if residual.dtype == dtype else (x.to(dtype), residual)
