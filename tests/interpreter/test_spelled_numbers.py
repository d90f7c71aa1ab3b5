"""Numbers, sizes and ranges as people of Python and numpy write them, through the interpreter and eagerly."""

from __future__ import annotations

from tile_testing.kernels import path_of
from tile_testing.kernels.spelled_numbers import CASES
from tile_testing.runs.constructs import test_construct, test_construct_eagerly

KERNELS = path_of("spelled_numbers")

__all__ = ["CASES", "KERNELS", "test_construct", "test_construct_eagerly"]
