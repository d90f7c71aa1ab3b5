"""The dtypes that torch gives on the CPU are those that it gives on meta tensors, wherever it gives any."""

from __future__ import annotations

import itertools

import pytest
from tile_testing.tiers import every_other

from tileflow.frontend.promotion import Kind, result_by_torch
from tileflow.ir.ops import POINTWISE
from tileflow.ir.types import FLOAT_BITS, INT_BITS

KINDS: list[Kind] = [("int", False), ("float", False)]
KINDS += [(d, has_dims) for d in (*FLOAT_BITS, *INT_BITS) if "fnuz" not in d for has_dims in (True, False)]
CONDITION: Kind = ("bool", True)
REFUSED = (TypeError, RuntimeError, AttributeError)  # the last: a tuple, of torch.max of numbers alone


def answer(fn: str, kinds: tuple[Kind, ...], device: str) -> str:
    try:
        return result_by_torch(fn, kinds, device)
    except REFUSED:
        return ""


@pytest.mark.parametrize("fn", every_other(fn for fn, row in POINTWISE.items() if not row.boolean and fn != "fma"))
def test_the_cpu_answers_as_meta_tensors_do(fn: str) -> None:
    pairs = list(itertools.product(KINDS, repeat=2))
    calls: list[tuple[Kind, ...]] = [(CONDITION, *p) for p in pairs] if fn == "where" else [(k,) for k in KINDS] + pairs
    answered = 0
    for kinds in calls:
        here = answer(fn, kinds, "cpu")
        answered += bool(here)
        assert here in ("", answer(fn, kinds, "meta")), kinds
    assert answered
