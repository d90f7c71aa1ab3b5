"""Names of operators, of functions in graphs and of kernels: digests of contents, equal everywhere (finding 3)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tile_testing.operator_names import FIXED, WHAT, Side, cast, minus, named, names, plus, plus_again, takes

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError
from tileflow.runtime.handles import graph_handle, register, registered

Tensor = torch.Tensor


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tile_testing.operator_names", *words],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_processes_that_share_inductors_cache_compute_their_own(tmp_path: Path) -> None:
    """Finding 3: the second process got the first one's operator out of the cache, which made another dtype."""
    for dtype, doubled in (("float32", "doubled"), ("bfloat16", "plain")):
        run("compiled", dtype, doubled, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), TORCHINDUCTOR_COMPILE_THREADS="1")


@pytest.mark.slow
def test_names_are_equal_in_processes_that_meet_calls_in_other_orders() -> None:
    forwards = run("names", "forwards", PYTHONHASHSEED="1")
    assert forwards == run("names", "backwards", PYTHONHASHSEED="2")
    assert len(forwards.splitlines()) == len(WHAT) + len(FIXED)


def test_names_differ_for_every_kind_of_constant() -> None:
    found = names(backwards=False)
    same = {"what 1", "what 1.0", "what tensor"}  # these differ in their schemas, too
    assert same <= found.keys()
    of = {name: [key for key, other in found.items() if other == name] for name in found.values()}
    assert [keys for keys in of.values() if len(keys) > 1] == [["fixed 0", "what None"]], "which are one call"


def test_names_do_not_hold_the_values_of_leaves() -> None:
    assert named(takes, 1) == named(takes, 2) and named(takes, 1.0) == named(takes, 2.5)
    assert named(takes, (3, torch.zeros(2))) == named(takes, (4, torch.ones(5)))
    assert named(takes, plus(torch.zeros(2))) == named(takes, plus(torch.ones(3)))


def test_equal_functions_share_an_operator_and_others_do_not() -> None:
    w = torch.zeros(8)
    assert named(takes, plus(w)) == named(takes, plus_again(w)) != named(takes, minus(w))


def made(bias: Any) -> tileflow.Kernel:
    @tileflow.kernel
    def kernel(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] + bias
        return out

    return kernel


def made_over(weight: Tensor) -> tileflow.Kernel:
    @tileflow.kernel
    def kernel(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] + weight[tile]
        return out

    return kernel


def test_kernels_of_one_name_share_an_operator_where_all_that_they_read_is_equal() -> None:
    assert named(made(1.0)) == named(made(1.0)) != named(made(2.0))
    w = torch.zeros(8)
    first, second = made_over(w), made_over(w)
    assert named(first) == named(first) != named(second), "a tensor has no name"


def test_a_derivative_is_part_of_an_operator() -> None:
    def half(ctx: Any, grad: Tensor) -> Any:
        return grad * 0.5, None, None

    def whole(ctx: Any, grad: Tensor) -> Any:
        return grad, None, None

    def name(*args: Any, **kwargs: Any) -> str:
        return named(tileflow.differentiable(takes, *args, **kwargs), None)

    found = {named(takes, None), name(half), name(whole), name(half, save=("x",)), name(half, outputs=("out",))}
    assert len(found) == 5 and name(half) in found


def test_a_setting_that_host_code_sees_is_part_of_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    @tileflow.kernel
    def default_dtype(x: Tensor) -> Tensor:
        out = torch.empty(x.size(0))
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile].to(out.dtype)
        return out

    one = named(default_dtype)
    torch.set_default_dtype(torch.float64)
    try:
        assert named(default_dtype) != one
    finally:
        torch.set_default_dtype(torch.float32)


class Thing:
    """An object, whose class and attributes any process can name."""

    def __init__(self, held: Any = 1) -> None:
        self.held = held


@pytest.mark.parametrize("make", [Thing, lambda: (Thing(),), lambda: {"a": Thing()}, lambda: lambda: Thing])
def test_objects_are_named_by_their_class_and_what_they_hold(make: Callable[[], Any]) -> None:
    assert named(takes, make()) == named(takes, make())


def test_objects_that_hold_something_else_have_another_name() -> None:
    assert named(takes, Thing("a")) != named(takes, Thing("b"))


@pytest.mark.parametrize("thing", [{1, 2}, Thing().__init__.__call__, range(3)])
def test_what_only_this_process_has_has_no_identity(thing: Any) -> None:
    with pytest.raises(CallError, match=r"has an identity in every process.*, but got a (set|method|range)"):
        named(takes, thing)


def test_classes_that_a_function_makes_are_told_apart() -> None:
    def record() -> Any:
        @dataclass(frozen=True)
        class Record:
            flag: bool

        return Record(True)

    first, second = record(), record()
    assert named(takes, first) == named(takes, first) != named(takes, second)


# ---- graphs of other processes -------------------------------------------------------------------------------------


def constants(fn: Callable[..., Any], *args: Any) -> list[str]:
    """The strings in the graph of a function."""
    found: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        for node in graph.graph.nodes:
            collect(node.args, found)
        return graph.forward

    torch.compiler.reset()
    with tileflow.interpret():
        torch.compile(fn, fullgraph=True, backend=backend)(*args)
    return found


def collect(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            collect(item, found)


def test_graphs_name_kernels_and_functions_by_contents() -> None:
    x, w = torch.zeros(8), torch.zeros(1)
    (kernel, *function) = constants(lambda x, then: takes(x, then), x, plus(w))
    assert kernel == f"{takes.name}@{takes.identity}" and registered(kernel) is takes
    assert function == constants(lambda x, then: takes(x, then), x, plus_again(w))[1:]
    assert function != constants(lambda x, then: takes(x, then), x, minus(w))[1:]
    assert constants(lambda x: cast(x, torch.float32, True), x) == [f"{cast.name}@{cast.identity}"]


def test_a_handle_finds_a_kernel_of_its_identity_or_none() -> None:
    first, second = made(1.0), made(2.0)
    handles = [graph_handle(register(k)) for k in (first, second)]
    assert [registered(h) for h in handles] == [first, second]
    del first
    with pytest.raises(CallError, match=r"(?s)none here is .*made.*compile the function anew"):
        registered(f"{second.name}@{'0' * 64}")
    equal = made(2.0)
    assert graph_handle(register(equal)) == handles[1], "either serves"


def test_a_kernel_that_was_not_traced_here_is_found_by_what_a_graph_says() -> None:
    kernel = made(3.5)
    assert registered(f"{kernel.name}@{kernel.identity}") is kernel


def test_enums_are_named_with_their_values() -> None:
    assert named(takes, Side.LEFT) == named(takes, Side("left")) != named(takes, Side.RIGHT)
