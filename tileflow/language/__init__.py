"""What a kernel author writes inside a ``@tileflow.kernel`` function.

Each function's body is its eager meaning on torch tensors; the tracer has one of its own by the same name.
"""

from __future__ import annotations

from .atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
)
from .eager import EagerTile as Tile
from .knobs import register_block_size, register_tunable, specialize
from .loops import grid, tile
from .memory import load, store
from .products import dot
from .registers import arange, full, zeros

__all__ = [
    "Tile",
    "arange",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "dot",
    "full",
    "grid",
    "load",
    "register_block_size",
    "register_tunable",
    "specialize",
    "store",
    "tile",
    "zeros",
]
