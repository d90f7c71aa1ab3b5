"""What a kernel author writes inside a ``@tileflow.kernel`` function.

Each function's body is its eager meaning on torch tensors; the tracer has one of its own by the same name.
"""

from __future__ import annotations

from . import by_torch as _by_torch
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
from .counted import positions, rand4x, rand_at, randint_at
from .eager_tiles import EagerTile as Tile
from .escapes import device_print, inline_asm_elementwise, inline_triton, triton_kernel
from .knobs import register_block_size, register_tunable, specialize
from .loops import barrier, grid, jagged_tile, static_range, tile
from .marks import constexpr
from .memory import load, store
from .packing import join, split
from .products import dot, dot_scaled
from .random import rand, randint
from .registers import arange, full, zeros
from .scans import associative_scan, cumprod, cumsum, reduce
from .stacks import StackTensor, stacktensor_like

_FAMILIES = (_by_torch,)  # imported for the functions of torch that it registers

__all__ = [
    "StackTensor",
    "Tile",
    "arange",
    "associative_scan",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "barrier",
    "constexpr",
    "cumprod",
    "cumsum",
    "device_print",
    "dot",
    "dot_scaled",
    "full",
    "grid",
    "inline_asm_elementwise",
    "inline_triton",
    "jagged_tile",
    "join",
    "load",
    "positions",
    "rand",
    "rand4x",
    "rand_at",
    "randint",
    "randint_at",
    "reduce",
    "register_block_size",
    "register_tunable",
    "specialize",
    "split",
    "stacktensor_like",
    "static_range",
    "store",
    "tile",
    "triton_kernel",
    "zeros",
]
