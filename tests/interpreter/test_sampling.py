"""Sampling where its bounds are hard to find: ties, one token and all, hardly any of the probability and all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.runs.interpreted import Call

from examples import serving_sampling
from examples.serving_sampling import reference, sample_top_k_top_p

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INFINITY = float("inf")
KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "any": lambda x: x,
    "wide": lambda x: x * 30,
    "ties": torch.round,
    "equal": lambda x: torch.full_like(x, -1.5),
    "zeros of both signs": lambda x: torch.where(x > 0, 0.0, -0.0),
    "mostly impossible": lambda x: torch.where(x == x.amax(1, keepdim=True), x, x.where(x > 3, -INFINITY)),
}
# the share to keep and the uniform number: binary fractions, so that no rounding decides between two tokens of a tie
SHARES = (1e-7, 0.25, 0.5, 0.875, 1.0)
UNIFORM = (0.0, 0.3, 0.71, 1 - 2**-24)


def case(kind: str, v: int, dtype: torch.dtype, k: int, p: float, uniform: float, seed: int) -> tuple[Any, ...]:
    """Two rows, of which the second keeps as many as possible."""
    x = torch.randn(2, v, generator=torch.Generator().manual_seed(seed)) * 3
    return KINDS[kind](x).to(dtype), torch.tensor([k, v]).int(), torch.tensor([p, p]), torch.tensor([uniform, uniform])


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    v=st.sampled_from([1, 2, 67, 1025]),
    dtype=st.sampled_from(DTYPES),
    k=st.integers(1, 1025),
    p=st.sampled_from(SHARES),
    uniform=st.sampled_from(UNIFORM),
    seed=st.integers(0, 9),
)
def test_any_row_eagerly(kind: str, v: int, dtype: torch.dtype, k: int, p: float, uniform: float, seed: int) -> None:
    args = case(kind, v, dtype, min(k, v), p, uniform, seed)
    assert torch.equal(sample_top_k_top_p.run_eagerly(*args), reference(*args))


@pytest.mark.parametrize("kind", KINDS)
def test_interpreted(interpreter: Callable[..., Any], kind: str) -> None:
    """Two programs a row, of which the last has one logit."""
    cases = [
        case(kind, 1025, dtype, k, p, 0.71, 1)
        for dtype, k, p in zip(DTYPES, (1, 40, 1025), (1.0, 0.5, 1e-7), strict=True)
    ]
    calls = [Call(serving_sampling.__file__, "sample_top_k_top_p", args, (("block:block_v", 1024),)) for args in cases]
    for got, args in zip(interpreter("runs.interpreted:run_all", calls), cases, strict=True):
        assert torch.equal(got, reference(*args)), got


def test_more_than_there_are_is_all() -> None:
    logits, _, p, uniform = case("any", 67, torch.float32, 1, 1.0, 0.71, 2)
    more, all_of_them = (torch.full((2,), k, dtype=torch.int32) for k in (1000, 67))
    got = sample_top_k_top_p.run_eagerly(logits, more, p, uniform)
    assert torch.equal(got, reference(logits, all_of_them, p, uniform))
