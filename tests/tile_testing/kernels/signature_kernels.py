"""Kernels that take their arguments in every way that Python has, with what they must give: ``CASES``."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand
from tileflow.errors import VariantError

CASES = Cases()
case = CASES.case
X, Y = rand(21), rand(21, seed=1)


@case(X, 3.0, Y, wanted=lambda x, scale, bias: x * scale + bias)
@tileflow.kernel
def by_keyword(x: torch.Tensor, *, scale: float = 2.0, bias: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        value = x[tile] * scale
        out[tile] = value if bias is None else value + bias[tile]
    return out


@case(X, wanted=lambda x: x * 2)
@tileflow.kernel
def by_default(x: torch.Tensor, *, scale: float = 2.0, bias: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        value = x[tile] * scale
        out[tile] = value if bias is None else value + bias[tile]
    return out


@case(rand(40, 24), rand(24, 48), 5, wanted=lambda x, y, group: (x @ y) * group + 7 + 11 + 13 + x.size(0) // 8)
@tileflow.kernel
def names_of_knobs(x: torch.Tensor, y: torch.Tensor, group: int) -> torch.Tensor:
    """An author's numbers may be called what a launch's knobs are."""
    num_stages, num_warps, grid = 7, y.size(0) - 13, 13
    persistent = x.size(0) // 8
    out = x.new_empty(x.size(0), y.size(1))
    for rows, columns in tfl.tile([x.size(0), y.size(1)]):
        total = tfl.zeros([rows, columns])
        for inner in tfl.tile(x.size(1)):
            total = tfl.dot(x[rows, inner], y[inner, columns], acc=total)
        out[rows, columns] = total * group + num_stages + num_warps + grid + persistent
    return out


@dataclass(frozen=True)
class Layer:
    """Tensors whose sizes a kernel knows by paths with colons, as it knows knobs."""

    weight: torch.Tensor
    bias: torch.Tensor
    width: int


def _layer(x: torch.Tensor, layer: Layer, gains: list[torch.Tensor]) -> torch.Tensor:
    return (x[:, None] * layer.weight + layer.bias + gains[0]).sum(1) + layer.width


@case(X, Layer(rand(21, 5), rand(5), 3), [rand(5, seed=2)], wanted=_layer)
@tileflow.kernel
def whole_dimensions_of_parts(x: torch.Tensor, layer: Layer, gains: list[torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        values = x[tile][:, None] * layer.weight[tile, :] + layer.bias[:] + gains[0][:]
        out[tile] = values.sum(1) + layer.width
    return out


@case(X, Y, X, wanted=lambda *xs: sum(xs))
@tileflow.kernel
def any_number(*xs: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in tfl.tile(out.size(0)):
        total = tfl.zeros([tile])
        for x in xs:
            total = total + x[tile]
        out[tile] = total
    return out


@case({"x": X, "scale": 3.0, 4: Y}, wanted=lambda d: d["x"] * d["scale"] + d[4])
@tileflow.kernel
def dictionary(parts: dict[Any, Any]) -> torch.Tensor:
    out = torch.empty_like(parts["x"])
    for tile in tfl.tile(out.size(0)):
        out[tile] = parts["x"][tile] * parts["scale"] + parts[4][tile]
    return out


@dataclass(frozen=True)
class Weights:
    """``inner`` is a record in a record."""

    x: torch.Tensor
    scale: float = 2.0
    power: int = 2
    inner: Any = None
    names: list[str] = field(default_factory=list)


@case(Weights(X, 0.5, inner=Weights(Y)), wanted=lambda w: w.x**2 * w.scale + w.inner.x * w.inner.scale)
@tileflow.kernel
def record(weights: Weights) -> torch.Tensor:
    out = torch.empty_like(weights.x)
    for tile in tfl.tile(out.size(0)):
        value = weights.x[tile] ** weights.power * weights.scale
        out[tile] = value + weights.inner.x[tile] * weights.inner.scale
    return out


@case(X, torch.exp, torch.device("cpu"), torch.Size([3, 4]), wanted=lambda x, f, device, size: f(x) * 3)
@tileflow.kernel
def settings(x: torch.Tensor, f: Any, device: torch.device, size: torch.Size) -> torch.Tensor:
    assert isinstance(device, torch.device)
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = f(x[tile]) * size[0]
    return out


@tileflow.kernel
def chosen_by_int(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        if n > 4:
            out[tile] = x[tile] * 2
        else:
            out[tile] = -x[tile]
    return out


@tileflow.kernel
def doubled_on_the_host(x: torch.Tensor, n: int) -> torch.Tensor:
    x.mul_(2)
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        if n > 4:
            out[tile] = x[tile] + 1
        else:
            out[tile] = x[tile]
    return out


def other_ints() -> list[str]:
    """What is wrong with later calls whose int selects the other branch; the second kernel's must be refused."""
    wrong = []
    for n, wanted in ((7, X * 2), (2, -X), (9, X * 2), (3, -X)):
        if not torch.equal(chosen_by_int(X, n), wanted):
            wrong.append(f"{n} selects the wrong code")
    doubled_on_the_host(X.clone(), 7)
    given = X.clone()
    try:
        doubled_on_the_host(given, 2)
    except VariantError:
        return wrong
    return [*wrong, "host code that writes into its arguments ran twice"]


def arguments_are_let_go() -> list[str]:
    """What still holds the tensors of calls that are over, of the first call of each kind among them."""
    held = []
    for n, times in ((5, 7), (6, 7), (6, 2)):
        given = torch.randn(n)
        chosen_by_int(given, times)
        known = weakref.ref(given)
        del given
        gc.collect()
        if known() is not None:
            held += [f"{n} elements are held by {type(owner).__name__}" for owner in gc.get_referrers(known())]
    return held
