"""What Triton's interpreter lacks or does element by element, on numpy arrays; :mod:`compat` puts it in place."""

from __future__ import annotations

from typing import Any

import numpy as np


def bfloat16_bits(values: Any) -> Any:
    """The bits of the nearest bfloat16 numbers, of two as near the even one; no NaN among them."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def add_bfloat16(memory: Any, pointers: Any, values: Any, mask: Any) -> Any:
    """Add bfloat16 numbers, as their bits, to what the pointers point at, one after the other. What was there before.

    ``memory``: the interpreter's loads and stores. Its programs run one after the other, so that both are as one.
    """

    def wide(bits: Any) -> Any:
        return (bits.astype(np.uint32) << 16).view(np.float32)

    found = np.zeros_like(values).reshape(-1)
    one = np.ones(1, dtype=bool)
    for lane, (pointer, value) in enumerate(zip(pointers.reshape(-1), values.reshape(-1), strict=True)):
        if not mask.reshape(-1)[lane]:
            continue
        place = np.array([pointer], dtype=np.uint64)
        found[lane : lane + 1] = memory.load(place, one, np.zeros(1, np.uint16), np.dtype(np.uint16))
        total = wide(found[lane : lane + 1]) + wide(np.array([value]))
        memory.store(place, bfloat16_bits(total), one)
    return found.reshape(values.shape)


def reduce_slices(self: Any, tiles: tuple[Any, ...]) -> list[Any]:
    """Neighbours by pairs, then pairs of pairs; the length is a power of two."""
    tiles, axis = self.unravel(tiles, self.axis)
    data = [np.moveaxis(t.handle.data, axis, 0) for t in tiles]
    while len(data[0]) > 1:
        data = _combined(self, tiles, [d[0::2] for d in data], [d[1::2] for d in data])
    found = [d[0] for d in data]
    if self.keep_dims:
        found = [np.expand_dims(d, axis) for d in found]
    return [self.to_tensor(d, t.dtype) for d, t in zip(found, tiles, strict=True)]


def scan_slices(self: Any, tiles: tuple[Any, ...]) -> list[Any]:
    """Kogge and Stone's: each element with the one 1, 2, 4 ... before it."""
    data = [np.moveaxis(t.handle.data, self.axis, 0) for t in tiles]
    distance, length = 1, len(data[0])
    while distance < length:
        combined = _combined(self, tiles, [np.roll(d, distance, axis=0) for d in data], data)
        data = [np.concatenate([d[:distance], c[distance:]]) for d, c in zip(data, combined, strict=True)]
        distance *= 2
    return [self.to_tensor(np.moveaxis(d, 0, self.axis), t.dtype) for d, t in zip(data, tiles, strict=True)]


def _combined(self: Any, tiles: tuple[Any, ...], a: list[Any], b: list[Any]) -> list[Any]:
    """The combining function over arrays; numbers that it gives are broadcast."""
    operands = [self.to_tensor(d, t.dtype) for side in (a, b) for d, t in zip(side, tiles, strict=True)]
    result = self.combine_fn.fn(*operands)
    items = result if isinstance(result, tuple) else (result,)
    return [np.broadcast_to(i.handle.data, d.shape).astype(d.dtype) for i, d in zip(items, a, strict=True)]
