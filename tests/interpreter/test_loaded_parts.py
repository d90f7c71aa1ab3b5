"""Blocks of what was loaded whole are read from memory, as if one index had named them; copies stay copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

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
def test_part(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_part_as_plain_python(name: str) -> None:
    case = CASES[name]
    got = case.kernel.run_eagerly(*_args(name), config=dict(case.config))
    assert close(got, case.wanted(*_args(name))) == ""


@pytest.mark.parametrize("name", CASES)
def test_portable_variants_of_parts(interpreter: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    (got,) = interpreter("runs.portable_runs:run", KERNELS, name, _args(name), [_args(name)])
    assert close(got, case.wanted(*_args(name))) == ""


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
