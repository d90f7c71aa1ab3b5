"""What a product takes and something else reads is loaded once for each, where a loop is won by it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.rolled_kernels import (
    changed_in_place,
    highway,
    normed_with_its_rows,
    quadratic_form,
    with_its_rows,
)

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import LoadAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")


def lowered(kernel: Any, d: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    x, w = (torch.empty(rows, d, dtype=dtype, device="meta") for rows in (8192, d))
    return kernel.lower((x, w), H200)


def loads(ir: KernelIR) -> list[str]:
    return sorted(LoadAttrs.of(op).site for op in ir.walk() if op.kind is OpKind.LOAD)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("d", [384, 512, 1024, 4096])
@pytest.mark.parametrize("kernel", [with_its_rows, highway, quadratic_form], ids=lambda k: k.name.split(":")[1])
def test_a_layer_with_its_own_rows_has_a_config(kernel: Any, d: int, dtype: torch.dtype) -> None:
    """From 384 columns on no choice of the knobs fitted the operands, since rows had to be whole."""
    it = lowered(kernel, d, dtype)
    assert it.space.is_valid(it.default) and it.emit(it.default)


def test_it_is_as_one_that_its_author_loads_twice() -> None:
    def loaded_twice(x, w):
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] + torch.nn.functional.gelu(x[t, :] @ w[:, :])
        return out

    once, twice = lowered(with_its_rows, 4096), lowered(tileflow.kernel(loaded_twice), 4096)
    assert loads(once.regions[0]) == loads(twice.regions[0]) == ["load:w#0", "load:x#0", "load:x#1"]
    assert [b.name for b in once.regions[0].blocks] == [b.name for b in twice.regions[0].blocks]
    blocks = ("block:", "cut:", "num_", "schedule")
    mine, other = ({n: c for n, c in it.default.items if n.startswith(blocks)} for it in (once, twice))
    assert mine == other


def test_a_later_launch_has_its_own_names() -> None:
    """Names of loads end with the number of their launch, of all but the first."""

    def twice(x, w):
        half = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            half[t, :] = x[t, :] * 0.5
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            rows = half[t, :]
            out[t, :] = rows + torch.nn.functional.gelu(rows @ w[:, :])
        return out

    it = lowered(tileflow.kernel(twice), 1024)
    assert loads(it.regions[1]) == ["load:half#0@1", "load:half#1@1", "load:w#0@1"]
    assert {"load:half#0@1.cache", "load:half#1@1.cache"} <= {knob.name for knob in it.space.knobs}
    assert len(it.emit(it.default)) == 2


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        pytest.param(with_its_rows, 64, id="rows that stay whole"),
        pytest.param(changed_in_place, 512, id="rows that are written"),
        pytest.param(normed_with_its_rows, 64, id="short rows that are normed"),
    ],
)
def test_nothing_is_loaded_twice_where_no_loop_is_won(kernel: Any, d: int) -> None:
    (ir,) = lowered(kernel, d).regions
    assert loads(ir) == ["load:w#0", "load:x#0"]


def test_a_reduction_on_the_way_is_not_repeated() -> None:
    """The scale of each row is stored, and the rows themselves are added to the product."""
    (ir,) = lowered(normed_with_its_rows, 512).regions
    assert loads(ir) == ["load:w#0", "load:x#0", "load:x#1"]
    assert len({op.attrs for op in ir.walk() if op.kind is OpKind.REDUCE}) == 1
