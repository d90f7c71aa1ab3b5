"""Warm calls of a kernel: what runs again without being looked up, and what is told apart."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.errors import CallError
from tileflow.frontend import operations  # noqa: F401  fills METHODS
from tileflow.frontend.meaning import may_multiply, serialise
from tileflow.frontend.torch_registry import METHODS
from tileflow.runtime.call_cache import CallCache


@tileflow.kernel
def scaled(x: torch.Tensor, factor: float, mode: tfl.constexpr = 1) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * factor * mode
    return out


class Cold(Exception):
    """A call that nothing serves."""


class Says:
    """A context for host code: what it is told to say instead of launching."""

    def __init__(self, *said: Any) -> None:
        self.said = said
        self.counter = self
        self.calls = 0


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel, whose calls of three kinds say what serves them; any other call is a cold one."""

    def plan(args: Any, kwargs: Any) -> Any:
        raise Cold(kwargs)

    monkeypatch.setattr(scaled, "cache", CallCache(scaled))
    monkeypatch.setattr(scaled.cache, "_run", lambda context, x, factor: (*context.said, factor))
    monkeypatch.setattr(scaled.cache, "_regions", [])
    monkeypatch.setattr(scaled, "plan", plan)
    for n in (4, 8):
        scaled.cache.remember((torch.zeros(n), 2.0), Says(n))  # type: ignore[arg-type]
    scaled.cache.remember((torch.zeros(4), 2), Says("int"))  # type: ignore[arg-type]
    return scaled


def test_a_warm_call_runs_what_serves_its_kind_and_shape(served: Any) -> None:
    assert [served(torch.zeros(n), f) for n, f in ((4, 2.0), (8, 3.0), (4, 5.0))] == [(4, 2.0), (8, 3.0), (4, 5.0)]
    assert served(torch.zeros(4), 7) == ("int", 7), "each kind of arguments has its form"


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
    with pytest.raises(Cold):
        served(*args)
    with pytest.raises(Cold, match="factor"):
        served(torch.zeros(4), factor=2.0)


def test_constants_that_are_equal_and_select_other_code_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the key and by the fast form: of 0.0 and -0.0 the first one's code ran for both."""
    constants = (0.0, -0.0, 0, False, 1.0, 1, True, float("nan"))
    monkeypatch.setattr(scaled, "cache", CallCache(scaled))
    monkeypatch.setattr(scaled.cache, "_run", lambda context, x, factor, mode: context.said)
    monkeypatch.setattr(scaled.cache, "_regions", [])
    for number, mode in enumerate(constants):
        scaled.cache.remember((torch.zeros(4), 2.0, mode), Says(number))  # type: ignore[arg-type]
    assert [scaled(torch.zeros(4), 2.0, mode) for mode in constants] == [(n,) for n in range(len(constants))]
    assert scaled(torch.zeros(4), 2.0, float("nan")) == (len(constants) - 1,), "another NaN is the same constant"
    keys = {scaled.cache.key((torch.zeros(4), 2.0, (mode, (mode,))), {}) for mode in constants}
    assert len(keys) == len(constants)


def test_tables_that_are_loaded_or_forgotten_make_calls_cold(served: Any) -> None:
    x = torch.zeros(4)
    assert served(x, 2.0) == (4, 2.0)
    runtime.clear()
    with pytest.raises(Cold):
        served(x, 2.0)


def test_interpretation_goes_before_what_serves_and_is_this_threads_own(served: Any) -> None:
    """13.8: ``interpret()`` leaked into other threads."""
    x = torch.ones(4)
    found: list[Any] = []
    with tileflow.interpret():
        torch.testing.assert_close(served(x, 2.0), 2 * x)
        thread = threading.Thread(target=lambda: found.append(served(x, 2.0)))
        thread.start()
        thread.join()
    assert found == [(4, 2.0)]
    assert served(x, 2.0) == (4, 2.0)
    with pytest.raises(CallError, match="a tuple of them"):
        served(x, 2.0, [3])


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
