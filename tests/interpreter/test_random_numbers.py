"""Random expressions of Python's ints, and of tiles of ints, bools and half types: compiled and plainly the same.

More of them: ``python -m tile_testing.random_numbers.checks``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.random_numbers.expressions import Program

EXAMPLES = 200  # of Hypothesis
SEEDS = 2000

# Python's ints have no last bit, and its floats are doubles: each of these was cut to 32 bits, or a float32 on the way
BEYOND_32_BITS = (
    "t.id * n * n",
    "t.begin * t.begin * t.begin * n * n",
    "abs(t.begin - n) * n",
    "(n if t.begin > 3 else -n) * n",
    "int(items[0]) * n * n",
    "int(n * 1.5) * n",
    "(t.begin if t.id > 5 else n) + 100003 ** 2",
    "2 ** (t.begin * 2)",
    "min(t.block_size, 5) // -7",
    "round(n * n / 2)",
    "round(max(m ** 2, int(items[0]) ** 2) / 3)",
    "sum([n, t.end]) * n",
)
# as wide as its dtype and wider, and by less than 0: a GPU leaves open what these give
WIDE_SHIFTS = (
    "(a_int32[t] << 40) + (a_int8[t] << 9)",
    "(a_int32[t] >> 40) + (a_uint8[t] >> 9)",
    "(a_int8[t] << b_int8[t]) + (a_int8[t] >> b_int8[t])",
    "(a_int64[t] >> b_int64[t]) + (a_int32[t] << -1)",
    "2 ** a_int32[t]",
    "(t.begin - 3) >> 40",
)
# beside a tile of 32 bits, numbers that have more are cut to them, also where a config decides them
WRAPPED = ("a_int32[t] + t.block_size * n * n", "a_int32[t] + t.count * n * n")
# a conversion to its own dtype rounds a half type, and so does one to an int or a bool
ROUNDED = (
    "(a_float16[t] * 1000).half().isinf()",
    "((a_bfloat16[t] + b_bfloat16[t]).to(torch.bfloat16) - b_bfloat16[t]).bfloat16() == a_bfloat16[t]",
    "(a_float16[t] * b_float16[t]).clamp(-999, 999).int()",
    "(a_float16[t] * 1e-9).bool()",
)


@pytest.mark.parametrize("text", [*BEYOND_32_BITS, *WIDE_SHIFTS, *WRAPPED, *ROUNDED])
def test_what_was_another_number(interpreter: Callable[..., Any], text: str) -> None:
    whole = f"a_int64[t] + {text}" if text in BEYOND_32_BITS else text
    programs = [Program(whole, n, m) for n, m in ((1 << 17, 70001), (-70001, -3))]
    assert interpreter("random_numbers.checks:check_all", programs) == []


def test_no_expression_that_hypothesis_finds_means_anything_else(interpreter: Callable[..., Any]) -> None:
    wrong, refused = interpreter("random_numbers.checks:smallest_failure", EXAMPLES)
    assert not wrong, wrong
    assert refused < EXAMPLES / 2, "most of what is drawn shows nothing"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, 500))
def test_expressions_by_seeds(interpreter: Callable[..., Any], first: int) -> None:
    assert interpreter("random_numbers.checks:failures", range(first, first + 500)) == []
