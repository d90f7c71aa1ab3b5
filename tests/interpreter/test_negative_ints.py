"""Ints that may be negative are divided as Python divides them, whatever the values that a variant was made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of

Interpreter = Callable[..., Any]
KERNELS = path_of("remainder_kernels")
X = torch.arange(40)


@pytest.mark.parametrize("example", [11, -11])
def test_an_int_argument_of_either_sign(interpreter: Interpreter, example: int) -> None:
    """A variant that was made for 11 gave -5 // 2 = -2, as C does. No sum may pass 32 bits beside a large divisor."""
    numbers = [-11, -5, -1, 0, 4, 13]
    found = interpreter("runs.portable_runs:run", KERNELS, "halves_of_an_int", (X, example), [(X, n) for n in numbers])
    wanted = [n // 2 * 1000 + n % 5 * 100 + (n >> 1) + n // -7 + n % 2147483647 + n % -9 for n in numbers]
    assert [int(out[0]) for out in found] == wanted


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("seed", [1234567, -3, 1 << 40, -(1 << 40)])
def test_constants_of_more_than_32_bits(interpreter: Interpreter, seed: int, mode: str) -> None:
    """Triton refused ``seed // 4294967296`` of an int of 32 bits."""
    (out,) = interpreter("runs.interpreted:run_all", [_call("high_bits", (X, seed), mode)])
    assert int(out[0]) == (seed >> 32) + seed % 4294967296 + seed // -5000000000


def test_a_count_that_is_rounded_up(interpreter: Interpreter) -> None:
    """``-(-n // 4)``, as Python rounds up: of 5 there was one turn, not two."""
    sizes = [4, 5, 6, 7, 8, 1]
    calls = [(torch.zeros(n, dtype=torch.int64),) for n in sizes]
    found = interpreter("runs.portable_runs:run", KERNELS, "turns_rounded_up", calls[0], calls)
    assert [int(out[0]) for out in found] == [-(-n // 4) + (n - 7) // 4 + (3 - n) % 4 for n in sizes]


@pytest.mark.parametrize(("end", "step"), [(7, 2), (-7, -2)])
def test_a_count_by_a_step_of_either_sign(interpreter: Interpreter, end: int, step: int) -> None:
    """``tl.cdiv`` of two negative ints was one too many: -6 by -2 had 4 numbers."""
    ends = [n if step > 0 else -n for n in (5, 6, 7, 8)]
    calls = [(X, n, step) for n in ends]
    found = interpreter("runs.portable_runs:run", KERNELS, "counted_by_a_step", (X, end, step), calls)
    assert [int(out[0]) for out in found] == [1000 * len(range(0, n, step)) + sum(range(0, n, step)) for n in ends]


def test_a_place_in_the_order_that_a_loop_counts(interpreter: Interpreter) -> None:
    """The shapes of a gather were to blame, where ``k`` was an int of the kernel's."""
    x = torch.randn(7, 13, generator=torch.Generator().manual_seed(2))
    (out,) = interpreter("runs.interpreted:run_all", [_call("kth_of_rows", (x, 5), "dynamic")])
    assert torch.equal(out, x.sort(dim=1)[0][:, :5])


def _call(name: str, args: tuple[Any, ...], mode: str) -> Any:
    from tile_testing.runs.interpreted import Call

    return Call(KERNELS, name, args, mode=mode)
