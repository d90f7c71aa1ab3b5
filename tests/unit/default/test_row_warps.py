"""Programs that are one warp since all that lanes exchange is along rows."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

from tileflow.target import target

H100 = target("nvidia-h100-sxm")


@pytest.mark.parametrize(
    ("name", "block", "rows", "warps"),
    [
        ("fft", "block:tb", 1, 1),  # halves of a row are chosen by sums
        ("amplitude_panning", "block:ts", 4, 1),  # six tiles, of which no row is stored
        ("kaplan_meier", "block:tg", 4, 4),  # six tiles, of which rows are stored
    ],
)
def test_rows_are_one_warps(name: str, block: str, rows: int, warps: int) -> None:
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    default = ALL[name].kernel.lower(meta, H100).default
    assert (default[block], default["num_warps"]) == (rows, warps)


def test_no_warp_repeats_what_others_compute_in_turns() -> None:
    """Turns of 64 regions took 520 us by four warps and 289 by two (H100)."""
    one = ALL["renewal_forecast"]
    found = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm")).default
    assert (found["block:t"], found["num_warps"]) == (128, 2)
