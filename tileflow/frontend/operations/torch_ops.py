"""Every row of the table: numbers as tiles here, the other families in their own modules."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import TraceError
from ..promotion import dtype_name
from ..trace import Tracer
from ..values import TileValue
from . import activations as _activations
from . import einsum as _einsum
from . import matmul as _matmul
from . import norms as _norms
from . import packing as _packing
from . import pointwise as _pointwise
from . import pooling as _pooling
from . import random_numbers as _random_numbers
from . import reductions as _reductions
from . import slices as _slices
from . import sorting as _sorting
from . import special as _special
from . import statistics as _statistics
from . import tile_index as _tile_index
from .factories import arange
from .pointwise import binary
from .torch_table import FACTORIES, METHODS, TABLE, handler_for, nearest, row

__all__ = ["FACTORIES", "METHODS", "TABLE", "arange", "binary", "handler_for", "nearest"]

_FAMILIES = (
    _activations,
    _einsum,
    _matmul,
    _norms,
    _packing,
    _pooling,
    _pointwise,
    _random_numbers,
    _reductions,
    _slices,
    _sorting,
    _special,
    _statistics,
    _tile_index,
)  # imported for the rows that they register


def constant(t: Tracer, data: Any, *, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
    """A number as a 0-d tile, in torch's dtype for it. Raises TraceError for lists and tiles."""
    if isinstance(data, TileValue):
        return data if dtype is None else t.cast(data, dtype_name(dtype))
    if not isinstance(data, (bool, int, float)):
        raise TraceError("torch.tensor in device code takes a number", got=repr(data)[:100], where=t.location(),
                         hint="make the tensor in host code, or of tiles by torch.stack")  # fmt: skip
    with t.plain_torch():
        own = torch.tensor(data, device="cpu").dtype
    return t.full((), data, dtype_name(own if dtype is None else dtype))


FACTORIES[torch.tensor] = FACTORIES[torch.as_tensor] = FACTORIES[torch.scalar_tensor] = constant


@row("new_tensor")
def new_tensor(t: Tracer, x: Any, data: Any, *, dtype: Any = None, **unused: Any) -> Any:
    return constant(t, data, dtype=dtype)
