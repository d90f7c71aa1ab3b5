"""Traffic: what a whole call must move and compute, whatever the config."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """``bytes``: of device memory, each input read once, each output written once. ``flops``: floating-point operations
    (a multiply-add is two), ``flop_dtype``: torch's name of the type of the operands of most of them."""

    bytes: int
    flops: int
    flop_dtype: str
