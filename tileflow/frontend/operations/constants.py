"""Numbers as tiles."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import TraceError
from ..promotion import dtype_name
from ..torch_registry import FACTORIES, register_torch
from ..trace import Tracer
from ..values import TileValue


def constant(t: Tracer, data: Any, *, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
    """A number as a 0-d tile, in torch's dtype for it. Raises TraceError for lists and tiles."""
    if isinstance(data, TileValue):
        return data if dtype is None else t.cast(data, dtype_name(dtype))
    if not isinstance(data, (bool, int, float)):
        raise TraceError(
            "torch.tensor in device code takes a number",
            got=repr(data)[:100],
            where=t.location(),
            hint="make the tensor in host code, or of tiles by torch.stack",
        )
    with t.plain_torch():
        own = torch.tensor(data, device="cpu").dtype
    return t.full((), data, dtype_name(own if dtype is None else dtype))


FACTORIES[torch.tensor] = FACTORIES[torch.as_tensor] = FACTORIES[torch.scalar_tensor] = constant


@register_torch("new_tensor")
def new_tensor(t: Tracer, x: Any, data: Any, *, dtype: Any = None, **unused: Any) -> Any:
    """The numbers in ``data`` as a tile; ``x`` says nothing about it."""
    return constant(t, data, dtype=dtype)
