"""Whether a device is a Hopper, whose warp-specialised kernels win where others' pipelined ones do not."""

from __future__ import annotations

from functools import cache

import torch

from ..runtime.describe import device_properties
from ..target import classify


def hopper_multiprocessors(index: int) -> int:
    """The multiprocessors of a device whose warp groups multiply into registers; 0 of any other."""
    if torch.compiler.is_dynamo_compiling():
        from ..dynamo import constant_result  # which imports torch's compiler

        return int(constant_result(_count, index))
    return _count(index)


def _count(index: int) -> int:
    return _counted(index)  # a cached function is nothing that Dynamo hands on


@cache
def _counted(index: int) -> int:
    device = classify(device_properties(index))
    return device.sm_count if device.has_wgmma else 0
