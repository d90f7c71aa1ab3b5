"""The dialect's functions that mean what tileflow's own do and whose parameters have other names there.

Their parameters stand in the order of tileflow's, by which the frontend takes what was given by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ... import language as tfl
from ...language.marks import device, host, loop


@loop
def tile(begin_or_end: Any, end_or_none: Any = None, block_size: Any = None) -> Iterator[Any]:
    """Tiles of ``[begin, end)``, or of a box when sequences are given."""
    yield from tfl.tile(begin_or_end, end_or_none, block_size)


@loop
def grid(begin_or_end: Any, end_or_none: Any = None, step: Any = 1) -> Iterator[Any]:
    """Every ``step``-th int of ``[begin, end)``, or tuples of them."""
    yield from tfl.grid(begin_or_end, end_or_none, step)


@loop
def jagged_tile(parent: Any, *, block_size: Any = None) -> Iterator[Any]:
    """Tiles of ``[0, max(parent))``, where each lane of a tile around has its own length."""
    yield from tfl.jagged_tile(parent, block_size=block_size)


@device
def static_range(begin_or_end: int, end_or_none: int | None = None, step: int = 1) -> range:
    """A ``range`` whose turns are written out one after the other."""
    return tfl.static_range(begin_or_end, end_or_none, step)


@host
def register_block_size(min_or_max: int, max_or_none: int | None = None) -> int:
    """A block size that is known before its loop."""
    return tfl.register_block_size(min_or_max, max_or_none)


@host
def register_tunable(name: str, fragment: Any) -> Any:
    """A knob of the kernel's own: one of the choices of ``fragment``, the first by default."""
    return tfl.register_tunable(name, fragment)


@device
def dot(mat1: Any, mat2: Any, acc: Any = None, out_dtype: torch.dtype | None = None) -> Any:
    """The product of two tiles, added to ``acc``."""
    return tfl.dot(mat1, mat2, acc, out_dtype)


@device
def cumsum(input_tensor: Any, dim: int, reverse: bool = False) -> Any:
    """Sums of all elements up to each one."""
    return tfl.cumsum(input_tensor, dim, reverse)


@device
def cumprod(input_tensor: Any, dim: int, reverse: bool = False) -> Any:
    """Products of all elements up to each one."""
    return tfl.cumprod(input_tensor, dim, reverse)


@device
def join(tensor0: Any, tensor1: Any) -> Any:
    """Two tiles side by side in a new last dimension."""
    return tfl.join(tensor0, tensor1)


@device
def split(tensor: Any) -> Any:
    """The two halves of a last dimension of 2."""
    return tfl.split(tensor)


@device
def stacktensor_like(tensor_like: Any, dev_ptrs: Any) -> Any:
    """Tensors by their addresses, each like ``tensor_like``, as one."""
    return tfl.stacktensor_like(tensor_like, dev_ptrs)


@device
def inline_triton(triton_source: str, args: Any, output_like: Any, *, reference: Any = None) -> Any:
    """What lines of Triton give, of the type of ``output_like``. ``reference``: what they mean as plain Python."""
    return tfl.inline_triton(triton_source, args, output_like, reference=reference)


@device
def atomic_add(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_add` of ``target``."""
    return tfl.atomic_add(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_and(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_and` of ``target``."""
    return tfl.atomic_and(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_max(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_max` of ``target``."""
    return tfl.atomic_max(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_min(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_min` of ``target``."""
    return tfl.atomic_min(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_or(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_or` of ``target``."""
    return tfl.atomic_or(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_xchg(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_xchg` of ``target``."""
    return tfl.atomic_xchg(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_xor(target: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
    """:func:`tileflow.language.atomic_xor` of ``target``."""
    return tfl.atomic_xor(target, index, value, sem, extra_mask=extra_mask)


@device
def atomic_cas(
    target: Any, index: Any, expected: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None
) -> Any:
    """:func:`tileflow.language.atomic_cas` of ``target``."""
    return tfl.atomic_cas(target, index, expected, value, sem, extra_mask=extra_mask)
