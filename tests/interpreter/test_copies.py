"""Programs that meet in a few elements have copies of these: values, and which tensors may have them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.constructs import (  # noqa: F401  tests of each case
    test_construct,
    test_construct_by_portable_variants,
    test_construct_compiles,
    test_construct_eagerly,
)
from tile_testing.runs.interpreted import load_module

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.space.knobs import COPIES
from tileflow.target import target

KERNELS = path_of("copies_kernels")
CASES = load_module(KERNELS).CASES
H200 = target("nvidia-h200")


@pytest.mark.parametrize("name", CASES)
def test_each_launch_says_its_copies(name: str) -> None:
    case = CASES[name]
    lowered = case.kernel.lower(case.args, H200)
    config = lowered.space.normalise(lowered.default.with_(dict(case.config)))
    wanted = sorted(count for knob, count in case.config if COPIES.matches(knob))
    source = lowered.emit(config)[0]
    assert sorted(arg.copies.count for arg in source.args if arg.copies is not None) == wanted
    assert all(f"% {count} * 32" in source.text or f"% {count} * " in source.text for count in wanted)


# ---- which may have them --------------------------------------------------------------------------------------------


@tileflow.kernel
def sums(x: Any, count: tfl.constexpr) -> Any:
    out = torch.zeros(count, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], x[t])
    return out


@tileflow.kernel
def numbered(x: Any) -> Any:
    out, before = torch.zeros(64, device=x.device), torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        before[t] = tfl.atomic_add(out, [x[t].int()], 1.0)
    return out, before


@tileflow.kernel
def read_beside(x: Any) -> Any:
    out = torch.zeros(64, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], out[x[t].int()])
    return out


@tileflow.kernel
def of_two_kinds(x: Any) -> Any:
    out = torch.zeros(64, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], x[t])
        tfl.atomic_max(out, [x[t].int()], x[t])
    return out


@tileflow.kernel
def in_order(x: Any) -> Any:
    out = torch.zeros(64, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], x[t], sem="acq_rel")
    return out


@pytest.mark.parametrize(
    ("kernel", "args", "knobs"),
    [
        (sums, (64,), 1),
        (sums, (1 << 15,), 1),
        (sums, ((1 << 15) + 1,), 0),
        (numbered, (), 0),
        (read_beside, (), 0),
        (of_two_kinds, (), 0),
        (in_order, (), 0),
    ],
)
def test_tensors_that_are_combined_into_and_nothing_else(kernel: Kernel, args: tuple[int, ...], knobs: int) -> None:
    lowered = kernel.lower((torch.empty(4096, device="meta"), *args), H200)
    assert sum(COPIES.matches(knob.name) for knob in lowered.space.knobs) == knobs
