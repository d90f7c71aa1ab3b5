"""Names that the dialect keeps under ``runtime``."""

from __future__ import annotations

from .config import Config
from .kernel import BoundKernel, Kernel, kernel
from .settings import RefMode, Settings

__all__ = ["BoundKernel", "Config", "Kernel", "RefMode", "Settings", "kernel"]
