"""Numbers of numpy's as arguments: they are Python's to a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.runtime.numpy_numbers import plain_call, plain_number

X = torch.ones(5, 3)


@tileflow.kernel
def scaled(x: torch.Tensor, s: Any, more: Any = ()) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * s + sum(more)
    return out


@pytest.mark.parametrize(
    ("number", "plain"),
    [(np.float32(0.5), 0.5), (np.float64(0.5), 0.5), (np.int8(3), 3), (np.uint64(3), 3), (np.bool_(True), True)],
)
def test_numbers(number: Any, plain: Any) -> None:
    assert type(plain_number(number)) is type(plain) and plain_number(number) == plain
    assert scaled.describe(X, number, [number]) == scaled.describe(X, plain, [plain])
    assert torch.equal(scaled(X, number, more=[number]), X * plain + plain)
    assert plain_call((X, [number]), {"s": number}) == ((X, [plain]), {"s": plain})


@pytest.mark.parametrize("value", [0.5, True, None, "a", X, np.ones(3), np.complex64(1j), np.str_("a"), np.float32])
def test_others_are_as_they_are(value: Any) -> None:
    assert plain_number(value) is value
    assert plain_call((value,), {"s": [value]}) is None
