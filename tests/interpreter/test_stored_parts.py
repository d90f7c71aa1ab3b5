"""Stores through names of parts of tensors, ``ob = out[b]`` and then ``ob[t] = value``, which are views as torch's."""

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

from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import TileIndex
from tileflow.ir.kinds import OpKind
from tileflow.target import target

KERNELS = path_of("stored_part_kernels")
CASES = load_module(KERNELS).CASES


def _args(name: str) -> tuple[Any, ...]:
    return tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in CASES[name].args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_what_is_stored_through_is_not_loaded(mode: str) -> None:
    """The text has the accesses that one index for both would have."""
    (region,) = CASES["row"].kernel.lower(_args("row"), target("nvidia-h200"), mode=mode).regions
    accesses = [op for op in region.walk() if op.kind in (OpKind.LOAD, OpKind.STORE)]
    assert [(op.kind, AccessAttrs.of(op).tensor) for op in accesses] == [(OpKind.LOAD, "x"), (OpKind.STORE, "out")]
    assert all(isinstance(AccessAttrs.of(op).index[1], TileIndex) for op in accesses)
