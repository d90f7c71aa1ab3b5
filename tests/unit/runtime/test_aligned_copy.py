"""A copy whose rows begin at aligned bytes: the same numbers, and strides that the copy engine takes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tileflow.runtime.aligned_copy import aligned_copy

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.uint8)


@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    dtype=st.sampled_from(DTYPES),
    step=st.integers(1, 3),
    data=st.data(),
)
def test_the_same_numbers_in_rows_that_begin_aligned(
    shape: list[int], dtype: torch.dtype, step: int, data: st.DataObject
) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    *outer, last = shape
    tensor = torch.arange(torch.Size((*outer, last * step)).numel()).to(dtype).reshape(*outer, last * step)[..., ::step]
    copy = aligned_copy(tensor, order)
    assert torch.equal(copy, tensor.permute(order)) and copy.dtype is dtype
    assert copy.stride(-1) == 1 and not any(s * copy.element_size() % 16 for s in copy.stride()[:-1])
    assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_an_expanded_row_is_written_out() -> None:
    row = torch.randn(7)
    assert torch.equal(aligned_copy(row.expand(5, 7), (0, 1)), row.repeat(5, 1))


def test_autograd_does_not_see_it() -> None:
    assert not aligned_copy(torch.zeros(3, 5, requires_grad=True), (1, 0)).requires_grad
