"""Arguments in one memory after arguments apart (issue 14): another variant serves them, or the call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def test_calls_whose_arguments_share_memory(interpreter: Callable[..., Any]) -> None:
    found = interpreter("kernels.overlap_kernels:one_after_the_other")
    ones, counted = torch.ones(4, 8), torch.arange(8.0).expand(4, 8)
    ones[:, 0] = 0
    assert torch.equal(found["apart"], ones) and torch.equal(found["warm"], ones)
    assert torch.equal(found["one"], counted) and torch.equal(found["again"], ones)
    assert torch.equal(found["doubled"], 2 * torch.arange(9.0)) and torch.equal(found["in place"], found["doubled"])
    assert "shares no memory with it" in found["shifted"] and "clone" in found["shifted"]


def test_products_may_replace_the_rows_that_they_are_of(interpreter: Callable[..., Any]) -> None:
    """Columns of the result are programs of their own: one stored where another one still read."""
    found = interpreter("kernels.overlap_kernels:rows_replaced_by_products")
    assert max(found.values()) < 0.01
