"""What the config decides beside the block sizes of loops, and what it must not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import eager
from .marks import device, host


@host
def register_block_size(low: int, high: int | None = None) -> int:
    """A block size chosen by the config, known before the loop: between ``low`` (1 when only one number is given) and
    ``high``, a size it need not exceed. In host code only; the knob is named ``block:<variable>``."""
    limit = low if high is None else high
    return eager.block_size("register_block_size", limit)


@host
def register_tunable(name: str, choices: Sequence[int | str | bool]) -> Any:
    """A knob of the kernel's own, ``tunable:<name>``: one of ``choices``, the first by default. In host code only."""
    return eager.current("register_tunable").knobs.tunable(name, choices[0])


@device
def specialize(value: Any) -> Any:
    """``value`` as a constant of the kernel; each launch checks that it is still the same."""
    return value
