"""Shifts that a GPU leaves open are not in the text: what they give is torch's (the interpreter has numpy's)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.ptx import ptx

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


def kernel_of(function: Callable[[Any, Any, Any, int], Any]) -> Any:
    @tileflow.kernel
    def kernel(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        out = torch.empty(x.size(0), dtype=x.dtype)
        for t in tfl.tile(x.size(0)):
            out[t] = function(x[t], y[t], t, n)
        return out

    return kernel


def arguments(dtype: torch.dtype, n: int = 3) -> tuple[Any, ...]:
    return torch.zeros(1024, dtype=dtype), torch.zeros(1024, dtype=dtype), n


def text_of(function: Callable[[Any, Any, Any, int], Any], dtype: torch.dtype, n: int = 3) -> str:
    lowered = kernel_of(function).lower(arguments(dtype, n), H200)
    (source,) = lowered.emit(lowered.default)
    return source.code


@pytest.mark.parametrize("function", [lambda x, y, t, n: x << 40, lambda x, y, t, n: x >> 40], ids=["left", "right"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_no_shift_by_a_number_is_as_wide_as_the_dtype(function: Callable[..., Any], dtype: torch.dtype) -> None:
    """LLVM stored whatever a register held."""
    amounts = [int(n) for n in re.findall(r"(?:<<|>>) (\d+)", text_of(function, dtype))]
    assert all(n < torch.iinfo(dtype).bits for n in amounts)
    assert "st.global" in ptx(kernel_of(function), arguments(dtype))


def test_the_sign_is_what_is_left() -> None:
    assert re.search(
        r"shr\.s32 \s*%r\d+, %r\d+, 31;", ptx(kernel_of(lambda x, y, t, n: x >> 40), arguments(torch.int32))
    )


@pytest.mark.parametrize("function", [lambda x, y, t, n: x << y, lambda x, y, t, n: x >> y, lambda x, y, t, n: 2**y])
def test_bits_that_are_loaded_are_compared_with_the_width(function: Callable[..., Any]) -> None:
    assert "< 64" in text_of(function, torch.int64) and "tl.where" in text_of(function, torch.int64)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, t, n: x >> (t.index % 2 * 4),
        lambda x, y, t, n: x >> (t.index % 2 * 4).to(torch.uint8),
        lambda x, y, t, n: x << n,
        lambda x, y, t, n: x >> (y & 7),
        lambda x, y, t, n: x >> ((y & 255) & 7),
    ],
)
def test_bits_that_are_known_are_not(function: Callable[..., Any]) -> None:
    assert "tl.where" not in text_of(function, torch.int32)


def test_an_int_of_the_call_is_checked_at_each_launch() -> None:
    lowered = kernel_of(lambda x, y, t, n: x << n).lower(arguments(torch.int32), H200)
    (source,) = lowered.emit(lowered.default)
    known = {symbol: lowered.regions[0].hints.get(symbol, 1) for symbol in source.guards.symbols()}
    assert [bool(source.guards.evaluate(known | {"n": n})) for n in (0, 31, 32, -1)] == [True, True, False, False]
    assert "tl.where" in text_of(lambda x, y, t, n: x << n, torch.int32, 40)
