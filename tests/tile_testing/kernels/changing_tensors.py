"""Tensors that functions of device code read as globals, defaults and attributes of modules: more of ``CASES``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.language as tfl
from tile_testing.kernels import outer_constants as constants
from tile_testing.kernels.changing_by_name import CASES, case, run
from tile_testing.kernels.outer_constants import by_an_entry, shifted, twice
from tile_testing.kernels.outside_kernels import Step, Traces, X
from tileflow.errors import CallError, TraceError

__all__ = ["CASES", "run"]

N = X.numel()
OWN = torch.ones(N)
layer = constants.Layer()


def of_this_module(tile: Any, place: Any) -> Any:
    return tile * OWN[place]


def by_default(tile: Any, place: Any, bias: torch.Tensor = OWN) -> Any:
    return tile + bias[place]


bound = functools.partial(by_default, bias=torch.ones(N))

# what is called, and what it means
WAYS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[], torch.Tensor]]] = {
    "the_kernels_module": (of_this_module, lambda: X * OWN),
    "another_module": (shifted, lambda: X + constants.BIAS),
    "one_that_it_calls": (twice, lambda: X + 2 * constants.BIAS),
    "an_entry": (by_an_entry, lambda: X * constants.ROWS["rows"][0] + len(constants.BIAS)),
    "a_lambda": (lambda tile, place: tile - OWN[place], lambda: X - OWN),
    "a_default": (by_default, lambda: X + by_default.__defaults__[0]),  # type: ignore[index]
    "a_partial": (bound, lambda: X + bound.keywords["bias"]),
    "a_method": (layer.apply, lambda: X * layer.scale + constants.BIAS),
    "an_attribute_of_a_module": (lambda tile, place: tile + constants.BIAS[place], lambda: X + constants.BIAS),
    "a_function_of_a_module": (lambda tile, place: constants.twice(tile, place), lambda: X + 2 * constants.BIAS),
}


def _kernel(way: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def applied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = way(x[tile], tile)
        return out

    return applied


def _others() -> Iterator[torch.Tensor]:
    """Tensors of other values, memory, strides, alignments and dtypes; one is then changed in place."""
    yield torch.linspace(1, 3, N)
    yield torch.linspace(-1, 3, 2 * N)[::2]
    yield torch.linspace(2, 3, N + 1)[1:]
    yield torch.linspace(0, 7, N).to(torch.bfloat16)
    yield torch.arange(N) % 5


def _changing(kernel: Callable[..., Any], wanted: Callable[[], torch.Tensor]) -> Iterator[Step]:
    global OWN
    before = OWN, constants.BIAS, constants.ROWS["rows"][0], by_default.__defaults__
    yield kernel(X), wanted()
    for other in _others():
        OWN = constants.BIAS = constants.ROWS["rows"][0] = bound.keywords["bias"] = other
        by_default.__defaults__ = (other,)
        yield kernel(X), wanted()
        other += 1
        yield kernel(X), wanted()
    OWN, constants.BIAS, constants.ROWS["rows"][0], by_default.__defaults__ = before
    yield kernel(X), wanted()


for _name, (_way, _wanted) in WAYS.items():
    _made = _kernel(_way)
    CASES[f"a_tensor_of_{_name}"] = functools.partial(_changing, tileflow.kernel(_made), _wanted)
    CASES[f"a_tensor_of_{_name}_in_the_dialect"] = functools.partial(
        _changing, helion.kernel(_made, config=helion.Config(block_sizes=[8])), _wanted
    )


@tileflow.kernel
def from_outside(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + OWN[tile]
    return out


@tileflow.kernel
def made_by_host_code(x: torch.Tensor) -> torch.Tensor:
    out, other = torch.empty_like(x), OWN * 2
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + other[tile]
    return out


@tileflow.kernel
def of_halves(x: torch.Tensor) -> torch.Tensor:
    out, other = torch.empty_like(x), OWN * 1
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + other[:].sum()
    return out


@case
def another_dtype_of_what_host_code_makes() -> Iterator[Step]:
    """Triton's interpreter took the bits of bfloat16 for numbers: a launch there asked for no dtype."""
    global OWN
    before = OWN
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        OWN = torch.ones(N, dtype=dtype)
        yield of_halves(X), X + N
    OWN = before


@case
def a_tensor_that_comes_to_require_grad() -> Iterator[Step]:
    """A warm call gave results without a gradient, where a first one is refused."""
    global OWN
    before = OWN
    for kernel, factor in ((from_outside, 1), (made_by_host_code, 2)):
        OWN = torch.ones(N)
        yield kernel(X), X + factor
        OWN.requires_grad_()
        with torch.no_grad():
            yield kernel(X), X + factor
        try:
            kernel(X)
            yield "a result", "a refusal"
        except TraceError as error:
            yield error.constraint, "a kernel's tensors do not require grad"
        OWN = OWN.detach()
        yield kernel(X), X + factor
    OWN = before


@case
def a_tensor_on_another_device() -> Iterator[Step]:
    global OWN
    before = OWN
    yield from_outside(X), X + OWN
    OWN = torch.ones(N, device="meta")
    try:
        from_outside(X)
        yield "a result", "a refusal"
    except CallError as error:
        yield error.constraint, "every tensor of a launch must be on the CPU"
    OWN = before


steps = 3


def by_steps(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + steps
    return out


@case
def a_number_that_counts_on_in_the_dialect() -> Iterator[Step]:
    """It is a run-time value once it has changed: each further number was compiled for."""
    global steps
    kernel = helion.kernel(by_steps, config=helion.Config(block_sizes=[8]))
    traces = Traces(kernel.__tileflow_kernel__)
    for steps in range(3, 12):
        yield kernel(X), X + steps
    yield traces.count, 2


def stored(tile: Any, place: Any) -> Any:
    OWN[place] = tile * 2
    return tile


@case
def a_function_stores_into_a_global() -> Iterator[Step]:
    global OWN
    before, OWN = OWN, torch.zeros(N)
    yield tileflow.kernel(_kernel(stored))(X), X
    yield OWN, X * 2
    OWN = before
