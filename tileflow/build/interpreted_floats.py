"""Floating types in Triton's interpreter, by torch: its own cut off what bfloat16 cannot hold, and
lose infinities, NaNs and what is below the normal numbers of the 8-bit types."""

from __future__ import annotations

from typing import Any

import torch

from ..language.scaled import widened

# by Triton's names; the interpreter holds the short types in numpy's ints
_TYPES = {
    "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2, "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz, "bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
    "fp64": torch.float64,
}  # fmt: skip
_HELD = {
    "bf16": torch.uint16,
    "fp8e4nv": torch.uint8,
    "fp8e5": torch.uint8,
    "fp8e4b8": torch.uint8,
    "fp8e5b16": torch.uint8,
}


def is_ours(source: str, target: str) -> bool:
    """Whether the interpreter's own conversion between these types of Triton is not right."""
    return source in _TYPES and target in _TYPES and (source in _HELD or target in _HELD)


def convert(values: Any, source: str, target: str) -> Any:
    """A numpy array of the type ``source`` as one of ``target``, rounded to nearest, ties to even."""
    floats = torch.from_numpy(values).view(_TYPES[source]).to(_TYPES[target])
    return floats.view(_HELD.get(target, _TYPES[target])).numpy()


Side = tuple[Any, Any, str]


def scaled_product(a: Side, b: Side) -> Any:
    """The product of microscaling formats, each side as (values, scales or None, Triton's name of the format)."""
    left, right = (_widened(*side, axis) for side, axis in ((a, 1), (b, 0)))
    return (left @ right).numpy()


def _widened(values: Any, scale: Any, name: str, axis: int) -> torch.Tensor:
    format = name.lower()
    tile = torch.from_numpy(values)
    tile = tile.view(torch.bfloat16) if format == "bf16" else tile
    return widened(tile, None if scale is None else torch.from_numpy(scale), format, axis)
