"""A tile's dimension meets the same tile's, whatever function tiles meet in, and whatever one they were made by."""

from __future__ import annotations

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly

KERNELS = path_of("opposite_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_rows(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    """Functions that compute in steps, as hypot, refused them."""
    assert interpreted[name, mode] == ""


@pytest.mark.filterwarnings("ignore:Using a target size")  # torch's own of losses, whose sizes are these on purpose
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_rows_as_plain_python(name: str) -> None:
    """Held against the columns, without a word, by all functions but some twenty, by all arguments with names, by masks
    and atomics, and where a median, a quantile or the like gave the numbers. Results of others had no rows any more,
    and were refused."""
    assert run_eagerly(CASES[name]) == ""
