"""Access by tensor descriptor: the same results as by pointers, at tails and where loops end before tensors do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES = (
    "product", "causal_product", "batched", "row_sums", "middle",
    "batched_turned", "right_turned", "left_turned", "all_turned",  # views whose contiguous dimension is another
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_descriptors_agree_with_torch(interpreter: Callable[..., Any], name: str) -> None:
    assert interpreter("kernels.descriptor_kernels:check", name) == []
