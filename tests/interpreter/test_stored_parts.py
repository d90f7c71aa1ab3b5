"""Stores through names of parts of tensors, ``ob = out[b]`` and then ``ob[t] = value``, which are views as torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import TileIndex
from tileflow.ir.kinds import OpKind
from tileflow.target import target

KERNELS = path_of("stored_part_kernels")
CASES = load_module(KERNELS).CASES


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
def test_what_is_stored_through_is_not_loaded(mode: str) -> None:
    """The text has the accesses that one index for both would have."""
    (region,) = CASES["row"].kernel.lower(_args("row"), target("nvidia-h200"), mode=mode).regions
    accesses = [op for op in region.walk() if op.kind in (OpKind.LOAD, OpKind.STORE)]
    assert [(op.kind, AccessAttrs.of(op).tensor) for op in accesses] == [(OpKind.LOAD, "x"), (OpKind.STORE, "out")]
    assert all(isinstance(AccessAttrs.of(op).index[1], TileIndex) for op in accesses)
