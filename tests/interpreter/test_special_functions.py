"""Special functions at many points, and at the edges, against torch's own in float64."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.special_kernels import bessel, gammas, polygammas, quantiles
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.target import target

DIRECTIONS = torch.cat([torch.linspace(-40, 40, 401), torch.tensor([8.0, -8.0, 7.99, 8.01, 1e-20, 80.0, inf, nan])])
SHAPES = torch.cat([torch.linspace(0.01, 40, 401), torch.tensor([-0.3, -1.7, -7.2, 1e-9, 1e9])])
ORDERS = torch.cat([torch.linspace(-6.93, 30, 401), torch.tensor([0.01, 80.0, 1e3, nan])])  # at no pole
SHARES = torch.cat([torch.linspace(0, 1, 401), torch.tensor([1e-7, 1e-30, 0.0757, 0.0758, 0.9243, -0.1, 1.5, nan])])


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 4e-6), (torch.float64, 2e-8)])
@pytest.mark.parametrize(
    ("kernel", "points"), [(bessel, DIRECTIONS), (gammas, SHAPES), (polygammas, ORDERS), (quantiles, SHARES)]
)
def test_they_are_torchs(
    interpreter: Callable[..., Any], kernel: Any, points: torch.Tensor, dtype: torch.dtype, rtol: float
) -> None:
    x = points.to(dtype)
    (got,) = interpreter("runs.interpreted:run_all", [Call(path_of("special_kernels"), kernel.__name__, (x,))])
    assert not isinstance(got, str), got
    torch.testing.assert_close(got.double(), kernel.run_eagerly(x.double()), rtol=rtol, atol=rtol, equal_nan=True)


def test_other_orders_are_refused() -> None:
    @tileflow.kernel
    def of_too_many(x: torch.Tensor) -> torch.Tensor:
        for t in tfl.tile(x.size(0)):
            x[t] = torch.polygamma(31, x[t])
        return x

    @tileflow.kernel
    def of_none(x: torch.Tensor) -> torch.Tensor:
        for t in tfl.tile(x.size(0)):
            x[t] = torch.mvlgamma(x[t], 0)
        return x

    for kernel, text in ((of_too_many, "between 0 and 30, but got 31"), (of_none, "at least 1, but got 0")):
        with pytest.raises(TraceError, match=text):
            kernel.lower((SHAPES,), target("nvidia-h200"))
