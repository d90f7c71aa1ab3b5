"""Halves of reshaped dimensions have the values that picks have, whatever lies beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.pair_kernels import butterflies, last_halves
from tile_testing.runs.interpreted import Call


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int16], ids=str)
@pytest.mark.parametrize(("kernel", "more"), [(butterflies, ()), (last_halves, (3,))], ids=["butterflies", "halves"])
def test_values_are_those_of_torch(
    interpreter: Callable[..., Any], kernel: Any, more: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = (torch.randn(37, 64, generator=torch.Generator().manual_seed(0)) * 8).to(dtype)
    if dtype.is_floating_point:
        x[3, 5], x[4, 40], x[5] = torch.inf, torch.nan, -0.0
    (got,) = interpreter("runs.interpreted:run_all", [Call(path_of("pair_kernels"), kernel.__name__, (x, *more))])
    assert not isinstance(got, str), got
    torch.testing.assert_close(got, kernel.run_eagerly(x, *more), rtol=0, atol=0, equal_nan=True)
