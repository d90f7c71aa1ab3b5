"""What another dialect means by the same text: on while its kernels are traced, or run as plain Python."""

from __future__ import annotations

from contextvars import ContextVar

# 1-D tiles of ints of no loop, as of ``arange(8)``, are an outer product in an index even where their sizes agree.
OUTER_CONSTANTS: ContextVar[bool] = ContextVar("OUTER_CONSTANTS", default=False)
