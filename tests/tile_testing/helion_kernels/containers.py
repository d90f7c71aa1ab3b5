"""Tuples and lists of tensors that device code goes through; modules and methods as arguments and in closures."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]
Tensors = tuple[torch.Tensor, ...]


@helion.kernel(static_shapes=True)
def sum_of_a_tuple(xs: Tensors) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for x in xs:
            acc += x[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def enumerated(xs: Tensors) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i, x in enumerate(xs):
            acc += (i + 1) * x[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def enumerated_from(xs: Tensors) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i, x in enumerate(xs, start=5):
            acc += i * x[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def zipped(xs: Tensors, ys: Tensors) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for x, y in zip(xs, ys, strict=True):
            acc += x[tile] * y[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def enumerated_pairs(pairs: tuple[tuple[torch.Tensor, float], ...]) -> torch.Tensor:
    out = torch.empty_like(pairs[0][0])
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i, (x, scale) in enumerate(pairs):
            acc += i * scale * x[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def a_tuple_made_by_host_code(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = (x, y)
    out = torch.empty_like(x)
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i, z in enumerate(both):
            acc = acc - z[tile] if i else acc + z[tile]
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def tiles_in_a_tuple(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for part in (x[tile], y[tile], x[tile] * y[tile]):
            acc = acc + part
        out[tile] = acc
    return out


@helion.kernel(static_shapes=True)
def stored_through_a_tuple(xs: Tensors) -> Tensors:
    outs = (torch.empty_like(xs[0]), torch.empty_like(xs[1]))
    for tile in hl.tile(xs[0].size(0)):
        for x, out in zip(xs, outs, strict=True):
            out[tile] = x[tile] * 2
    return outs


@helion.kernel(static_shapes=True)
def a_comprehension(xs: list[torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        parts = [x[tile].exp() for x in xs]
        out[tile] = parts[0] + parts[1] * parts[2]
    return out


class Scale(torch.nn.Module):
    """A module without parameters."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.factor

    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor * 2


class Shift:
    """An object that can be called."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.by


@helion.kernel(static_shapes=True)
def with_an_epilogue(x: torch.Tensor, epilogue: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = epilogue(x[tile])
    return out


def closing_over(module: torch.nn.Module) -> Callable[..., Any]:
    @helion.kernel(static_shapes=True)
    def applied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(x.size(0)):
            out[tile] = module(x[tile])
        return out

    return applied


def cases() -> Iterator[Case]:
    a, b, c = torch.randn(3, 50).unbind()
    yield "sum_of_a_tuple", sum_of_a_tuple, ((a, b, c),), lambda xs: sum(xs)
    yield "enumerated", enumerated, ((a, b, c),), lambda xs: xs[0] + 2 * xs[1] + 3 * xs[2]
    yield "enumerated_from", enumerated_from, ((a, b),), lambda xs: 5 * xs[0] + 6 * xs[1]
    yield "zipped", zipped, ((a, b), (b, c)), lambda xs, ys: xs[0] * ys[0] + xs[1] * ys[1]
    yield "enumerated_pairs", enumerated_pairs, (((a, 2.0), (b, 0.5)),), lambda pairs: 0.5 * pairs[1][0]
    yield "a_tuple_made_by_host_code", a_tuple_made_by_host_code, (a, b), lambda x, y: x - y
    yield "tiles_in_a_tuple", tiles_in_a_tuple, (a, b), lambda x, y: x + y + x * y
    yield "stored_through_a_tuple", stored_through_a_tuple, ((a, b),), lambda xs: (2 * xs[0], 2 * xs[1])
    yield "a_comprehension", a_comprehension, ([a, b, c],), lambda xs: xs[0].exp() + xs[1].exp() * xs[2].exp()
    scale, shift = Scale(1.5), Shift(0.75)
    yield "a_module", with_an_epilogue, (a, scale), lambda x, f: f(x)
    yield "a_bound_method", with_an_epilogue, (a, scale.doubled), lambda x, f: f(x)
    yield "a_callable_object", with_an_epilogue, (a, shift), lambda x, f: f(x)
    yield "a_traced_module", with_an_epilogue, (a, torch.fx.symbolic_trace(scale)), lambda x, f: f(x)
    yield "a_partial", with_an_epilogue, (a, functools.partial(torch.add, alpha=1, other=2.0)), lambda x, f: f(x)
    yield "a_sequence_of_modules", with_an_epilogue, (a, torch.nn.Sequential(torch.nn.ReLU(), scale)), lambda x, f: f(x)
    yield "a_module_in_a_closure", closing_over(scale), (a,), scale
