"""How programs come to a product's tiles by default: which axes are the fastest, and which programs walk."""

from __future__ import annotations

import pytest
import torch
from tile_testing.compiler_gallery import kernel
from tileflow_benchmarks.ratios.module_cases import CHAINS

from tileflow.target import Target, target

H200, MI300 = target("nvidia-h200"), target("amd-mi300x")


@pytest.mark.parametrize("device", [H200, MI300], ids=lambda device: device.arch)
def test_bands_of_a_divided_product_are_of_rows_and_columns(device: Target) -> None:
    """The gallery's split-K has its parts as the last axis, and bands were of columns and parts: with one part of the
    inner dimension each tile of rows went alone through all columns, and ran at 0.9 of the speed of a plain product."""
    subject = kernel("examples.split_k:split_k_matmul")
    lowered = subject.lower(subject.inputs(m=4224, n=4352, k=4096, device="meta"), device)
    assert lowered.default["order"] == "2,0,1"
    (source,) = lowered.emit(lowered.default)
    (band,) = {line.strip() for line in source.text.splitlines() if line.strip().startswith("height = ")}
    assert "tile_m_count" in band and "part" not in band


def test_one_part_has_the_schedule_of_a_plain_product() -> None:
    """The region that the default sees is of four parts, which are added up; of the one that it chooses the sums are
    stored, as those of a plain product are."""
    defaults = []
    for name in ("examples.split_k:split_k_matmul", "examples.matmul:matmul"):
        lowered = kernel(name).lower(kernel(name).inputs(m=4224, n=4352, k=4096, device="meta"), H200)
        knobs = ("schedule", "ping_pong", "consumers", "block:tile_m", "block:tile_n", "group", "num_stages")
        defaults.append([lowered.default[knob] for knob in knobs])
    assert defaults[0] == defaults[1]
    assert defaults[0][:2] == ["warp_specialised", True]


def test_a_batch_in_front_stays_there() -> None:
    subject = kernel("examples.bmm:bmm")
    lowered = subject.lower(subject.inputs(b=48, m=512, n=512, k=256, device="meta"), H200)
    assert lowered.default["order"] == "0,1,2"


def test_grids_of_rows_and_columns_keep_the_authors_order() -> None:
    x, y = (torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta") for _ in range(2))
    assert kernel("examples.matmul:matmul").lower((x, y), H200).default["order"] == "0,1"


@pytest.mark.parametrize(("name", "persistent", "stages"), [("group_norm_hardtanh", 0, 3), ("group_norm_min", 1, 4)])
def test_programs_walk_where_stages_are_left_beside_their_stores(name: str, persistent: int, stages: int) -> None:
    """Groups of 512 columns left two stages beside a store's box: 177 us, 113 by programs of one tile (H100). Those of
    128 leave four."""
    (case,) = (case for case in CHAINS if (case.kernel, case.dtype) == (name, "bfloat16"))
    default = case.loaded.lower(case.args("meta"), H200).default
    assert (default["persistent"], default["num_stages"]) == (persistent, stages)
