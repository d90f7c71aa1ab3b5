"""How long a call takes on the current GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def milliseconds(call: Callable[..., Any], args: Sequence[Any]) -> float:
    """The median time of ``call(*args)`` with a cold L2."""
    from ...measure.timing import DeviceSampler, Effort, measure

    return measure(DeviceSampler(call, args), Effort()).median_us / 1e3
