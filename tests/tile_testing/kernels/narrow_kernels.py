"""Kernels whose ints are narrower or wider than what Triton makes of the numbers beside them, with what they must give.

``tl.where(c, v, 1)`` and ``tl.maximum(v, 1)`` of an int8 are int32, ``tl.where(c, 1, 0)`` is int32 or float32 whatever
the kernel says: what is computed from them must wrap, and be as exact, as in the dtype that torch gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case

CASES: dict[str, Case] = {}

Function = Callable[[Any, Any], Any]


def _add(name: str, function: Function, dtype: torch.dtype, result: torch.dtype) -> None:
    low, high = {torch.uint8: (0, 256), torch.bool: (0, 2)}.get(dtype, (-128, 128))
    generator = torch.Generator().manual_seed(len(CASES))
    x, y = (torch.randint(low, high, (37,), generator=generator).to(dtype) for _ in range(2))

    @tileflow.kernel
    def kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=result, device=x.device)
        for tile in tfl.tile(x.size(0)):
            out[tile] = function(x[tile], y[tile])
        return out

    # not by default arguments of the kernel: the values are those of this call
    globals()[name] = kernel
    CASES[name] = Case(kernel, (x, y), function, (("block:tile", 8),))


NARROW: dict[str, Function] = {
    "clamp": lambda a, b: (torch.clamp(a, min=1) * 3) >> 1,
    "clamp_both": lambda a, b: (torch.clamp(a, 5, 99) * 3) >> 1,
    "where": lambda a, b: (torch.where(a > 3, a, 100) * 3) >> 1,
    "relu": lambda a, b: (torch.relu(a) * 3) >> 1,
    "remainder": lambda a, b: ((a % (b | 1)) * 100) >> 1,
    "divided_by_a_clamped": lambda a, b: a // torch.clamp(b | 1, max=77),
    "remainder_of_a_clamped": lambda a, b: a % torch.clamp(b | 1, max=77),
    "masked_fill": lambda a, b: (a.masked_fill(a > 3, 100) * 3) >> 1,
    "largest": lambda a, b: (torch.stack([a, b], 1).amax(1) * 3) >> 1,
}
for _name, _function in NARROW.items():
    for _dtype in (torch.int8, torch.uint8):
        _add(f"{_name}_{str(_dtype)[6:]}", _function, _dtype, _dtype)


def _rows(a: Any, b: Any) -> Any:
    return torch.sort(torch.stack([a, b, a ^ b, a & b], 1), 1).values


# Triton's own sums, running sums and extremes of narrow ints are of 32 bits, and those of bools ints
REDUCED: dict[str, Function] = {
    "element": lambda a, b: (_rows(a, b)[:, 1] * 3) >> 1,
    "elements": lambda a, b: (_rows(a, b)[:, 3] - _rows(a, b)[:, 0]) // 3,
    "median": lambda a, b: (torch.stack([a, b, a ^ b], 1).median(1).values * 3) >> 1,
    "sum_in_its_dtype": lambda a, b: torch.stack([a, b], 1).sum(1, dtype=a.dtype) >> 1,
    "running_sum_in_its_dtype": lambda a, b: (torch.stack([a, b], 1).cumsum(1, dtype=a.dtype) >> 1).amax(1),
}
for _name, _function in REDUCED.items():
    for _dtype in (torch.int8, torch.uint8, torch.int16):
        _add(f"{_name}_{str(_dtype)[6:]}", _function, _dtype, _dtype)

BOOLS: dict[str, Function] = {
    "none": lambda a, b: ~torch.stack([a, b], 1).amax(1),
    "not_both": lambda a, b: ~torch.stack([a, b], 1).min(dim=1).values,
    "no_sign": lambda a, b: ~torch.sign(a) ^ b,
    "any_by_a_sum": lambda a, b: ~torch.stack([a, b], 1).sum(1, dtype=torch.bool),
}
for _name, _function in BOOLS.items():
    _add(_name, _function, torch.bool, torch.bool)

# what torch computes of narrow ints in a wider dtype, from the first step on
WIDENED: dict[str, tuple[Function, torch.dtype]] = {
    "cross": (lambda a, b: torch.cross(_rows(a, b)[:, :3], _rows(b, a)[:, 1:], dim=1).sum(1), torch.int64),
    "cosine": (lambda a, b: F.cosine_similarity(_rows(a, b), _rows(b, a) / 3, dim=1), torch.float32),
    "trapezoid": (lambda a, b: torch.trapezoid(_rows(a, b), dim=1), torch.float32),
    "trapezoids_apart": (lambda a, b: torch.trapezoid(_rows(a, b), _rows(b, a), dim=1), torch.float32),
    "einsum_of_one": (lambda a, b: torch.einsum("ij->i", _rows(a, b)), torch.int64),
    "einsum_of_sums": (lambda a, b: torch.einsum("ij,ik->i", _rows(a, b), _rows(b, a)), torch.int64),
    "einsum_that_promotes": (
        lambda a, b: torch.einsum("ij,ij->ij", _rows(a, b), _rows(b, a) / 2).sum(1),
        torch.float32,
    ),
}
for _name, (_function, _result) in WIDENED.items():
    for _dtype in (torch.int8, torch.uint8):
        _add(f"{_name}_{str(_dtype)[6:]}", _function, _dtype, _result)

WIDE: dict[str, Function] = {
    "sign": lambda a, b: torch.sign(a) * (1 << 40),
    "numbers_shifted": lambda a, b: torch.where(a > 3, 1, 0) << 40,
    "numbers_multiplied": lambda a, b: torch.where(a > 3, 1, 0) * (1 << 20) * (1 << 20),
}
for _name, _function in WIDE.items():
    _add(f"{_name}_int64", _function, torch.int64, torch.int64)
_add("sign_float64", lambda a, b: torch.sign(a) / 3, torch.float64, torch.float64)


def _shifted(a: Any, b: Any) -> Any:
    a <<= 5
    return a


# one operation each, as their results are wrapped once
UNSIGNED: dict[str, tuple[Function, torch.dtype | None]] = {
    "sum": (lambda a, b: a + b, None),
    "difference": (lambda a, b: 7 - a, None),
    "product": (lambda a, b: a * b, None),
    "hashed": (lambda a, b: a * 40503, None),
    "quotient": (lambda a, b: a // (b | 1), None),
    "remainder": (lambda a, b: a % (b | 1), None),
    "bits": (lambda a, b: a ^ (b & 12345), None),
    "others": (lambda a, b: ~a, None),
    "opposite": (lambda a, b: -a, None),
    "shifted_left": (lambda a, b: a << 5, None),
    "shifted_in_place": (_shifted, None),
    "shifted_right": (lambda a, b: a >> 5, None),
    "compared": (lambda a, b: a < b, torch.bool),
    "chosen": (lambda a, b: torch.where(a >= b, a, b), None),
    "larger": (lambda a, b: torch.maximum(a, b), None),
    "clamped": (lambda a, b: a.clamp(100, 30000), None),
    "largest": (lambda a, b: torch.stack([a, b], 1).amax(1), None),
    "halved": (lambda a, b: a.float() * 0.5, torch.float32),
}


def _add_unsigned(
    name: str, function: Function, dtype: torch.dtype, result: torch.dtype, reference: Function | None = None
) -> None:
    _add(name, function, dtype, result)
    case, generator = CASES[name], torch.Generator().manual_seed(len(CASES))
    x, y = (torch.randint(0, torch.iinfo(dtype).max + 1, (37,), generator=generator) for _ in range(2))
    wanted = lambda x, y: (reference or function)(x.long(), y.long()).to(result)  # noqa: E731
    CASES[name] = Case(case.kernel, (x.to(dtype), y.to(dtype)), wanted, case.config)


for _name, (_function, _result) in UNSIGNED.items():
    for _dtype in (torch.uint16, torch.uint32):
        _add_unsigned(f"{_name}_{str(_dtype)[6:]}", _function, _dtype, _result or _dtype)


# a negative number is the one that it wraps to
BY_NEGATIVES: dict[str, tuple[Function, torch.dtype | None]] = {
    "quotient_by_negatives": (lambda a, n: a // n, None),
    "remainder_by_negatives": (lambda a, n: a % n, None),
    "cut_by_negatives": (lambda a, n: torch.fmod(a, n), None),
    "compared_with_negatives": (lambda a, n: a > n, torch.bool),
    "filled_with_negatives": (lambda a, n: torch.full_like(a, n), None),
}
for _name, (_function, _result) in BY_NEGATIVES.items():
    for _dtype in (torch.uint16, torch.uint32):
        _wrapped = torch.iinfo(_dtype).max - 6
        _add_unsigned(
            f"{_name}_{str(_dtype)[6:]}",
            lambda a, b, f=_function: f(a, -7),
            _dtype,
            _result or _dtype,
            lambda a, b, f=_function, n=_wrapped: f(a, n),
        )
