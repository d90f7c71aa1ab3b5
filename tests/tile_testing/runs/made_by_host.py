"""What host code makes for device code, or what lies outside, changed between calls, in the process that interprets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TileflowError

OFFSETS = np.array([1.0, 2.0])
BY_NAME = {"a b": 1.0, "layer.0": 10.0}
BY_DTYPE = {torch.float32: 1.0, torch.bfloat16: 2.0}
ONES = torch.ones(8)


@tileflow.kernel
def window(x, k: int):
    out = torch.empty_like(x)
    taps = range(-k, k + 1)
    for i in tfl.tile(x.size(0)):
        total = tfl.zeros([i])
        for j in taps:
            total += x[i + j]
        out[i] = total
    return out


@tileflow.kernel
def first_columns(x, k: int):
    out = torch.empty(x.size(0), device=x.device)
    part = slice(0, k)
    for i in tfl.tile(x.size(0)):
        out[i] = x[i, part].sum(1)
    return out


@tileflow.kernel
def named(x, a: float):
    out = torch.empty_like(x)
    w = SimpleNamespace(scale=a, shift=2 * a)
    for i in tfl.tile(x.size(0)):
        out[i] = x[i] * w.scale + w.shift
    return out


@tileflow.kernel
def among(x, k: int):
    out = torch.empty_like(x)
    odd = {k, k + 2}
    for i in tfl.tile(x.size(0)):
        out[i] = x[i] + (10 if 3 in odd else 20)
    return out


@tileflow.kernel
def under_odd_keys(x, a: float):
    out = torch.empty_like(x)
    w = {"a b": a, None: 2 * a, (1, "x"): 3 * a, -1: 4 * a}
    for i in tfl.tile(x.size(0)):
        out[i] = x[i] * w["a b"] + w[None] + w[1, "x"] + w[-1]
    return out


@tileflow.kernel
def weighted(x, weights: dict[Any, Any]):
    out = torch.empty_like(x)
    for i in tfl.tile(x.size(0)):
        v = x[i]
        for a in weights.values():
            v = v + a
        out[i] = v
    return out


@tileflow.kernel
def from_outside(x):
    out = torch.empty_like(x)
    for i in tfl.tile(x.size(0)):
        out[i] = x[i] * OFFSETS[0] + OFFSETS[1] + BY_NAME["a b"] + 2 * BY_NAME["layer.0"] + BY_DTYPE[x.dtype]
    return out


@tileflow.kernel
def of_array(x, a: float):
    out = torch.empty_like(x)
    w = np.array([a, 2 * a])
    for i in tfl.tile(x.size(0)):
        out[i] = x[i] * w[0]
    return out


@tileflow.kernel
def two_names(x: list[torch.Tensor], x_0, x_0_: list[float]):
    out = torch.empty_like(x_0)
    for i in tfl.tile(x_0.size(0)):
        out[i] = x[0][i] + 10 * x_0[i] + 100 * x_0_[0]
    return out


def differences(kernel: Any, calls: list[tuple[Any, ...]], before: Callable[[int], None] = lambda n: None) -> list[str]:
    """The calls, one after another, that give something else than plain Python does."""
    found = []
    for n, args in enumerate(calls):
        before(n)
        got, wanted = kernel(*args), kernel.run_eagerly(*args)
        found += [] if torch.equal(got, wanted) else [f"{args[1:]}: {got.tolist()} for {wanted.tolist()}"]
    return found


def _change(n: int) -> None:
    """One thing after another that is outside."""
    if n == 1:
        OFFSETS[1] = 5.0
    elif n == 2:
        BY_NAME["a b"] = 7.0
    elif n == 3:
        BY_NAME["a b"] = BY_NAME.pop("layer.0")  # whose places change too
        BY_NAME["layer.0"] = 3.0
    elif n == 4:
        BY_DTYPE[torch.float32] = 4.0


def changed() -> dict[str, list[str]]:
    """The differences of each kernel."""
    numbers: list[tuple[Any, ...]] = [(ONES, k) for k in (1, 2, 3, 2)]
    rows = torch.arange(24.0).reshape(4, 6)
    keys = ("a", "layer.0", "a b", -1, None, ("a", 1), 1.5, torch.float32, 1 << 40)
    return {
        "a range": differences(window, numbers),
        "a slice": differences(first_columns, [(rows, k) for k in (1, 2, 6)]),
        "a namespace": differences(named, [(ONES, float(k)) for k in (1, 2, 3)]),
        "a set": differences(among, numbers),
        "a dictionary": differences(under_odd_keys, [(ONES, float(k)) for k in (1, 2, 3)]),
        "a passed one": [d for key in keys for d in differences(weighted, [(ONES, {key: float(k)}) for k in (1, 2)])],
        "outside": differences(from_outside, [(ONES,)] * 5, _change),
        "names": differences(two_names, [([ONES], 2 * ONES, [3.0])]),
    }


def refused() -> str:
    """What is said of an array that host code makes."""
    try:
        of_array(ONES, 1.0)
    except TileflowError as error:
        return str(error)
    return ""
