"""Masks by position that full blocks jump over: the values are those of masks that each block computes."""

from __future__ import annotations

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module

KERNELS = path_of("masked_kernels")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", load_module(KERNELS).CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""
