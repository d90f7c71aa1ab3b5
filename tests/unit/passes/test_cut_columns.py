"""Wide sums of products that loops carry: which are cut into blocks of columns, and which have a reason against it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.target import target

H200, MI300X = target("nvidia-h200"), target("amd-mi300x")


def f16(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16, device="meta")


def mixed(x, table, places):
    out = torch.empty(x.size(0), table.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, table.size(1)])
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :])
        out[tile, :] = total
    return out


def normed(x, table, places):
    out = torch.empty(x.size(0), table.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, table.size(1)])
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :])
        out[tile, :] = total / total.sum(1, keepdim=True)
    return out


def counted(x, table, places):
    """A number for each row: every program of a row's would write it."""
    out = torch.empty(x.size(0), table.size(1), dtype=x.dtype, device=x.device)
    seen = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, table.size(1)])
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :])
        out[tile, :] = total
        seen[tile] = x[tile, 0] + 1
    return out, seen


def read_again(x, table, places):
    """A column of what is written: another program's."""
    out = torch.zeros(x.size(0), table.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, table.size(1)])
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :])
        out[tile, :] = total + out[tile, 0][:, None]
    return out


def squared(x, table, places):
    """A product beside it, which every program of the columns would repeat."""
    out = torch.empty(x.size(0), table.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, table.size(1)])
        weights = x[tile, :] @ x[:64, :].T
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :]) + weights.sum(1)[:, None]
        out[tile, :] = total
    return out


@pytest.mark.parametrize("columns", [1024, 4096, 5000, 65536])
@pytest.mark.parametrize("device", [H200, MI300X], ids=["h200", "mi300x"])
def test_wide_sums_have_a_config_that_compiles(columns: int, device: Any) -> None:
    """From 4096 columns on there was none."""
    args = (f16(4096, 256), f16(50000, columns), torch.empty(256, dtype=torch.int64, device="meta"))
    lowered = tileflow.kernel(mixed).lower(args, device)
    (ir,) = lowered.regions
    assert [block.name for block in ir.blocks if block.is_cut] == ["cut:out#0:1"] and len(ir.grid) == 2
    assert lowered.default["block:tile"] >= 64
    for source in lowered.emit(lowered.default):
        assert build(source, device).code


@pytest.mark.parametrize("function", [normed, counted, read_again, squared])
def test_what_needs_a_row_as_a_whole_stays_whole(function: Any) -> None:
    args = (f16(4096, 64), f16(500, 1024), torch.empty(64, dtype=torch.int64, device="meta"))
    (ir,) = tileflow.kernel(function).lower(args, H200).regions
    assert not any(name.startswith("out") for name in ir.grid)


def test_few_columns_stay_whole() -> None:
    args = (f16(4096, 64), f16(500, 512), torch.empty(64, dtype=torch.int64, device="meta"))
    (ir,) = tileflow.kernel(mixed).lower(args, H200).regions
    assert len(ir.grid) == 1
