"""Ints of other widths than Triton gives the numbers beside them (issue 14): wrapped and exact as in torch's dtype.

On main all but a few of these are wrong without a word, or fail in Triton: an int8's ``clamp(x, min=1) * 3 >> 1`` was
computed in 32 bits.
"""

from __future__ import annotations

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly

KERNELS = path_of("narrow_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n in CASES if n.endswith(("uint16", "uint32"))])
def test_unsigned_ints_eagerly(name: str) -> None:
    """torch has next to none of their operations on a CPU."""
    assert run_eagerly(CASES[name]) == ""
