"""Views that device code takes of the tensors that it is given: ``x.T[b, a]``, ``out.view(-1)[t] = x.flatten()[t]``."""

from __future__ import annotations

from tile_testing.kernels import path_of
from tile_testing.runs.constructs import (  # noqa: F401  tests of each case
    test_construct,
    test_construct_by_portable_variants,
    test_construct_eagerly,
)
from tile_testing.runs.interpreted import load_module

KERNELS = path_of("device_view_kernels")
CASES = load_module(KERNELS).CASES
