"""Ints that have 32 bits in a variant's example: a launch whose sizes and ints need more is none of that variant's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def by_a_size(x, out, n):
    for i in tfl.grid(out.size(0)):
        out[i] = i * x.size(0) + 1


def by_an_int(x, out, n):
    for i in tfl.grid(out.size(0)):
        out[i] = i * n - 1


def of_a_tile(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = out[t] + t.begin * n


def below_zero(x, out, n):
    for i in tfl.grid(out.size(0)):
        out[i] = out[i] - (5 - n * n)


def at_a_product(x, out, n):
    """Which is refused where it is too long: an index of a tile has its own bits."""
    flat = out.view(-1)
    for t in tfl.tile(x.size(0)):
        x[t] = x[t] + tfl.load(flat, [t.index * n], extra_mask=x[t] > 0)


def into_64_bits(x, out, n):
    """Which is refused where it is too long, as an index is: a tile of int32 wraps, and the tensor has room."""
    for t in tfl.tile(out.size(0)):
        out[t] = t.index * n


SMALL, LARGE = (meta(100), meta(100), 50), (meta(3 << 20), meta(3 << 20), 3 << 20)
CASES = [by_a_size, by_an_int, of_a_tile, below_zero, at_a_product, into_64_bits]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_launch_that_needs_64_bits_is_declined(function: Callable[..., Any], mode: str) -> None:
    """The variant of a small example took it, and its products were cut to 32 bits."""
    kernel = tileflow.kernel(function)
    lowered = kernel.lower(SMALL, H200, mode=mode)
    own = lowered.regions[0].hints
    larger = {"n": 1 << 26} if mode == "static" else dict.fromkeys(own, LARGE[2])
    for source in lowered.emit(lowered.default):
        symbols = source.guards.symbols()
        sizes = {s for s in symbols if ".shape." in s or s in ("n", "end.0")}
        known = {s: own.get(s, 1) for s in symbols}
        if sizes & larger.keys():
            assert not source.guards.evaluate(known | {s: larger[s] for s in sizes & larger.keys()})
        else:
            assert mode == "static" and function is by_a_size


@pytest.mark.parametrize("function", [by_a_size, by_an_int, of_a_tile], ids=lambda f: f.__name__)
def test_its_own_variant_has_them(function: Callable[..., Any]) -> None:
    lowered = tileflow.kernel(function).lower(LARGE, H200, mode="dynamic")
    assert all("tl.int64" in source.text for source in lowered.emit(lowered.default))


def as_floats(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = (t.index * n).float()


def beside_64_bits(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = out[t] + (t.index + n * n)


def summed(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = (t.index * n).sum()


@pytest.mark.parametrize("function", [into_64_bits, as_floats, beside_64_bits, summed], ids=lambda f: f.__name__)
def test_a_tile_that_passed_its_bits_is_not_widened(function: Callable[..., Any]) -> None:
    """Its numbers had wrapped, without a word."""
    with pytest.raises(TraceError, match=r"as many bits as its numbers have(.|\n)*tile\.index\.long\(\) \* n"):
        tileflow.kernel(function).lower(LARGE, H200)
    tileflow.kernel(function).lower(SMALL, H200)


def wrapped(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = ((t.index * n) & -1) + (t.index * n ^ 5) % 8


def in_64_bits(x, out, n):
    for t in tfl.tile(out.size(0)):
        out[t] = t.index.long() * n


@pytest.mark.parametrize("function", [wrapped, in_64_bits], ids=lambda f: f.__name__)
def test_what_is_said_instead_is_taken(function: Callable[..., Any]) -> None:
    tileflow.kernel(function).lower(LARGE, H200)


def small_places(x, out, n):
    for t in tfl.tile(x.size(0)):
        for t2 in tfl.tile(out.size(0)):
            x[t] = x[t] + out[t2.begin * 2 - t2.id % 3 + abs(t.begin - 7) // 2] + out[t.id * t.block_size]


def test_places_that_are_known_to_be_small_stay_in_32_bits() -> None:
    lowered = tileflow.kernel(small_places).lower(SMALL, H200, mode="dynamic")
    for source in lowered.emit(lowered.default):
        assert "tl.load" in source.code
        assert "int64" not in source.code
