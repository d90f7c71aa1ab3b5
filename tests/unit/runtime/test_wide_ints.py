"""Ints that are too wide for a GPU and for torch are refused by the argument's name and value."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import wide_int_kernels as kernels

from tileflow.errors import CallError, TraceError
from tileflow.runtime.wide_ints import spelled
from tileflow.target import target

WIDE = [1 << 64, -(1 << 63) - 1, 10**5000]
KEPT = [(1 << 64) - 1, -(1 << 63)]


def on_meta(kernel: Any, *args: Any) -> Any:
    return kernel.lower((torch.ones(4, device="meta"), *args), target("nvidia-h200")).default


@pytest.mark.parametrize("value", WIDE, ids=spelled)
def test_an_argument_that_is_too_wide_is_named(value: int) -> None:
    """torch's own words, "int too big to convert", name neither."""
    calls: list[tuple[Any, Any, str]] = [(kernels.added, value, "n"), (kernels.added_item, (value,), "held.item:0")]
    for kernel, arg, name in calls:
        with pytest.raises(CallError, match=f"but got {name} = {spelled(value)}\n  at {kernel.name}") as refused:
            kernel(torch.ones(4), arg)
        assert "from -2**63 to 2**64 - 1" in str(refused.value) and "reduce it in host code" in refused.value.hint


@pytest.mark.parametrize("value", WIDE, ids=spelled)
def test_a_number_of_the_code_that_is_too_wide_is_named_with_its_line(value: int) -> None:
    with pytest.raises(TraceError, match=f"but got held.item:0 = {spelled(value)}\n  at .*wide_int_kernels"):
        on_meta(kernels.added_item, (value,))
    with pytest.raises(TraceError, match=r"but got 18446744073709551616\n  at .*wide_int_kernels") as refused:
        on_meta(kernels.added_literal)
    assert "2**64  # <-" in str(refused.value)


@pytest.mark.parametrize("value", WIDE, ids=spelled)
def test_host_code_may_have_any_ints(value: int) -> None:
    torch.testing.assert_close(kernels.reduced(torch.ones(4), value), torch.full((4,), 1.0 + value % 97))


@pytest.mark.parametrize("value", KEPT)
def test_the_last_ints_that_fit(value: int) -> None:
    torch.testing.assert_close(kernels.added(torch.ones(4), value), torch.ones(4) + value)
    assert on_meta(kernels.added_item, (value,))
