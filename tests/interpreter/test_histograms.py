"""What lanes choose is counted in the program first: values, and which atomics may be so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.constructs import (  # noqa: F401  tests of each case
    test_construct,
    test_construct_by_portable_variants,
    test_construct_eagerly,
)
from tile_testing.runs.interpreted import load_module

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.passes.histograms import MOST_BINS
from tileflow.space.knobs import HISTOGRAM
from tileflow.target import target

KERNELS = path_of("histogram_kernels")
CASES = load_module(KERNELS).CASES
H200 = target("nvidia-h200")
N = 1 << 24


@pytest.mark.parametrize("name", CASES)
def test_text_counts(name: str) -> None:
    case = CASES[name]
    lowered = case.kernel.lower(case.args, H200)
    config = lowered.space.normalise(lowered.default.with_(dict(case.config)))
    (source,) = lowered.emit(config)
    atomics = sum(HISTOGRAM.matches(knob.name) for knob in lowered.space.knobs)
    assert source.text.count("tl.histogram(") == atomics == source.text.count("tl.atomic_add(")


# ---- which may be so ------------------------------------------------------------------------------------------------


@tileflow.kernel
def counts(x: Any, bins: tfl.constexpr) -> Any:
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], 1)
    return out


@tileflow.kernel
def numbered(x: Any) -> Any:
    out, before = torch.zeros(64, dtype=torch.int32, device=x.device), torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        before[t] = tfl.atomic_add(out, [x[t].int()], 1)
    return out, before


@tileflow.kernel
def weighted(x: Any) -> Any:
    out = torch.zeros(64, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], x[t])
    return out


@tileflow.kernel
def rows_of_lanes(x: Any) -> Any:
    out = torch.zeros(x.size(0), 4, dtype=torch.int32, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [t.index, x[t].int()], 1)
    return out


@tileflow.kernel
def in_order(x: Any) -> Any:
    out = torch.zeros(64, dtype=torch.int32, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [x[t].int()], 1, sem="acq_rel")
    return out


def knobs_of(kernel: Kernel, *args: Any) -> list[str]:
    return [k.name for k in kernel.lower(args, H200).space.knobs if HISTOGRAM.matches(k.name)]


def test_few_bins_are_counted() -> None:
    x = torch.empty(N, device="meta")
    assert knobs_of(counts, x, MOST_BINS) == ["atomic:out#0.histogram"]
    assert knobs_of(counts, x, MOST_BINS + 1) == []


@pytest.mark.parametrize("kernel", [numbered, weighted, rows_of_lanes, in_order], ids=lambda kernel: kernel.name)
def test_others_are_not(kernel: Kernel) -> None:
    """What was there is read; lanes add numbers of their own, or have an element each; an order is asked for."""
    assert knobs_of(kernel, torch.empty(N, device="meta")) == []


def test_a_config_that_was_not_normalised_counts_where_it_can() -> None:
    """Four rows a program, of which each has bins of its own, are no histogram, whatever the config says."""
    case = CASES["each_row_of_many"]
    lowered = case.kernel.lower(case.args, H200)
    for rows, counted in ((1, 1), (4, 0)):
        config = lowered.default.with_({**dict(case.config), "block:m": rows})
        assert lowered.space.is_valid(config)
        assert [source.text.count("tl.histogram(") for source in lowered.emit(config)] == [counted]


@pytest.mark.parametrize(("length", "bins", "chosen"), [(N, 256, True), (1 << 12, 256, False), (N, 16, True)])
def test_the_default_counts_where_many_meet(length: int, bins: int, chosen: bool) -> None:
    default = counts.lower((torch.empty(length, device="meta"), bins), H200).default
    assert default["atomic:out#0.histogram"] is chosen
    block, warps = default["block:t"], default["num_warps"]
    assert isinstance(block, int) and isinstance(warps, int) and block <= 32 * 32 * warps
    assert not chosen or block >= 16 * bins or block == 1 << 14
