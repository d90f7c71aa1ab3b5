"""Tensors of any leading dimensions as the matrices that row-wise kernels take, and what a call must have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import torch

from ..errors import CallError
from ..runtime.ambient import autocast_dtype
from ..runtime.argtree import is_traced
from ..runtime.describe import LAZY, refuse_transforms, unlike_strided
from ..runtime.native import strided_reader
from ..runtime.tensor_fields import DTYPE, SHAPE, STRIDES


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """``x`` as (rows, last dimension), contiguous: no copy where it already is, and ``x`` itself where that is all that
    it is."""
    known = _strided(x, _LAYOUT)
    if known is not None and len(known[0]) == 2 and known[1] == (known[0][1], 1):
        return x
    return x.reshape(math.prod(x.shape[:-1]), x.size(-1)).contiguous()


def as_before(made: torch.Tensor, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What was made of ``rows``, which :func:`as_rows` gave of ``x``, with the dimensions of ``x``."""
    return made if rows is x else made.view(x.shape)


_LAYOUT, _KIND, _SHAPE = bytes([SHAPE | STRIDES]), bytes([SHAPE | DTYPE]), bytes([SHAPE])


def _strided(x: object, fields: bytes) -> tuple[Any, ...] | None:
    """Fields of a tensor that is a strided one; None where its attributes have to be asked, each of which is a call of
    the Python function of any mode of torch.overrides, as while ``torch.set_default_device`` holds."""
    if torch.compiler.is_dynamo_compiling():
        return None
    read = strided_reader()
    return None if read is None else read(fields, x)


def as_cast(x: torch.Tensor) -> torch.Tensor:
    """As torch's products and attention cast what they are given under autocast."""
    dtype = autocast_dtype(x.device)
    return x if dtype is None or not x.is_floating_point() or x.dtype == torch.float64 else x.to(dtype)


def require_tensors(function: str, **given: object) -> None:
    """Raises CallError for what is no tensor with strides."""
    for name, x in given.items():
        if _strided(x, _SHAPE) is not None:
            continue
        odd = unlike_strided(x) if isinstance(x, torch.Tensor) else (shown(x), "pass a tensor")
        if odd is not None:
            raise CallError(
                f"{name} is a strided tensor",
                got=f"one with {odd[0]}" if isinstance(x, torch.Tensor) else odd[0],
                where=f"tileflow.kernels.{function}",
                hint=odd[1],
            )


def require_alike(function: str, **tensors: torch.Tensor) -> None:
    """Raises CallError for tensors of several devices, which torch's products on a CPU read as they come, or dtypes."""
    first, *_ = tensors
    for of, word in (("device", "are on one device"), ("dtype", "have one dtype")):
        found = [str(getattr(x, of)) for x in tensors.values()]
        if len({*found}) > 1:
            raise CallError(
                f"{', '.join(tensors)} {word}",
                got=", ".join(found),
                where=f"tileflow.kernels.{function}",
                hint=f"give the others that of {first}, by .to({first}.{of})",
            )


def require_rows(function: str, **tensors: torch.Tensor) -> None:
    """Raises CallError for tensors that are not floating, or have no last dimension."""
    for name, x in tensors.items():
        known = _strided(x, _KIND)
        if known is not None and known[0] and known[1].is_floating_point:
            continue
        require_tensors(function, **{name: x})
        if not x.ndim or not x.is_floating_point():
            raise CallError(
                f"{name} is a floating tensor of one dimension or more",
                got=f"{x.dtype} of {tuple(x.shape)}",
                where=f"tileflow.kernels.{function}",
            )


def require_numbers(function: str, **given: object) -> None:
    """Raises CallError for an option that is no number."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, Real, torch.SymInt, torch.SymFloat)):
            raise CallError(
                f"{name} is a number",
                got=shown(value),
                where=f"tileflow.kernels.{function}",
                hint=f"{name}.item()" if isinstance(value, torch.Tensor) else "an int or a float",
            )


def require_choice(function: str, name: str, value: object, choices: Iterable[str]) -> None:
    """Raises CallError for an option that is none of the words."""
    *others, last = choices
    if not isinstance(value, str) or value not in (*others, last):
        raise CallError(
            f"{name} is {', '.join(others)} or {last}", got=shown(value), where=f"tileflow.kernels.{function}"
        )


def shown(value: object) -> str:
    """A value in an error's text: what is long, as a tensor, by its kind."""
    if isinstance(value, LAZY):
        return "a tensor without a size yet"
    if isinstance(value, torch.Tensor):
        return f"a tensor, {value.dtype} of {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 80 else f"a {type(value).__qualname__}"


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
    known = _strided(x, _SHAPE)
    if known is not None and known[0] == tuple(shape):
        return
    if isinstance(x, torch.Tensor):
        require_tensors(function, **{name: x})
    if not isinstance(x, torch.Tensor) or tuple(x.shape) != tuple(shape):
        raise CallError(
            why,
            got=f"{name} of {tuple(x.shape)}, not {tuple(shape)}"
            if isinstance(x, torch.Tensor)
            else f"{name}={shown(x)}",
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


def _promoted(function: str, first: torch.dtype, second: torch.dtype) -> torch.dtype:
    """The dtype that torch promotes both to. Raises CallError where it has none, as for float8 and another."""
    try:
        return torch.promote_types(first, second)
    except RuntimeError as error:
        raise CallError(
            "both tensors have dtypes that torch promotes to one",
            got=f"{first} and {second}",
            where=f"tileflow.kernels.{function}",
            hint="cast one to the other's dtype",
        ) from error


def widened(function: str, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensors in one dtype, to which torch promotes theirs."""
    dtype = _promoted(function, a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def wider_first(function: str, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two summands, of which the first has the dtype of their sum; a cast is made where neither has it."""
    dtype = _promoted(function, x.dtype, residual.dtype)
    if x.dtype == dtype:
        return x, residual
    return (residual, x) if residual.dtype == dtype else (x.to(dtype), residual)
