"""Helion's dialect on top of tileflow: its decorator, its ``Config`` keys, its names.

A kernel moves over by ``import tileflow.compat.helion as helion`` and ``import tileflow.compat.helion.language as hl``.
A program whose imports cannot change calls :func:`install` first: then ``import helion`` finds this package.
"""

from __future__ import annotations

from . import autotuner, exc, experimental, language, runtime
from ._utils import cdiv, next_power_of_2
from .config import Config
from .install import install
from .kernel import BoundKernel, Kernel, aot_kernel, jit, kernel
from .settings import CuteStructuralPolicy, RefMode, Settings, set_default_settings

__all__ = [
    "BoundKernel",
    "Config",
    "CuteStructuralPolicy",
    "Kernel",
    "RefMode",
    "Settings",
    "aot_kernel",
    "autotuner",
    "cdiv",
    "exc",
    "experimental",
    "install",
    "jit",
    "kernel",
    "language",
    "next_power_of_2",
    "runtime",
    "set_default_settings",
]
