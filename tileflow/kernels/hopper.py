"""Whether a device is a Hopper, whose warp-specialised kernels win where others' pipelined ones do not."""

from __future__ import annotations

from functools import cache

import torch

from ..runtime.describe import device_properties


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def hopper_multiprocessors(index: int) -> int:
    """The multiprocessors of a device whose warp groups multiply into registers; 0 of any other."""
    return _count(index)


@cache
def _count(index: int) -> int:
    found = device_properties(index)
    return found.sm_count if found.arch == "sm_90a" else 0
