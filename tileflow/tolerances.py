"""Tolerances: what a kernel's author says may differ between a result and its reference."""

from __future__ import annotations

import math

from .errors import KernelError
from .lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Each overrides what a check would find for itself (:mod:`tileflow.measure.check`); None: nothing is said.

    ``atol``, ``rtol``: an element passes where ``|out - ref| <= atol + rtol * |ref|``, one that is None being 0.
    ``max_mismatch_ratio``: the share of a result's elements, 0 to 1, that may be off by any amount.
    """

    atol: float | None = None
    rtol: float | None = None
    max_mismatch_ratio: float | None = None

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "max_mismatch_ratio"):
            given = getattr(self, name)
            most = 1.0 if name == "max_mismatch_ratio" else math.inf
            if given is not None and not (isinstance(given, int | float) and 0 <= given <= most and given < math.inf):
                raise KernelError(f"{name} must be a finite number from 0 to {most:g}", got=repr(given))

    @property
    def given(self) -> bool:
        """Whether the author says anything."""
        return (self.atol, self.rtol, self.max_mismatch_ratio) != (None, None, None)


UNSAID = Tolerances()
