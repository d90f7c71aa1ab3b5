"""Functions of the language take their arguments by the names that their signatures have, in device and host code."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.errors import TraceError
from tileflow.runtime.dispatch import RuntimeContext, Shapes
from tileflow.target import target

H200 = target("nvidia-h200")
PAIRS = torch.empty(20, 2, device="meta")


@tileflow.kernel
def halves(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        low, high = tfl.split(tile=x[tile, :])
        for turn in tfl.static_range(4, step=2):
            low = low + high * turn
        out[tile] = low
    return out


@tileflow.kernel
def misnamed(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.split(halves=x[tile, :])[0]
    return out


def test_a_call_by_names_is_traced_as_one_by_position() -> None:
    lowered = halves.lower((PAIRS,), H200)
    (source,) = lowered.emit(lowered.default)
    assert "tl.split" in source.text


def test_a_name_that_the_function_does_not_have_is_an_error() -> None:
    with pytest.raises(TraceError, match="halves"):
        misnamed.lower((PAIRS,), H200)


def test_a_tunable_is_found_by_its_name_however_the_call_is_written() -> None:
    context = RuntimeContext(Config({"tunable:depth": 3}), {})
    choices = [1, 3, 5]
    calls = (("depth", choices), {}), (("depth",), {"choices": choices}), ((), {"choices": choices, "name": "depth"})
    for args, kwargs in calls:
        assert context.host_call("here", tfl.register_tunable, *args, **kwargs) == 3
        assert Shapes(other=True).host_call("here", tfl.register_tunable, *args, **kwargs) == 5
