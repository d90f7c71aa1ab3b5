"""Sorts of which nobody reads the places have keys of 32 bits (passes/sort_keys.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


@tileflow.kernel
def of_rows(f, x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = f(x[t, :])


def text(f: Callable[..., Any], dtype: torch.dtype = torch.float32) -> str:
    x = torch.arange(640).reshape(16, 40).to(dtype)
    lowered = of_rows.lower((f, x.to("meta"), f(x).to("meta")), H100)
    return "".join(source.text for source in lowered.emit(lowered.default))


def in_order(row):
    return torch.sort(row, 1).values


def from_the_greatest(row):
    return row.sort(dim=1, descending=True)[0]


def greatest(row):
    return torch.topk(row, 4, dim=1).values


def places(row):
    return torch.sort(row, 1).indices


def both(row):
    values, at = torch.sort(row, 1)
    return values * at


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int8])
@pytest.mark.parametrize("f", [in_order, from_the_greatest, greatest], ids=lambda f: f.__name__)
def test_keys_alone(f: Callable[..., Any], dtype: torch.dtype) -> None:
    """On the code before, keys were joined with places."""
    found = text(f, dtype)
    assert "tl.sort" in found or "tl.topk" in found
    assert "<< 32" not in found


@pytest.mark.parametrize("f", [places, both], ids=lambda f: f.__name__)
def test_keys_with_places_that_are_read(f: Callable[..., Any]) -> None:
    assert "<< 32" in text(f)
