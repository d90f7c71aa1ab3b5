"""Where the plain blocks would leave multiprocessors a program or none: shorter rows of loops, narrower columns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from examples.int4_matmul import int4_matmul
from examples.matmul import matmul
from tileflow.default.sizes import programs
from tileflow.lowered import Lowered
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def lowered(name: str) -> Lowered:
    """A kernel that a newcomer wrote, at its large size."""
    args = ALL[name].arguments("large")
    return ALL[name].kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H100)


def count(found: Lowered) -> int:
    return programs(found.regions[0], dict(found.default.items))


@pytest.mark.parametrize("name", ["mxfp4_dequantise", "knn"])
def test_rows_that_go_through_loops_have_warps_to_wait_beside(name: str) -> None:
    """They had 128 programs of four warps, for 132 multiprocessors."""
    found = lowered(name)
    assert count(found) * int(found.default["num_warps"]) >= 16 * H100.sm_count


def test_a_block_keeps_an_element_a_thread() -> None:
    @tileflow.kernel
    def folded(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), device=x.device)
        for tile in tfl.tile(x.size(0)):
            total = tfl.zeros([tile])
            for begin in range(0, 64, 16):
                total = total + x[tile, begin : begin + 16].sum(dim=1)
            out[tile] = total
        return out

    few = folded.lower((torch.empty(64, 64, device="meta"),), H100)
    assert int(few.default["block:tile"]) * 16 >= 32 * int(few.default["num_warps"])


def test_computed_weights_of_few_columns_are_taken_narrowly() -> None:
    """32 programs of 128 columns had 0.31 times the speed of 128 of 32 columns."""
    found = lowered("gptq_linear")
    assert found.default["block:tn"] == 32 and count(found) == 128


@pytest.mark.parametrize(("m", "n", "k", "columns", "inner"), [
    (16, 2048, 8192, 16, 256), (32, 4096, 4096, 32, 256), (16, 11008, 4096, 64, 128), (16, 2048, 512, 16, 128),
])  # fmt: skip
def test_rows_that_only_stream_weights(m: int, n: int, k: int, columns: int, inner: int) -> None:
    """26.6 us by 32 programs and 18.2 by 128, for 16 x 2048 x 8192."""
    x, w = (torch.empty(rows, k, dtype=torch.bfloat16, device="meta") for rows in (m, n))
    found = matmul.lower((x, w.t()), H100).default
    assert (found["block:tile_n"], found["block:tile_k"]) == (columns, inner)


def test_an_authors_own_parts_are_programs_too() -> None:
    """The gallery's 4-bit product divides its inner dimension, so that few columns leave no multiprocessor idle."""
    args: tuple[Any, ...] = int4_matmul.inputs(m=16, n=4096, k=4096, device="meta")
    assert int4_matmul.lower(args, H100).default["block:tile_n"] == 128
