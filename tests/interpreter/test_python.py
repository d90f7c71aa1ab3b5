"""Python's own things in device code, in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

from tile_testing.kernels import path_of
from tile_testing.kernels.python_kernels import CASES
from tile_testing.runs.constructs import test_construct, test_construct_compiles, test_construct_eagerly

KERNELS = path_of("python_kernels")

__all__ = ["CASES", "KERNELS", "test_construct", "test_construct_compiles", "test_construct_eagerly"]
