"""Forwards of single modules under torch.compile, also where torch breaks its graph inside them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tileflow import dynamo
from tileflow.integrations.forms import ROTARY
from tileflow.integrations.forwards import patch_of, with_rotary
from tileflow.runtime import ambient


def apply_rotary_pos_emb(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("the class's own rotary function")


def _turned(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.compiler.disable
def _outside(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return apply_rotary_pos_emb(_outside(x).sin())


def test_two_layers_whose_graph_is_broken_inside() -> None:
    """A Llama under torch 2.11 ended with NameError: both layers' forwards had one code object, and globals of their
    own, in which torch did not find what it had compiled for the other."""
    layers = [Layer(), Layer()]
    for layer in layers:
        layer.__class__ = with_rotary(Layer, (ROTARY, _turned))
    x = torch.randn(3)
    wanted = ((x + 1).sin() * 2 + 1).sin() * 2
    model = torch.compile(torch.nn.Sequential(*layers), backend="eager")
    assert torch.equal(model(x), wanted) and torch.equal(model(x), wanted)
    assert torch.compile(layers[1], backend="eager")(x).shape == (3,)


def test_a_copy_of_a_class_has_code_of_its_own() -> None:
    layer, own = Layer(), Layer.forward
    layer.__class__ = with_rotary(Layer, (ROTARY, _turned))
    patch = patch_of(layer)
    assert patch is not None and type(layer) is with_rotary(Layer, (ROTARY, _turned))
    assert len({id(each.__code__) for each in (own, patch.function, type(layer).forward)}) == 3


def test_what_old_tracers_cannot_ask_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11 broke the graph at each argument that was None, and at each question about autocast."""

    def is_dataclass(value: Any) -> bool:
        assert value is not None
        return False

    monkeypatch.setattr(dynamo, "is_dataclass", is_dataclass)
    assert dynamo.pack((None, 1)) == (None, 1)
    monkeypatch.setattr(torch.amp, "is_autocast_available", torch.compiler.disable(lambda kind: kind == "cpu"))

    @torch.compile(backend="eager", fullgraph=True)
    def cast(x: torch.Tensor) -> torch.Tensor:
        return x if ambient.autocast_dtype(x.device) is None else x.to(torch.bfloat16)

    assert cast(torch.ones(2)).dtype == torch.float32
