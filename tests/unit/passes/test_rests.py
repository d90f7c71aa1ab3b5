"""A rest is of the product that was rounded, which its whole number was made of (passes/rests.py)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from tile_testing.ptx import ptx

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def parts_of(f, x, y):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t] = f(x[t], y[t])
    return out


def above_floor(x, y):
    u = x * y
    return u - torch.floor(u)


def by_frac(x, y):
    return torch.frac(x * y)


def above_an_int(x, y):
    u = x * y
    return u - u.to(torch.int32)


def below_floor(x, y):
    u = -(x * y)
    return torch.floor(u) + x * y


def above_twice_a_half(x, y):
    u = x * y
    return u - 2.0 * torch.floor(u * 0.5 + 0.25)


def written_twice(x, y):
    return x * y - torch.ceil(x * y)


def written_the_other_way_round(x, y):
    return x * y - torch.floor(y * x)


def by_quotient(x, y):
    return (x * y) // y


def rounded(x, y):
    return torch.round(x * y)


def to_a_decimal(x, y):
    return torch.round(x * y, decimals=1)


RESTS = [above_floor, by_frac, above_an_int, below_floor, above_twice_a_half, written_twice]
RESTS += [written_the_other_way_round]
RESTS += [rounded, to_a_decimal]


def joined(text: str) -> list[str]:
    """The lines that multiply and add, but those that add 0 and those whose product is exact, by a power of two."""
    lines = [line.split("//")[0] for line in text.splitlines() if "fma.rn" in line]
    exact = re.compile(r"0f[34BC][0-9A-F][08]0{5}\b|0f0{8};")
    return [line for line in lines if not exact.search(line)]


@pytest.mark.parametrize("part", RESTS, ids=lambda f: f.__name__)
def test_a_rest_is_of_the_rounded_product(part: Callable[..., Any]) -> None:
    """On the code before, each of these has such a line but that of twice a half, where
    LLVM joined the other product."""
    numbers = torch.empty(4096, device="meta")
    assert joined(ptx(parts_of, (part, numbers, numbers))) == []


def scaled_beside_a_floor(x, y):
    return x * y - torch.floor(y)


def floor_of_a_sum(x, y):
    return torch.floor(x * y + y)


@pytest.mark.parametrize("part", [scaled_beside_a_floor, floor_of_a_sum], ids=lambda f: f.__name__)
def test_other_products_keep_their_instruction(part: Callable[..., Any]) -> None:
    numbers = torch.empty(4096, device="meta")
    assert len(joined(ptx(parts_of, (part, numbers, numbers)))) > 0


def test_a_whole_quotient_takes_a_rest_of_its_own() -> None:
    """``(u - fmod(u, y)) / y`` is whole for the u that the remainder is of."""
    numbers = torch.empty(4096, device="meta")
    (source,) = (lowered := parts_of.lower((by_quotient, numbers, numbers), target("nvidia-h200"))).emit(
        lowered.default
    )
    assert re.search(r"tl\.fma\(v\d+, v\d+, 0\.0\)", source.text)
