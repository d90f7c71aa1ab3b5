"""The errors of a launch that cannot be made of what it captured, each with the region that it is of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import CallError
from .abi import Binary, LaunchArg
from .wide_ints import too_wide


def missing_error(binary: Binary) -> Callable[[Exception], CallError]:
    """What makes a CallError of the exception that reading a captured value raised."""

    def missing(error: Exception) -> CallError:
        return CallError(
            "every value that a tile loop captures must be there, with the kind it had when the kernel was lowered",
            got=f"{type(error).__name__}: {error}",
            where=f"launch {binary.region} ({binary.abi.symbol})",
        )

    return missing


def tensor_error(where: str, index: int) -> Callable[[list[Any]], CallError]:
    """What makes a CallError of tensors of the launch ``where`` that are not on device ``index``, of which -1 is the
    CPU, or are lazily negated."""

    def unfit(tensors: list[Any]) -> CallError:
        if any(tensor.get_device() != index or tensor.device.type == "meta" for tensor in tensors):
            devices = ", ".join(str(tensor.device) for tensor in tensors)
            return CallError(
                f"every tensor of a launch must be on {'the CPU' if index < 0 else f'device {index}'}",
                got=devices,
                where=where,
                hint="allocate outputs with device=x.device",
            )
        return CallError(
            "a launch takes no lazily negated tensor: it reads the memory as it is",
            got="one that host code made",
            where=where,
            hint="call .resolve_neg() on it",
        )

    return unfit


def argument_error(binary: Binary) -> Callable[[tuple[Any, ...], Exception], CallError]:
    """What makes a CallError of arguments that the enqueue could not pack."""

    def unpackable(values: tuple[Any, ...], error: Exception) -> CallError:
        where = f"launch {binary.region} ({binary.abi.symbol})"
        wide = too_wide(zip(parameter_names(binary.abi.args), values, strict=False), where)
        if wide is not None:
            return wide
        types = [a.type for a in binary.abi.args]
        return CallError(
            f"the arguments must fit {', '.join(types)}",
            got=f"{values} ({error})",
            where=where,
        )

    return unpackable


def parameter_names(args: Iterable[LaunchArg]) -> Iterator[str]:
    """A name for each parameter of a binary: an int's is what it is computed of."""
    for arg in args:
        yield str(arg.value) if arg.value is not None else arg.path or arg.name
        if arg.tensor_map is not None:
            yield from (f"{arg.path}.shape.{i}" for i in range(len(arg.tensor_map.shape)))
            yield from (f"{arg.path}.stride.{i}" for i in range(len(arg.tensor_map.strides)))
