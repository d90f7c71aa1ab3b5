"""Arithmetic of numbers that are no tiles, through the interpreter and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, load_module, run_eagerly

KERNELS = path_of("number_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_kernel_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
def test_an_int_of_more_than_64_bits_is_named(interpreter: Callable[..., Any], number: int) -> None:
    """Triton said "integer to be specialized too large to represent", and not of what."""
    call = Call(path_of("wide_int_kernels"), "added", (torch.ones(4), number))
    (said,) = interpreter("runs.interpreted:run_all", [call])
    assert (
        said.startswith("CallError: an int that meets tiles is from -2**63") and f"n = {number}\n  at launch 0" in said
    )
