"""Names that the dialect keeps under ``experimental``."""

from __future__ import annotations

from .kernel import aot_kernel

__all__ = ["aot_kernel"]
