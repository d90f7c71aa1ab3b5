"""Blocks of what was loaded whole are read from memory, as if one index had named them; copies stay copies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.constructs import (  # noqa: F401  tests of each case
    test_construct,
    test_construct_by_portable_variants,
    test_construct_eagerly,
)
from tile_testing.runs.interpreted import load_module

from tileflow.ir.graph import walk
from tileflow.ir.kinds import OpKind
from tileflow.target import target

KERNELS = path_of("loaded_part_kernels")
CASES = load_module(KERNELS).CASES
COPIES = {
    "reversed_in_place",
    "moved_in_place",
    "from_the_end",
    "outside",
    "by_two_loops",
    "flattened_across",
    "of_loaded_ends",
}


def _args(name: str) -> tuple[Any, ...]:
    return tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in CASES[name].args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_registers_hold_no_more_than_is_read(name: str, mode: str) -> None:
    """All of a row lay in registers, and blocks of it went through shared memory. Sizes that are the call's said
    nothing: large tables were held, and no default fitted a device."""
    (region,) = CASES[name].kernel.lower(_args(name), target("nvidia-h200"), mode=mode).regions
    loops = [op for op in region.walk() if op.kind is OpKind.FOR]
    inner = [op for loop in loops for block in loop.regions for op in walk(block)]
    whole = [op for op in inner for v in op.values if any(d.extent.constant in (150, 300, 2100) for d in v.dims)]
    gathers = [op for op in region.walk() if op.kind is OpKind.GATHER and op.values[0].dims[0].tile is None]
    held = bool(gathers or whole)
    assert held == (name in COPIES) or (mode == "dynamic" and not held)  # whose extents are no constants
