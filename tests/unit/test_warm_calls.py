"""Warm calls of a kernel: what runs again without being looked up, and what is told apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.config import Config
from tileflow.errors import CallError
from tileflow.frontend.operations.torch_ops import METHODS
from tileflow.frontend.source import may_multiply, serialise
from tileflow.runtime.dispatch import bind
from tileflow.runtime.registry import generation


@tileflow.kernel
def scaled(x: torch.Tensor, factor: float, mode: tfl.constexpr = 1) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * factor * mode
    return out


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel, whose calls of three kinds run functions that say which they are; any other call is a cold one."""
    scaled._forget()
    monkeypatch.setattr(scaled, "_keyed", lambda bound: bound)  # what is bound here is no host code
    monkeypatch.setattr(scaled, "_generation", generation[0])  # other tests load tables
    monkeypatch.setattr(scaled, "_first_call", lambda key, args, kwargs: ("cold", kwargs))
    for n in (4, 8):
        scaled.serve((torch.zeros(n), 2.0), bind(lambda context, x, factor, n=n: (n, factor), Config.of({}), {}))
    scaled.serve((torch.zeros(4), 2), bind(lambda context, x, factor: ("int", factor), Config.of({}), {}))
    return scaled


def test_a_warm_call_runs_what_serves_its_kind_and_shape(served: Any) -> None:
    assert [served(torch.zeros(n), f) for n, f in ((4, 2.0), (8, 3.0), (4, 5.0))] == [(4, 2.0), (8, 3.0), (4, 5.0)]
    assert served(torch.zeros(4), 7) == ("int", 7), "kinds without a fast key are looked up in full"


@pytest.mark.parametrize(
    "args",
    [
        (torch.zeros(5), 2.0),
        (torch.zeros(8)[::2], 2.0),
        (torch.zeros(4, dtype=torch.float64), 2.0),
        (torch.zeros(5)[1:], 2.0),
        (torch.zeros(4, requires_grad=True), 2.0),
        (torch.zeros(4), True),
        (torch.zeros(4), 2.0, 1),
        (torch.zeros(4),),
    ],
    ids=["shape", "strides", "dtype", "alignment", "gradient", "kind", "more", "fewer"],
)
def test_a_call_of_another_kind_is_a_cold_one(served: Any, args: tuple[Any, ...]) -> None:
    assert served(*args) == ("cold", {})
    assert served(torch.zeros(4), factor=2.0) == ("cold", {"factor": 2.0})


def test_tables_that_are_loaded_or_forgotten_make_calls_cold(served: Any) -> None:
    x = torch.zeros(4)
    assert served(x, 2.0) == (4, 2.0)
    runtime.clear()
    assert served(x, 2.0) == ("cold", {})


def test_interpretation_goes_before_what_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled._forget()
    monkeypatch.setattr(scaled, "_keyed", lambda bound: bound)  # what is bound here is no host code
    monkeypatch.setattr(scaled, "_generation", generation[0])  # other tests load tables
    x = torch.ones(4)
    scaled.serve((x, 2.0), bind(lambda context, x, factor: "served", Config.of({}), {}))
    with tileflow.interpret():
        torch.testing.assert_close(scaled(x, 2.0), 2 * x)
    assert scaled(x, 2.0) == "served"
    with pytest.raises(CallError, match="a tuple of them"):
        scaled(x, 2.0, [3])


def test_every_spelling_of_a_product_is_seen_in_the_text() -> None:
    products = {name for name, handler in METHODS.items() if handler.__module__.endswith((".matmul", ".einsum"))}
    assert {"matmul", "einsum", "linear", "addmm"} <= products
    assert [name for name in products if not may_multiply(name)] == []

    def operator(x: Any, y: Any) -> Any:
        return x @ y

    def through(x: Any, y: Any) -> Any:
        return operator(x, y)

    assert may_multiply(serialise(through))


@pytest.mark.parametrize("name", ["vector_add:vector_add", "softmax:softmax", "layer_norm:layer_norm", "rope:rope"])
def test_kernels_without_products_are_known_to_have_none(name: str) -> None:
    assert not may_multiply(serialise(load_kernel(f"examples.{name}").scope))
    assert may_multiply(serialise(load_kernel("examples.matmul:matmul").scope))
