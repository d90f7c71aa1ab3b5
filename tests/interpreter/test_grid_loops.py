"""Loops around products that are axes of the grid give what their author wrote."""

from __future__ import annotations

from tile_testing.kernels import path_of
from tile_testing.runs.constructs import (  # noqa: F401  tests of each case
    test_construct,
    test_construct_by_portable_variants,
)
from tile_testing.runs.interpreted import load_module

KERNELS = path_of("grid_loop_kernels")
CASES = load_module(KERNELS).CASES
