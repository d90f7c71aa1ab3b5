"""Tensors of no elements: torch gives those that it makes on the meta device other strides than elsewhere."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.interpret import symbol_reader
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.zeros(6, 8)


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("x", [X[:, :0], X.t()[:, :0], X[:, None, :0][:, 0], X[:0]], ids=["0", "1", "2", "3"])
def test_a_variant_takes_the_call_that_it_is_lowered_from(x: torch.Tensor, mode: str) -> None:
    """Such a call was refused by each of its own variants."""
    lowered = doubled.lower((x,), H200, mode=mode)
    frame = {"x": x, "out": torch.empty_like(x), "begin.0": 0, "end.0": x.size(0)}
    (*_, source) = lowered.emit(lowered.default)
    values = {name: symbol_reader(name, doubled.scope)(frame) for name in source.guards.symbols()}
    assert source.guards.evaluate(values)
