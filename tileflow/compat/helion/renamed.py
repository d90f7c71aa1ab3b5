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
def jagged_tile(parent: Any, *, block_size: Any = None) -> Iterator[Any]:
    """Tiles of ``[0, max(parent))``, where each lane of a tile around has its own length."""
    yield from tfl.jagged_tile(parent, block_size=block_size)


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
