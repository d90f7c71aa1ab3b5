"""Helion's dialect on top of tileflow: its decorator, its ``Config`` keys, its names.

A kernel moves over by ``import tileflow.compat.helion as helion`` and ``import tileflow.compat.helion.language as hl``.
A program whose imports cannot change calls :func:`install` first: then ``import helion`` finds this package.
"""

from __future__ import annotations

from . import autotuner, exc, experimental, language, runtime
from ._utils import cdiv, next_power_of_2
from .autotuner import from_cache
from .config import Config
from .install import install
from .kernel import BoundKernel, Kernel, OutputCodeOptions, aot_kernel, jit, kernel
from .refusals import refusal
from .settings import CuteStructuralPolicy, RefMode, Settings, set_default_settings

CuteStructuralConfig = refusal("helion.CuteStructuralConfig", "helion.Config: kernels are compiled by Triton")
resolve_cute_structural_policy = refusal(
    "helion.resolve_cute_structural_policy", "leave it out: kernels are compiled by Triton"
)

__all__ = [
    "BoundKernel",
    "Config",
    "CuteStructuralConfig",
    "CuteStructuralPolicy",
    "Kernel",
    "OutputCodeOptions",
    "RefMode",
    "Settings",
    "aot_kernel",
    "autotuner",
    "cdiv",
    "exc",
    "experimental",
    "from_cache",
    "install",
    "jit",
    "kernel",
    "language",
    "next_power_of_2",
    "resolve_cute_structural_policy",
    "runtime",
    "set_default_settings",
]
