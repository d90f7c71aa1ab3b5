"""What sorts, the first few of a row, and gathers of long rows are made of: texts that compile in seconds."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import ShapeError, TraceError
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def in_order(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.sort(x[tile, :], dim=1)[0]
    return out


@tileflow.kernel
def largest(x: torch.Tensor, k: tfl.constexpr) -> torch.Tensor:
    out = torch.empty(x.size(0), k, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.topk(x[tile, :], k, dim=1)[0]
    return out


@tileflow.kernel
def permuted(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.gather(x[tile, :], 1, index[tile, :])
    return out


def test_sorted_values_come_out_of_their_keys() -> None:
    (source,) = in_order.triton_source(torch.empty(64, 4096, device="meta"))
    assert "tl.sort" in source.code and "tl.gather" not in source.code


def test_a_few_of_many_are_selected_and_not_sorted() -> None:
    few, most = (largest.triton_source(torch.empty(64, 512, device="meta"), k)[0].code for k in (5, 300))
    assert "tl.topk" in few and ", 8)" in few and "tl.sort" not in few
    assert "tl.sort" in most and "tl.topk" not in most


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
def test_both_compile_for_long_rows(dtype: torch.dtype) -> None:
    lowered = largest.lower((torch.empty(64, 4096, dtype=dtype, device="meta"), 16), H200)
    (binary,) = [build(source, H200) for source in lowered.emit(lowered.default)]
    assert binary.resources.spills == 0


def test_a_gather_of_a_long_row_goes_through_memory() -> None:
    """As a shuffle for each pair of elements of a thread it takes minutes to compile."""
    args = torch.empty(64, 4096, device="meta"), torch.empty(64, 4096, dtype=torch.int64, device="meta")
    lowered = permuted.lower(args, H200)
    (binary,) = [build(source, H200) for source in lowered.emit(lowered.default)]
    assert dict(binary.resources.instructions)["total"] < 1000


def test_too_many_and_a_loop_of_unknown_blocks_are_refused() -> None:
    @tileflow.kernel
    def of_a_loop(x: torch.Tensor) -> None:
        for rows, columns in tfl.tile(x.shape):
            x[rows, :4] = torch.topk(x[rows, columns], 4, dim=1)[0]

    with pytest.raises(TraceError, match="topk takes 1 to all of the elements, but got 9 of 8"):
        largest.triton_source(torch.empty(64, 8, device="meta"), 9)
    with pytest.raises(ShapeError, match=r"topk takes a dimension of a constant size.*\n.*\n.*\n.*\n.*x\[tile, :\]"):
        of_a_loop.triton_source(torch.empty(64, 64, device="meta"))
