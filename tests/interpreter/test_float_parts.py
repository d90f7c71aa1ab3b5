"""Mantissas, exponents and neighbours of floats, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import float_kernels
from tile_testing.runs.interpreted import Call

from tileflow.errors import TraceError
from tileflow.target import target

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def numbers(dtype: torch.dtype) -> torch.Tensor:
    """Zeros, the least number, those below the normal ones, powers of two and what is beside them, limits."""
    limits = torch.finfo(dtype)
    least = limits.smallest_normal * limits.eps
    sizes = [0.0, least, 3 * least, limits.smallest_normal / 2, limits.smallest_normal, 0.5, 1 - limits.eps / 2]
    sizes += [1.0, 1 + limits.eps, 1.5, 2.0, 3.7, 100.0, limits.max, math.inf]
    return torch.tensor([*sizes, *(-s for s in sizes), math.nan], dtype=torch.float64).to(dtype)


def alike(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Where both have the same bits, or are NaN."""
    bits = BITS[wanted.itemsize]
    return (got.view(bits) == wanted.view(bits)) | got.isnan() & wanted.isnan()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_parts_and_neighbours_are_torchs_to_the_bit(interpreter: Callable[..., Any], dtype: str) -> None:
    path = float_kernels.__file__
    x = numbers(getattr(torch, dtype))
    left, right = x.repeat_interleave(len(x)), x.repeat(len(x))
    (mantissa, exponent), next_ones = interpreter(
        "runs.interpreted:run_all", [Call(path, "parts", (x,)), Call(path, "neighbours", (left, right))]
    )
    wanted = torch.frexp(x)
    assert x[~alike(mantissa, wanted.mantissa)].tolist() == [] and torch.equal(exponent, wanted.exponent)
    wrong = ~alike(next_ones, torch.nextafter(left, right))
    assert torch.stack([left[wrong], right[wrong]], 1).tolist() == []


def test_ints_have_no_parts() -> None:
    with pytest.raises(TraceError, match=r"frexp takes floats, as torch's does, but got int32"):
        float_kernels.parts.lower((torch.empty(8, dtype=torch.int32, device="meta"),), target("nvidia-h200"))
