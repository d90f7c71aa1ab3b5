"""Microscaling formats: short numbers in groups of 32 that share a power of two.

The Open Compute Project's Microscaling Formats (MX) specification, version 1.0, has the formats and their numbers.
"""

from __future__ import annotations

import torch

GROUP = 32
DTYPES = {
    "e2m1": (torch.uint8,),
    "e4m3": (torch.uint8, torch.float8_e4m3fn),
    "e5m2": (torch.uint8, torch.float8_e5m2),
    "bf16": (torch.bfloat16,),
    "fp16": (torch.float16,),
}
PACKED = {"e2m1": 2}  # numbers in an element
_BYTES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BIAS, _NAN = 127, 255


def widened(tile: torch.Tensor, scale: torch.Tensor | None, format: str, axis: int) -> torch.Tensor:
    """The numbers of ``tile`` in float32, times their scales. ``axis``: 1 for (m, k), 0 for (k, n). ``scale``: uint8
    exponents of 2, biased by 127 (255 is NaN), of shape (m, k / 32) or (n, k / 32)."""
    if format == "e2m1":
        table = torch.tensor([*_E2M1, *(-n for n in _E2M1)], dtype=torch.float32, device=tile.device)
        pairs = torch.stack([table[(tile & 15).long()], table[(tile >> 4).long()]], axis + 1)
        values = pairs.flatten(axis, axis + 1)
    else:
        values = (tile.view(_BYTES[format]) if tile.dtype == torch.uint8 else tile).float()
    if scale is None:
        return values
    exponents = scale.int()
    factors = torch.where(exponents == _NAN, torch.nan, torch.exp2((exponents - _BIAS).float()))
    factors = factors.repeat_interleave(GROUP, 1)
    return values * (factors if axis == 1 else factors.T)
