"""Arguments of a call on a device: copies of the tensors in whatever holds them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch


def place(value: Any, device: str) -> Any:
    """``value`` with every tensor copied to ``device``, and that device for others: in tuples, lists, dictionaries,
    dataclasses, partial calls, modules, other objects and their methods, and what functions close over."""
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True) if value.is_contiguous() else _laid_out(value, device)
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, place(value.__self__, device))
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, FunctionType) and value.__closure__:
        cells = tuple(CellType(place(cell.cell_contents, device)) for cell in value.__closure__)
        moved = FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)
        moved.__kwdefaults__, moved.__module__ = value.__kwdefaults__, value.__module__
        moved.__qualname__ = value.__qualname__
        return moved
    if isinstance(value, partial):
        return partial(place(value.func, device), *place(value.args, device), **place(value.keywords, device))
    if type(value).__module__.startswith("helion_kernels") and not dataclasses.is_dataclass(value):
        moved_object = copy.copy(value)
        vars(moved_object).update(place(vars(value), device))
        return moved_object
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: place(getattr(value, f.name), device) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    if isinstance(value, Mapping):
        return type(value)({key: place(item, device) for key, item in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(place(item, device) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(place(item, device) for item in value)
    return value


def _laid_out(value: torch.Tensor, device: str) -> torch.Tensor:
    """A copy of a view, as it lies in a copy of the memory that it is of."""
    whole = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage())
    return whole.to(device, copy=True).as_strided(value.shape, value.stride(), value.storage_offset())
